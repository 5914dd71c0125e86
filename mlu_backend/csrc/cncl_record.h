// The flight record: the last collectives of this process, for `_dump_cncl_trace`.
//
// TORCH_CNCL_TRACE_BUFFER_SIZE says how many are kept, and 0, the default, none (torch_mlu r2.4,
// csrc/framework/distributed/process_group_cncl.hpp:120, .cpp:863). It is read when a group is made.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlu_cncl {

struct TensorShapes {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<std::string> dtypes;

  explicit TensorShapes(const std::vector<at::Tensor>& tensors) {
    for (const auto& tensor : tensors) {
      sizes.push_back(tensor.sizes().vec());
      dtypes.emplace_back(c10::toString(tensor.scalar_type()));
    }
  }
};

struct RecordedCollective {
  uint64_t id = 0;
  int64_t group = 0; // in the order of creation in this process
  std::pair<std::string, std::string> group_name; // name, description
  uint64_t collective = 0, point_to_point = 0, operation = 0; // counted in the group, each kind by itself
  bool between_two = false;
  std::string title;
  TensorShapes inputs, outputs;
  int64_t timeout_ms = 0;
  int64_t started_ns = 0;
  std::optional<int64_t> completed_ns; // none while it runs, and for one that failed
  bool retired = false;
  std::shared_ptr<torch::CapturedTraceback> where;
};

class FlightRecord {
 public:
  // Never destroyed: what it holds belongs to Python, which may be gone by then.
  static FlightRecord& get() {
    static auto* record = new FlightRecord();
    return *record;
  }

  void read_environment() {
    size_t room = 0;
    for (const char* name : {"TORCH_CNCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
      if (const char* text = std::getenv(name)) {
        char* end = nullptr;
        const auto value = std::strtol(text, &end, 10);
        TORCH_CHECK(end != text && *end == '\0' && value >= 0, "Invalid value for environment variable: ", name);
        room = static_cast<size_t>(value);
        break;
      }
    }
    std::lock_guard<std::mutex> lock(guard_);
    room_ = room;
    shrink();
  }

  int64_t next_group() {
    std::lock_guard<std::mutex> lock(guard_);
    return groups_++;
  }

  bool on() {
    std::lock_guard<std::mutex> lock(guard_);
    return room_ > 0;
  }

  uint64_t begin(RecordedCollective entry) {
    entry.where = torch::CapturedTraceback::gather(true, true, false); // takes Python's lock, so before ours
    entry.started_ns = c10::getTime();
    std::lock_guard<std::mutex> lock(guard_);
    entry.id = next_++;
    entries_.push_back(std::move(entry));
    shrink();
    return next_ - 1;
  }

  void end(uint64_t id, bool succeeded) {
    const auto now = c10::getTime();
    std::lock_guard<std::mutex> lock(guard_);
    if (entries_.empty() || id < entries_.front().id) {
      return; // pushed out by younger ones
    }
    auto& entry = entries_[id - entries_.front().id];
    entry.retired = true;
    if (succeeded) {
      entry.completed_ns = now;
    }
  }

  std::vector<RecordedCollective> entries() {
    std::lock_guard<std::mutex> lock(guard_);
    return {entries_.begin(), entries_.end()};
  }

 private:
  void shrink() {
    while (entries_.size() > room_) {
      entries_.pop_front();
    }
  }

  std::mutex guard_;
  std::deque<RecordedCollective> entries_; // of successive ids
  size_t room_ = 0;
  uint64_t next_ = 0;
  int64_t groups_ = 0;
};

} // namespace mlu_cncl
