// What CNCL accepts, and how a tensor on `mlu` is handed to gloo.
//
// Device memory of the emulated card is host memory, so gloo gets a CPU tensor over the same bytes. A copy is made only
// where the bytes cannot go out as they are: memory that is not contiguous, and float64 that the profile sends as
// float32. Rules and texts: torch_mlu r2.4, csrc/framework/distributed/process_group_cncl.cpp lines 184-259, 1903, 1920.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

namespace mlu_cncl {

using at::Tensor;
using c10d::ReduceOp;

inline bool is_dense_mlu(const Tensor& tensor) {
  return tensor.defined() && tensor.device().is_privateuseone() && tensor.layout() == c10::kStrided;
}

inline void check_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
    case at::kBool:
      return;
    default:
      TORCH_CHECK(false, "Unsupported data type for CNCL process group: ", dtype);
  }
}

// One tensor of a plain collective; the hardware backend raises RuntimeError here and ValueError for lists.
inline const Tensor& checked(const Tensor& tensor) {
  TORCH_CHECK(is_dense_mlu(tensor), "Tensors must be MLU and dense");
  check_dtype(tensor.scalar_type());
  return tensor;
}

inline void check_list(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) {
    C10_THROW_ERROR(ValueError, "Tensor list must be nonempty");
  }
  for (const auto& tensor : tensors) {
    if (!is_dense_mlu(tensor)) {
      C10_THROW_ERROR(ValueError, "Tensors must be MLU and dense");
    }
    check_dtype(tensor.scalar_type());
  }
}

inline const Tensor& only(const std::vector<Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "CNCL takes one tensor per process, but got ", tensors.size());
  return tensors[0];
}

// The reduction CNCL performs for `op`; AVG is a SUM that the caller divides afterwards.
inline ReduceOp::RedOpType wire_op(const ReduceOp& op, at::ScalarType dtype) {
  const bool boolean = dtype == at::kBool;
  switch (op.op_) {
    case ReduceOp::SUM:
      // uint8 stands for bool on the wire, where a sum could leave {0, 1}.
      return boolean ? ReduceOp::MAX : ReduceOp::SUM;
    case ReduceOp::AVG:
      if (boolean) {
        C10_THROW_ERROR(TypeError, "Cannot use ReduceOp.AVG with boolean inputs");
      }
      return ReduceOp::SUM;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::MAX:
      return op.op_;
    case ReduceOp::BAND:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BAND with CNCL");
    case ReduceOp::BOR:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BOR with CNCL");
    case ReduceOp::BXOR:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BXOR with CNCL");
    default:
      C10_THROW_ERROR(ValueError, "Unhandled ReduceOp");
  }
}

// Complex tensors go as pairs of reals where the operation is linear in both parts.
inline Tensor real_view(const Tensor& tensor, const ReduceOp* op = nullptr) {
  if (!tensor.defined() || !tensor.is_complex() || !is_dense_mlu(tensor)) {
    return tensor;
  }
  if (op != nullptr) {
    TORCH_CHECK(
        op->op_ == ReduceOp::SUM || op->op_ == ReduceOp::AVG,
        "CNCL reduces complex tensors with ReduceOp.SUM and ReduceOp.AVG only");
  }
  return at::view_as_real(tensor);
}

// A CPU tensor over the memory of `tensor`, which it keeps alive. bool appears as uint8.
inline Tensor host_alias(const Tensor& tensor) {
  const auto dtype = tensor.scalar_type() == at::kBool ? at::kByte : tensor.scalar_type();
  const auto options = at::TensorOptions().device(at::kCPU).dtype(dtype);
  if (tensor.numel() == 0) {
    return at::empty(tensor.sizes(), options);
  }
  auto alias = at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [keep = tensor.storage()](void*) {}, options);
  return tensor.is_neg() ? at::_neg_view(alias) : alias;
}

// The host side of one tensor for the length of one collective.
struct Staged {
  Tensor host;  // contiguous, in the dtype on the wire
  Tensor alias; // over the memory of the device tensor
  bool direct;  // host is alias

  void write_back() const {
    if (!direct) {
      alias.copy_(host);
    }
  }
};

inline Staged stage(const Tensor& tensor, bool narrow_double, bool read = true) {
  auto alias = host_alias(tensor);
  const auto dtype = narrow_double && alias.scalar_type() == at::kDouble ? at::kFloat : alias.scalar_type();
  if (dtype == alias.scalar_type() && alias.is_contiguous() && !alias.is_neg()) {
    return {alias, alias, true};
  }
  auto host = read ? alias.to(alias.options().dtype(dtype), false, true).resolve_neg().contiguous()
                   : at::empty(alias.sizes(), alias.options().dtype(dtype));
  return {host, alias, false};
}

inline std::vector<Staged> stage_all(const std::vector<Tensor>& tensors, bool narrow_double, bool read = true) {
  std::vector<Staged> staged;
  staged.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    staged.push_back(stage(tensor, narrow_double, read));
  }
  return staged;
}

inline std::vector<Tensor> hosts(const std::vector<Staged>& staged) {
  std::vector<Tensor> result;
  result.reserve(staged.size());
  for (const auto& one : staged) {
    result.push_back(one.host);
  }
  return result;
}

// The division that turns the SUM of an AVG into the mean; integers keep their type.
inline void divide(const Tensor& sum, int size) {
  if (at::isIntegralType(sum.scalar_type(), false)) {
    sum.div_(size, "trunc");
  } else {
    sum.div_(size);
  }
}

} // namespace mlu_cncl
