// The end of the interpreter and torch's autograd threads.
#pragma once

#include <c10/core/Device.h>

namespace mlu {

// Waits until the card's autograd thread has let go of the backward passes it ran. Call it without the GIL.
void settle_autograd(c10::DeviceIndex card);

}  // namespace mlu
