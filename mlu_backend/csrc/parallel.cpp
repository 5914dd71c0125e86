#include "parallel.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>
#include <unistd.h>

#include <vector>

namespace mlu {
namespace {

const pid_t loaded_in = getpid();

}  // namespace

void for_parts(int64_t count, int64_t grain, c10::function_ref<void(int64_t)> part) {
  if (count < 2 * grain || getpid() != loaded_in) {
    for (int64_t i = 0; i < count; ++i) {
      part(i);
    }
    return;
  }
  std::vector<uint8_t> marks(count);  // only their places count
  auto over = at::from_blob(marks.data(), {count}, at::kByte);
  auto loop = at::TensorIteratorConfig()
                  .add_borrowed_output(over)
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .set_check_mem_overlap(false)
                  .build();
  loop.for_each(
      [&](char** data, const int64_t* strides, int64_t size) {
        const auto* mark = reinterpret_cast<const uint8_t*>(data[0]);
        for (int64_t i = 0; i < size; ++i) {
          part(mark + i * strides[0] - marks.data());
        }
      },
      grain);
}

}  // namespace mlu
