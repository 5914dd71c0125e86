// What a card tells of its memory: statistics, segments and the trace.
#include <chrono>

#include "card_memory.h"

namespace mlu {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatType;

c10::CachingDeviceAllocator::DeviceStats Card::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  auto copy = stats_;
  copy.max_split_size = policy().settings.max_split_size;
  return copy;
}

template <typename F>
void Card::each_stat(F&& act) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto* group :
       {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes,
        &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
    for (auto& stat : *group) {
      act(stat);
    }
  }
  act(stats_.oversize_allocations);
  act(stats_.oversize_segments);
}

void Card::reset_peak() {
  each_stat([](Stat& stat) { stat.reset_peak(); });
}

void Card::reset_accumulated() {
  each_stat([](Stat& stat) { stat.reset_accumulated(); });
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

std::pair<size_t, size_t> Card::info() {
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t reserved = reserved_bytes();
  return {policy().total > reserved ? policy().total - reserved : 0, policy().total};
}

void Card::list(int card, std::vector<SegmentView>& out) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Block* head : segments_) {
    SegmentView view{card,          reinterpret_cast<uint64_t>(head->address), 0, 0, 0, 0, head->stream,
                     !head->pool->small, head->pool->id, {}};
    for (Block* b = head; b; b = b->after) {
      view.total += b->size;
      if (b->allocated) {
        view.allocated += b->size;
        view.active += b->size;
        view.requested += b->requested;
      }
      view.blocks.push_back(
          {reinterpret_cast<uint64_t>(b->address), b->size, b->requested, b->allocated ? "active_allocated" : "inactive"});
    }
    out.push_back(std::move(view));
  }
  trace("snapshot", nullptr, 0, 0);
}

void Card::set_trace(bool on, size_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  tracing_ = on;
  trace_limit_ = limit;
  if (!on) {
    trace_.clear();
  }
}

std::vector<TraceView> Card::trace_copy() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {trace_.begin(), trace_.end()};
}

size_t Card::reserved_bytes() const {
  return static_cast<size_t>(stats_.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

void Card::trace(const char* action, char* address, size_t size, int64_t stream) {
  if (!tracing_) {
    return;
  }
  if (trace_limit_ && trace_.size() >= trace_limit_) {
    trace_.pop_front();
  }
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  trace_.push_back({action, reinterpret_cast<uint64_t>(address), size, stream, time});
}

}  // namespace mlu
