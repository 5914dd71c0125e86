#include "stats.h"

#include <ATen/Dispatch_v2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "on_card.h"
#include "parallel.h"

namespace mlu {
namespace {

constexpr uint64_t kWeight = 0x9E3779B97F4A7C15ull;
constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kPartsPerThread = 8;  // 0.06 ms: waking a thread may take as long

struct Partial {
  double squares = 0, sum = 0;
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  int64_t bad = 0;
  uint64_t check = 0;

  void add(const Partial& other) {
    squares += other.squares;
    sum += other.sum;
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    bad += other.bad;
    check += other.check;
  }
};

// The device is compiled with -O1, which compiles fast; these loops are what recording spends its time in.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
#define MLU_INLINE [[gnu::always_inline]] inline

template <typename scalar>
MLU_INLINE uint64_t bits_of(const scalar& value) {
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

constexpr int kLanes = 8;
constexpr int64_t kPiece = 1 << 12;  // elements that stay in the first cache, since two loops go over them

// With i = begin + j, and all sums over the piece, the checksum of `statistics.py` is
//   kWeight * sum (u + 1)(2 i + 1) = kWeight * (sum u (2 j + 1) + count^2 + 2 begin (count + sum u)).
struct Bits {
  uint64_t sum = 0, weighted = 0;

  template <typename scalar>
  MLU_INLINE void add(const scalar* data, uint32_t from, uint32_t count) {
    for (uint32_t j = from; j < count; ++j) {
      const uint64_t u = bits_of(data[j]);
      sum += u;
      weighted += u * (2 * static_cast<uint64_t>(j) + 1);
    }
  }

  uint64_t checksum(int64_t begin, uint64_t n) const {
    return kWeight * (weighted + n * n + 2 * static_cast<uint64_t>(begin) * (n + sum));
  }
};

template <typename scalar>
MLU_INLINE Partial one_by_one(const scalar* data, int64_t begin, int64_t end) {
  Partial out;
  for (int64_t i = begin; i < end; ++i) {
    const double value = static_cast<double>(data[i]);
    if (std::is_integral_v<scalar> || std::isfinite(value)) {
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

struct Narrow {
  static constexpr int width = 2;
  typedef double Vector __attribute__((vector_size(16)));
  typedef uint64_t Words __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));
  typedef float HalfFloats __attribute__((vector_size(8)));
};
struct Wide {
  static constexpr int width = 4;
  typedef double Vector __attribute__((vector_size(32)));
  typedef uint64_t Words __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(32)));
  typedef float HalfFloats __attribute__((vector_size(16)));
};

// Elements of 32 bits two a word, the odd ones in its upper half. A product an element is what costs most, and none is
// needed: with u_k the word k of a lane, sum k u_k = groups sum u_k - sum of the running sums. The upper halves are
// summed apart too, and taken out of the sums of whole words; modulo 2**64 nothing is lost.
static_assert(std::endian::native == std::endian::little);

template <typename Registers>
struct WordSums {
  using Words = typename Registers::Words;
  static constexpr uint32_t width = Registers::width, kStep = 2 * width;
  Words both = {}, odd = {}, both_running = {}, odd_running = {};

  MLU_INLINE void add(const void* data) {
    Words word;
    std::memcpy(&word, data, sizeof(word));
    both += word;
    odd += word >> 32;
    both_running += both;
    odd_running += odd;
  }

