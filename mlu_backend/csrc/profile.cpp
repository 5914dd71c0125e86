#include "profile.h"

#include <ATen/Parallel.h>

#include <cstring>

namespace mlu {
namespace {

Profile current;

uint32_t round_bits(uint32_t bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    return bits;  // infinities and NaN stay
  }
  const uint32_t odd = (bits >> 13) & 1u;
  return (bits + 0x0fffu + odd) & ~0x1fffu;
}

}  // namespace

void set_profile(const Profile& profile) {
  current = profile;
}

const Profile& profile() noexcept {
  return current;
}

at::ScalarType narrowed(at::ScalarType dtype) noexcept {
  return dtype == at::kDouble ? at::kFloat : dtype == at::kComplexDouble ? at::kComplexFloat : dtype;
}

at::ScalarType widened(at::ScalarType dtype) noexcept {
  return dtype == at::kFloat ? at::kDouble : dtype == at::kComplexFloat ? at::kComplexDouble : dtype;
}

at::Tensor rounded_tf32(const at::Tensor& cpu) {
  auto copy = cpu.is_conj() || cpu.is_neg() ? cpu.resolve_conj().resolve_neg().clone() : cpu.clone();
  const int64_t words = static_cast<int64_t>(copy.storage().nbytes() / sizeof(float));
  auto* data = static_cast<float*>(copy.storage().mutable_data());
  at::parallel_for(0, words, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, data + i, sizeof bits);
      bits = round_bits(bits);
      std::memcpy(data + i, &bits, sizeof bits);
    }
  });
  return copy;
}

Narrowing::Narrowing(at::ScalarType dtype, Rounding rounding)
    : narrow_(current.narrow_float64 && narrowed(dtype) != dtype),
      round_(
          (narrowed(dtype) == at::kFloat || narrowed(dtype) == at::kComplexFloat) &&
          (rounding == Rounding::kConvolution   ? current.round_convolution
               : rounding == Rounding::kMatmul ? current.round_matmul
                                               : false)) {
  // A double on the exact profile is computed as a double and so never rounded.
  round_ = round_ && (narrow_ || narrowed(dtype) == dtype);
}

at::Tensor Narrowing::operator()(const at::Tensor& cpu) const {
  auto out = whole(cpu);
  return round_ && out.defined() && (out.scalar_type() == at::kFloat || out.scalar_type() == at::kComplexFloat)
      ? rounded_tf32(out)
      : out;
}

at::Tensor Narrowing::whole(const at::Tensor& cpu) const {
  return narrow_ && cpu.defined() ? cpu.to(narrowed(cpu.scalar_type())) : cpu;
}

std::optional<at::Tensor> Narrowing::whole(const std::optional<at::Tensor>& cpu) const {
  return cpu.has_value() ? std::optional<at::Tensor>(whole(*cpu)) : std::nullopt;
}

at::Tensor Narrowing::back(const at::Tensor& cpu) const {
  return narrow_ && cpu.defined() ? cpu.to(widened(cpu.scalar_type())) : cpu;
}

}  // namespace mlu
