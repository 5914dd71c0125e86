// Autocast on the card: one boxed kernel for each policy, and the lists as rows.
//
// torch_mlu r2.4 takes torch's own lists (AT_FORALL_* of ATen/autocast_mode.h) plus two cudnn names
// (torch_mlu/csrc/aten/autocast_mode.cpp:113-184), so on this torch they are the lists of this torch.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "device.h"

namespace at::autocast {
TORCH_API at::Tensor cached_cast(at::ScalarType to_type, const at::Tensor& arg, c10::DeviceType device_type);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
}  // namespace at::autocast

namespace mlu {
namespace {

constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;

constexpr const char* kLowerPrecision[] = {
    "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "cudnn_convolution",
    "cudnn_convolution_transpose", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "linalg_vecdot",
    "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "_scaled_dot_product_flash_attention", "scaled_dot_product_attention"};

constexpr const char* kFloat32[] = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d", "_upsample_nearest_exact2d",
    "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa"};

constexpr const char* kFloat32SetDtype[] = {
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList"};

constexpr const char* kPromote[] = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add"};

bool eligible(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kMlu && tensor.is_floating_point() &&
      tensor.scalar_type() != at::kDouble;
}

template <typename F>
void each_argument(const c10::OperatorHandle& op, torch::jit::Stack* stack, F&& act) {
  const size_t count = op.schema().arguments().size();
  const size_t first = stack->size() - count;
  for (size_t i = first; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor()) {
      value = act(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(act(tensor));
      }
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional<at::Tensor>(act(*tensor)) : std::nullopt);
      }
      value = std::move(list);
    }
  }
}

void cast_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::ScalarType to) {
  each_argument(op, stack, [to](const at::Tensor& tensor) {
    return tensor.defined() ? at::autocast::cached_cast(to, tensor, kMlu) : tensor;
  });
  op.callBoxed(stack);
}

void lower_precision(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(kKey);
  cast_and_call(op, stack, at::autocast::get_autocast_dtype(kMlu));
}

void float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(kKey);
  cast_and_call(op, stack, at::kFloat);
}

// A dtype the caller gave wins; else the operator accumulates and answers in float32.
void float32_set_dtype(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(kKey);
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  if (eligible((*stack)[first].toTensor())) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() == "dtype" && (*stack)[first + i].isNone()) {
        (*stack)[first + i] = static_cast<int64_t>(at::kFloat);
      }
    }
  }
  op.callBoxed(stack);
}

// `norm` without a dtype goes to its overload with one.
void append_dtype(const c10::OperatorHandle& op, torch::jit::Stack* stack, const c10::OperatorHandle& with_dtype) {
  c10::impl::ExcludeDispatchKeyGuard off(kKey);
  const auto first = stack->size() - op.schema().arguments().size();
  const auto& self = (*stack)[first].toTensor();
  if (!eligible(self)) {
    op.callBoxed(stack);
    return;
  }
  stack->emplace_back(static_cast<int64_t>(at::kFloat));
  with_dtype.callBoxed(stack);
}

void append_dtype_scalar(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto target = c10::Dispatcher::singleton().findSchemaOrThrow("aten::norm", "ScalarOpt_dtype");
  append_dtype(op, stack, target);
}

void append_dtype_dim(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto target = c10::Dispatcher::singleton().findSchemaOrThrow("aten::norm", "ScalarOpt_dim_dtype");
  append_dtype(op, stack, target);
}

void promote(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(kKey);
  const auto lower = at::autocast::get_autocast_dtype(kMlu);
  auto widest = lower;
  each_argument(op, stack, [&](const at::Tensor& tensor) {
    if (eligible(tensor)) {
      const auto dtype = tensor.scalar_type();
      if (dtype == at::kFloat) {
        widest = at::kFloat;
      } else {
        TORCH_CHECK(
            widest == at::kFloat || dtype == lower,
            "Unexpected floating ScalarType in at::autocast::prioritize");
      }
    }
    return tensor;
  });
  cast_and_call(op, stack, widest);
}

// Text: torch_mlu r2.4, torch_mlu/csrc/aten/autocast_mode.cpp:92-107, the same as CUDA's.
void refuse_bce(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
      "safe to autocast.");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (const auto* name : kLowerPrecision) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&lower_precision>());
  }
  for (const auto* name : kFloat32) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&float32>());
  }
  for (const auto* name : kFloat32SetDtype) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&float32_set_dtype>());
  }
  for (const auto* name : kPromote) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&promote>());
  }
  m.impl("norm.Scalar", torch::CppFunction::makeFromBoxedFunction<&append_dtype_scalar>());
  m.impl("norm.ScalarOpt_dim", torch::CppFunction::makeFromBoxedFunction<&append_dtype_dim>());
  m.impl("binary_cross_entropy", torch::CppFunction::makeFromBoxedFunction<&refuse_bce>());
}

}  // namespace mlu
