#pragma once

#include <string>
#include <vector>

namespace mlu {

void register_kernels();

// Operators the card has kernels for. Others warn once, or raise when the switch is off.
void set_card_operators(std::vector<std::string> names);
void set_fallback_allowed(bool allowed);

}  // namespace mlu
