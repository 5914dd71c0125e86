#include "allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/llvmMathExtras.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "device.h"

// Sizes and policy are those of torch's device allocators (c10/cuda/CUDACachingAllocator.cpp), which torch_mlu's
// follows (torch_mlu r2.4, framework/core/caching_allocator.cpp).

namespace mlu {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kMinBlock = 512;
constexpr size_t kSmallSize = 1 << 20;
constexpr size_t kSmallSegment = 2 << 20;
constexpr size_t kLargeSegment = 20 << 20;
constexpr size_t kMinLargeAlloc = 10 << 20;
constexpr size_t kRoundLarge = 2 << 20;
// Free memory kept warm before untouched pages are handed back, so that the process stays about as large as one on CPU.
constexpr size_t kWarmBytes = 32 << 20;

struct Block;
struct Pool;

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

bool Less::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) {
    return a->stream < b->stream;
  }
  if (a->size != b->size) {
    return a->size < b->size;
  }
  return reinterpret_cast<uintptr_t>(a->address) < reinterpret_cast<uintptr_t>(b->address);
}

struct PrivatePool {
  explicit PrivatePool(PoolId id) : small(true, id), large(false, id) {}
  Pool small, large;
  int users = 1;
};

size_t total_memory = size_t(80) << 30;
bool caching = true;
AllocatorSettings settings;

// The pool that allocations of this thread go to, while a graph is captured.
thread_local std::array<PoolId, kMaxCards> routed_pool{};

std::string human(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text.setf(std::ios::fixed);
  if (bytes <= 1024) {
    text << bytes << " bytes";
  } else if (bytes <= 1048576) {
    text << bytes / 1024.0 << " KiB";
  } else if (bytes <= 1073741824ull) {
    text << bytes / 1048576.0 << " MiB";
  } else {
    text << bytes / 1073741824.0 << " GiB";
  }
  return text.str();
}

template <typename F>
void for_types(bool small, F&& act) {
  act(static_cast<size_t>(StatType::AGGREGATE));
  act(static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL));
}

class Card {
 public:
  // Nothing when `quiet` and the card is full.
  Block* take(int card, size_t wanted, bool quiet) {
    if (wanted > (size_t(1) << 60)) {
      throw_oom("MLU out of memory. Tried to allocate more than 1EB memory.");
    }
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t size = round(wanted);
    Pool& pool = pool_for(card, size);
    const int64_t stream = current_stream(card);
    Block* block = find(pool, size, stream);
    if (!block) {
      block = grow(card, pool, size, stream, wanted, quiet);
      if (!block) {
        return nullptr;
      }
    }
    pool.free.erase(block);
    note_free_memory(block, -1);
    if (block->split()) {
      drop_inactive(*block);
    }
    if (should_split(*block, size)) {
      split(block, size);
    }
    block->allocated = true;
    block->warm = true;
    block->requested = wanted;
    for_types(pool.small, [&](size_t t) {
      stats_.allocation[t].increase(1);
      stats_.allocated_bytes[t].increase(block->size);
      stats_.requested_bytes[t].increase(wanted);
      stats_.active[t].increase(1);
      stats_.active_bytes[t].increase(block->size);
    });
    if (settings.max_split_size >= 0 && size >= static_cast<size_t>(settings.max_split_size)) {
      stats_.oversize_allocations.increase(1);
    }
    trace("alloc", block->address, wanted, stream);
    live_[block->address] = block;
    return block;
  }

  bool owns(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_.find(static_cast<char*>(address)) != live_.end();
  }

  size_t size_of(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = live_.find(static_cast<char*>(address));
    return found == live_.end() ? 0 : found->second->size;
  }

  void give(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = live_.find(static_cast<char*>(address));
    TORCH_INTERNAL_ASSERT(found != live_.end(), "memory freed twice, or not of this card");
    Block* block = found->second;
    live_.erase(found);
    Pool& pool = *block->pool;
    trace("free_requested", block->address, block->requested, block->stream);
    block->allocated = false;
    for_types(pool.small, [&](size_t t) {
      stats_.allocation[t].decrease(1);
      stats_.allocated_bytes[t].decrease(block->size);
      stats_.requested_bytes[t].decrease(block->requested);
      stats_.active[t].decrease(1);
      stats_.active_bytes[t].decrease(block->size);
    });
    trace("free_completed", block->address, block->requested, block->stream);
    block->requested = 0;
    join(block, block->before);
    join(block, block->after);
    pool.free.insert(block);
    note_free_memory(block, +1);
    if (block->split()) {
      for_types(pool.small, [&](size_t t) {
        stats_.inactive_split[t].increase(1);
        stats_.inactive_split_bytes[t].increase(block->size);
      });
    } else if (!caching) {
      release(block);
    }
  }

