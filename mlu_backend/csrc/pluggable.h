// An allocator made of functions the program brings (torch_mlu r2.4, csrc/python/MLUPluggableAllocator.h). The functions
// have to answer memory of the host, for that is what the memory of an emulated card is.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "allocator.h"

namespace mlu {

// Stands for a queue of the card; only an identity.
using Queue = void*;

// Addresses of functions, 0 for none. Types as in MLUPluggableAllocator.h.
struct PluggedFunctions {
  uintptr_t alloc = 0;           // void* (size_t size, int card, Queue)
  uintptr_t free = 0;            // void (void*, size_t size, int card, Queue)
  uintptr_t init = 0;            // void (int card_count)
  uintptr_t reset = 0;           // void ()
  uintptr_t memory_fraction = 0; // void (double, int card)
  uintptr_t base_alloc = 0;      // void* (void*, size_t*)
  uintptr_t record_stream = 0;   // void (void*, Queue)
  uintptr_t begin_pool = 0;      // void (int card, PoolId, std::function<bool(Queue)>)
  uintptr_t end_pool = 0;        // void (int card, PoolId)
  uintptr_t release_pool = 0;    // void (int card, PoolId)
};

class Plugged {
 public:
  PluggedFunctions functions;

  void* take(int card, size_t bytes);
  void give(void* address);
  size_t size_of(void* address);
  // The start of the allocation `address` is in.
  void* base(void* address, size_t* size);
  void empty();
  void set_fraction(double fraction, int card);
  void record_stream(void* address, int card, int64_t stream);
  void begin_pool(int card, PoolId pool);
  void end_pool(int card, PoolId pool);
  void release_pool(int card, PoolId pool);

 private:
  struct Given {
    size_t size;
    int card;
    Queue queue;
  };
  std::once_flag initialised_;
  std::mutex mutex_;
  ska::flat_hash_map<void*, Given> given_;
};

// The allocator in place of ours, null when there is none. It is never taken back.
Plugged* plugged() noexcept;
// Raises once a card has been used.
void plug(Plugged* allocator);
void free_plugged(void* address);
// Raises if there is one, for it keeps no accounts.
void refuse_plugged(const char* what);

}  // namespace mlu
