#include "alias.h"

#include <ATen/EmptyTensor.h>
#include <ATen/quantized/QTensorImpl.h>

#include <cstring>

#include "allocator.h"

namespace mlu {
namespace {

void release_storage(void* context) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(context));
}

// Memory of `storage` under the name of a CPU pointer; keeps the storage alive.
c10::DataPtr borrowed(c10::StorageImpl* storage) {
  void* data = storage->mutable_data();
  c10::raw::intrusive_ptr::incref(storage);
  return {data, storage, &release_storage, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr on_card(const c10::StorageImpl& host, int card) {
  auto data = allocate_on(card, host.nbytes());
  std::memcpy(data.mutable_get(), host.data(), host.nbytes());
  return data;
}

void move_to_card(at::TensorImpl* impl, c10::Storage storage) {
  const auto device = storage.device();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->_change_backend_component_keys(device);
}

}  // namespace

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  if (bytes == storage.nbytes()) {
    return;
  }
  auto fresh = allocate_on(storage.device().index(), bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept && storage.data()) {
    std::memcpy(fresh.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

at::Tensor empty_on(int card, at::IntArrayRef size, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      size, card_allocator(card), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype, format);
}

at::Tensor empty_strided_on(int card, at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(
      size, stride, card_allocator(card), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

c10::Storage Aliases::twin_of(const c10::Storage& storage) {
  auto* impl = storage.unsafeGetStorageImpl();
  for (auto& twin : twins_) {
    if (twin.mlu.unsafeGetStorageImpl() == impl) {
      return twin.cpu;
    }
  }
  const auto bytes = impl->nbytes();
  c10::Storage cpu(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes), borrowed(impl), cpu_allocator(), true));
  twins_.push_back({storage, cpu, impl->data(), bytes});
  return cpu;
}

at::Tensor Aliases::dense_to_cpu(const at::Tensor& tensor) {
  auto* from = tensor.unsafeGetTensorImpl();
  at::Tensor cpu;
  if (C10_UNLIKELY(from->key_set().has(c10::DispatchKey::Quantized))) {
    cpu = at::detail::make_tensor<at::QTensorImpl>(
        twin_of(from->storage()), c10::DispatchKeySet(c10::DispatchKey::QuantizedCPU), from->dtype(),
        at::get_qtensorimpl(tensor)->quantizer());
  } else {
    cpu = at::detail::make_tensor<at::TensorImpl>(
        twin_of(from->storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), from->dtype());
  }
  auto* to = cpu.unsafeGetTensorImpl();
  to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (C10_UNLIKELY(from->is_wrapped_number())) {
    to->set_wrapped_number(true);
  }
  if (C10_UNLIKELY(from->is_conj())) {
    to->_set_conj(true);
  }
  if (C10_UNLIKELY(from->is_neg())) {
    to->_set_neg(true);
  }
  return cpu;
}

at::Tensor Aliases::to_cpu(const at::Tensor& tensor) {
  if (!on_mlu(tensor)) {
    return tensor;
  }
  for (auto& pair : pairs_) {
    if (pair.mlu.is_same(tensor)) {
      return pair.cpu;
    }
  }
  at::Tensor cpu = C10_LIKELY(tensor.unsafeGetTensorImpl()->has_storage()) && C10_LIKELY(!tensor.is_nested())
      ? dense_to_cpu(tensor)
      : layout_to_cpu(tensor);
  pairs_.push_back({tensor, cpu});
  return cpu;
}

c10::Storage Aliases::original_of(const c10::Storage& storage, int card) {
  for (auto& twin : twins_) {
    if (twin.cpu.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return twin.mlu;
    }
  }
  auto* impl = storage.unsafeGetStorageImpl();
  if (impl->device_type() == kMlu) {
    return storage;  // another result over the same memory was here before
  }
  auto& data = impl->_mutable_data_ptr_no_checks();
  if (C10_LIKELY(is_block(data) || !data)) {
    data.unsafe_set_device(c10::Device(kMlu, static_cast<c10::DeviceIndex>(card)));
    impl->set_allocator(card_allocator(card));
    return storage;
  }
  // Memory of the host: a result that did not fit, or something the kernel had from elsewhere.
  const auto bytes = impl->nbytes();
  c10::Storage moved(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes), on_card(*impl, card), card_allocator(card), true));
  twins_.push_back({moved, storage, impl->data(), bytes});
  return moved;
}

at::Tensor Aliases::to_mlu(at::Tensor&& result, int card) {
  if (!result.defined() || !result.device().is_cpu()) {
    return std::move(result);
  }
  for (auto& pair : pairs_) {
    if (pair.cpu.is_same(result)) {
      return pair.mlu;
    }
  }
  if (C10_UNLIKELY(!result.unsafeGetTensorImpl()->has_storage() || result.is_nested())) {
    return layout_to_mlu(std::move(result), card);
  }
  at::Tensor own = std::move(result);
  if (own.use_count() > 1) {
    auto* impl = own.unsafeGetTensorImpl();
    own = at::Tensor(impl->shallow_copy_and_detach(0, impl->allow_tensor_metadata_change()));
  }
  auto* impl = own.unsafeGetTensorImpl();
  move_to_card(impl, original_of(impl->storage(), card));
  return own;
}

void Aliases::settle_storages(int card) {
  for (auto& twin : twins_) {
    auto* cpu = twin.cpu.unsafeGetStorageImpl();
    if (C10_LIKELY(cpu->data() == twin.data && cpu->nbytes() == twin.bytes)) {
      continue;
    }
    auto* mlu = twin.mlu.unsafeGetStorageImpl();
    if (cpu->data() != twin.data) {
      auto& fresh = cpu->_mutable_data_ptr_no_checks();
      auto data = is_block(fresh) || !fresh ? std::move(fresh) : on_card(*cpu, card);
      data.unsafe_set_device(c10::Device(kMlu, static_cast<c10::DeviceIndex>(card)));
      mlu->set_data_ptr_noswap(std::move(data));
    }
    mlu->set_nbytes(cpu->nbytes());
    cpu->set_data_ptr_noswap(borrowed(mlu));
    twin.data = mlu->data();
    twin.bytes = mlu->nbytes();
  }
}

void Aliases::settle(const at::Tensor& original, const at::Tensor& alias, int card) {
  auto* to = original.unsafeGetTensorImpl();
  auto* from = alias.unsafeGetTensorImpl();
  if (C10_UNLIKELY(!to->has_storage() || original.is_nested())) {
    settle_layout(original, alias, card);
    return;
  }
  if (C10_UNLIKELY(!from->has_storage())) {
    return;
  }
  auto storage = original_of(from->storage(), card);
  if (C10_UNLIKELY(storage.unsafeGetStorageImpl() != to->storage().unsafeGetStorageImpl())) {
    to->set_storage_keep_dtype(storage);
  }
  if (C10_UNLIKELY(
          from->sizes() != to->sizes() || from->strides() != to->strides() ||
          from->storage_offset() != to->storage_offset())) {
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

}  // namespace mlu
