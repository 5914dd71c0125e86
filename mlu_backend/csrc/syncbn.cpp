// What torch.nn.SyncBatchNorm calls. torch_mlu has kernels for these (csrc/aten/operators/cnnl/syncbn.cpp); the CPU has
// none, so the fallback cannot answer. Statistics are float32 also for half-width inputs.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "on_card.h"

namespace mlu {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

std::vector<int64_t> all_but_channels(const Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

// One value a channel, shaped to meet `input`.
Tensor per_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = -1;
  return values.reshape(shape);
}

std::tuple<Tensor, Tensor> channel_stats(const Tensor& input, double eps) {
  OnCard run("batch_norm_stats", {&input});
  const auto x = wide(run.in(input));
  const auto dims = all_but_channels(x);
  auto invstd = x.var(dims, /*unbiased=*/false).add_(eps).rsqrt_();
  return {run.out(x.mean(dims)), run.out(std::move(invstd))};
}

std::tuple<Tensor, Tensor> gather(
    OnCard& run,
    const Tensor& mean,
    const Tensor& invstd,
    const Optional& running_mean,
    const Optional& running_var,
    double momentum,
    double eps,
    const Tensor& counts) {
  const auto weights = counts.to(mean.scalar_type()).reshape({-1, 1});
  const auto total = weights.sum();
  auto whole_mean = (mean * weights).sum(0) / total;
  auto variance = ((invstd.pow(-2) - eps + (mean - whole_mean).square()) * weights).sum(0) / total;
  if (running_mean.has_value() && running_mean->defined()) {
    running_mean->mul_(1 - momentum).add_(whole_mean.to(running_mean->scalar_type()), momentum);
  }
  if (running_var.has_value() && running_var->defined()) {
    running_var->mul_(1 - momentum).add_((variance * (total / (total - 1))).to(running_var->scalar_type()), momentum);
  }
  return {run.out(std::move(whole_mean)), run.out(variance.add_(eps).rsqrt_())};
}

std::tuple<Tensor, Tensor> gather_stats_with_counts(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const Optional& running_mean,
    const Optional& running_var,
    double momentum,
    double eps,
    const Tensor& counts) {
  OnCard run("batch_norm_gather_stats_with_counts", {&input, &mean, &invstd, &counts});
  return gather(
      run, run.in(mean), run.in(invstd), run.in(running_mean), run.in(running_var), momentum, eps, run.in(counts));
}

std::tuple<Tensor, Tensor> gather_stats(
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const Optional& running_mean,
    const Optional& running_var,
    double momentum,
    double eps,
    int64_t count) {
  OnCard run("batch_norm_gather_stats", {&input, &mean, &invstd});
  const auto means = run.in(mean);
  const auto counts = means.new_full({means.size(0)}, count);
  return gather(run, means, run.in(invstd), run.in(running_mean), run.in(running_var), momentum, eps, counts);
}

Tensor elemt(
    const Tensor& input,
    const Optional& weight,
    const Optional& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double /*eps*/) {
  OnCard run("batch_norm_elemt", {&input, &mean, &invstd});
  const auto x = run.in(input);
  auto out = (wide(x) - per_channel(run.in(mean), x)) * per_channel(run.in(invstd), x);
  if (weight.has_value() && weight->defined()) {
    out = out * per_channel(run.in(*weight), x);
  }
  if (bias.has_value() && bias->defined()) {
    out = out + per_channel(run.in(*bias), x);
  }
  return run.out(out.to(x.scalar_type()));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const Optional& /*weight*/,
    bool input_g,
    bool weight_g,
    bool bias_g) {
  OnCard run("batch_norm_backward_reduce", {&grad_out, &input, &mean, &invstd});
  const auto x = wide(run.in(input));
  const auto grad = wide(run.in(grad_out));
  const auto dims = all_but_channels(x);
  const auto sum = grad.sum(dims);
  const auto weighted = (grad * (x - per_channel(run.in(mean), x))).sum(dims);
  return {
      input_g ? run.out(sum.clone()) : Tensor(),
      input_g ? run.out(weighted.clone()) : Tensor(),
      weight_g ? run.out((weighted * run.in(invstd)).to(mean.scalar_type())) : Tensor(),
      bias_g ? run.out(sum.to(mean.scalar_type(), false, true)) : Tensor()};
}

Tensor backward_elemt(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const Optional& weight,
    const Tensor& sum_dy,
    const Tensor& sum_dy_xmu,
    const Tensor& count) {
  OnCard run("batch_norm_backward_elemt", {&grad_out, &input, &mean, &invstd, &sum_dy, &sum_dy_xmu, &count});
  const auto x = wide(run.in(input));
  const auto scale = run.in(invstd);
  const auto total = run.in(count).sum().to(scale.scalar_type());
  const auto mean_dy = per_channel(run.in(sum_dy) / total, x);
  const auto slope = per_channel(run.in(sum_dy_xmu) / total * scale.square(), x);
  auto grad = (wide(run.in(grad_out)) - mean_dy - (x - per_channel(run.in(mean), x)) * slope) * per_channel(scale, x);
  if (weight.has_value() && weight->defined()) {
    grad = grad * per_channel(run.in(*weight), x);
  }
  return run.out(grad.to(input.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", channel_stats);
  m.impl("batch_norm_gather_stats", gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  m.impl("batch_norm_elemt", elemt);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_elemt);
}

}  // namespace mlu
