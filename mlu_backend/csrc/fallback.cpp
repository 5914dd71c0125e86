// The boxed kernel behind every operator that has none of its own: check devices, alias as CPU, run, hand back.
#include "fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include "alias.h"
#include "allocator.h"
#include "generator.h"
#include "operator_facts.h"
#include "profile.h"
#include "refusals.h"

namespace mlu {
namespace {

// What a call looks like before it runs.
struct Scan {
  int card = -1;
  bool cpu_device_asked = false;
  bool mlu_device_asked = false;
};

void note_tensor(const at::Tensor& tensor, const OperatorFacts& facts, size_t arg, Scan& scan, const c10::OperatorHandle& op) {
  if (!tensor.defined()) {
    return;
  }
  const auto device = tensor.device();
  if (device.type() == kMlu) {
    if (scan.card < 0) {
      scan.card = device.index();
    } else if (C10_UNLIKELY(scan.card != device.index() && !facts.takes_any_device(arg))) {
      TORCH_CHECK(
          false, "Expected all tensors to be on the same device, but found at least two devices, mlu:", scan.card, " and ",
          device, "! (when checking argument in method ", op.schema().name(), ")");
    }
  }
}

void check_cpu_tensor(const at::Tensor& tensor, const OperatorFacts& facts, size_t arg, int card, const c10::OperatorHandle& op) {
  if (!tensor.defined() || tensor.device().type() == kMlu) {
    return;
  }
  if (facts.takes_any_device(arg) || (tensor.dim() == 0 && tensor.device().is_cpu() && !facts.writes(arg))) {
    return;
  }
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, mlu:", card, " and ",
      tensor.device(), "! (when checking argument for argument ", op.schema().arguments()[arg].name(), " in method ",
      op.schema().name(), ")");
}

template <typename F>
void each_tensor(const c10::IValue& value, F&& act) {
  if (value.isTensor()) {
    act(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      act(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor.has_value()) {
        act(*tensor);
      }
    }
  }
}

// The CPU's key for the kind of tensor the call was dispatched on.
c10::DispatchKeySet cpu_key(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  switch (keys.highestPriorityTypeId()) {
    case DispatchKey::SparsePrivateUse1:
      return c10::DispatchKeySet(DispatchKey::SparseCPU);
    case DispatchKey::SparseCsrPrivateUse1:
      return c10::DispatchKeySet(DispatchKey::SparseCsrCPU);
    case DispatchKey::QuantizedPrivateUse1:
      return c10::DispatchKeySet(DispatchKey::QuantizedCPU);
    case DispatchKey::NestedTensorPrivateUse1:
      return c10::DispatchKeySet(DispatchKey::NestedTensorCPU);
    default:
      return c10::DispatchKeySet(DispatchKey::CPU);
  }
}

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& facts = facts_of(op);
  const size_t count = facts.arguments;
  const size_t first = stack->size() - count;
  if (C10_UNLIKELY(facts.limit != nullptr) && limits_on()) {
    facts.limit(Arguments(op.schema(), stack->data() + first));
  }

