// One call's view of device tensors as CPU tensors over the same memory, and the way back. Nothing is copied.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "device.h"

namespace mlu {

inline bool on_mlu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kMlu;
}

void resize_storage(c10::StorageImpl& storage, size_t bytes);

// A tensor without memory yet, of the given card.
at::Tensor empty_on(
    int card,
    at::IntArrayRef size,
    at::ScalarType dtype,
    std::optional<at::MemoryFormat> format = std::nullopt);
at::Tensor empty_strided_on(int card, at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype);

class Aliases {
 public:
  Aliases() = default;
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;

  // The CPU tensor over the memory of `tensor`; CPU tensors are answered unchanged. The same tensor gives the same
  // alias, tensors sharing storage give aliases sharing storage.
  at::Tensor to_cpu(const at::Tensor& tensor);
  // A CPU result as a tensor of the card: an alias becomes its original, a view of an alias a view of the original,
  // fresh memory changes owner.
  at::Tensor to_mlu(at::Tensor&& result, int card);
  // After a kernel that may have written: storages that were reallocated are handed back.
  void settle_storages(int card);
  // After a kernel wrote to `original` through `alias`: sizes, strides, storage, bits and sparse parts follow.
  void settle(const at::Tensor& original, const at::Tensor& alias, int card);

 private:
  struct Twin {
    c10::Storage mlu;
    c10::Storage cpu;
    const void* data;
    size_t bytes;
  };
  struct Pair {
    at::Tensor mlu;
    at::Tensor cpu;
  };

  c10::Storage twin_of(const c10::Storage& storage);
  c10::Storage original_of(const c10::Storage& twin, int card);
  at::Tensor dense_to_cpu(const at::Tensor& tensor);
  at::Tensor layout_to_cpu(const at::Tensor& tensor);
  at::Tensor layout_to_mlu(at::Tensor&& result, int card);
  void settle_layout(const at::Tensor& original, const at::Tensor& alias, int card);

  c10::SmallVector<Twin, 4> twins_;
  c10::SmallVector<Pair, 4> pairs_;
};

}  // namespace mlu
