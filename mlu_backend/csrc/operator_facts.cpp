#include "operator_facts.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "refusals.h"

namespace mlu {
namespace {

struct MixedRow {
  std::string_view op;
  std::string_view argument;
};

// Arguments that CUDA kernels, too, take from the CPU while the rest is on the device. Source: the checks in the
// kernels themselves (aten/src/ATen/native/cuda) and the device_check: NoCheck rows of native_functions.yaml.
constexpr MixedRow kMixed[] = {
    {"aten::index.Tensor", "indices"},
    {"aten::index.Tensor_out", "indices"},
    {"aten::index_put_", "indices"},
    {"aten::index_put", "indices"},
    {"aten::_index_put_impl_", "indices"},
    {"aten::_unsafe_index.Tensor", "indices"},
    {"aten::_unsafe_index_put", "indices"},
    {"aten::_pack_padded_sequence", "lengths"},
    {"aten::_pack_padded_sequence_backward", "batch_sizes"},
    {"aten::_pad_packed_sequence", "batch_sizes"},
    {"aten::_ctc_loss.Tensor", "input_lengths"},
    {"aten::_ctc_loss.Tensor", "target_lengths"},
    {"aten::_ctc_loss.Tensor", "targets"},
    {"aten::_ctc_loss", "targets"},
    {"aten::_ctc_loss_backward", "targets"},
    {"aten::_ctc_loss_backward.Tensor", "targets"},
    {"aten::_ctc_loss_backward.Tensor", "input_lengths"},
    {"aten::_ctc_loss_backward.Tensor", "target_lengths"},
    {"aten::copy_", "src"},
    {"aten::copy_sparse_to_sparse_", "src"},
    {"aten::_foreach_copy_", "src"},
    {"aten::_nested_view_from_buffer", "nested_size"},
    {"aten::_nested_view_from_buffer", "nested_strides"},
    {"aten::_nested_view_from_buffer", "offsets"},
    {"aten::_nested_from_padded", "cpu_nested_shape_example"},
    {"aten::_nested_tensor_from_mask_left_aligned", "mask"},
    {"aten::_validate_sparse_coo_tensor_args", "indices"},
};

struct CpuResultRow {
  std::string_view op;
  unsigned result;
};

constexpr CpuResultRow kCpuResults[] = {
    {"aten::_pack_padded_sequence", 1},
    {"aten::_pad_packed_sequence", 1},
    {"aten::_nested_tensor_size", 0},
    {"aten::_nested_tensor_strides", 0},
    {"aten::_nested_tensor_storage_offsets", 0},
};

struct FactorRow {
  std::string_view op;  // a family
  std::string_view arguments;
};

// Matrix products and which of their arguments are factors, separated by spaces.
constexpr FactorRow kFactors[] = {
    {"mm", "self mat2"},         {"bmm", "self mat2"},          {"mv", "self vec"},       {"dot", "self tensor"},
    {"vdot", "self other"},      {"addmm", "mat1 mat2"},        {"addmv", "mat vec"},     {"addr", "vec1 vec2"},
    {"addbmm", "batch1 batch2"}, {"baddbmm", "batch1 batch2"},  {"_addmm_activation", "mat1 mat2"},
    {"linear", "input weight"},  {"linalg_vecdot", "x y"},
};

constexpr std::string_view kMoves[] = {
    "cat",    "stack",  "clone", "contiguous", "index_select", "gather", "roll", "flip",
    "repeat", "narrow", "zero",  "set",        "resize",       "unfold", "copy", "is_set_to", "fill"};

std::vector<std::string>& int64_casts() {
  static auto* made = new std::vector<std::string>;
  return *made;
}

bool has_word(std::string_view words, std::string_view word) {
  size_t at = 0;
  while (at <= words.size()) {
    const auto end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) {
      return true;
    }
    at = end + 1;
  }
  return false;
}

std::string full_name(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
}

std::unique_ptr<OperatorFacts> read(const c10::OperatorHandle& op) {
  auto facts = std::make_unique<OperatorFacts>();
  const auto& schema = op.schema();
  const auto name = full_name(schema);
  const auto& arguments = schema.arguments();
  facts->name = name;
  facts->arguments = arguments.size();
  const auto kin = family(name);
  const auto& casts = int64_casts();
  facts->casts_int64 = std::find(casts.begin(), casts.end(), kin) != casts.end();
  facts->moves = std::find(std::begin(kMoves), std::end(kMoves), kin) != std::end(kMoves);
  facts->reads_requires_grad = name == "aten::_sparse_mm_reduce_impl";
  TORCH_INTERNAL_ASSERT(arguments.size() <= 64, name, " has more than 64 arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias && alias->isWrite()) {
      facts->written |= uint64_t(1) << i;
    }
    const auto& type = arguments[i].real_type();
    const auto inner = type->kind() == c10::TypeKind::OptionalType
        ? type->castRaw<c10::OptionalType>()->getElementType()->kind()
        : type->kind();
    if (inner == c10::TypeKind::GeneratorType) {
      facts->generator = static_cast<int>(i);
    } else if (inner == c10::TypeKind::ScalarTypeType) {
      facts->dtypes |= uint64_t(1) << i;
    }
    for (const auto& row : kFactors) {
      if (row.op == kin && has_word(row.arguments, arguments[i].name())) {
        facts->factors |= uint64_t(1) << i;
      }
    }
    for (const auto& row : kMixed) {
      if (row.op == name && row.argument == arguments[i].name()) {
        facts->any_device |= uint64_t(1) << i;
      }
    }
  }
  for (size_t r = 0; r < schema.returns().size(); ++r) {
    int from = -1;
    const auto* alias = schema.returns()[r].alias_info();
    if (alias && alias->isWrite()) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        const auto* other = arguments[i].alias_info();
        if (other && other->isWrite() && other->beforeSets() == alias->beforeSets()) {
          from = static_cast<int>(i);
          break;
        }
      }
    } else if (alias) {
      facts->view = true;
    }
    facts->returned.push_back(from);
    for (const auto& row : kCpuResults) {
      if (row.op == name && row.result == r) {
        facts->cpu_results |= uint64_t(1) << r;
      }
    }
  }
  facts->limit = limit_of(name);
  return facts;
}

}  // namespace

std::string family(const std::string& name) {
  auto start = name.rfind("::");
  start = start == std::string::npos ? 0 : start + 2;
  auto end = std::min(name.find('.', start), name.size());
  if (end > start + 1 && name[end - 1] == '_') {
    --end;
  }
  return name.substr(start, end - start);
}

void set_int64_casts(const std::vector<std::string>& families) {
  int64_casts() = families;
}

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<const c10::FunctionSchema*, const OperatorFacts*> known;
  const auto* key = &op.schema();
  auto found = known.find(key);
  if (C10_LIKELY(found != known.end())) {
    return *found->second;
  }
  static std::mutex mutex;
  static auto* shared = new ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<OperatorFacts>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& facts = (*shared)[key];
  if (!facts) {
    facts = read(op);
  }
  known[key] = facts.get();
  return *facts;
}

}  // namespace mlu
