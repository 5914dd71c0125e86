// Memory that several processes see: a storage of the card moves onto host memory given from outside, or begins there.
// Python opens the shared-memory file (torch_mlu/_MLUC/_sharing.py); here the storage changes its pointer.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>

namespace {

constexpr auto kMlu = c10::DeviceType::PrivateUse1;

void let_go(void* context) {
  delete static_cast<c10::Storage*>(context);
}

// The host storage lives as long as the pointer does.
c10::DataPtr over(const at::Tensor& host, c10::DeviceIndex card) {
  TORCH_CHECK(host.device().is_cpu(), "shared memory must be host memory, got ", host.device());
  auto* owner = new c10::Storage(host.storage());
  return {host.storage().mutable_data(), owner, &let_go, c10::Device(kMlu, card)};
}

// Every tensor over the storage of `self` moves to the memory of `host`, contents included.
void move_storage(const at::Tensor& self, const at::Tensor& host) {
  TORCH_CHECK(self.device().type() == kMlu, "expected a tensor on mlu, got ", self.device());
  auto* storage = self.storage().unsafeGetStorageImpl();
  const auto bytes = storage->nbytes();
  TORCH_CHECK(host.storage().nbytes() >= bytes, "the shared memory is smaller than the storage");
  auto moved = over(host, self.device().index());
  if (bytes > 0) {
    std::memcpy(moved.get(), storage->data(), bytes);
  }
  storage->set_data_ptr(std::move(moved));
}

// A tensor of bytes on `card` over the memory of `host`.
at::Tensor adopt(const at::Tensor& host, int64_t card) {
  const auto device = c10::Device(kMlu, static_cast<c10::DeviceIndex>(card));
  const auto bytes = host.storage().nbytes();
  auto made = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(device));
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), bytes, over(host, device.index()), made.storage().allocator(), /*resizable=*/false);
  made.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  const int64_t size = static_cast<int64_t>(bytes);
  const int64_t stride = 1;
  made.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(size), at::IntArrayRef(stride), 0);
  return made;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mlu_backend, m) {
  m.def("move_storage(Tensor self, Tensor host) -> ()", move_storage);
  m.def("adopt(Tensor host, int card) -> Tensor", adopt);
}
