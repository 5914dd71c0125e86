#pragma once

#include <cstddef>

namespace mlu {

void register_hooks();
// Bytes of pinned host memory alive now.
size_t pinned_bytes() noexcept;

}  // namespace mlu
