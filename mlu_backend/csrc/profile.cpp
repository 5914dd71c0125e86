#include "profile.h"

#include <ATen/Context.h>
#include <ATen/ops/resize.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "parallel.h"

namespace mlu {
namespace {

Profile current;
std::atomic<bool> tf32_convolution{true};  // torch_mlu r2.4, csrc/utils/common.h:106
std::atomic<bool> tf32_matmul_forced{false};

at::ScalarType narrow_type(at::ScalarType dtype) noexcept {
  return dtype == at::kDouble ? at::kFloat : dtype == at::kComplexDouble ? at::kComplexFloat : dtype;
}

at::ScalarType wide_type(at::ScalarType dtype) noexcept {
  return dtype == at::kFloat ? at::kDouble : dtype == at::kComplexFloat ? at::kComplexDouble : dtype;
}

bool plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized();
}

bool rounds(Rounding rounding) {
  if (!current.round_tf32) {
    return false;
  }
  if (rounding == Rounding::kConvolution) {
    return tf32_convolution.load();
  }
  return rounding == Rounding::kMatmul &&
      (tf32_matmul_forced.load() || at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST);
}

// float32 with 10 bits of mantissa, to nearest, ties to even: the format of TF32. How exactly CNNL rounds is not in
// the reference.
uint32_t round_bits(uint32_t bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    return bits;  // infinities and NaN stay
  }
  const uint32_t odd = (bits >> 13) & 1u;
  return (bits + 0x0fffu + odd) & ~0x1fffu;
}

at::Tensor rounded(const at::Tensor& cpu) {
  auto copy = cpu.resolve_conj().resolve_neg().clone();
  const auto words = static_cast<int64_t>(copy.numel() * copy.element_size() / sizeof(float));
  if (!copy.is_non_overlapping_and_dense()) {
    copy = copy.contiguous();
  }
  auto* data = static_cast<float*>(copy.mutable_data_ptr());
  constexpr int64_t kPart = 1 << 15;
  for_parts((words + kPart - 1) / kPart, 1, [&](int64_t part) {
    for (int64_t i = part * kPart, end = std::min(words, i + kPart); i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, data + i, sizeof bits);
      bits = round_bits(bits);
      std::memcpy(data + i, &bits, sizeof bits);
    }
  });
  return copy;
}

bool is_float32(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kComplexFloat;
}

void warn_narrow() {
  // torch_mlu r2.4, csrc/aten/utils/tensor_util.cpp:189-192: once a process, in colour.
  TORCH_WARN_ONCE(
      "\033[31m MLU operators don't support 64-bit calculation. so the 64 bit data will be forcibly converted to "
      "32-bit for calculation. \033[0m");
}

void refuse_bfloat16(at::ScalarType dtype) {
  TORCH_CHECK(
      current.bfloat16 || dtype != at::kBFloat16,
      "CNNL error: this card does not compute in bfloat16 (torch.mlu.is_bf16_supported() is False on it)");
}

at::Tensor through_int32(const at::Tensor& tensor) {
  if (current.check_overflow) {
    const auto flat = tensor.contiguous();
    const auto* values = flat.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < flat.numel(); ++i) {
      TORCH_CHECK(
          values[i] >= std::numeric_limits<int32_t>::min() && values[i] <= std::numeric_limits<int32_t>::max(),
          "Overflow occurred! there is a tensor that does cast from int64 value to int32.");
    }
  }
  TORCH_WARN_ONCE("Casting input of dtype int64 to int32, maybe overflow!");
  return tensor.to(at::kInt).to(at::kLong);
}

}  // namespace

void set_profile(const Profile& profile) {
  current = profile;
}

const Profile& profile() noexcept {
  return current;
}

void set_tf32(bool convolution) {
  tf32_convolution.store(convolution);
}

void force_tf32_matmul(bool on) {
  tf32_matmul_forced.store(on);
}

at::Tensor stored(const at::Tensor& tensor) {
  if (C10_LIKELY(!current.narrow_float64)) {
    return tensor;
  }
  const auto dtype = narrow_type(tensor.scalar_type());
  return plain(tensor) && dtype != tensor.scalar_type() ? tensor.to(dtype) : tensor;
}

