// What PyTorch asks of an accelerator: generators, pinned memory, storage resize, the current card.
#include "hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <map>
#include <mutex>

#include "alias.h"
#include "allocator.h"
#include "device.h"
#include "generator.h"

namespace mlu {
namespace {

// Host memory that remembers its ranges, so that any pointer into it answers `is_pinned`.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    void* memory = c10::alloc_cpu(bytes);
    std::lock_guard<std::mutex> lock(mutex());
    ranges()[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return {memory, memory, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static bool holds(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> lock(mutex());
    auto next = ranges().upper_bound(address);
    if (next == ranges().begin()) {
      return false;
    }
    --next;
    return address < next->first + next->second;
  }
  static size_t total() {
    std::lock_guard<std::mutex> lock(mutex());
    size_t sum = 0;
    for (const auto& [address, bytes] : ranges()) {
      sum += bytes;
    }
    return sum;
  }

 private:
  static void release(void* memory) {
    {
      std::lock_guard<std::mutex> lock(mutex());
      ranges().erase(reinterpret_cast<uintptr_t>(memory));
    }
    c10::free_cpu(memory);
  }
  static std::mutex& mutex() {
    static auto* made = new std::mutex;
    return *made;
  }
  static std::map<uintptr_t, size_t>& ranges() {
    static auto* made = new std::map<uintptr_t, size_t>;
    return *made;
  }
};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return card_count() > 0;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex card) const override {
    return default_generator(card);
  }
  at::Generator getNewGenerator(c10::DeviceIndex card) const override {
    return new_generator(card);
  }
  at::Device getDeviceFromPtr(void*) const override {
    return {kMlu, current_card()};
  }
  bool isPinnedPtr(const void* data) const override {
    return PinnedAllocator::holds(data);
  }
  at::Allocator* getPinnedMemoryAllocator() const override {
    static auto* made = new PinnedAllocator;
    return made;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return runtime_touched();
  }
  void init() const override {
    touch_runtime();
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(card_count());
  }
  void setCurrentDevice(c10::DeviceIndex card) const override {
    set_current_card(card);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_card();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex card) const override {
    return exchange_card(card);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex card) const override {
    return card < 0 ? current_card() : exchange_card(card);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() {
  static auto* hooks = new Hooks;
  if (!at::isPrivateUse1HooksRegistered()) {
    at::RegisterPrivateUse1HooksInterface(hooks);
  }
}

size_t pinned_bytes() noexcept {
  return PinnedAllocator::total();
}

}  // namespace mlu
