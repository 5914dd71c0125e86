// Taking and giving back blocks of a card.
#include "card_memory.h"

#include <c10/util/Exception.h>
#include <c10/util/llvmMathExtras.h>

#include <algorithm>
#include <array>

#include "device.h"

namespace mlu {
namespace {

size_t round(size_t size) {
  if (size < kMinBlock) {
    return kMinBlock;
  }
  const auto& divisions = policy().settings.roundup_power2_divisions;
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

bool should_split(const Block& block, size_t size) {
  const size_t rest = block.size - size;
  if (block.pool->small) {
    return rest >= kMinBlock;
  }
  return (policy().settings.max_split_size < 0 || size < static_cast<size_t>(policy().settings.max_split_size)) && rest > kSmallSize;
}

}  // namespace

Policy& policy() noexcept {
  static Policy shared;
  return shared;
}

PoolId& routed_pool(int card) noexcept {
  thread_local std::array<PoolId, kMaxCards> routed{};
  return routed[card];
}

bool Less::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) {
    return a->stream < b->stream;
  }
  if (a->size != b->size) {
    return a->size < b->size;
  }
  return reinterpret_cast<uintptr_t>(a->address) < reinterpret_cast<uintptr_t>(b->address);
}

Block* Card::take(int card, size_t wanted, bool quiet) {
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
  if (policy().settings.max_split_size >= 0 && size >= static_cast<size_t>(policy().settings.max_split_size)) {
    stats_.oversize_allocations.increase(1);
  }
  trace("alloc", block->address, wanted, stream);
  live_[block->address] = block;
  return block;
}

void Card::give(void* address) {
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
  } else if (!policy().caching) {
    release(block);
  }
}

bool Card::owns(void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  return live_.find(static_cast<char*>(address)) != live_.end();
}

size_t Card::size_of(void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.find(static_cast<char*>(address));
  return found == live_.end() ? 0 : found->second->size;
}

void Card::empty(PoolId id) {
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

void Card::begin_private(PoolId id) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& pool = private_[id];
  if (pool) {
    ++pool->users;
  } else {
    pool = std::make_unique<PrivatePool>(id);
  }
}

void Card::release_private(PoolId id) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = private_.find(id);
  if (found != private_.end() && --found->second->users == 0) {
    dying_.insert(id);
    release_free(found->second->small);
    release_free(found->second->large);
  }
}

Pool& Card::pool_for(int card, size_t size) {
  const PoolId routed = routed_pool(card);
  if (routed.first || routed.second) {
    auto found = private_.find(routed);
    if (found != private_.end()) {
      return size <= kSmallSize ? found->second->small : found->second->large;
    }
  }
  return size <= kSmallSize ? small_ : large_;
}

Block* Card::find(Pool& pool, size_t size, int64_t stream) {
  Block key;
  key.stream = stream;
  key.size = size;
  auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != stream) {
    return nullptr;
  }
  const auto limit = policy().settings.max_split_size;
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

void Card::split(Block* block, size_t size) {
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

void Card::join(Block* block, Block* other) {
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

void Card::drop_inactive(const Block& block) {
  for_types(block.pool->small, [&](size_t t) {
    stats_.inactive_split[t].decrease(1);
    stats_.inactive_split_bytes[t].decrease(block.size);
  });
}

}  // namespace mlu
