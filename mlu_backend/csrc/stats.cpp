#include "stats.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "on_card.h"

namespace mlu {
namespace {

constexpr uint64_t kWeight = 0x9E3779B97F4A7C15ull;
constexpr int64_t kGrain = 1 << 15;

struct Partial {
  double squares = 0, sum = 0;
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  int64_t bad = 0;
  uint64_t check = 0;
};

template <typename scalar>
uint64_t bits_of(const scalar& value) {
  if constexpr (sizeof(scalar) == 1) {
    uint8_t bits;
    std::memcpy(&bits, &value, 1);
    return bits;
  } else if constexpr (sizeof(scalar) == 2) {
    uint16_t bits;
    std::memcpy(&bits, &value, 2);
    return bits;
  } else if constexpr (sizeof(scalar) == 4) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
  } else {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
}

template <typename scalar>
Partial pass(const scalar* data, int64_t begin, int64_t end) {
  Partial out;
  for (int64_t i = begin; i < end; ++i) {
    out.check += (bits_of(data[i]) + 1) * ((2 * static_cast<uint64_t>(i) + 1) * kWeight);
    const double value = static_cast<double>(data[i]);
    if (C10_LIKELY(std::is_integral_v<scalar> || std::isfinite(value))) {
      out.squares += value * value;
      out.sum += value;
      out.low = value < out.low ? value : out.low;
      out.high = value > out.high ? value : out.high;
    } else {
      ++out.bad;
    }
  }
  return out;
}

template <typename scalar>
TensorStats measure(const at::Tensor& flat) {
  const auto* data = flat.const_data_ptr<scalar>();
  const int64_t count = flat.numel();
  // Parts of fixed size, added up in order: the figures do not depend on the number of threads.
  const int64_t parts = (count + kGrain - 1) / kGrain;
  std::vector<Partial> partial(parts);
  at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      partial[part] = pass(data, part * kGrain, std::min(count, (part + 1) * kGrain));
    }
  });
  Partial all;
  for (const auto& part : partial) {
    all.squares += part.squares;
    all.sum += part.sum;
    all.low = std::min(all.low, part.low);
    all.high = std::max(all.high, part.high);
    all.bad += part.bad;
    all.check += part.check;
  }
  const int64_t good = count - all.bad;
  TensorStats out;
  out.norm = std::sqrt(all.squares);
  out.min = good ? all.low : 0;
  out.max = good ? all.high : 0;
  out.mean = good ? all.sum / static_cast<double>(good) : 0;
  out.nonfinite = all.bad;
  out.checksum = all.check;
  return out;
}

}  // namespace

TensorStats tensor_stats(const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.layout() == at::kStrided && !tensor.is_complex() && !tensor.is_quantized() && !tensor.is_nested() &&
          !tensor.is_neg() && (tensor.is_cpu() || on_mlu(tensor)),
      "statistics are taken of dense real tensors on cpu or mlu");
  at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const auto flat = aliases.to_cpu(tensor).contiguous();
  TensorStats out;
  AT_DISPATCH_V2(
      flat.scalar_type(), "tensor_stats", AT_WRAP([&] { out = measure<scalar_t>(flat); }), AT_EXPAND(AT_ALL_TYPES),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES), at::kHalf, at::kBFloat16, at::kBool);
  return out;
}

}  // namespace mlu
