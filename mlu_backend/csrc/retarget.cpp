// Calls code that was compiled for the CPU with tensors of a card: what torch.compile on `mlu` runs
// (mlu_backend/compile.py). A Python module of its own inside the library of the device.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include "alias.h"
#include "allocator.h"

namespace py = pybind11;

namespace mlu {
namespace {

py::object wrapped(at::Tensor tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor)));
}

// `inputs` is emptied, as compiled code empties its own list of arguments. Tensors of a card go in as CPU tensors over
// the same memory; result i comes back as a tensor of card cards[i], or as it is where that is negative. Memory the code
// asks for is counted on `card`.
py::list call_compiled(const py::object& code, py::list inputs, const std::vector<int>& cards, int card) {
  Aliases aliases;
  py::list arguments;
  for (const auto& input : inputs) {
    if (THPVariable_Check(input.ptr())) {
      arguments.append(wrapped(aliases.to_cpu(THPVariable_Unpack(input.ptr()))));
    } else {
      arguments.append(input);
    }
  }
  inputs.attr("clear")();
  py::list results;
  {
    FromCard memory(card);
    results = py::list(code(arguments));
  }
  aliases.settle_storages(card);
  for (size_t i = 0; i < results.size(); ++i) {
    const int target = i < cards.size() ? cards[i] : -1;
    py::object result = results[i];
    if (target >= 0 && THPVariable_Check(result.ptr())) {
      results[i] = wrapped(aliases.to_mlu(at::Tensor(THPVariable_Unpack(result.ptr())), target));
    }
  }
  return results;
}

}  // namespace
}  // namespace mlu

PYBIND11_MODULE(_mlu_retarget, module) {
  module.def("run_on_cpu", &mlu::call_compiled, py::arg("code"), py::arg("inputs"), py::arg("cards"), py::arg("card"));
}
