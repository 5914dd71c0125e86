// The Python module. Plain functions only; core.py says what each is for.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "allocator.h"
#include "autograd_exit.h"
#include "device.h"
#include "fallback.h"
#include "generator.h"
#include "hooks.h"
#include "refusals.h"
#include "pluggable.h"
#include "profile.h"
#include "stats.h"

namespace py = pybind11;

namespace mlu {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

py::dict stat_dict(const Stat& stat) {
  py::dict out;
  out["current"] = stat.current;
  out["peak"] = stat.peak;
  out["allocated"] = stat.allocated;
  out["freed"] = stat.freed;
  return out;
}

py::dict pools_dict(const StatArray& stats) {
  py::dict out;
  const char* names[] = {"all", "small_pool", "large_pool"};
  for (size_t i = 0; i < 3; ++i) {
    out[names[i]] = stat_dict(stats[i]);
  }
  return out;
}

// Keys as in torch_mlu r2.4, csrc/python/Module.cpp:382-419.
py::dict memory_stats(int card) {
  const auto s = stats(checked_card(card));
  py::dict out;
  out["num_alloc_retries"] = s.num_alloc_retries;
  out["num_ooms"] = s.num_ooms;
  out["max_split_size"] = s.max_split_size;
  out["num_sync_all_streams"] = s.num_sync_all_streams;
  out["num_device_alloc"] = s.num_device_alloc;
  out["num_device_free"] = s.num_device_free;
  out["allocation"] = pools_dict(s.allocation);
  out["segment"] = pools_dict(s.segment);
  out["active"] = pools_dict(s.active);
  out["inactive_split"] = pools_dict(s.inactive_split);
  out["allocated_bytes"] = pools_dict(s.allocated_bytes);
  out["reserved_bytes"] = pools_dict(s.reserved_bytes);
  out["active_bytes"] = pools_dict(s.active_bytes);
  out["inactive_split_bytes"] = pools_dict(s.inactive_split_bytes);
  out["requested_bytes"] = pools_dict(s.requested_bytes);
  out["oversize_allocations"] = stat_dict(s.oversize_allocations);
  out["oversize_segments"] = stat_dict(s.oversize_segments);
  return out;
}

py::list segment_list() {
  py::list out;
  for (const auto& segment : segments()) {
    py::dict row;
    row["device"] = segment.card;
    row["address"] = segment.address;
    row["total_size"] = segment.total;
    row["allocated_size"] = segment.allocated;
    row["active_size"] = segment.active;
    row["requested_size"] = segment.requested;
    row["stream"] = segment.stream;
    row["segment_type"] = segment.large ? "large" : "small";
    row["segment_pool_id"] = py::make_tuple(segment.pool.first, segment.pool.second);
    row["is_expandable"] = false;
    py::list blocks;
    for (const auto& block : segment.blocks) {
      py::dict one;
      one["address"] = block.address;
      one["size"] = block.size;
      one["requested_size"] = block.requested;
      one["state"] = block.state;
      blocks.append(one);
    }
    row["blocks"] = blocks;
    out.append(row);
  }
  return out;
}

py::list trace_lists() {
  py::list out;
  for (const auto& card : traces()) {
    py::list rows;
    for (const auto& entry : card) {
      py::dict row;
      const std::string action = entry.action;
      row["action"] = action;
      row[action == "oom" ? "device_free" : "addr"] = entry.address;
      row["size"] = entry.size;
      row["stream"] = entry.stream;
      row["time_us"] = entry.time_us;
      rows.append(row);
    }
    out.append(rows);
  }
  return out;
}

// In the order of the fields of Stats in parity/statistics.py.
py::tuple stats_row(py::handle tensor) {
  TORCH_CHECK_TYPE(THPVariable_Check(tensor.ptr()), "stats takes a tensor");
  const at::Tensor& given = THPVariable_Unpack(tensor.ptr());
  TensorStats found;
  {
    py::gil_scoped_release release;
    found = tensor_stats(given);
  }
  py::tuple sample(found.samples);
  for (int64_t i = 0; i < found.samples; ++i) {
    sample[i] = found.sample[i];
  }
  return py::make_tuple(
      found.norm, found.min, found.max, found.mean, found.nonfinite, found.checksum, std::move(sample));
}

// Fields of PluggedFunctions by the names of the setters in torch_mlu r2.4, csrc/python/Module.cpp:1196-1285.
void bind_pluggable(py::module_& m) {
  using Field = uintptr_t PluggedFunctions::*;
  py::class_<Plugged, std::unique_ptr<Plugged, py::nodelete>> bound(m, "PluggableAllocator");
  // Never destroyed: tensors give their memory back to it when everything else is gone.
  bound.def(py::init([](uintptr_t alloc, uintptr_t free) {
    auto* made = new Plugged;
    made->functions.alloc = alloc;
    made->functions.free = free;
    return std::unique_ptr<Plugged, py::nodelete>(made);
  }));
  const std::pair<const char*, Field> setters[] = {
      {"set_init_fn", &PluggedFunctions::init},
      {"set_reset_fn", &PluggedFunctions::reset},
      {"set_memory_fraction_fn", &PluggedFunctions::memory_fraction},
      {"set_base_alloc_fn", &PluggedFunctions::base_alloc},
      {"set_record_stream_fn", &PluggedFunctions::record_stream},
      {"set_begin_allocate_to_pool", &PluggedFunctions::begin_pool},
      {"set_end_allocate_to_pool_fn", &PluggedFunctions::end_pool},
      {"set_release_pool", &PluggedFunctions::release_pool},
  };
  for (const auto& [name, field] : setters) {
    bound.def(name, [field = field](Plugged& self, uintptr_t address) { self.functions.*field = address; });
  }
  m.def("plug_allocator", &plug, py::arg("allocator"));
  m.def("allocator_plugged", [] { return plugged() != nullptr; });
  m.def("base_allocation", [](uintptr_t address) {
    size_t size = 0;
    auto* pointer = reinterpret_cast<void*>(address);
    return reinterpret_cast<uintptr_t>(plugged() ? plugged()->base(pointer, &size) : pointer);
  });
}

py::object wrap(const at::Generator& generator) {
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
}

}  // namespace
}  // namespace mlu

