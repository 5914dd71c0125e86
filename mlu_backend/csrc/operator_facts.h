// What the fallback has to know about an operator, read from its schema once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace mlu {

struct OperatorFacts {
  size_t arguments = 0;
  uint64_t written = 0;     // bit i: argument i is written to
  uint64_t any_device = 0;  // bit i: the argument may be on the CPU while others are on a card, as on hardware
  uint64_t cpu_results = 0; // bit r: result r is a CPU tensor by contract
  int generator = -1;       // index of the generator argument
  bool reads_requires_grad = false;  // the kernel itself asks whether an input requires grad
  bool view = false;        // a result aliases an argument that is not written
  std::vector<int> returned;  // for each result the argument it is, or -1

  bool writes(size_t i) const { return written >> i & 1; }
  bool takes_any_device(size_t i) const { return any_device >> i & 1; }
  bool stays_on_cpu(size_t r) const { return cpu_results >> r & 1; }
};

const OperatorFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace mlu
