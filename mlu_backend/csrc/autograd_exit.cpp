// Leaves torch's autograd threads with nothing of Python's, so that the interpreter may end.
//
// A card's autograd thread lets go of a backward pass a moment after the caller of backward() has its gradients, and a
// pass holds a Python object (its contextvars: torch/autograd/graph.py, _engine_run_backward). When the interpreter is
// ending by then, taking its lock ends the thread inside a destructor: std::terminate, exit status 134.
#include "autograd_exit.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "device.h"

namespace mlu {

void settle_autograd(c10::DeviceIndex card) {
  // A thread takes its next task after it has let go of the last one, so a pass without Python objects, when it is
  // back, says that the thread holds none.
  at::AutoGradMode record(true);
  const auto options = at::TensorOptions(c10::Device(kMlu, card));
  const auto leaf = at::empty({0}, options).requires_grad_(true);
  torch::autograd::backward({leaf.view({0})}, {at::empty({0}, options)});
}

}  // namespace mlu
