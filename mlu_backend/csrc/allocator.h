// A caching allocator for every card, over host memory, with the statistics, limits and errors of a device allocator.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mlu {

using PoolId = c10::MempoolId_t;

struct BlockView {
  uint64_t address;
  size_t size;
  size_t requested;
  const char* state;  // active_allocated, active_pending_free or inactive
};

struct SegmentView {
  int card;
  uint64_t address;
  size_t total, allocated, active, requested;
  int64_t stream;
  bool large;
  PoolId pool;
  std::vector<BlockView> blocks;
};

struct TraceView {
  const char* action;
  uint64_t address;  // for "oom" the free bytes of the card
  size_t size;
  int64_t stream;
  int64_t time_us;
};

// Memory of one card, in bytes. Applies to allocations made from now on.
void set_card_memory(size_t bytes);
size_t card_memory() noexcept;
void set_memory_fraction(int card, double fraction);
double memory_fraction(int card);
// Free and total bytes as the driver would report them.
std::pair<size_t, size_t> memory_info(int card);

// False: every block goes back at once (PYTORCH_NO_MLU_MEMORY_CACHING).
void set_caching(bool on);
struct AllocatorSettings {
  int64_t max_split_size = -1;  // bytes; -1 no limit
  double garbage_collection_threshold = 0.0;
  bool expandable_segments = false;
  std::vector<size_t> roundup_power2_divisions;
};
void set_allocator_settings(const AllocatorSettings& settings);

c10::DataPtr allocate_on(int card, size_t bytes);
// Nothing when the card is full.
c10::DataPtr allocate_if_free(int card, size_t bytes);
// False for memory that is no card's.
bool free_block(void* address);
bool is_block(const c10::DataPtr& data);
// Bytes set aside for a block, 0 for memory that is not ours.
size_t block_size(const c10::DataPtr& data);
void record_stream_use(const c10::DataPtr& data, int64_t stream);
void empty_cache(PoolId pool = {0, 0});
c10::CachingDeviceAllocator::DeviceStats stats(int card);
void reset_peak(int card);
void reset_accumulated(int card);
std::vector<SegmentView> segments();
void set_trace(bool on, size_t max_entries);
std::vector<std::vector<TraceView>> traces();

// Graph pools: allocations of this thread go to `pool` between begin and end.
void begin_pool(int card, PoolId pool);
void end_pool(int card, PoolId pool);
void release_pool(int card, PoolId pool);

// The allocator a storage of this card carries, so that it can be resized.
c10::Allocator* card_allocator(int card);
// The one that follows the current card.
c10::Allocator* current_card_allocator();

// While one lives, CPU tensors made on this thread take their memory from the card, so that the results of a CPU
// kernel are device memory from the start and its workspaces are counted.
class FromCard {
 public:
  explicit FromCard(int card) noexcept;
  ~FromCard();
  FromCard(const FromCard&) = delete;
  FromCard& operator=(const FromCard&) = delete;

 private:
  int before_;
};
void install_cpu_allocator();
// The allocator CPU storages carry while aliasing device memory: what `GetCPUAllocator` answers after installation.
c10::Allocator* cpu_allocator();

}  // namespace mlu
