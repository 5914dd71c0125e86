// What PyTorch asks of a device through guards, streams and events.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "allocator.h"
#include "device.h"

namespace mlu {
namespace {

struct EventMark {
  int64_t time_ns;
  bool timed;
};

struct GuardImpl final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kMlu;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kMlu, "Expected a mlu device, but got: ", device);
    return {kMlu, exchange_card(device.index())};
  }
  c10::Device getDevice() const override {
    return {kMlu, current_card()};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kMlu, "Expected a mlu device, but got: ", device);
    set_current_card(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < card_count()) {
      exchange_card(device.index());
    }
  }
  c10::Stream getStream(c10::Device device) const override {
    const auto card = checked_card(device.index());
    return c10::Stream(c10::Stream::UNSAFE, {kMlu, card}, current_stream(card));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, {kMlu, checked_card(device.index())}, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override {
    return getNewStream(device, high ? -3 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const auto card = checked_card(device.index());
    return c10::Stream(c10::Stream::UNSAFE, {kMlu, card}, new_stream(card, priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto card = stream.device_index();
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), exchange_stream(card, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream_handle(stream.device_index(), stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(card_count());
  }
  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex card, const c10::EventFlag flag)
      const override {
    TORCH_CHECK(
        card == -1 || card == stream.device_index(), "Event device index ", static_cast<int>(card),
        " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    if (!*event) {
      *event = new EventMark{0, flag == c10::EventFlag::BACKEND_DEFAULT};
    }
    static_cast<EventMark*>(*event)->time_ns = now_ns();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventMark*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both notifiers must be placed before calculating elapsed time.");
    return static_cast<double>(static_cast<EventMark*>(end)->time_ns - static_cast<EventMark*>(start)->time_ns) / 1e6;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_stream_use(data, stream.id());
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

}  // namespace mlu
