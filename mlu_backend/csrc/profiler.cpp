// Device times for torch's profiler. Work is done when the call returns, so the host's clock is the card's.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <memory>

namespace {

using Event = torch::profiler::impl::ProfilerVoidEventStub;

const c10::impl::DeviceGuardImplInterface* guard() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1);
}

struct Stubs final : public torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, Event* event, int64_t* cpu_ns) const override {
    const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now().time_since_epoch())
                            .count();
    if (device) {
      *device = guard()->getDevice().index();
    }
    *event = std::make_shared<int64_t>(now);
    if (cpu_ns) {
      *cpu_ns = now;
    }
  }
  // Microseconds.
  float elapsed(const Event* start, const Event* end) const override {
    const auto begin = *static_cast<const int64_t*>(start->get());
    return static_cast<float>(*static_cast<const int64_t*>(end->get()) - begin) / 1e3f;
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> action) const override {
    for (int card = 0; card < guard()->deviceCount(); ++card) {
      action(card);
    }
  }
  void synchronize() const override {}
};

Stubs stubs;
[[maybe_unused]] const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
