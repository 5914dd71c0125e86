#include "on_card.h"

namespace mlu {

int OnCard::card_of(const char* op, std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor* first = nullptr;
  for (const auto* tensor : tensors) {
    if (tensor->defined() && tensor->device().type() == kMlu) {
      first = tensor;
      break;
    }
  }
  TORCH_CHECK(first, op, ": no tensor on mlu among the arguments");
  for (const auto* tensor : tensors) {
    TORCH_CHECK(
        !tensor->defined() || tensor->device() == first->device(),
        "Expected all tensors to be on the same device, but found at least two devices, ", first->device(), " and ",
        tensor->device(), "! (when checking arguments in method ", op, ")");
  }
  return first->device().index();
}

}  // namespace mlu
