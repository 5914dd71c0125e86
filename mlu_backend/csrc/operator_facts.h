// What the fallback has to know about an operator, read from its schema once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mlu {

class Arguments;
using Limit = void (*)(const Arguments&);

struct OperatorFacts {
  std::string name;  // aten::add.Tensor
  size_t arguments = 0;
  uint64_t written = 0;      // bit i: argument i is written to
  uint64_t any_device = 0;   // bit i: the argument may be on the CPU while others are on a card, as on hardware
  uint64_t dtypes = 0;       // bit i: the argument is a dtype
  uint64_t factors = 0;      // bit i: the argument is a factor of a matrix product
  uint64_t cpu_results = 0;  // bit r: result r is a CPU tensor by contract
  int generator = -1;        // index of the generator argument
  bool reads_requires_grad = false;  // the kernel itself asks whether an input requires grad
  bool casts_int64 = false;          // the card's kernel computes int64 as int32
  bool view = false;                 // a result aliases an argument that is not written
  bool moves = false;                // moves or describes data and computes nothing
  std::vector<int> returned;         // for each result the argument it is, or -1
  Limit limit = nullptr;             // refuses what the card's kernel refuses (refusals.h)

  bool writes(size_t i) const { return written >> i & 1; }
  bool takes_any_device(size_t i) const { return any_device >> i & 1; }
  bool is_dtype(size_t i) const { return dtypes >> i & 1; }
  bool rounds(size_t i) const { return factors >> i & 1; }
  bool stays_on_cpu(size_t r) const { return cpu_results >> r & 1; }
};

const OperatorFacts& facts_of(const c10::OperatorHandle& op);
// add for aten::add_.Tensor: what the variants of an operator have in common.
std::string family(const std::string& name);
// Families whose kernels cast int64 to int32; to be set before the first call.
void set_int64_casts(const std::vector<std::string>& families);

}  // namespace mlu