PYBIND11_MODULE(_mlu_core, m) {
  using namespace mlu;
  install_cpu_allocator();
  register_hooks();
  register_kernels();

  m.def("set_device_count", &set_card_count);
  m.def("device_count", &card_count);
  m.def("current_device", [] { return static_cast<int>(current_card()); });
  m.def("set_device", [](int card) { set_current_card(static_cast<c10::DeviceIndex>(card)); });
  m.def("exchange_device", [](int card) { return static_cast<int>(exchange_card(static_cast<c10::DeviceIndex>(card))); });
  m.def("set_requires_init", [](bool on) { torch::utils::set_requires_device_init(kMlu, on); });
  m.def("touch", &touch_runtime);
  m.def("touched", &runtime_touched);
  m.def("in_bad_fork", &in_bad_fork);
  m.def("settle_autograd", [](int card) { settle_autograd(static_cast<c10::DeviceIndex>(card)); },
        py::call_guard<py::gil_scoped_release>());

  m.def("new_stream", [](int card, int priority) { return new_stream(static_cast<c10::DeviceIndex>(card), priority); });
  m.def("current_stream", [](int card) { return current_stream(checked_card(static_cast<c10::DeviceIndex>(card))); });
  m.def("exchange_stream", [](int card, int64_t stream) {
    return exchange_stream(static_cast<c10::DeviceIndex>(card), stream);
  });
  m.def("stream_priority", &stream_priority);
  m.def("stream_handle", [](int card, int64_t stream) {
    return stream_handle(static_cast<c10::DeviceIndex>(card), stream);
  });
  m.def("now_ns", &now_ns);

  m.def("set_memory", &set_card_memory);
  m.def("memory", &card_memory);
  m.def("set_memory_fraction", [](int card, double fraction) { set_memory_fraction(checked_card(card), fraction); });
  m.def("memory_fraction", [](int card) { return memory_fraction(checked_card(card)); });
  m.def("memory_info", [](int card) { return memory_info(checked_card(card)); });
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak_memory_stats", [](int card) { reset_peak(checked_card(card)); });
  m.def("reset_accumulated_memory_stats", [](int card) { reset_accumulated(checked_card(card)); });
  m.def("empty_cache", [](uint64_t a, uint64_t b) { empty_cache({a, b}); }, py::arg("a") = 0, py::arg("b") = 0);
  m.def("memory_segments", &segment_list);
  m.def("memory_traces", &trace_lists);
  m.def("set_memory_trace", &set_trace, py::arg("on"), py::arg("max_entries") = 0);
  m.def("set_caching", &set_caching);
  m.def("set_allocator_settings",
        [](int64_t max_split_size, double threshold, bool expandable, std::vector<size_t> divisions) {
          set_allocator_settings({max_split_size, threshold, expandable, std::move(divisions)});
        });
  m.def("pinned_bytes", &pinned_bytes);
  bind_pluggable(m);
  m.def("begin_pool", [](int card, uint64_t a, uint64_t b) { begin_pool(checked_card(card), {a, b}); });
  m.def("end_pool", [](int card, uint64_t a, uint64_t b) { end_pool(checked_card(card), {a, b}); });
  m.def("release_pool", [](int card, uint64_t a, uint64_t b) { release_pool(checked_card(card), {a, b}); });

  m.def("default_generator", [](int card) { return wrap(default_generator(static_cast<c10::DeviceIndex>(card))); });
  m.def("set_capturing", &set_capturing);
  m.def("capturing", &capturing);

  m.def("set_profile", [](bool narrow_float64, bool round_tf32, bool bfloat16, bool narrow_int64, bool check_overflow) {
    set_profile({narrow_float64, round_tf32, bfloat16, narrow_int64, check_overflow});
  });
  m.def("set_tf32", [](bool convolution, bool matmul, bool custom) {
    (void)custom;  // switches kernels of the card that have no counterpart here
    (void)matmul;
    set_tf32(convolution);
  });
  m.def("force_tf32_matmul", &force_tf32_matmul);
  m.def("set_int64_casts", &set_int64_casts);
  m.def("stats", [](py::handle tensor) { return stats_row(tensor); });
  m.def("set_limits", &set_limits);
  m.def("set_card_operators", &set_card_operators);
  m.def("set_fallback_allowed", &set_fallback_allowed);
}
