// Statistics of a tensor in one pass over its memory, for recording.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace mlu {

struct TensorStats {
  double norm = 0, min = 0, max = 0, mean = 0;  // over finite elements, in double
  int64_t nonfinite = 0;
  uint64_t checksum = 0;  // sum of (bits of element i + 1) * ((2 i + 1) * 0x9E3779B97F4A7C15), modulo 2**64

  static constexpr int kSamples = 16;  // SAMPLES of parity/statistics.py
  std::array<double, kSamples> sample{};  // elements at evenly spread row-major places, all of a smaller tensor
  int64_t samples = 0;
};

// A dense real tensor on the CPU or on a card. The definition of the checksum is that of parity/statistics.py.
TensorStats tensor_stats(const at::Tensor& tensor);

}  // namespace mlu