  void empty(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (id.first || id.second) {
      auto found = private_.find(id);
      if (found != private_.end()) {
        release_free(found->second->small);
        release_free(found->second->large);
      }
      return;
    }
    release_cached();
  }

  DeviceStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    auto copy = stats_;
    copy.max_split_size = settings.max_split_size;
    return copy;
  }

  template <typename F>
  void each_stat(F&& act) {
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

  void reset_accumulated() {
    each_stat([](Stat& stat) { stat.reset_accumulated(); });
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.num_alloc_retries = 0;
    stats_.num_ooms = 0;
    stats_.num_sync_all_streams = 0;
    stats_.num_device_alloc = 0;
    stats_.num_device_free = 0;
  }

  std::pair<size_t, size_t> info() {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t reserved = reserved_bytes();
    return {total_memory > reserved ? total_memory - reserved : 0, total_memory};
  }

  void list(int card, std::vector<SegmentView>& out) {
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

  void begin_private(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& pool = private_[id];
    if (pool) {
      ++pool->users;
    } else {
      pool = std::make_unique<PrivatePool>(id);
    }
  }

  void release_private(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = private_.find(id);
    if (found != private_.end() && --found->second->users == 0) {
      dying_.insert(id);
      release_free(found->second->small);
      release_free(found->second->large);
    }
  }

  void set_trace(bool on, size_t limit) {
    std::lock_guard<std::mutex> lock(mutex_);
    tracing_ = on;
    trace_limit_ = limit;
    if (!on) {
      trace_.clear();
    }
  }

  std::vector<TraceView> trace_copy() {
    std::lock_guard<std::mutex> lock(mutex_);
    return {trace_.begin(), trace_.end()};
  }

  std::mutex& mutex() { return mutex_; }
  std::atomic<double> fraction{1.0};

 private:
  static size_t round(size_t size) {
    if (size < kMinBlock) {
      return kMinBlock;
    }
    const auto& divisions = settings.roundup_power2_divisions;
    if (!divisions.empty()) {
      const size_t log = 63 - c10::llvm::countLeadingZeros(static_cast<uint64_t>(size));
      const size_t slot = std::min(log < 20 ? size_t(0) : log - 20, divisions.size() - 1);
      const size_t division = divisions[slot];
      if (division > 1 && size > kMinBlock * division) {
        const size_t floor = size_t(1) << log;
        if (floor == size) {
          return size;
        }
        const size_t step = floor / division;
        return step == 0 ? floor << 1 : (size + step - 1) / step * step;
      }
    }
    return (size + kMinBlock - 1) / kMinBlock * kMinBlock;
  }

  Pool& pool_for(int card, size_t size) {
    const PoolId routed = routed_pool[card];
    if (routed.first || routed.second) {
      auto found = private_.find(routed);
      if (found != private_.end()) {
        return size <= kSmallSize ? found->second->small : found->second->large;
      }
    }
    return size <= kSmallSize ? small_ : large_;
  }

  Block* find(Pool& pool, size_t size, int64_t stream) {
    Block key;
    key.stream = stream;
    key.size = size;
    auto found = pool.free.lower_bound(&key);
    if (found == pool.free.end() || (*found)->stream != stream) {
      return nullptr;
    }
    const auto limit = settings.max_split_size;
    if (limit >= 0) {
      if (size < static_cast<size_t>(limit) && (*found)->size >= static_cast<size_t>(limit)) {
        return nullptr;
      }
      if (size >= static_cast<size_t>(limit) && (*found)->size >= size + kLargeSegment) {
        return nullptr;
      }
    }
    return *found;
  }

  bool should_split(const Block& block, size_t size) const {
    const size_t rest = block.size - size;
    if (block.pool->small) {
      return rest >= kMinBlock;
    }
    return (settings.max_split_size < 0 || size < static_cast<size_t>(settings.max_split_size)) && rest > kSmallSize;
  }

  void split(Block* block, size_t size) {
    auto* rest = new Block(*block);
    rest->address = block->address + size;
    rest->size = block->size - size;
    rest->allocated = false;
    rest->requested = 0;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) {
      rest->after->before = rest;
    }
    block->after = rest;
    block->size = size;
    rest->pool->free.insert(rest);
    note_free_memory(rest, +1);
    for_types(block->pool->small, [&](size_t t) {
      stats_.inactive_split[t].increase(1);
      stats_.inactive_split_bytes[t].increase(rest->size);
    });
  }

  void drop_inactive(const Block& block) {
    for_types(block.pool->small, [&](size_t t) {
      stats_.inactive_split[t].decrease(1);
      stats_.inactive_split_bytes[t].decrease(block.size);
    });
  }

  void join(Block* block, Block* other) {
    if (!other || other->allocated) {
      return;
    }
    other->pool->free.erase(other);
    note_free_memory(other, -1);
    drop_inactive(*other);
    if (block->before == other) {
      block->address = other->address;
      block->before = other->before;
      if (block->before) {
        block->before->after = block;
      } else {
        segments_.erase(other);
        segments_.insert(block);
      }
    } else {
      block->after = other->after;
      if (block->after) {
        block->after->before = block;
      }
    }
    block->size += other->size;
    block->warm = block->warm || other->warm;
    delete other;
  }

  size_t reserved_bytes() const {
    return static_cast<size_t>(stats_.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
  }

  Block* grow(int card, Pool& pool, size_t size, int64_t stream, size_t wanted, bool quiet) {
    const size_t bytes = size <= kSmallSize ? kSmallSegment
        : size < kMinLargeAlloc            ? kLargeSegment
                                           : (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
    const size_t allowed = static_cast<size_t>(static_cast<double>(total_memory) * fraction.load());
    if (reserved_bytes() + bytes > allowed) {
      ++stats_.num_alloc_retries;
      release_cached();
    }
    if (warm_free_ > static_cast<int64_t>(kWarmBytes)) {
      cool();
    }
    void* memory = MAP_FAILED;
    if (reserved_bytes() + bytes <= allowed) {
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (memory == MAP_FAILED) {
      if (quiet) {
        return nullptr;
      }
      refuse(card, wanted, allowed);
    }
    auto* block = new Block;
    block->card = card;
    block->stream = stream;
    block->size = bytes;
    block->address = static_cast<char*>(memory);
    block->pool = &pool;
    segments_.insert(block);
    pool.free.insert(block);
    note_free_memory(block, +1);
    ++stats_.num_device_alloc;
    for_types(pool.small, [&](size_t t) {
      stats_.segment[t].increase(1);
      stats_.reserved_bytes[t].increase(bytes);
    });
    if (settings.max_split_size >= 0 && bytes >= static_cast<size_t>(settings.max_split_size)) {
      stats_.oversize_segments.increase(1);
    }
    trace("segment_alloc", block->address, bytes, stream);
    return block;
  }

  [[noreturn]] void refuse(int card, size_t wanted, size_t allowed) {
    ++stats_.num_ooms;
    const size_t reserved = reserved_bytes();
    const auto allocated =
        static_cast<size_t>(stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
    const size_t unused = total_memory > reserved ? total_memory - reserved : 0;
    trace("oom", reinterpret_cast<char*>(unused), wanted, 0);
    std::ostringstream text;
    text << "MLU out of memory. Tried to allocate " << human(wanted) << ". MLU " << card << " has a total capacity of "
         << human(total_memory) << " of which " << human(unused) << " is free. ";
    if (allowed < total_memory) {
      text << human(allowed) << " allowed; ";
    }
    text << "Of the allocated memory " << human(allocated) << " is allocated by PyTorch, and "
         << human(reserved - allocated)
         << " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_MLU_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
    throw_oom(text.str());
  }

  [[noreturn]] static void throw_oom(const std::string& text) {
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
  }

  void release(Block* block) {
    Pool& pool = *block->pool;
    trace("segment_free", block->address, block->size, block->stream);
    munmap(block->address, block->size);
    ++stats_.num_device_free;
    for_types(pool.small, [&](size_t t) {
      stats_.segment[t].decrease(1);
      stats_.reserved_bytes[t].decrease(block->size);
    });
    if (settings.max_split_size >= 0 && block->size >= static_cast<size_t>(settings.max_split_size)) {
      stats_.oversize_segments.decrease(1);
    }
    segments_.erase(block);
    pool.free.erase(block);
    note_free_memory(block, -1);
    delete block;
  }

  void release_free(Pool& pool) {
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* block = *it++;
      if (!block->split()) {
        release(block);
      }
    }
  }

  void release_cached() {
    release_free(small_);
    release_free(large_);
    for (auto it = private_.begin(); it != private_.end();) {
      if (dying_.count(it->first)) {
        release_free(it->second->small);
        release_free(it->second->large);
      }
      ++it;
    }
  }

  void note_free_memory(Block* block, int sign) {
    if (block->warm) {
      warm_free_ += sign * static_cast<int64_t>(block->size);
    }
  }

  void cool() {
    constexpr uintptr_t page = 4096;
    for (Pool* pool : {&small_, &large_}) {
      for (Block* block : pool->free) {
        if (!block->warm) {
          continue;
        }
        const auto first = (reinterpret_cast<uintptr_t>(block->address) + page - 1) / page * page;
        const auto last = reinterpret_cast<uintptr_t>(block->address + block->size) / page * page;
        if (last > first) {
          madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
        }
        block->warm = false;
      }
    }
    warm_free_ = 0;
    for (auto& [id, pool] : private_) {
      for (Pool* part : {&pool->small, &pool->large}) {
        for (Block* block : part->free) {
          note_free_memory(block, +1);
        }
      }
    }
  }

  void trace(const char* action, char* address, size_t size, int64_t stream) {
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

  std::mutex mutex_;
  Pool small_{true};
  Pool large_{false};
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_;
  std::set<PoolId> dying_;
  ska::flat_hash_map<char*, Block*> live_;
  std::set<Block*> segments_;  // first block of every segment
  DeviceStats stats_;
  int64_t warm_free_ = 0;
  bool tracing_ = false;
  size_t trace_limit_ = 0;
  std::deque<TraceView> trace_;
};

std::array<Card, kMaxCards>& all_cards() {
  // Never destroyed: tensors may outlive every static at the end of the process.
  static auto* cards = [] {
    auto* made = new std::array<Card, kMaxCards>;
    // A fork taken while another thread holds the lock would leave it locked for ever in the child.
    pthread_atfork(
        [] {
          for (auto& card : all_cards()) {
            card.mutex().lock();
          }
        },
        [] {
          for (auto& card : all_cards()) {
            card.mutex().unlock();
          }
        },
        [] {
          for (auto& card : all_cards()) {
            card.mutex().unlock();
          }
        });
    return made;
  }();
  return *cards;
}

// The context of a block is its address (torch's raw_allocate relies on that), so each card has a deleter of its own.
template <int card>
void free_on(void* address) {
  auto& owner = all_cards()[card];
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto now = owner.stats();
    const auto size = owner.size_of(address);
    c10::reportMemoryUsageToProfiler(
        address, -static_cast<int64_t>(size), now.allocated_bytes[0].current - size, now.reserved_bytes[0].current,
        c10::Device(kMlu, card));
  }
  owner.give(address);
}

template <int... cards>
constexpr std::array<c10::DeleterFnPtr, sizeof...(cards)> deleters_of(std::integer_sequence<int, cards...>) {
  return {&free_on<cards>...};
}

constexpr auto kDeleters = deleters_of(std::make_integer_sequence<int, kMaxCards>());

// The card whose deleter this is, or -1.
int card_of_deleter(c10::DeleterFnPtr deleter) {
  for (int card = 0; card < kMaxCards; ++card) {
    if (kDeleters[card] == deleter) {
      return card;
    }
  }
  return -1;
}

c10::DataPtr take_block(int card, size_t bytes, bool quiet) {
  touch_runtime();
  const c10::Device device(kMlu, static_cast<c10::DeviceIndex>(card));
  if (bytes == 0) {
    return c10::DataPtr(nullptr, device);
  }
  Block* block = all_cards()[card].take(card, bytes, quiet);
  if (!block) {
    return c10::DataPtr(nullptr, device);
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto now = stats(card);
    c10::reportMemoryUsageToProfiler(
        block->address, static_cast<int64_t>(block->size), now.allocated_bytes[0].current,
        now.reserved_bytes[0].current, device);
  }
  return c10::DataPtr(block->address, block->address, kDeleters[card], device);
}

thread_local int cpu_memory_from = -1;

// Device memory for CPU tensors of a running fallback, the usual memory for everybody else.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* usual) : usual_(usual) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (C10_LIKELY(cpu_memory_from < 0)) {
      return usual_->allocate(bytes);
    }
    // A kernel's workspace may be one the card's own kernel would not need, so a full card is no reason to stop here.
    // A result that does not fit is refused when it becomes the card's (Aliases::original_of).
    auto data = take_block(cpu_memory_from, bytes, /*quiet=*/true);
    if (bytes && !data) {
      return usual_->allocate(bytes);
    }
    data.unsafe_set_device(c10::Device(c10::DeviceType::CPU));
    return data;
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return is_block(data) || usual_->is_simple_data_ptr(data);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &free_raw;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_raw(void* address);

  c10::Allocator* usual_;
};

CpuAllocator* installed = nullptr;

void CpuAllocator::free_raw(void* address) {
  for (int card = 0; card < card_count(); ++card) {
    if (all_cards()[card].owns(address)) {
      all_cards()[card].give(address);
      return;
    }
  }
  installed->usual_->raw_deleter()(address);
}

class CardAllocator : public c10::DeviceAllocator {
 public:
  explicit CardAllocator(int card) : card_(card) {}

  c10::DataPtr allocate(size_t bytes) override {
    return allocate_on(card_ < 0 ? current_card() : card_, bytes);
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return is_block(data);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return card_ < 0 ? nullptr : kDeleters[card_];
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool initialized() override {
    return true;
  }
  void emptyCache(c10::MempoolId_t pool) override {
    empty_cache(pool);
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    record_stream_use(data, stream.id());
  }
  DeviceStats getDeviceStats(c10::DeviceIndex card) override {
    return stats(checked_card(card));
  }
  void resetAccumulatedStats(c10::DeviceIndex card) override {
    reset_accumulated(checked_card(card));
  }
  void resetPeakStats(c10::DeviceIndex card) override {
    reset_peak(checked_card(card));
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex card) override {
    return memory_info(checked_card(card));
  }

 private:
  int card_;
};

}  // namespace

void set_card_memory(size_t bytes) {
  total_memory = bytes;
}

size_t card_memory() noexcept {
  return total_memory;
}

void set_memory_fraction(int card, double fraction) {
  all_cards()[card].fraction.store(fraction);
}

double memory_fraction(int card) {
  return all_cards()[card].fraction.load();
}

std::pair<size_t, size_t> memory_info(int card) {
  return all_cards()[card].info();
}

void set_caching(bool on) {
  caching = on;
}

void set_allocator_settings(const AllocatorSettings& chosen) {
  settings = chosen;
}

c10::DataPtr allocate_on(int card, size_t bytes) {
  return take_block(card, bytes, /*quiet=*/false);
}

bool is_block(const c10::DataPtr& data) {
  return card_of_deleter(data.get_deleter()) >= 0;
}

size_t block_size(const c10::DataPtr& data) {
  const int card = card_of_deleter(data.get_deleter());
  return card < 0 ? 0 : all_cards()[card].size_of(data.get());
}

void record_stream_use(const c10::DataPtr& data, int64_t stream) {
  // Work is done when a call returns, so no other stream can still be using the memory when it is freed.
  (void)data;
  (void)stream;
}

void empty_cache(PoolId pool) {
  for (auto& card : all_cards()) {
    card.empty(pool);
  }
}

DeviceStats stats(int card) {
  return all_cards()[card].stats();
}

void reset_peak(int card) {
  all_cards()[card].each_stat([](Stat& stat) { stat.reset_peak(); });
}

void reset_accumulated(int card) {
  all_cards()[card].reset_accumulated();
}

std::vector<SegmentView> segments() {
  std::vector<SegmentView> out;
  for (int card = 0; card < card_count(); ++card) {
    all_cards()[card].list(card, out);
  }
  return out;
}

void set_trace(bool on, size_t max_entries) {
  for (auto& card : all_cards()) {
    card.set_trace(on, max_entries);
  }
}

std::vector<std::vector<TraceView>> traces() {
  std::vector<std::vector<TraceView>> out;
  for (int card = 0; card < card_count(); ++card) {
    out.push_back(all_cards()[card].trace_copy());
  }
  return out;
}

void begin_pool(int card, PoolId pool) {
  all_cards()[card].begin_private(pool);
  routed_pool[card] = pool;
}

void end_pool(int card, PoolId pool) {
  if (routed_pool[card] == pool) {
    routed_pool[card] = {0, 0};
  }
}

void release_pool(int card, PoolId pool) {
  all_cards()[card].release_private(pool);
}

c10::Allocator* card_allocator(int card) {
  static auto* made = [] {
    auto* list = new std::vector<std::unique_ptr<CardAllocator>>;
    for (int i = 0; i < kMaxCards; ++i) {
      list->push_back(std::make_unique<CardAllocator>(i));
    }
    return list;
  }();
  return (*made)[card].get();
}

FromCard::FromCard(int card) noexcept : before_(cpu_memory_from) {
  cpu_memory_from = card;
}

FromCard::~FromCard() {
  cpu_memory_from = before_;
}

void install_cpu_allocator() {
  if (installed) {
    return;
  }
  installed = new CpuAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(installed, 1);
  c10::SetAllocator(kMlu, new CardAllocator(-1), 1);
}

c10::Allocator* cpu_allocator() {
  return installed;
}

}  // namespace mlu
