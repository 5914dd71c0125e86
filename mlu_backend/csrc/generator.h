// The random numbers of a card: a seed and an offset, 16 bytes of state as the real generator has.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>

namespace mlu {

class MluGenerator final : public c10::GeneratorImpl {
 public:
  explicit MluGenerator(c10::DeviceIndex card);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // A CPU generator for one random operator, seeded from (seed, offset); moves the offset on. Equal states give equal
  // numbers, whatever ran before. The numbers are those of a Mersenne twister, not of the card's Philox.
  at::Generator engine_for(uint64_t numbers);

 private:
  MluGenerator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex card);
at::Generator new_generator(c10::DeviceIndex card);
// The CPU generator an operator on `card` has to use: from `given` (a generator of that card, or a CPU one, which is
// taken as it is) or from the card's default generator.
at::Generator engine(const std::optional<at::Generator>& given, c10::DeviceIndex card, uint64_t numbers);
// True between capture_begin and capture_end: seeding is refused then.
void set_capturing(bool on) noexcept;
bool capturing() noexcept;

}  // namespace mlu
