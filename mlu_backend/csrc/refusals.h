// What single kernels of the card refuse that the CPU computes.
#pragma once

#include <ATen/core/stack.h>

#include <string>

#include "operator_facts.h"

namespace mlu {

// Looks at the arguments of a call, by their names in the schema, and raises as the card does.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, const c10::IValue* values) : schema_(schema), values_(values) {}
  const c10::IValue& operator[](const char* name) const;

 private:
  const c10::FunctionSchema& schema_;
  const c10::IValue* values_;
};

// The check of an operator (aten::grid_sampler_2d), null for most.
Limit limit_of(const std::string& name);
// Off unless the profile is that of a card.
void set_limits(bool on);
bool limits_on() noexcept;

}  // namespace mlu