Narrowing::Narrowing(at::ScalarType dtype, Rounding rounding) {
  if (C10_LIKELY(!current.any())) {
    return;
  }
  refuse_bfloat16(dtype);
  narrow_ = current.narrow_float64 && narrow_type(dtype) != dtype;
  if (narrow_) {
    warn_narrow();
  }
  round_ = rounds(rounding);
}

at::Tensor Narrowing::operator()(const at::Tensor& cpu) const {
  auto out = whole(cpu);
  return round_ && out.defined() && is_float32(out) ? rounded(out) : out;
}

at::Tensor Narrowing::whole(const at::Tensor& cpu) const {
  return narrow_ && cpu.defined() ? cpu.to(narrow_type(cpu.scalar_type())) : cpu;
}

std::optional<at::Tensor> Narrowing::whole(const std::optional<at::Tensor>& cpu) const {
  return cpu.has_value() ? std::optional<at::Tensor>(whole(*cpu)) : std::nullopt;
}

at::Tensor Narrowing::back(const at::Tensor& cpu) const {
  return narrow_ && cpu.defined() ? cpu.to(wide_type(cpu.scalar_type())) : cpu;
}

at::Tensor Conversion::convert(const at::Tensor& tensor, const OperatorFacts& facts, size_t argument) {
  if (!plain(tensor)) {
    return tensor;
  }
  look_at(tensor);
  refuse_bfloat16(tensor.scalar_type());
  auto out = tensor;
  const auto dtype = narrow_type(tensor.scalar_type());
  if (current.narrow_float64 && dtype != tensor.scalar_type()) {
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      warn_narrow();
    }
    narrowed_ = true;
    out = tensor.to(dtype);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      out.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    if (facts.writes(argument)) {
      written_.emplace_back(tensor, out);
    }
  }
  if (facts.writes(argument)) {
    return out;
  }
  if (facts.rounds(argument) && is_float32(out) && rounds(Rounding::kMatmul)) {
    out = rounded(out);
  }
  if (current.narrow_int64 && facts.casts_int64 && out.scalar_type() == at::kLong) {
    out = through_int32(out);
  }
  return out;
}

void Conversion::look_at(const at::Tensor& tensor) {
  const bool wide = narrow_type(tensor.scalar_type()) != tensor.scalar_type();
  if (!wide && !tensor.is_floating_point() && !tensor.is_complex()) {
    return;
  }
  if (tensor.dim() > 0) {
    (wide ? wide_tensor_ : narrow_tensor_) = true;
  } else if (wide && !tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    wide_number_ = true;
  }
}

void Conversion::before(const OperatorFacts& facts, torch::jit::Stack& stack, size_t first) {
  if (facts.view || facts.moves) {
    return;
  }
  for (size_t i = 0; i < facts.arguments; ++i) {
    auto& value = stack[first + i];
    if (value.isTensor()) {
      value = convert(value.toTensor(), facts, i);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(convert(tensor, facts, i));
      }
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional<at::Tensor>(convert(*tensor, facts, i)) : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isInt() && facts.is_dtype(i)) {
      const auto asked = static_cast<at::ScalarType>(value.toInt());
      refuse_bfloat16(asked);
      const auto dtype = narrow_type(asked);
      if (current.narrow_float64 && dtype != asked) {
        warn_narrow();
        narrowed_ = true;
        wide_tensor_ = true;
        value = static_cast<int64_t>(dtype);
      } else {
        widen_ = false;  // the caller named a narrow result
      }
    }
  }
}

void Conversion::after(torch::jit::Stack& stack, size_t results) {
  if (!narrowed_) {
    return;
  }
  widen_ = widen_ && (wide_tensor_ || (wide_number_ && !narrow_tensor_));
  for (auto& [alias, stand_in] : written_) {
    if (alias.sizes() != stand_in.sizes()) {
      alias.resize_(stand_in.sizes());
    }
    alias.copy_(stand_in);
  }
  for (size_t i = stack.size() - results; i < stack.size(); ++i) {
    auto& value = stack[i];
    const auto wide = [&](const at::Tensor& tensor) {
      for (auto& [alias, stand_in] : written_) {
        if (tensor.is_same(stand_in)) {
          return alias;
        }
      }
      return widen_ && plain(tensor) ? tensor.to(wide_type(tensor.scalar_type())) : tensor;
    };
    if (value.isTensor()) {
      value = wide(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(wide(tensor));
      }
      value = std::move(list);
    }
  }
}

}  // namespace mlu
