// Cards, the current card and the streams of each thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mlu {

constexpr c10::DeviceType kMlu = c10::DeviceType::PrivateUse1;
// torch_mlu r2.4, torch_mlu/csrc/framework/core/device_utils.h:42
constexpr int kMaxCards = 16;

// Set once by core.py before the first tensor, from the environment.
void set_card_count(int count);
int card_count() noexcept;

c10::DeviceIndex current_card() noexcept;
void set_current_card(c10::DeviceIndex card);
c10::DeviceIndex exchange_card(c10::DeviceIndex card);
// -1 means the current card. Raises for a card that is not there.
c10::DeviceIndex checked_card(c10::DeviceIndex card);

// Marks the process as one that has used a card; a forked child of such a process may not use one.
void touch_runtime();
bool runtime_touched() noexcept;
bool in_bad_fork() noexcept;

// Streams run everything at once, so a stream is a number: 0 is the default stream of a card, others encode
// priority and slot. 32 for each priority and card, then reused (torch_mlu r2.4, framework/core/MLUStream.cpp:41).
int64_t new_stream(c10::DeviceIndex card, int priority);
int64_t current_stream(c10::DeviceIndex card) noexcept;
int64_t exchange_stream(c10::DeviceIndex card, int64_t stream);
int stream_priority(int64_t stream) noexcept;
// What the real package calls the queue handle; only an identity here.
uint64_t stream_handle(c10::DeviceIndex card, int64_t stream) noexcept;

int64_t now_ns() noexcept;

}  // namespace mlu