  // Of `groups` words a lane, and the elements after them up to `count`.
  MLU_INLINE uint64_t checksum(const void* data, int64_t begin, uint32_t groups, uint32_t count) const {
    Bits bits;
    for (uint32_t lane = 0; lane < width; ++lane) {
      const uint64_t upper = odd[lane], lower = both[lane] - (upper << 32);
      const uint64_t running = both_running[lane] - (odd_running[lane] << 32) + odd_running[lane];
      const uint64_t sum = lower + upper;
      const uint64_t by_group = groups * sum - running;
      bits.sum += sum;
      bits.weighted += 2 * (kStep * by_group + 2 * lane * sum + upper) + sum;
    }
    bits.add(static_cast<const uint32_t*>(data), groups * kStep, count);
    return bits.checksum(begin, count);
  }
};

template <typename Registers, typename scalar>
MLU_INLINE uint64_t checksum(const scalar* data, int64_t begin, uint32_t count) {
  if constexpr (sizeof(scalar) == 4) {
    using Sums = WordSums<Registers>;
    const uint32_t groups = count / Sums::kStep;
    Sums sums;
    for (uint32_t k = 0; k < groups; ++k) {
      sums.add(data + k * Sums::kStep);
    }
    return sums.checksum(data, begin, groups, count);
  } else {
    Bits bits;
    bits.add(data, 0, count);
    return bits.checksum(begin, count);
  }
}

template <int width, typename Vector, size_t count>
MLU_INLINE void add_lanes(Partial& out, const Vector (&squares)[count], const Vector (&sum)[count]) {
  for (size_t v = 0; v < count; ++v) {
    for (int lane = 0; lane < width; ++lane) {
      out.squares += squares[v][lane];
      out.sum += sum[v][lane];
    }
  }
}

template <int width, typename Vector, size_t count>
MLU_INLINE void add_extremes(Partial& out, const Vector (&low)[count], const Vector (&high)[count]) {
  for (size_t v = 0; v < count; ++v) {
    for (int lane = 0; lane < width; ++lane) {
      out.low = std::min(out.low, static_cast<double>(low[v][lane]));
      out.high = std::max(out.high, static_cast<double>(high[v][lane]));
    }
  }
}

// Norm, sum and extremes as if every element were finite: an inf or a nan makes the sum of squares one too. Eight sums
// side by side, whatever the width of a register, and added up in order: the figures depend on the values alone.
template <typename Registers, typename scalar>
MLU_INLINE Partial in_lanes(const scalar* data, int64_t begin, int64_t end) {
  using Vector = typename Registers::Vector;
  constexpr int width = Registers::width;
  constexpr int kVectors = kLanes / width;
  Vector squares[kVectors] = {}, sum[kVectors] = {}, low[kVectors], high[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    low[v] = Vector{} + std::numeric_limits<double>::infinity();
    high[v] = Vector{} - std::numeric_limits<double>::infinity();
  }
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      for (int lane = 0; lane < width; ++lane) {
        value[lane] = static_cast<double>(data[i + v * width + lane]);
      }
      squares[v] += value * value;
      sum[v] += value;
      low[v] = value < low[v] ? value : low[v];
      high[v] = value > high[v] ? value : high[v];
    }
  }
  Partial out = one_by_one(data, i, end);
  add_lanes<width>(out, squares, sum);
  add_extremes<width>(out, low, high);
  return out;
}

// The same figures for float, whose extremes need no conversion and whose squares are exact in double. `bits` is what
// the checksum is of: the elements, or what they were before they were widened.
template <typename Registers>
MLU_INLINE Partial floats_in_lanes(const float* data, const uint32_t* bits, int64_t begin, uint32_t count) {
  using Vector = typename Registers::Vector;
  using Floats = typename Registers::Floats;
  using Sums = WordSums<Registers>;
  constexpr int width = Registers::width, floats = sizeof(Floats) / sizeof(float);
  static_assert(floats == Sums::kStep);
  Vector squares[kLanes / width] = {}, sum[kLanes / width] = {};
  Floats low[kLanes / floats], high[kLanes / floats];
  for (int v = 0; v < kLanes / floats; ++v) {
    low[v] = Floats{} + std::numeric_limits<float>::infinity();
    high[v] = Floats{} - std::numeric_limits<float>::infinity();
  }
  Sums sums;
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int v = 0; v < kLanes / width; ++v) {
      typename Registers::HalfFloats narrow;
      std::memcpy(&narrow, data + i + v * width, sizeof(narrow));
      const Vector value = __builtin_convertvector(narrow, Vector);
      squares[v] += value * value;
      sum[v] += value;
    }
    for (int v = 0; v < kLanes / floats; ++v) {
      Floats value;
      std::memcpy(&value, data + i + v * floats, sizeof(value));
      low[v] = value < low[v] ? value : low[v];
      high[v] = value > high[v] ? value : high[v];
      sums.add(bits + i + v * floats);
    }
  }
  Partial out = one_by_one(data, i, count);
  add_lanes<width>(out, squares, sum);
  add_extremes<floats>(out, low, high);
  out.check = sums.checksum(bits, begin, i / Sums::kStep, count);
  return out;
}

