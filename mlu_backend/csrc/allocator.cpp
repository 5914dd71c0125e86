// The allocators torch sees: one for each card, over the blocks of card_memory.h or, if the program brought functions of
// its own, over these (pluggable.h).
#include "allocator.h"

#include <pthread.h>

#include <array>
#include <memory>
#include <utility>

#include "card_memory.h"
#include "device.h"
#include "pluggable.h"

namespace mlu {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

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
  if (C10_UNLIKELY(plugged())) {
    void* memory = plugged()->take(card, bytes);
    return c10::DataPtr(memory, memory, &free_plugged, device);
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
    return plugged() ? &free_plugged : card_ < 0 ? nullptr : kDeleters[card_];
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
  policy().total = bytes;
}

size_t card_memory() noexcept {
  return policy().total;
}

void set_memory_fraction(int card, double fraction) {
  if (plugged()) {
    plugged()->set_fraction(fraction, card);
    return;
  }
  all_cards()[card].fraction.store(fraction);
}

double memory_fraction(int card) {
  return all_cards()[card].fraction.load();
}

std::pair<size_t, size_t> memory_info(int card) {
  return all_cards()[card].info();
}

void set_caching(bool on) {
  policy().caching = on;
}

void set_allocator_settings(const AllocatorSettings& chosen) {
  policy().settings = chosen;
}

c10::DataPtr allocate_on(int card, size_t bytes) {
  return take_block(card, bytes, /*quiet=*/false);
}

c10::DataPtr allocate_if_free(int card, size_t bytes) {
  return take_block(card, bytes, /*quiet=*/true);
}

bool free_block(void* address) {
  if (plugged() && plugged()->size_of(address) > 0) {
    free_plugged(address);
    return true;
  }
  for (int card = 0; card < card_count(); ++card) {
    if (all_cards()[card].owns(address)) {
      all_cards()[card].give(address);
      return true;
    }
  }
  return false;
}

bool is_block(const c10::DataPtr& data) {
  return card_of_deleter(data.get_deleter()) >= 0 || data.get_deleter() == &free_plugged;
}

size_t block_size(const c10::DataPtr& data) {
  if (data.get_deleter() == &free_plugged) {
    return plugged()->size_of(data.get());
  }
  const int card = card_of_deleter(data.get_deleter());
  return card < 0 ? 0 : all_cards()[card].size_of(data.get());
}

void record_stream_use(const c10::DataPtr& data, int64_t stream) {
  // Work is done when a call returns, so no other stream can still be using the memory when it is freed.
  if (plugged()) {
    plugged()->record_stream(data.get(), data.device().index(), stream);
  }
}

void empty_cache(PoolId pool) {
  if (plugged()) {
    plugged()->empty();
    return;
  }
  for (auto& card : all_cards()) {
    card.empty(pool);
  }
}

DeviceStats stats(int card) {
  refuse_plugged("getDeviceStats");
  return all_cards()[card].stats();
}

void reset_peak(int card) {
  refuse_plugged("resetPeakStats");
  all_cards()[card].reset_peak();
}

void reset_accumulated(int card) {
  refuse_plugged("resetAccumulatedStats");
  all_cards()[card].reset_accumulated();
}

std::vector<SegmentView> segments() {
  refuse_plugged("snapshot");
  std::vector<SegmentView> out;
  for (int card = 0; card < card_count(); ++card) {
    all_cards()[card].list(card, out);
  }
  return out;
}

void set_trace(bool on, size_t max_entries) {
  refuse_plugged("recordHistory");
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
  if (plugged()) {
    plugged()->begin_pool(card, pool);
    return;
  }
  all_cards()[card].begin_private(pool);
  routed_pool(card) = pool;
}

void end_pool(int card, PoolId pool) {
  if (plugged()) {
    plugged()->end_pool(card, pool);
    return;
  }
  if (routed_pool(card) == pool) {
    routed_pool(card) = {0, 0};
  }
}

void release_pool(int card, PoolId pool) {
  if (plugged()) {
    plugged()->release_pool(card, pool);
    return;
  }
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

c10::Allocator* current_card_allocator() {
  static auto* made = new CardAllocator(-1);
  return made;
}

}  // namespace mlu
