// Memory of CPU tensors: the usual one, or a card's while a kernel of the CPU computes for it.
#include <c10/core/CPUAllocator.h>

#include "allocator.h"
#include "device.h"

namespace mlu {
namespace {

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
    auto data = allocate_if_free(cpu_memory_from, bytes);
    if (bytes && !data) {
      try {
        return usual_->allocate(bytes);
      } catch (const c10::Error&) {
        data = allocate_on(cpu_memory_from, bytes);  // raises in the words of the card
      }
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
  if (!free_block(address)) {
    installed->usual_->raw_deleter()(address);
  }
}

}  // namespace

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
  c10::SetAllocator(kMlu, current_card_allocator(), 1);
}

c10::Allocator* cpu_allocator() {
  return installed;
}

}  // namespace mlu
