// Lets `parameter.data = tensor` cross between the CPU and a card.
//
// torch asks this operator and knows its own devices only; a PrivateUse1 device has to answer for itself
// (c10/core/TensorImpl.h, has_compatible_shallow_copy_type). With it `module.to("mlu")` keeps its Parameter objects, so
// an optimizer made before the move still trains the model (accelerate does that), and FSDP can move a module itself.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "device.h"

namespace mlu {
namespace {

bool dense(const at::Tensor& tensor) {
  const auto type = tensor.device().type();
  return (type == kMlu || type == c10::DeviceType::CPU) && tensor.layout() == c10::kStrided && !tensor.is_quantized() &&
      !tensor.is_nested();
}

bool compatible(const at::Tensor& self, const at::Tensor& from) {
  return (dense(self) && dense(from)) ||
      self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", compatible);
}

}  // namespace mlu
