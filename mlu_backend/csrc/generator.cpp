#include "generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>
#include <c10/util/CallOnce.h>

#include <array>
#include <cstring>

#include "device.h"

namespace mlu {
namespace {

constexpr size_t kSeedBytes = 8;
constexpr size_t kStateBytes = 16;

thread_local bool capture_on = false;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void refuse_in_capture(const char* what) {
  TORCH_CHECK(
      !capture_on, "Cannot call MLUGeneratorImpl::", what,
      " during MLU graph capture. If you need this call to be captured, please file an issue.");
}

}  // namespace

MluGenerator::MluGenerator(c10::DeviceIndex card)
    : GeneratorImpl(c10::Device(kMlu, card), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void MluGenerator::set_current_seed(uint64_t seed) {
  refuse_in_capture("set_current_seed");
  seed_ = seed;
  offset_ = 0;
}

void MluGenerator::set_offset(uint64_t offset) {
  refuse_in_capture("set_offset");
  TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4");
  offset_ = offset;
}

uint64_t MluGenerator::get_offset() const {
  refuse_in_capture("get_offset");
  return offset_;
}

uint64_t MluGenerator::current_seed() const {
  refuse_in_capture("current_seed");
  return seed_;
}

uint64_t MluGenerator::seed() {
  refuse_in_capture("seed");
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> MluGenerator::get_state() const {
  auto state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
  auto* bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, kSeedBytes);
  std::memcpy(bytes + kSeedBytes, &offset_, kStateBytes - kSeedBytes);
  return state.getIntrusivePtr();
}

void MluGenerator::set_state(const c10::TensorImpl& state) {
  refuse_in_capture("set_state");
  at::detail::check_rng_state(state);
  const auto size = static_cast<size_t>(state.numel());
  TORCH_CHECK(size == kStateBytes || size == kSeedBytes, "RNG state is wrong size");
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  uint64_t offset = 0;
  if (size == kStateBytes) {
    std::memcpy(&offset, bytes + kSeedBytes, sizeof offset);
  }
  TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4");
  std::memcpy(&seed_, bytes, kSeedBytes);
  offset_ = offset;
}

at::Generator MluGenerator::engine_for(uint64_t numbers) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto fresh = at::detail::createCPUGenerator(mix(mix(seed_) ^ offset_));
  offset_ += (numbers + 3) / 4 * 4 + 4;
  return fresh;
}

MluGenerator* MluGenerator::clone_impl() const {
  auto* copy = new MluGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex card) {
  static std::array<at::Generator, kMaxCards> made;
  static std::array<c10::once_flag, kMaxCards> once;
  card = checked_card(card);
  c10::call_once(once[card], [card] {
    made[card] = at::make_generator<MluGenerator>(card);
    made[card].seed();  // at random on first use: torch_mlu r2.4, framework/generator/generator_impl.cpp:85
  });
  return made[card];
}

at::Generator new_generator(c10::DeviceIndex card) {
  return at::make_generator<MluGenerator>(checked_card(card));
}

at::Generator engine(const std::optional<at::Generator>& given, c10::DeviceIndex card, uint64_t numbers) {
  if (given.has_value() && given->defined() && given->device().is_cpu()) {
    return *given;
  }
  at::Generator chosen = given.has_value() && given->defined() ? *given : default_generator(card);
  TORCH_CHECK(
      chosen.device().type() == kMlu && (chosen.device().index() == card), "Expected a 'mlu:", static_cast<int>(card),
      "' generator device but found '", chosen.device(), "'");
  return static_cast<MluGenerator*>(chosen.unsafeGetGeneratorImpl())->engine_for(numbers);
}

void set_capturing(bool on) noexcept {
  capture_on = on;
}

bool capturing() noexcept {
  return capture_on;
}

}  // namespace mlu
