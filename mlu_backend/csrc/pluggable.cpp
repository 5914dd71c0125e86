#include "pluggable.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "device.h"

namespace mlu {
namespace {

std::atomic<Plugged*> swapped_in{nullptr};

template <typename Function>
Function* as(uintptr_t address) {
  return reinterpret_cast<Function*>(address);
}

Queue queue_of(int card, int64_t stream) {
  return reinterpret_cast<Queue>(stream_handle(static_cast<c10::DeviceIndex>(card), stream));
}

}  // namespace

void* Plugged::take(int card, size_t bytes) {
  std::call_once(initialised_, [this] {
    if (functions.init) {
      as<void(int)>(functions.init)(card_count());
    }
  });
  const Queue queue = queue_of(card, current_stream(static_cast<c10::DeviceIndex>(card)));
  void* memory = as<void*(size_t, int, Queue)>(functions.alloc)(bytes, card, queue);
  TORCH_CHECK(memory, "the pluggable allocator gave no memory for ", bytes, " bytes on mlu:", card);
  std::lock_guard<std::mutex> lock(mutex_);
  given_[memory] = {bytes, card, queue};
  return memory;
}

void Plugged::give(void* address) {
  Given given;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = given_.find(address);
    TORCH_CHECK(found != given_.end(), "Trying to free a pointer not allocated here");
    given = found->second;
    given_.erase(found);
  }
  as<void(void*, size_t, int, Queue)>(functions.free)(address, given.size, given.card, given.queue);
}

size_t Plugged::size_of(void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = given_.find(address);
  return found == given_.end() ? 0 : found->second.size;
}

void* Plugged::base(void* address, size_t* size) {
  return functions.base_alloc ? as<void*(void*, size_t*)>(functions.base_alloc)(address, size) : address;
}

void Plugged::empty() {
  if (functions.reset) {
    as<void()>(functions.reset)();
  }
}

void Plugged::set_fraction(double fraction, int card) {
  if (functions.memory_fraction) {
    as<void(double, int)>(functions.memory_fraction)(fraction, card);
  }
}

void Plugged::record_stream(void* address, int card, int64_t stream) {
  if (functions.record_stream) {
    as<void(void*, Queue)>(functions.record_stream)(address, queue_of(card, stream));
  }
}

void Plugged::begin_pool(int card, PoolId pool) {
  if (functions.begin_pool) {
    const Queue queue = queue_of(card, current_stream(static_cast<c10::DeviceIndex>(card)));
    as<void(int, PoolId, std::function<bool(Queue)>)>(functions.begin_pool)(
        card, pool, [queue](Queue asked) { return asked == queue; });
  }
}

void Plugged::end_pool(int card, PoolId pool) {
  if (functions.end_pool) {
    as<void(int, PoolId)>(functions.end_pool)(card, pool);
  }
}

void Plugged::release_pool(int card, PoolId pool) {
  if (functions.release_pool) {
    as<void(int, PoolId)>(functions.release_pool)(card, pool);
  }
}

Plugged* plugged() noexcept {
  return swapped_in.load(std::memory_order_relaxed);
}

void plug(Plugged* allocator) {
  TORCH_CHECK(!runtime_touched() && !plugged(), "Can't swap an already initialized allocator");
  swapped_in.store(allocator);
}

void free_plugged(void* address) {
  plugged()->give(address);
}

void refuse_plugged(const char* what) {
  TORCH_CHECK(
      !plugged(),
      "MLUPluggableAllocator does not yet support ",
      what,
      ". If you need it, please file an issue describing your use case.");
}

}  // namespace mlu
