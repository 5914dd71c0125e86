#include "device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>

namespace mlu {
namespace {

// torch_mlu r2.4, framework/core/MLUStream.h:46
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -3;
constexpr int kStreamsPerPriority = 32;
constexpr int kPriorities = kLowestPriority - kHighestPriority + 1;

std::atomic<int> cards{1};
std::atomic<bool> touched{false};
std::atomic<bool> bad_fork{false};
std::array<std::array<std::atomic<uint32_t>, kPriorities>, kMaxCards> next_slot{};

thread_local c10::DeviceIndex card_of_thread = 0;
thread_local std::array<int64_t, kMaxCards> stream_of_thread{};

void after_fork_in_child() {
  if (touched.load()) {
    bad_fork.store(true);
  }
}

}  // namespace

void set_card_count(int count) {
  TORCH_CHECK(count >= 0 && count <= kMaxCards, "between 0 and ", kMaxCards, " MLU devices can be emulated, got ", count);
  cards.store(count);
}

int card_count() noexcept {
  return cards.load(std::memory_order_relaxed);
}

c10::DeviceIndex current_card() noexcept {
  return card_of_thread;
}

c10::DeviceIndex checked_card(c10::DeviceIndex card) {
  const int count = card_count();
  TORCH_CHECK(count > 0, "No MLU devices are available");
  if (card == -1) {
    return card_of_thread;
  }
  TORCH_CHECK(card >= 0, "device id must be positive!");
  TORCH_CHECK(
      card < count,
      "CNRT error: invalid device ordinal. mlu:",
      static_cast<int>(card),
      " was asked for, and ",
      count,
      count == 1 ? " device is visible." : " devices are visible.");
  return card;
}

void set_current_card(c10::DeviceIndex card) {
  TORCH_CHECK(card >= 0, "device id must be positive!");
  card_of_thread = checked_card(card);
}

c10::DeviceIndex exchange_card(c10::DeviceIndex card) {
  const auto before = card_of_thread;
  if (card != before) {
    set_current_card(card);
  }
  return before;
}

void touch_runtime() {
  TORCH_CHECK(
      !bad_fork.load(std::memory_order_relaxed),
      "Cannot re-initialize MLU in forked subprocess. To use MLU with multiprocessing, you must use the 'spawn' "
      "start method");
  if (!touched.load(std::memory_order_relaxed)) {
    static const int once = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    (void)once;
    touched.store(true);
  }
}

bool runtime_touched() noexcept {
  return touched.load();
}

bool in_bad_fork() noexcept {
  return bad_fork.load();
}

int64_t new_stream(c10::DeviceIndex card, int priority) {
  TORCH_CHECK(
      priority <= 0, "Expected mlu stream priority to be less than or equal to 0, got ", priority);
  card = checked_card(card);
  const int level = std::min(-priority, kPriorities - 1);
  const auto slot = next_slot[card][level].fetch_add(1) % kStreamsPerPriority;
  return 1 + level * kStreamsPerPriority + static_cast<int64_t>(slot);
}

int64_t current_stream(c10::DeviceIndex card) noexcept {
  return stream_of_thread[card];
}

int64_t exchange_stream(c10::DeviceIndex card, int64_t stream) {
  card = checked_card(card);
  const auto before = stream_of_thread[card];
  stream_of_thread[card] = stream;
  return before;
}

int stream_priority(int64_t stream) noexcept {
  return stream <= 0 || stream > kPriorities * kStreamsPerPriority
      ? 0
      : -static_cast<int>((stream - 1) / kStreamsPerPriority);
}

uint64_t stream_handle(c10::DeviceIndex card, int64_t stream) noexcept {
  if (stream == 0) {
    return 0;
  }
  if (stream > kPriorities * kStreamsPerPriority) {
    return static_cast<uint64_t>(stream);  // a handle made elsewhere, wrapped by ExternalStream
  }
  return 0x100000ull * (static_cast<uint64_t>(card) + 1) + static_cast<uint64_t>(stream) * 0x100;
}

int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace mlu
