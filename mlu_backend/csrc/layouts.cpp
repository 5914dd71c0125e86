// Sparse, compressed and nested tensors: their parts are aliased one by one.
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

#include "alias.h"

namespace mlu {
namespace {

at::SparseTensorImpl* coo(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::SparseCsrTensorImpl* compressed(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

bool is_compressed(const at::Tensor& tensor) {
  const auto layout = tensor.layout();
  return layout == at::kSparseCsr || layout == at::kSparseCsc || layout == at::kSparseBsr || layout == at::kSparseBsc;
}

at::Tensor make_coo(c10::DispatchKey key, const at::Tensor& like, at::Tensor indices, at::Tensor values) {
  auto made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  auto* to = coo(made);
  const auto* from = coo(like);
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
  to->set_indices_and_values_unsafe(indices, values);
  to->set_coalesced(from->coalesced());
  return made;
}

at::Tensor make_compressed(
    c10::DispatchKey key,
    c10::Device device,
    const at::Tensor& like,
    at::Tensor outer,
    at::Tensor inner,
    at::Tensor values) {
  auto made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(key), device, like.layout(), like.dtype());
  compressed(made)->set_member_tensors(outer, inner, values, like.sizes());
  return made;
}

void refuse_layout(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.is_sparse() || is_compressed(tensor) || tensor.is_nested(), "tensors of layout ", tensor.layout(),
      " have no MLU form");
}

}  // namespace

at::Tensor Aliases::layout_to_cpu(const at::Tensor& tensor) {
  refuse_layout(tensor);
  if (tensor.is_nested()) {
    auto* from = at::native::get_nested_tensor_impl(tensor);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        twin_of(from->storage()),
        c10::DispatchKeySet({c10::DispatchKey::NestedTensorCPU}), from->dtype(), from->get_nested_sizes(),
        from->get_nested_strides(), from->get_storage_offsets());
  }
  if (tensor.is_sparse()) {
    return make_coo(
        c10::DispatchKey::SparseCPU, tensor, to_cpu(coo(tensor)->indices()), to_cpu(coo(tensor)->values()));
  }
  auto* from = compressed(tensor);
  return make_compressed(
      c10::DispatchKey::SparseCsrCPU, at::kCPU, tensor, to_cpu(from->compressed_indices()),
      to_cpu(from->plain_indices()), to_cpu(from->values()));
}

at::Tensor Aliases::layout_to_mlu(at::Tensor&& result, int card) {
  refuse_layout(result);
  if (result.is_nested()) {
    auto* from = at::native::get_nested_tensor_impl(result);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        original_of(from->storage(), card), c10::DispatchKeySet({c10::DispatchKey::NestedTensorPrivateUse1}),
        from->dtype(), from->get_nested_sizes(), from->get_nested_strides(), from->get_storage_offsets());
  }
  if (result.is_sparse()) {
    return make_coo(
        c10::DispatchKey::SparsePrivateUse1, result, to_mlu(coo(result)->indices(), card),
        to_mlu(coo(result)->values(), card));
  }
  auto* from = compressed(result);
  auto outer = from->compressed_indices(), inner = from->plain_indices(), values = from->values();
  return make_compressed(
      c10::DispatchKey::SparseCsrPrivateUse1, c10::Device(kMlu, static_cast<c10::DeviceIndex>(card)), result,
      to_mlu(std::move(outer), card), to_mlu(std::move(inner), card), to_mlu(std::move(values), card));
}

void Aliases::settle_layout(const at::Tensor& original, const at::Tensor& alias, int card) {
  if (original.is_sparse() && alias.is_sparse()) {
    auto* to = coo(original);
    auto* from = coo(alias);
    to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(to_mlu(from->indices(), card), to_mlu(from->values(), card));
    to->set_coalesced(from->coalesced());
  } else if (is_compressed(original) && is_compressed(alias)) {
    auto* from = compressed(alias);
    auto outer = from->compressed_indices(), inner = from->plain_indices(), values = from->values();
    compressed(original)->set_member_tensors(
        to_mlu(std::move(outer), card), to_mlu(std::move(inner), card), to_mlu(std::move(values), card), alias.sizes());
  }
}

}  // namespace mlu
