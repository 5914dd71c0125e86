// For kernels written by hand: run at:: functions on CPU aliases, with results in the memory of the card.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <initializer_list>

#include "alias.h"
#include "allocator.h"

namespace mlu {

class OnCard {
 public:
  // The card is that of the first defined tensor; the others have to be on it too.
  OnCard(const char* op, std::initializer_list<const at::Tensor*> tensors) : card_(card_of(op, tensors)), memory_(card_) {}

  at::Tensor in(const at::Tensor& tensor) {
    return tensor.defined() ? aliases_.to_cpu(tensor) : tensor;
  }
  std::optional<at::Tensor> in(const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() ? std::optional<at::Tensor>(in(*tensor)) : std::nullopt;
  }
  at::Tensor out(at::Tensor result) {
    return aliases_.to_mlu(std::move(result), card_);
  }
  int card() const {
    return card_;
  }

 private:
  static int card_of(const char* op, std::initializer_list<const at::Tensor*> tensors);

  int card_;
  Aliases aliases_;
  FromCard memory_;
  at::AutoDispatchBelowADInplaceOrView below_;
};

inline const at::Tensor& value_or_undefined(const std::optional<at::Tensor>& tensor) {
  static const auto* undefined = new at::Tensor;
  return tensor.has_value() ? *tensor : *undefined;
}

}  // namespace mlu
