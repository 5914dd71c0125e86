// Counts the operators that ran on the device, by name and by the dtypes of their tensors.
//
// The interface is C, for ctypes: only `--support` uses it.
// torch's RecordFunction reports every call of the dispatcher; a call counts if a tensor on the device goes in or, for
// an operator that takes none, comes out. What an operator of the card calls in turn does not count: the card has one
// kernel for it, however the emulator computes it.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>

namespace {

// Never destroyed: worker threads may still report while the process ends.
struct Counts {
  std::mutex guard;
  std::map<std::string, uint64_t> calls; // "aten::add.Tensor\tfloat32,int64"
  std::unordered_set<std::string> of_card; // written before counting starts, then only read
};

Counts& counts() {
  static auto* shared = new Counts;
  return *shared;
}

const char* dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte: return "uint8";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kHalf: return "float16";
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kBFloat16: return "bfloat16";
    case at::kBool: return "bool";
    case at::kComplexHalf: return "complex32";
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    case at::kFloat8_e4m3fn: return "float8_e4m3fn";
    case at::kFloat8_e5m2: return "float8_e5m2";
    default: return at::toString(dtype);
  }
}

void note(const at::Tensor& tensor, std::string& dtypes) {
  if (!tensor.defined() || !tensor.device().is_privateuseone()) {
    return;
  }
  const std::string name = dtype_name(tensor.scalar_type());
  if (("," + dtypes + ",").find("," + name + ",") == std::string::npos) {
    dtypes += (dtypes.empty() ? "" : ",") + name;
  }
}

void note(const c10::IValue& value, std::string& dtypes) {
  if (value.isTensor()) {
    note(value.toTensor(), dtypes);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      note(tensor, dtypes);
    }
  } else if (value.isList()) {
    for (const auto& item : value.toListRef()) {
      note(item, dtypes);
    }
  }
}

std::string full_name(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  if (!name) {
    return {};
  }
  return name->overload_name.empty() ? name->name : name->name + "." + name->overload_name;
}

void count(const std::string& name, const std::string& dtypes) {
  if (name.empty() || dtypes.empty()) {
    return;
  }
  std::lock_guard<std::mutex> lock(counts().guard);
  ++counts().calls[name + "\t" + dtypes];
}

thread_local int inside_of_card = 0; // operators of the card this thread is in

struct Seen : at::ObserverContext {
  std::string name;
  bool counted = false;
  bool of_card = false;
};

std::unique_ptr<at::ObserverContext> entered(const at::RecordFunction& call) {
  if (inside_of_card > 0) {
    return nullptr;
  }
  auto seen = std::make_unique<Seen>();
  seen->name = full_name(call);
  std::string dtypes;
  for (const auto& input : call.inputs()) {
    note(input, dtypes);
  }
  seen->counted = !dtypes.empty();
  count(seen->name, dtypes);
  seen->of_card = seen->counted && counts().of_card.count(seen->name) > 0;
  inside_of_card += seen->of_card;
  return seen;
}

void left(const at::RecordFunction& call, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  const auto* seen = static_cast<Seen*>(context);
  inside_of_card -= seen->of_card;
  if (seen->counted) {
    return;
  }
  std::string dtypes;
  for (const auto& output : call.outputs()) {
    note(output, dtypes);
  }
  count(seen->name, dtypes);
}

at::CallbackHandle handle = 0;

} // namespace

extern "C" {

// `of_card`: names of the operators the card has kernels for, each followed by a line feed.
C10_EXPORT void mlu_support_start(const char* of_card) {
  if (handle == 0) {
    std::string name;
    for (const char* at = of_card; *at != 0; ++at) {
      if (*at != '\n') {
        name += *at;
        continue;
      }
      counts().of_card.insert(std::move(name));
      name.clear();
    }
    handle = at::addGlobalCallback(at::RecordFunctionCallback(entered, left)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
}

C10_EXPORT void mlu_support_stop() {
  if (handle != 0) {
    at::removeCallback(handle);
    handle = 0;
  }
}

C10_EXPORT void mlu_support_clear() {
  std::lock_guard<std::mutex> lock(counts().guard);
  counts().calls.clear();
}

// Copies "operator\tdtypes\tcalls\n" lines into `buffer` and returns the size they need, the closing zero included.
// Nothing is copied when that is more than `size`.
C10_EXPORT size_t mlu_support_read(char* buffer, size_t size) {
  std::string text;
  {
    std::lock_guard<std::mutex> lock(counts().guard);
    for (const auto& [key, calls] : counts().calls) {
      text += key + "\t" + std::to_string(calls) + "\n";
    }
  }
  if (text.size() + 1 <= size) {
    std::memcpy(buffer, text.c_str(), text.size() + 1);
  }
  return text.size() + 1;
}

} // extern "C"
