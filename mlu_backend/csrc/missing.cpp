// Operators the card has no kernel for: a warning and the CPU, or an error.
#include "fallback.h"

#include <atomic>
#include <mutex>
#include <unordered_set>

namespace mlu {
namespace {

std::unordered_set<std::string> known;
std::atomic<bool> allowed{true};

std::mutex mutex;
std::unordered_set<std::string> warned;

bool told_before(const OperatorFacts& facts) {
  thread_local std::unordered_set<const OperatorFacts*> seen;
  return !seen.insert(&facts).second;
}

}  // namespace

void set_card_operators(const std::vector<std::string>& families) {
  known = {families.begin(), families.end()};
}

void set_fallback_allowed(bool value) {
  allowed.store(value);
}

void note_operator(const OperatorFacts& facts) {
  const bool may_fall_back = allowed.load(std::memory_order_relaxed);
  if ((may_fall_back && told_before(facts)) || known.empty() || known.count(family(facts.name))) {
    return;
  }
  // Beginning of the first text and end of the second: torch_mlu r2.4, csrc/aten/MLUFallback.cpp:45-55 and 78-91.
  TORCH_CHECK_NOT_IMPLEMENTED(
      may_fall_back, "The operator '", facts.name, "' is not currently implemented for the MLU device. ",
      "ENABLE_FALLBACK_TO_CPU=1 lets operators like this one run on the CPU.");
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!warned.insert(facts.name).second) {
      return;
    }
  }
  TORCH_WARN(
      "The operator '", facts.name,
      "' is not currently supported on the MLU backend and will fall back to run on the CPU. "
      "This may have performance implications.");
}

}  // namespace mlu
