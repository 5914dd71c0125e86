// Work in parts on torch's own threads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace mlu {

// Calls `part` with every number below `count`, each once, on several threads that get `grain` numbers each or more;
// in a forked child, where torch may have no threads to wait for, on this thread alone.
//
// at::parallel_for is a template that runs serially in whatever is compiled without OpenMP's flag, and with the flag
// this library might get a second OpenMP of its own beside that in torch's wheel. TensorIterator's loop is in torch.
void for_parts(int64_t count, int64_t grain, c10::function_ref<void(int64_t)> part);

}  // namespace mlu
