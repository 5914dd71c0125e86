// The fused LSTM and GRU cells, which only accelerators have: the arithmetic of the unfused CPU cell.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "on_card.h"
#include "profile.h"

namespace mlu {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates,
    const at::Tensor& hidden_gates,
    const at::Tensor& cx,
    const std::optional<at::Tensor>& input_bias,
    const std::optional<at::Tensor>& hidden_bias) {
  OnCard run(
      "_thnn_fused_lstm_cell",
      {&input_gates, &hidden_gates, &cx, &value_or_undefined(input_bias), &value_or_undefined(hidden_bias)});
  const Narrowing narrow(cx.scalar_type(), Rounding::kNone);
  auto gates = narrow(run.in(input_gates)) + narrow(run.in(hidden_gates));
  if (input_bias.has_value() && input_bias->defined()) {
    gates = gates + narrow(run.in(*input_bias)) + narrow(run.in(*hidden_bias));
  }
  auto parts = gates.chunk(4, 1);
  auto in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]), cell = at::tanh(parts[2]),
       out = at::sigmoid(parts[3]);
  auto cy = forget * narrow(run.in(cx)) + in * cell;
  auto hy = out * at::tanh(cy);
  auto workspace = at::cat({in, forget, cell, out}, 1);
  return {run.out(narrow.back(hy)), run.out(narrow.back(cy)), run.out(narrow.back(workspace))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hy,
    const std::optional<at::Tensor>& grad_cy,
    const at::Tensor& cx,
    const at::Tensor& cy,
    const at::Tensor& workspace,
    bool has_bias) {
  const auto& gh = value_or_undefined(grad_hy);
  const auto& gc = value_or_undefined(grad_cy);
  if (!gh.defined() && !gc.defined()) {
    return {};
  }
  OnCard run("_thnn_fused_lstm_cell_backward", {&gh, &gc, &cx, &cy, &workspace});
  const Narrowing narrow(cx.scalar_type(), Rounding::kNone);
  auto parts = narrow(run.in(workspace)).chunk(4, 1);
  const auto &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  auto squashed = at::tanh(narrow(run.in(cy)));
  auto hy = gh.defined() ? narrow(run.in(gh)) : at::zeros_like(squashed);
  auto inner = hy * out * (1 - squashed * squashed);
  if (gc.defined()) {
    inner = inner + narrow(run.in(gc));
  }
  auto gates = at::cat(
      {inner * cell * in * (1 - in), inner * narrow(run.in(cx)) * forget * (1 - forget), inner * in * (1 - cell * cell),
       hy * squashed * out * (1 - out)},
      1);
  auto grad_cx = inner * forget;
  at::Tensor bias = has_bias ? run.out(narrow.back(at::sum(gates, {0}, false))) : at::Tensor();
  return {run.out(narrow.back(gates)), run.out(narrow.back(grad_cx)), bias};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& input_gates,
    const at::Tensor& hidden_gates,
    const at::Tensor& hx,
    const std::optional<at::Tensor>& input_bias,
    const std::optional<at::Tensor>& hidden_bias) {
  OnCard run(
      "_thnn_fused_gru_cell",
      {&input_gates, &hidden_gates, &hx, &value_or_undefined(input_bias), &value_or_undefined(hidden_bias)});
  const Narrowing narrow(hx.scalar_type(), Rounding::kNone);
  auto from_input = narrow(run.in(input_gates)), from_hidden = narrow(run.in(hidden_gates));
  if (input_bias.has_value() && input_bias->defined()) {
    from_input = from_input + narrow(run.in(*input_bias));
    from_hidden = from_hidden + narrow(run.in(*hidden_bias));
  }
  auto a = from_input.chunk(3, 1), b = from_hidden.chunk(3, 1);
  auto reset = at::sigmoid(a[0] + b[0]), update = at::sigmoid(a[1] + b[1]), fresh = at::tanh(a[2] + reset * b[2]);
  auto old = narrow(run.in(hx));
  auto hy = (old - fresh) * update + fresh;
  auto workspace = at::cat({reset, update, fresh, old, b[2]}, 1);
  return {run.out(narrow.back(hy)), run.out(narrow.back(workspace))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  OnCard run("_thnn_fused_gru_cell_backward", {&grad_hy, &workspace});
  const Narrowing narrow(workspace.scalar_type(), Rounding::kNone);
  auto parts = narrow(run.in(workspace)).chunk(5, 1);
  const auto &reset = parts[0], &update = parts[1], &fresh = parts[2], &old = parts[3], &hidden = parts[4];
  auto grad = narrow(run.in(grad_hy));
  auto d_update = grad * (old - fresh) * update * (1 - update);
  auto d_fresh = grad * (1 - update) * (1 - fresh * fresh);
  auto d_reset = d_fresh * hidden * reset * (1 - reset);
  auto input = at::cat({d_reset, d_update, d_fresh}, 1);
  auto inner = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  auto grad_hx = grad * update;
  at::Tensor input_bias, hidden_bias;
  if (has_bias) {
    input_bias = run.out(narrow.back(at::sum(input, {0}, false)));
    hidden_bias = run.out(narrow.back(at::sum(inner, {0}, false)));
  }
  return {
      run.out(narrow.back(input)), run.out(narrow.back(inner)), run.out(narrow.back(grad_hx)), input_bias, hidden_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace mlu
