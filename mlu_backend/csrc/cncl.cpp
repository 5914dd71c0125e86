// The Python module `_mlu_cncl`: the process group.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "cncl_ops.h"

namespace py = pybind11;
using namespace mlu_cncl;

// gloo joins its threads, and one of them may just be dropping a tensor, for which it needs Python's lock.
ProcessGroupCNCL::~ProcessGroupCNCL() {
  if (Py_IsInitialized() && PyGILState_Check()) {
    py::gil_scoped_release unlocked;
    gloo_.reset();
  }
}

namespace {

c10::intrusive_ptr<Backend> make_gloo(
    const py::object& store, int rank, int size, std::chrono::milliseconds timeout) {
  auto gloo = py::module_::import("torch.distributed").attr("ProcessGroupGloo");
  return gloo(store, rank, size, timeout).cast<c10::intrusive_ptr<Backend>>();
}

c10::intrusive_ptr<ProcessGroupCNCL> make(
    const py::object& store, int rank, int size, c10::intrusive_ptr<CnclOptions> options, bool narrow_double) {
  auto gloo = make_gloo(store, rank, size, options->timeout);
  return c10::make_intrusive<ProcessGroupCNCL>(gloo, rank, size, std::move(options), narrow_double);
}

py::list frames(const RecordedCollective& entry) {
  const auto known = torch::symbolize({entry.where.get()});
  py::list rows;
  for (const auto index : known.tracebacks.at(0)) {
    const auto& frame = known.all_frames.at(index);
    rows.append(py::dict(
        py::arg("name") = frame.funcname, py::arg("filename") = frame.filename, py::arg("line") = frame.lineno));
  }
  return rows;
}

// The keys are those of torch's own flight recorder.
py::list flight_record() {
  py::list rows;
  for (const auto& entry : FlightRecord::get().entries()) {
    py::dict row;
    row["frames"] = frames(entry);
    row["record_id"] = entry.id;
    row["pg_id"] = entry.group;
    row["process_group"] = entry.group_name;
    row["collective_seq_id"] = entry.collective;
    row["p2p_seq_id"] = entry.point_to_point;
    row["op_id"] = entry.operation;
    row["profiling_name"] = entry.title;
    row["time_created_ns"] = entry.started_ns;
    row["input_sizes"] = entry.inputs.sizes;
    row["input_dtypes"] = entry.inputs.dtypes;
    row["output_sizes"] = entry.outputs.sizes;
    row["output_dtypes"] = entry.outputs.dtypes;
    row["state"] = entry.completed_ns ? "completed" : "started";
    row["time_discovered_started_ns"] = entry.started_ns;
    row["time_discovered_completed_ns"] = entry.completed_ns;
    if (entry.completed_ns) {
      row["duration_ms"] = static_cast<double>(*entry.completed_ns - entry.started_ns) / 1e6;
    }
    row["retired"] = entry.retired;
    row["timeout_ms"] = entry.timeout_ms;
    row["is_p2p"] = entry.between_two;
    rows.append(row);
  }
  return rows;
}

} // namespace

PYBIND11_MODULE(_mlu_cncl, module) {
  // The base classes are registered by torch's own module.
  py::module_::import("torch._C._distributed_c10d");

  py::class_<ProcessGroupCNCL, Backend, c10::intrusive_ptr<ProcessGroupCNCL>> group(module, "ProcessGroupCNCL");

  py::class_<CnclOptions, Backend::Options, c10::intrusive_ptr<CnclOptions>>(group, "Options")
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &CnclOptions::is_high_priority_stream);

  module.def("flight_record", &flight_record);

  group
      .def(
          py::init([](const py::object& store, int rank, int size, c10::intrusive_ptr<CnclOptions> options,
                      bool narrow_float64) { return make(store, rank, size, std::move(options), narrow_float64); }),
          py::arg("store"),
          py::arg("rank"),
          py::arg("size"),
          py::arg("options"),
          py::arg("narrow_float64") = false)
      .def(
          py::init([](const py::object& store, int rank, int size, std::chrono::milliseconds timeout,
                      bool narrow_float64) {
            auto options = c10::make_intrusive<CnclOptions>();
            options->timeout = timeout;
            return make(store, rank, size, std::move(options), narrow_float64);
          }),
          py::arg("store"),
          py::arg("rank"),
          py::arg("size"),
          py::arg("timeout") = kCnclDefaultTimeout,
          py::arg("narrow_float64") = false)
      .def("_shutdown", [](ProcessGroupCNCL& self) { self.shutdown(); }, py::call_guard<py::gil_scoped_release>())
      .def("get_cncl_comm", [](ProcessGroupCNCL& self, int64_t) { return self.getID(); }, py::arg("device"))
      .def_property_readonly("narrow_float64", &ProcessGroupCNCL::narrow_double)
      .def_property_readonly("options", &ProcessGroupCNCL::options)
      .def_property_readonly("uid", [](ProcessGroupCNCL& self) { return self.getGroupUid(); });
}
