// Segments of a card: memory of the host, taken in large pieces, handed back when it is not needed.
#include <sys/mman.h>

#include <sstream>

#include "card_memory.h"

namespace mlu {
namespace {

using c10::CachingAllocator::StatType;

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

}  // namespace

void throw_oom(const std::string& text) {
  throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

Block* Card::grow(int card, Pool& pool, size_t size, int64_t stream, size_t wanted, bool quiet) {
  const size_t bytes = size <= kSmallSize ? kSmallSegment
      : size < kMinLargeAlloc            ? kLargeSegment
                                         : (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
  const size_t allowed = static_cast<size_t>(static_cast<double>(policy().total) * fraction.load());
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
  if (policy().settings.max_split_size >= 0 && bytes >= static_cast<size_t>(policy().settings.max_split_size)) {
    stats_.oversize_segments.increase(1);
  }
  trace("segment_alloc", block->address, bytes, stream);
  return block;
}

void Card::refuse(int card, size_t wanted, size_t allowed) {
  ++stats_.num_ooms;
  const size_t reserved = reserved_bytes();
  const auto allocated =
      static_cast<size_t>(stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
  const size_t unused = policy().total > reserved ? policy().total - reserved : 0;
  trace("oom", reinterpret_cast<char*>(unused), wanted, 0);
  std::ostringstream text;
  text << "MLU out of memory. Tried to allocate " << human(wanted) << ". MLU " << card << " has a total capacity of "
       << human(policy().total) << " of which " << human(unused) << " is free. ";
  if (allowed < policy().total) {
    text << human(allowed) << " allowed; ";
  }
  text << "Of the allocated memory " << human(allocated) << " is allocated by PyTorch, and "
       << human(reserved - allocated)
       << " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
          "PYTORCH_MLU_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
  throw_oom(text.str());
}

void Card::release(Block* block) {
  Pool& pool = *block->pool;
  trace("segment_free", block->address, block->size, block->stream);
  munmap(block->address, block->size);
  ++stats_.num_device_free;
  for_types(pool.small, [&](size_t t) {
    stats_.segment[t].decrease(1);
    stats_.reserved_bytes[t].decrease(block->size);
  });
  if (policy().settings.max_split_size >= 0 && block->size >= static_cast<size_t>(policy().settings.max_split_size)) {
    stats_.oversize_segments.decrease(1);
  }
  segments_.erase(block);
  pool.free.erase(block);
  note_free_memory(block, -1);
  delete block;
}

void Card::release_free(Pool& pool) {
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    Block* block = *it++;
    if (!block->split()) {
      release(block);
    }
  }
}

void Card::release_cached() {
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

void Card::note_free_memory(Block* block, int sign) {
  if (block->warm) {
    warm_free_ += sign * static_cast<int64_t>(block->size);
  }
}

void Card::cool() {
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

}  // namespace mlu