// One piece. Numbers are looked at one by one where one is not finite, or where finite doubles overflow when squared.
template <typename Registers, typename number, typename raw>
MLU_INLINE Partial moments(const number* data, const raw* bits, int64_t begin, uint32_t count) {
  Partial found;
  if constexpr (std::is_same_v<number, float>) {
    found = floats_in_lanes<Registers>(data, reinterpret_cast<const uint32_t*>(bits), begin, count);
  } else {
    found = in_lanes<Registers>(data, 0, count);
    found.check = checksum<Registers>(bits, begin, count);
  }
  if (found.bad != 0 || !std::isfinite(found.squares)) {
    const uint64_t check = found.check;
    found = one_by_one(data, 0, count);
    found.check = check;
  }
  return found;
}

template <typename scalar>
MLU_INLINE float widened(const scalar& value, uint32_t bits) {
  if constexpr (std::is_same_v<scalar, c10::BFloat16>) {
    return __builtin_bit_cast(float, bits << 16);  // the conversion of c10 has a branch in it
  } else {
    return static_cast<float>(value);
  }
}

template <typename Registers, typename scalar>
MLU_INLINE Partial in_pieces(const scalar* data, int64_t begin, int64_t end) {
  Partial out;
  for (int64_t from = begin; from < end; from += kPiece) {
    const auto count = static_cast<uint32_t>(std::min(end - from, kPiece));
    if constexpr (sizeof(scalar) < 4) {
      uint32_t bits[kPiece];
      float numbers[kPiece];
      for (uint32_t j = 0; j < count; ++j) {
        bits[j] = static_cast<uint32_t>(bits_of(data[from + j]));
      }
      for (uint32_t j = 0; j < count; ++j) {
        numbers[j] = widened(data[from + j], bits[j]);
      }
      out.add(moments<Registers>(numbers, bits, from, count));
    } else {
      out.add(moments<Registers>(data + from, data + from, from, count));
    }
  }
  return out;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define MLU_HAS_AVX2 1
// Without fused multiply-add, so that the figures are those of the narrow registers.
template <typename scalar>
__attribute__((target("avx2"), optimize("O3"))) Partial pass_avx2(const scalar* data, int64_t begin, int64_t end) {
  return in_pieces<Wide>(data, begin, end);
}

// With it, where squares are exact and there is nothing to round between.
template <typename scalar>
__attribute__((target("avx2,fma"), optimize("O3"))) Partial pass_fma(const scalar* data, int64_t begin, int64_t end) {
  return in_pieces<Wide>(data, begin, end);
}
#endif

template <typename scalar>
Partial pass(const scalar* data, int64_t begin, int64_t end) {
#ifdef MLU_HAS_AVX2
  if (__builtin_cpu_supports("avx2")) {
    if constexpr (sizeof(scalar) < 4 || std::is_same_v<scalar, float>) {
      if (__builtin_cpu_supports("fma")) {
        return pass_fma(data, begin, end);
      }
    }
    return pass_avx2(data, begin, end);
  }
#endif
  return in_pieces<Narrow>(data, begin, end);
}

#undef MLU_INLINE
#undef MLU_HAS_AVX2
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

template <typename scalar>
TensorStats measure(const at::Tensor& flat) {
  const auto* data = flat.const_data_ptr<scalar>();
  const int64_t count = flat.numel();
  // Parts of fixed size, added up in order: the figures do not depend on the number of threads.
  const int64_t parts = (count + kGrain - 1) / kGrain;
  std::vector<Partial> partial(parts);
  for_parts(parts, kPartsPerThread, [&](int64_t part) {
    partial[part] = pass(data, part * kGrain, std::min(count, (part + 1) * kGrain));
  });
  Partial all;
  for (const auto& part : partial) {
    all.add(part);
  }
  const int64_t good = count - all.bad;
  TensorStats out;
  out.norm = std::sqrt(all.squares);
  out.min = good ? all.low : 0;
  out.max = good ? all.high : 0;
  out.mean = good ? all.sum / static_cast<double>(good) : 0;
  out.nonfinite = all.bad;
  out.checksum = all.check;
  out.samples = std::min<int64_t>(count, TensorStats::kSamples);
  for (int64_t i = 0; i < out.samples; ++i) {
    const int64_t place = count <= TensorStats::kSamples ? i : i * (count - 1) / (TensorStats::kSamples - 1);
    out.sample[i] = static_cast<double>(data[place]);
  }
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
