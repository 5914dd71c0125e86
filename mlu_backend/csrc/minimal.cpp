// What a tensor cannot exist without.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "alias.h"
#include "allocator.h"
#include "profile.h"

namespace mlu {
namespace {

int card_of(const std::optional<c10::Device>& device) {
  return checked_card(device.has_value() ? device->index() : static_cast<c10::DeviceIndex>(-1));
}

void refuse_pinning(const std::optional<bool>& pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty_memory_format(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device> device,
    std::optional<bool> pin_memory,
    std::optional<at::MemoryFormat> format) {
  refuse_pinning(pin_memory);
  return empty_on(card_of(device), size, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device> device,
    std::optional<bool> pin_memory) {
  refuse_pinning(pin_memory);
  return empty_strided_on(card_of(device), size, stride, c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  TORCH_CHECK(to.defined() && from.defined(), "copy of an undefined tensor");
  Aliases aliases;
  auto target = aliases.to_cpu(to);
  at::native::copy_(target, stored(aliases.to_cpu(from)), non_blocking);
  return to;
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    const auto needed = at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset());
    auto& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
    if (needed > storage.nbytes()) {
      resize_storage(storage, needed);
    }
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resize_(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Tensor as_strided(
    const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto size = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_sizes_contiguous({size});
  return self;
}

at::Tensor& set_storage_offset(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  TORCH_CHECK(
      source.device_type() == kMlu, "Attempted to set the storage of a tensor on device \"", self.device(),
      "\" to a storage on different device \"", source.device(), "\".  This is no longer allowed; the devices must match.");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  TORCH_CHECK(
      stride.empty() || stride.size() == size.size(), "unequal size length (", size.size(), ") and stride length (",
      stride.size(), ")");
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  if (stride.empty()) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  impl->set_storage_offset(offset);
  const auto needed = at::detail::computeStorageNbytes(size, impl->strides(), self.itemsize(), offset);
  auto& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage.nbytes()) {
    resize_storage(storage, needed);
  }
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (!self.is_same(source)) {
    set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
  }
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  const auto card = self.device().index();
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), 0, allocate_on(card, 0), card_allocator(card), /*resizable=*/true);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  self.unsafeGetTensorImpl()->set_sizes_contiguous({0});
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  Aliases aliases;
  return at::native::_local_scalar_dense_cpu(aliases.to_cpu(self));
}

at::Tensor efficient_zero(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device> device,
    std::optional<bool>) {
  auto card = card_of(device);
  auto keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1).add(c10::DispatchKey::ZeroTensor);
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), 0, allocate_on(card, 0), card_allocator(card), /*resizable=*/false);
  auto made = at::detail::make_tensor<at::TensorImpl>(
      std::move(storage), keys, c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype)));
  made.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return made;
}

void record_stream(at::Tensor& self, at::Stream stream) {
  TORCH_CHECK(stream.device_type() == kMlu, "Expected a mlu stream, but got one of ", stream.device());
  record_stream_use(self.storage().data_ptr(), stream.id());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", resize_);
  m.impl("as_strided", as_strided);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_efficientzerotensor", efficient_zero);
  m.impl("record_stream", record_stream);
}

// The copy reads conjugated and negated views as they are. Without this PyTorch would resolve them first, by a copy.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("record_stream", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("record_stream", torch::CppFunction::makeFallthrough());
}

}  // namespace mlu
