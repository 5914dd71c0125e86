// How a card's arithmetic differs from the CPU's. The rules of each profile, with sources, are in profiles.py.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <utility>

#include "operator_facts.h"

namespace mlu {

struct Profile {
  bool narrow_float64 = false;  // float64 and complex128 are computed in half their width
  bool round_tf32 = false;      // float32 inputs of convolutions and matrix products are rounded while a switch is on
  bool bfloat16 = true;         // the card computes in bfloat16
  bool narrow_int64 = false;    // operators that cast int64 to int32 do so here, too
  bool check_overflow = false;  // such a cast raises when a value does not fit

  bool any() const { return narrow_float64 || round_tf32 || !bfloat16 || narrow_int64; }
};

void set_profile(const Profile& profile);
const Profile& profile() noexcept;
// torch.backends.cnnl.allow_tf32.
void set_tf32(bool convolution);
// An environment variable switched it on for matrix products. Their usual switch is torch's float32 matmul precision,
// which is asked at every call.
void force_tf32_matmul(bool on);

enum class Rounding { kNone, kConvolution, kMatmul };

// Brings the inputs of one hand-written kernel to what the card computes with, and results back. With the exact
// profile both directions answer their argument.
class Narrowing {
 public:
  Narrowing(at::ScalarType dtype, Rounding rounding);
  at::Tensor operator()(const at::Tensor& cpu) const;
  // Narrowed but not rounded: a bias, a mask.
  at::Tensor whole(const at::Tensor& cpu) const;
  std::optional<at::Tensor> whole(const std::optional<at::Tensor>& cpu) const;
  at::Tensor back(const at::Tensor& cpu) const;

 private:
  bool narrow_ = false;
  bool round_ = false;
};

// The same for a call on the stack, arguments already being CPU tensors.
class Conversion {
 public:
  void before(const OperatorFacts& facts, torch::jit::Stack& stack, size_t first);
  void after(torch::jit::Stack& stack, size_t results);

 private:
  at::Tensor convert(const at::Tensor& tensor, const OperatorFacts& facts, size_t argument);
  void look_at(const at::Tensor& tensor);

  bool narrowed_ = false;
  // Which widths the arguments have, numbers apart: with a float32 tensor of dimensions a float64 number changes nothing.
  bool wide_tensor_ = false, narrow_tensor_ = false, wide_number_ = false;
  bool widen_ = true;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> written_;  // the alias and what stood for it
};

// The values of `tensor` as the card's memory holds them: float64 has only float32's precision there.
at::Tensor stored(const at::Tensor& tensor);

}  // namespace mlu