  Scan scan;
  bool has_cpu = false;
  for (size_t i = 0; i < count; ++i) {
    const auto& value = (*stack)[first + i];
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      note_tensor(tensor, facts, i, scan, op);
      has_cpu |= tensor.defined() && tensor.device().type() != kMlu;
    } else if (value.isDevice()) {
      const auto device = value.toDevice();
      if (device.type() == kMlu) {
        scan.mlu_device_asked = true;
        if (scan.card < 0) {
          scan.card = checked_card(device.index());
        }
      } else {
        scan.cpu_device_asked = true;
      }
    } else {
      each_tensor(value, [&](const at::Tensor& tensor) {
        note_tensor(tensor, facts, i, scan, op);
        has_cpu |= tensor.defined() && tensor.device().type() != kMlu;
      });
    }
  }
  if (scan.card < 0) {
    scan.card = current_card();
  }
  if (C10_UNLIKELY(has_cpu)) {
    for (size_t i = 0; i < count; ++i) {
      each_tensor((*stack)[first + i], [&](const at::Tensor& tensor) { check_cpu_tensor(tensor, facts, i, scan.card, op); });
    }
  }

  Aliases aliases;
  c10::SmallVector<at::Tensor, 4> written;  // originals, in argument order
  c10::SmallVector<at::Tensor, 4> written_as;
  c10::SmallVector<c10::IValue, 4> originals(facts.returned.size());
  for (size_t r = 0; r < facts.returned.size(); ++r) {
    if (facts.returned[r] >= 0) {
      originals[r] = (*stack)[first + facts.returned[r]];
    }
  }
  for (size_t i = 0; i < count; ++i) {
    auto& value = (*stack)[first + i];
    const bool writes = facts.writes(i);
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (on_mlu(tensor)) {
        auto cpu = aliases.to_cpu(tensor);
        if (writes) {
          written.push_back(tensor);
          written_as.push_back(cpu);
        }
        if (C10_UNLIKELY(facts.reads_requires_grad && tensor.requires_grad())) {
          cpu.requires_grad_();
        }
        value = std::move(cpu);
      }
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        auto cpu = aliases.to_cpu(tensor);
        if (writes && on_mlu(tensor)) {
          written.push_back(tensor);
          written_as.push_back(cpu);
        }
        list.push_back(std::move(cpu));
      }
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional<at::Tensor>(aliases.to_cpu(*tensor)) : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      if (value.toDevice().type() == kMlu) {
        value = c10::Device(c10::DeviceType::CPU);
      }
    } else if (C10_UNLIKELY(facts.generator == static_cast<int>(i))) {
      std::optional<at::Generator> given;
      if (value.isGenerator()) {
        given = value.toGenerator();
        // torch's own words for kernels of any device (ATen/core/Generator.h). A card shuffles indices on the CPU
        // (api_support_lists/torch_api.yaml:1173), whose generator is then at home.
        TORCH_CHECK(
            !given->device().is_cpu() || family(facts.name) == "randperm",
            "Expected a 'mlu' device type for generator but found 'cpu'");
      }
      uint64_t numbers = 0;
      each_tensor((*stack)[first], [&](const at::Tensor& tensor) { numbers += tensor.defined() ? tensor.numel() : 0; });
      value = engine(given, scan.card, numbers);
    }
  }

  {
    FromCard memory(scan.card);
    Conversion conversion;
    const bool converts = profile().any();
    if (C10_UNLIKELY(converts)) {
      at::AutoDispatchBelowADInplaceOrView below;
      conversion.before(facts, *stack, first);
    }
    op.redispatchBoxed(cpu_key(keys), stack);
    if (C10_UNLIKELY(converts)) {
      at::AutoDispatchBelowADInplaceOrView below;
      conversion.after(*stack, facts.returned.size());
    }
    aliases.settle_storages(scan.card);
    for (size_t i = 0; i < written.size(); ++i) {
      aliases.settle(written[i], written_as[i], scan.card);
    }
  }

  const bool stay = scan.cpu_device_asked && !scan.mlu_device_asked;
  const size_t results = facts.returned.size();
  const size_t base = stack->size() - results;
  for (size_t r = 0; r < results; ++r) {
    auto& value = (*stack)[base + r];
    if (!originals[r].isNone()) {
      value = std::move(originals[r]);
    } else if (value.isTensor()) {
      if (!stay && !facts.stays_on_cpu(r)) {
        auto tensor = std::move(value).toTensor();
        value = aliases.to_mlu(std::move(tensor), scan.card);
      }
    } else if (value.isTensorList() && !stay) {
      auto list = value.toTensorVector();
      value = c10::IValue();
      c10::List<at::Tensor> moved;
      moved.reserve(list.size());
      for (auto& tensor : list) {
        moved.push_back(aliases.to_mlu(std::move(tensor), scan.card));
      }
      value = std::move(moved);
    }
  }
}

// Without the question whether the card has a kernel: a composite one exists, which a card without its own runs.
void kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  run_on_cpu(op, keys, stack);
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  note_operator(facts_of(op));
  run_on_cpu(op, keys, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// A composite kernel stands before a fallback. Where the CPU has a kernel of its own all the same, the card's has to be
// that one: it gives the CPU's numbers in one step, and for sparse, compressed, quantised and nested tensors the
// composite one is often wrong.
void register_kernels() {
  using c10::DispatchKey;
  constexpr std::pair<DispatchKey, DispatchKey> kKeys[] = {
      {DispatchKey::CPU, DispatchKey::PrivateUse1},
      {DispatchKey::SparseCPU, DispatchKey::SparsePrivateUse1},
      {DispatchKey::SparseCsrCPU, DispatchKey::SparseCsrPrivateUse1},
      {DispatchKey::QuantizedCPU, DispatchKey::QuantizedPrivateUse1},
      {DispatchKey::NestedTensorCPU, DispatchKey::NestedTensorPrivateUse1}};
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto names = dispatcher.getAllOpNames();
  for (const auto& [cpu, card] : kKeys) {
    const bool dense = card == DispatchKey::PrivateUse1;
    if (!dense) {
      auto* rest = new torch::Library(torch::Library::IMPL, "_", card, __FILE__, __LINE__);
      rest->fallback(torch::CppFunction::makeFromBoxedFunction<&kernel>());
    }
    auto* named = new torch::Library(torch::Library::IMPL, "aten", card, __FILE__, __LINE__);
    for (const auto& name : names) {
      if (name.name.rfind("aten::", 0) != 0) {
        continue;
      }
      const auto op = dispatcher.findOp(name);
      if (!op.has_value() || !op->hasSchema() || !op->hasKernelForDispatchKey(cpu)) {
        continue;
      }
      if (dense &&
          (op->hasKernelForDispatchKey(card) ||
           !(op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
             op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)))) {
        continue;
      }
      const auto plain = c10::toString(name).substr(6);
      // The composite form of a structured operator ends in its out= form, so it needs the card's kernel all the same.
      const bool composite = !dense || op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
      named->impl(
          plain.c_str(), composite ? torch::CppFunction::makeFromBoxedFunction<&kernel>()
                                   : torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
  }
}

}  // namespace mlu
