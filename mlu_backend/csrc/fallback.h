#pragma once

#include <string>
#include <vector>

#include "operator_facts.h"

namespace mlu {

// Registers the boxed kernel where a fallback alone would not be reached.
void register_kernels();

// Families of operators the card has kernels for. Others warn once each, or raise when falling back is not allowed.
// None given: nothing is known and nothing is said.
void set_card_operators(const std::vector<std::string>& families);
void set_fallback_allowed(bool allowed);
void note_operator(const OperatorFacts& facts);

}  // namespace mlu
