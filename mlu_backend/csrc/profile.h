// How a card's arithmetic differs from the CPU's: the rules of a profile, set by profiles.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace mlu {

struct Profile {
  bool narrow_float64 = false;       // float64 and complex128 are computed in half their width
  bool round_convolution = false;    // float32 inputs of convolutions lose mantissa bits while allow_tf32 is on
  bool round_matmul = false;         // the same for matrix products
  bool bfloat16 = true;              // the card computes in bfloat16
  bool check_overflow = false;       // int64 values that do not fit int32 raise where the card casts
};

void set_profile(const Profile& profile);
const Profile& profile() noexcept;

enum class Rounding { kNone, kConvolution, kMatmul };

// Brings the inputs of one computation to what the card computes with, and results back. With the exact profile both
// directions answer their argument.
class Narrowing {
 public:
  Narrowing(at::ScalarType dtype, Rounding rounding);
  explicit operator bool() const { return narrow_ || round_; }
  at::Tensor operator()(const at::Tensor& cpu) const;
  // Narrowed but not rounded: a bias, a mask.
  at::Tensor whole(const at::Tensor& cpu) const;
  std::optional<at::Tensor> whole(const std::optional<at::Tensor>& cpu) const;
  at::Tensor back(const at::Tensor& cpu) const;

 private:
  bool narrow_;
  bool round_;
};

// The type a card computes `dtype` in.
at::ScalarType narrowed(at::ScalarType dtype) noexcept;
at::ScalarType widened(at::ScalarType dtype) noexcept;
// float32 values with 10 bits of mantissa, rounded to nearest, ties to even.
at::Tensor rounded_tf32(const at::Tensor& cpu);

}  // namespace mlu
