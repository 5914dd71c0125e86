// The memory of one card: blocks cut from segments, kept in pools, counted as torch's device allocators count.
//
// Sizes and policy are those of c10/cuda/CUDACachingAllocator.cpp, which torch_mlu's follows (torch_mlu r2.4,
// framework/core/caching_allocator.cpp).
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"

namespace mlu {

constexpr size_t kMinBlock = 512;
constexpr size_t kSmallSize = 1 << 20;
constexpr size_t kSmallSegment = 2 << 20;
constexpr size_t kLargeSegment = 20 << 20;
constexpr size_t kMinLargeAlloc = 10 << 20;
constexpr size_t kRoundLarge = 2 << 20;
// Free memory kept warm before untouched pages are handed back, so that the process stays about as large as one on CPU.
constexpr size_t kWarmBytes = 32 << 20;

struct Block;

struct Less {
  bool operator()(const Block* a, const Block* b) const;
};

struct Pool {
  explicit Pool(bool small, PoolId id = {0, 0}) : small(small), id(id) {}
  std::set<Block*, Less> free;
  bool small;
  PoolId id;
};

struct Block {
  int card = 0;
  int64_t stream = 0;
  size_t size = 0;
  size_t requested = 0;
  char* address = nullptr;
  Pool* pool = nullptr;
  bool allocated = false;
  bool warm = false;  // pages were written since they were last handed back
  Block* before = nullptr;
  Block* after = nullptr;
  bool split() const { return before || after; }
};

struct PrivatePool {
  explicit PrivatePool(PoolId id) : small(true, id), large(false, id) {}
  Pool small, large;
  int users = 1;
};

// What holds for all cards.
struct Policy {
  size_t total = size_t(80) << 30;  // bytes of a card
  bool caching = true;
  AllocatorSettings settings;
};
Policy& policy() noexcept;

// The pool that allocations of this thread go to on a card, while a graph is captured.
PoolId& routed_pool(int card) noexcept;

// Acts on the statistics of all sizes and on those of the small or the large ones.
template <typename F>
void for_types(bool small, F&& act) {
  using c10::CachingAllocator::StatType;
  act(static_cast<size_t>(StatType::AGGREGATE));
  act(static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL));
}

class Card {
 public:
  // Nothing when `quiet` and the card is full.
  Block* take(int card, size_t wanted, bool quiet);
  void give(void* address);
  bool owns(void* address);
  size_t size_of(void* address);
  void empty(PoolId id);
  void begin_private(PoolId id);
  void release_private(PoolId id);

  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_peak();
  void reset_accumulated();
  std::pair<size_t, size_t> info();
  void list(int card, std::vector<SegmentView>& out);
  void set_trace(bool on, size_t limit);
  std::vector<TraceView> trace_copy();

  std::mutex& mutex() { return mutex_; }
  std::atomic<double> fraction{1.0};

 private:
  // card_memory.cpp: blocks
  Pool& pool_for(int card, size_t size);
  Block* find(Pool& pool, size_t size, int64_t stream);
  void split(Block* block, size_t size);
  void join(Block* block, Block* other);
  void drop_inactive(const Block& block);

  // card_segments.cpp: memory of the host
  Block* grow(int card, Pool& pool, size_t size, int64_t stream, size_t wanted, bool quiet);
  [[noreturn]] void refuse(int card, size_t wanted, size_t allowed);
  void release(Block* block);
  void release_free(Pool& pool);
  void release_cached();
  void note_free_memory(Block* block, int sign);
  void cool();

  // card_report.cpp: what is told
  template <typename F>
  void each_stat(F&& act);
  size_t reserved_bytes() const;
  void trace(const char* action, char* address, size_t size, int64_t stream);

  std::mutex mutex_;
  Pool small_{true};
  Pool large_{false};
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_;
  std::set<PoolId> dying_;
  ska::flat_hash_map<char*, Block*> live_;
  std::set<Block*> segments_;  // first block of every segment
  c10::CachingDeviceAllocator::DeviceStats stats_;
  int64_t warm_free_ = 0;
  bool tracing_ = false;
  size_t trace_limit_ = 0;
  std::deque<TraceView> trace_;
};

[[noreturn]] void throw_oom(const std::string& text);

}  // namespace mlu
