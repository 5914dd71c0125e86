// Convolution, dropout and attention: operators PyTorch leaves to each device, or whose CPU kernels use the CPU's
// random numbers.
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "generator.h"
#include "on_card.h"
#include "profile.h"

namespace mlu {
namespace {

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    int64_t groups) {
  OnCard run("convolution", {&input, &weight, &value_or_undefined(bias)});
  const Narrowing narrow(input.scalar_type(), Rounding::kConvolution);
  return run.out(narrow.back(at::convolution(
      narrow(run.in(input)), narrow(run.in(weight)), narrow.whole(run.in(bias)), stride, padding, dilation, transposed,
      output_padding, groups)));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> mask) {
  OnCard run("convolution_backward", {&grad, &input, &weight});
  const Narrowing narrow(input.scalar_type(), Rounding::kConvolution);
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  auto [a, b, c] = at::convolution_backward(
      narrow(run.in(grad)), narrow(run.in(input)), narrow(run.in(weight)), at::OptionalIntArrayRef({channels}), stride,
      padding, dilation, transposed, output_padding, groups, mask);
  return {run.out(narrow.back(a)), run.out(narrow.back(b)), run.out(narrow.back(c))};
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  OnCard run("native_dropout", {&input});
  auto cpu = run.in(input);
  if (!train.value_or(true) || p == 0) {
    return {run.out(cpu.clone()), run.out(at::ones_like(cpu, cpu.options().dtype(at::kBool)))};
  }
  if (p == 1) {
    return {run.out(at::zeros_like(cpu)), run.out(at::zeros_like(cpu, cpu.options().dtype(at::kBool)))};
  }
  auto mask = at::empty_like(cpu, cpu.options().dtype(at::kBool));
  mask.bernoulli_(1 - p, engine(std::nullopt, run.card(), static_cast<uint64_t>(input.numel())));
  auto kept = at::mul(cpu, mask).mul_(1.0 / (1.0 - p));
  return {run.out(std::move(kept)), run.out(std::move(mask))};
}

int64_t sdp_choice(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  using sdp::SDPBackend;
  constexpr auto math = static_cast<int64_t>(SDPBackend::math);
  if (query.is_nested() || key.is_nested() || value.is_nested() || (mask.has_value() && mask->requires_grad())) {
    return math;
  }
  // Tensors without memory of their own (fake ones while tracing, DTensor): whoever handles them takes plain operators.
  if (query.unsafeGetTensorImpl()->is_python_dispatch()) {
    return math;
  }
  OnCard run("scaled_dot_product_attention", {&query, &key, &value, &value_or_undefined(mask)});
  const auto choice = at::_fused_sdp_choice(
      run.in(query), run.in(key), run.in(value), run.in(mask), dropout_p, is_causal, scale, enable_gqa);
  return choice == static_cast<int64_t>(SDPBackend::flash_attention) ? static_cast<int64_t>(SDPBackend::overrideable)
                                                                     : math;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
fused_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& bias,
    double dropout_p,
    bool is_causal,
    bool,
    std::optional<double> scale) {
  OnCard run("scaled_dot_product_attention", {&query, &key, &value, &value_or_undefined(bias)});
  const Narrowing narrow(query.scalar_type(), Rounding::kMatmul);
  auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      narrow(run.in(query)), narrow(run.in(key)), narrow(run.in(value)), dropout_p, is_causal, narrow.whole(run.in(bias)),
      scale);
  auto seed = at::empty({}, at::TensorOptions().dtype(at::kLong));
  auto offset = at::empty({}, at::TensorOptions().dtype(at::kLong));
  return {run.out(narrow.back(out)), run.out(logsumexp), at::Tensor(), at::Tensor(), query.size(2), key.size(2),
          run.out(seed),             run.out(offset),    at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_attention_backward(
    const at::Tensor& grad,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const at::Tensor& bias,
    std::array<bool, 4>,
    const at::Tensor& out,
    const at::Tensor& logsumexp,
    const at::Tensor&,
    const at::Tensor&,
    c10::SymInt,
    c10::SymInt,
    double dropout_p,
    bool is_causal,
    const at::Tensor&,
    const at::Tensor&,
    std::optional<double> scale) {
  OnCard run("scaled_dot_product_attention", {&grad, &query, &key, &value, &bias, &out, &logsumexp});
  const Narrowing narrow(query.scalar_type(), Rounding::kMatmul);
  auto mask = bias.defined() ? std::optional<at::Tensor>(narrow.whole(run.in(bias))) : std::nullopt;
  auto [a, b, c] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      narrow(run.in(grad)), narrow(run.in(query)), narrow(run.in(key)), narrow(run.in(value)), narrow.whole(run.in(out)),
      run.in(logsumexp), dropout_p, is_causal, mask, scale);
  return {run.out(narrow.back(a)), run.out(narrow.back(b)), run.out(narrow.back(c)), at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("native_dropout", native_dropout);
  m.impl("_fused_sdp_choice", sdp_choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", fused_attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward);
}

}  // namespace mlu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &mlu::sdp_choice)
}
