// Texts and conditions are those of torch_mlu r2.4, csrc/aten/operators/cnnl: pooling.cpp, scatter.cpp, grid_sampler.cpp,
// svd.cpp, reflection_pad_backward.cpp, unique.cpp.
#include "refusals.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstring>

namespace mlu {
namespace {

std::atomic<bool> limited{false};

int64_t volume(const c10::IValue& kernel, int dims) {
  const auto sizes = kernel.toIntVector();
  int64_t product = 1;
  for (int dim = 0; dim < dims; ++dim) {
    product *= sizes.size() == 1 ? sizes[0] : sizes.at(dim);
  }
  return product;
}

void no_divisor(const Arguments& given) {
  TORCH_CHECK(given["divisor_override"].isNone(), "divisor_override is not supported");
}

void plane_window(const Arguments& given) {
  const auto size = volume(given["kernel_size"], 2);
  TORCH_CHECK(
      size < 65535, "max_pool2d: The kernel size should be smaller than 65535, while this kernel size is ", size);
}

void space_window(const Arguments& given) {
  const auto size = volume(given["kernel_size"], 3);
  TORCH_CHECK(size < 1535, "max_pool3d: The kernel size should be smaller than 1535, while this kernel size is ", size);
}

void reduction(const Arguments& given) {
  const auto& reduce = given["reduce"];
  const std::string name = reduce.isString() ? reduce.toStringRef() : "";
  TORCH_CHECK(name != "multiply" && name != "prod", "MLU scatter reduce of prod is not supported");
  TORCH_CHECK(name != "mean", "MLU scatter reduce of mean is not supported");
}

constexpr int64_t kZeros = 0, kReflection = 2, kBilinear = 0, kNearest = 1;

void plane_grid(const Arguments& given) {
  const auto mode = given["interpolation_mode"].toInt(), padding = given["padding_mode"].toInt();
  TORCH_CHECK(mode == kBilinear || mode == kNearest, "interpolation_mode only support bilinear or nearest.");
  TORCH_CHECK(
      mode != kBilinear || padding == kZeros || padding == kReflection,
      "bilinear only support zeros or reflection padding.");
  TORCH_CHECK(mode != kNearest || padding == kZeros, "nearest only support zeros padding.");
}

void space_grid(const Arguments& given) {
  TORCH_CHECK(
      given["padding_mode"].toInt() == kZeros && given["interpolation_mode"].toInt() == kBilinear,
      "grid sampler 3d only support bilinear mode and zeros padding.");
}

void singular_values(const Arguments& given) {
  const auto& matrix = given["A"].toTensor();
  TORCH_CHECK(
      matrix.size(-1) < 150 && matrix.size(-2) < 150,
      "The height or width of cnnl svd's input tensor should be less than 150");
  TORCH_CHECK(given["compute_uv"].toBool(), "torch_mlu svd not support compute_uv's value is false.");
  TORCH_CHECK(given["driver"].isNone(), "torch_mlu svd not support driver has value");
}

void no_negative_padding(const Arguments& given) {
  for (const auto pad : given["padding"].toIntVector()) {
    TORCH_CHECK(pad >= 0, "negative padding values are not supported now");
  }
}

void no_half(const Arguments& given) {
  TORCH_CHECK(
      given["self"].toTensor().scalar_type() != at::kHalf, "MLU unique does not support dim and half combinations.");
}

struct Row {
  const char* family;
  Limit limit;
};

constexpr Row kRows[] = {
    {"avg_pool2d", no_divisor},
    {"avg_pool2d_backward", no_divisor},
    {"avg_pool3d", no_divisor},
    {"avg_pool3d_backward", no_divisor},
    {"max_pool2d_with_indices", plane_window},
    {"max_pool3d_with_indices", space_window},
    {"scatter", reduction},
    {"scatter_reduce", reduction},
    {"grid_sampler_2d", plane_grid},
    {"grid_sampler_2d_backward", plane_grid},
    {"grid_sampler_3d", space_grid},
    {"grid_sampler_3d_backward", space_grid},
    {"_linalg_svd", singular_values},
    {"reflection_pad1d_backward", no_negative_padding},
    {"reflection_pad2d_backward", no_negative_padding},
    {"unique_dim", no_half},
};

}  // namespace

const c10::IValue& Arguments::operator[](const char* name) const {
  static const c10::IValue absent;
  const auto& arguments = schema_.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) {
      return values_[i];
    }
  }
  return absent;  // an overload without it, such as scatter.src
}

Limit limit_of(const std::string& name) {
  const auto wanted = family(name);
  for (const auto& row : kRows) {
    if (wanted == row.family) {
      return row.limit;
    }
  }
  return nullptr;
}

void set_limits(bool on) {
  limited.store(on);
}

bool limits_on() noexcept {
  return limited.load(std::memory_order_relaxed);
}

}  // namespace mlu
