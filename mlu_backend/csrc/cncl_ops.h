// The operations of ProcessGroupCNCL.
#pragma once

#include "cncl_backend.h"

#include <numeric>

namespace mlu_cncl {

inline WorkPtr ProcessGroupCNCL::remember(WorkPtr work) {
  std::lock_guard<std::mutex> lock(group_guard_);
  if (group_) {
    group_->push_back(work);
  }
  return work;
}

// The place of an operation in the flight record, none where nothing is recorded.
inline std::optional<uint64_t> ProcessGroupCNCL::record(
    std::string title,
    const Tensors& inputs,
    const Tensors& outputs,
    uint64_t operation,
    bool between_two) {
  const auto collective = between_two ? collectives_.load() : ++collectives_;
  const auto transfer = between_two ? ++transfers_ : transfers_.load();
  auto& flight = FlightRecord::get();
  if (!flight.on()) {
    return std::nullopt;
  }
  RecordedCollective entry{
      0, number_, {getGroupUid(), getGroupDesc()}, collective, transfer, operation, between_two, std::move(title),
      TensorShapes(inputs), TensorShapes(outputs), options_->timeout.count()};
  return flight.begin(std::move(entry));
}

inline WorkPtr ProcessGroupCNCL::launch(
    OpType type,
    const char* title,
    const Tensors& inputs,
    Tensors outputs,
    const std::vector<WorkPtr>& pieces,
    std::function<void()> last_step) {
  const auto operation = ++sequence_;
  const auto place = record(title, inputs, outputs, operation, false);
  auto work = c10::make_intrusive<CollectiveWork>(rank_, type, title, std::move(outputs), operation);
  work->recorded_as(place);
  return remember(CollectiveWork::start(work, pieces, std::move(last_step)));
}

inline void ProcessGroupCNCL::startCoalescing() {
  std::lock_guard<std::mutex> lock(group_guard_);
  group_.emplace();
}

inline WorkPtr ProcessGroupCNCL::endCoalescing() {
  std::lock_guard<std::mutex> lock(group_guard_);
  TORCH_CHECK(group_, "endCoalescing called without startCoalescing");
  auto work = c10::make_intrusive<GroupWork>(rank_, std::move(*group_));
  group_.reset();
  return work;
}

inline WorkPtr ProcessGroupCNCL::broadcast(Tensors& tensors, const BroadcastOptions& opts) {
  const auto tensor = checked(real_view(only(tensors)));
  const auto staged = stage(tensor, narrow_double_, rank_ == opts.rootRank);
  Tensors host{staged.host};
  return launch(OpType::BROADCAST, "cncl:broadcast", tensors, tensors, {gloo_->broadcast(host, opts)}, [staged] {
    staged.write_back();
  });
}

inline WorkPtr ProcessGroupCNCL::allreduce(Tensors& tensors, const AllreduceOptions& opts) {
  const auto tensor = checked(real_view(only(tensors), &opts.reduceOp));
  auto wire = opts;
  wire.reduceOp = wire_op(opts.reduceOp, tensor.scalar_type());
  const auto staged = stage(tensor, narrow_double_);
  Tensors host{staged.host};
  const bool mean = opts.reduceOp.op_ == ReduceOp::AVG;
  return launch(OpType::ALLREDUCE, "cncl:all_reduce", tensors, tensors, {gloo_->allreduce(host, wire)}, [staged, mean, n = size_] {
    if (mean) {
      divide(staged.host, n);
    }
    staged.write_back();
  });
}

inline WorkPtr ProcessGroupCNCL::allreduce_sparse(Tensors& tensors, const AllreduceOptions&) {
  checked(only(tensors));
  TORCH_CHECK(false, "Tensors must be MLU and dense");
}

inline WorkPtr ProcessGroupCNCL::allreduce_coalesced(Tensors& tensors, const AllreduceCoalescedOptions& opts) {
  Tensors views;
  for (const auto& tensor : tensors) {
    views.push_back(real_view(tensor, &opts.reduceOp));
  }
  check_list(views);
  AllreduceOptions wire = opts;
  const auto staged = stage_all(views, narrow_double_);
  std::vector<WorkPtr> pieces;
  for (size_t i = 0; i < staged.size(); ++i) {
    wire.reduceOp = wire_op(opts.reduceOp, views[i].scalar_type());
    Tensors host{staged[i].host};
    pieces.push_back(gloo_->allreduce(host, wire));
  }
  const bool mean = opts.reduceOp.op_ == ReduceOp::AVG;
  return launch(
      OpType::ALLREDUCE_COALESCED, "cncl:allreduce_coalesced", tensors, tensors, pieces, [staged, mean, n = size_] {
        for (const auto& one : staged) {
          if (mean) {
            divide(one.host, n);
          }
          one.write_back();
        }
      });
}

inline WorkPtr ProcessGroupCNCL::reduce(Tensors& tensors, const ReduceOptions& opts) {
  const auto tensor = checked(real_view(only(tensors), &opts.reduceOp));
  auto wire = opts;
  wire.reduceOp = wire_op(opts.reduceOp, tensor.scalar_type());
  const bool root = rank_ == opts.rootRank;
  auto staged = stage(tensor, narrow_double_);
  if (!root && staged.direct) {
    // gloo uses the buffer of the other ranks as scratch; theirs stays as it was on the card.
    staged.host = staged.host.clone();
  }
  Tensors host{staged.host};
  const bool mean = opts.reduceOp.op_ == ReduceOp::AVG;
  return launch(OpType::REDUCE, "cncl:reduce", tensors, tensors, {gloo_->reduce(host, wire)}, [staged, mean, root, n = size_] {
    if (!root) {
      return;
    }
    if (mean) {
      divide(staged.host, n);
    }
    staged.write_back();
  });
}

inline WorkPtr ProcessGroupCNCL::allgather(
    std::vector<Tensors>& outputs,
    Tensors& inputs,
    const AllgatherOptions& opts) {
  TORCH_CHECK(outputs.size() == 1, "CNCL takes one output list per process, but got ", outputs.size());
  const auto input = checked(only(inputs));
  auto& list = outputs[0];
  check_list(list);
  TORCH_CHECK(
      list.size() == static_cast<size_t>(size_),
      "all_gather takes one output for each of ", size_, " ranks, but got ", list.size());
  const auto staged = stage_all(list, narrow_double_, false);
  const auto source = stage(input, narrow_double_);
  auto write_back = [staged] {
    for (const auto& one : staged) {
      one.write_back();
    }
  };
  const bool even = std::all_of(list.begin(), list.end(), [&](const Tensor& t) { return t.sizes() == list[0].sizes(); });
  if (even) {
    std::vector<Tensors> host_outputs{hosts(staged)};
    Tensors host_inputs{source.host};
    return launch(
        OpType::ALLGATHER, "cncl:all_gather", inputs, list, {gloo_->allgather(host_outputs, host_inputs, opts)}, write_back);
  }
  std::vector<WorkPtr> pieces;
  for (int root = 0; root < size_; ++root) {
    BroadcastOptions piece;
    piece.rootRank = root;
    piece.timeout = opts.timeout;
    if (root == rank_) {
      staged[root].host.copy_(source.host);
    }
    Tensors host{staged[root].host};
    pieces.push_back(gloo_->broadcast(host, piece));
  }
  return launch(OpType::ALLGATHER, "cncl:all_gather", inputs, list, pieces, write_back);
}

inline WorkPtr ProcessGroupCNCL::_allgather_base(Tensor& output, Tensor& input, const AllgatherOptions& opts) {
  checked(input);
  checked(output);
  if (input.dtype() != output.dtype()) {
    C10_THROW_ERROR(TypeError, "output tensor must have the same type as input tensor");
  }
  if (input.numel() * size_ != output.numel()) {
    C10_THROW_ERROR(ValueError, "output tensor size must be equal to world_size times input tensor size");
  }
  const auto target = stage(output, narrow_double_, false);
  // An input that lies inside the output, as FSDP passes it, is read before it can be overwritten.
  auto source = stage(input, narrow_double_).host.reshape({-1}).clone();
  auto flat = target.host.view({-1});
  std::vector<Tensors> host_outputs{flat.chunk(size_)};
  Tensors host_inputs{source};
  if (flat.numel() == 0) {
    return launch(OpType::_ALLGATHER_BASE, "cncl:_all_gather_base", {input}, {output}, {});
  }
  return launch(
      OpType::_ALLGATHER_BASE,
      "cncl:_all_gather_base",
      {input},
      {output},
      {gloo_->allgather(host_outputs, host_inputs, opts)},
      [target] { target.write_back(); });
}

inline WorkPtr ProcessGroupCNCL::allgather_coalesced(
    std::vector<Tensors>& outputs,
    Tensors& inputs,
    const AllgatherOptions& opts) {
  // outputs[rank][i] receives inputs[i] of `rank`.
  TORCH_CHECK(
      outputs.size() == static_cast<size_t>(size_),
      "all_gather_coalesced takes one output list for each of ", size_, " ranks, but got ", outputs.size());
  std::vector<WorkPtr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors row;
    for (auto& list : outputs) {
      row.push_back(list.at(i));
    }
    std::vector<Tensors> lists{row};
    Tensors input{inputs[i]};
    parts.push_back(allgather(lists, input, opts));
  }
  return c10::make_intrusive<GroupWork>(rank_, parts);
}

inline WorkPtr ProcessGroupCNCL::allgather_into_tensor_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const AllgatherOptions& opts) {
  TORCH_CHECK(outputs.size() == inputs.size(), "all_gather takes as many outputs as inputs");
  std::vector<WorkPtr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(_allgather_base(outputs[i], inputs[i], opts));
  }
  return c10::make_intrusive<GroupWork>(rank_, parts);
}

inline WorkPtr ProcessGroupCNCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const GatherOptions& opts) {
  const auto input = checked(only(inputs));
  const auto source = stage(input, narrow_double_);
  Tensors host_inputs{source.host};
  std::vector<Tensors> host_outputs;
  Tensors results;
  std::vector<Staged> staged;
  if (rank_ == opts.rootRank) {
    TORCH_CHECK(outputs.size() == 1, "gather takes one output list on the destination rank");
    results = outputs[0];
    check_list(results);
    staged = stage_all(results, narrow_double_, false);
    host_outputs.push_back(hosts(staged));
  } else {
    TORCH_CHECK(outputs.empty(), "requires empty output on non-root");
  }
  return launch(
      OpType::GATHER, "cncl:gather", inputs, results, {gloo_->gather(host_outputs, host_inputs, opts)}, [staged] {
        for (const auto& one : staged) {
          one.write_back();
        }
      });
}

inline WorkPtr ProcessGroupCNCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ScatterOptions& opts) {
  const auto output = checked(only(outputs));
  const auto target = stage(output, narrow_double_, false);
  Tensors host_outputs{target.host};
  std::vector<Tensors> host_inputs;
  if (rank_ == opts.rootRank) {
    TORCH_CHECK(inputs.size() == 1, "scatter takes one input list on the source rank");
    check_list(inputs[0]);
    host_inputs.push_back(hosts(stage_all(inputs[0], narrow_double_)));
  } else {
    TORCH_CHECK(inputs.empty(), "requires empty input on non-root");
  }
  return launch(
      OpType::SCATTER, "cncl:scatter", inputs.empty() ? Tensors{} : inputs[0], outputs, {gloo_->scatter(host_outputs, host_inputs, opts)}, [target] {
        target.write_back();
      });
}

inline WorkPtr ProcessGroupCNCL::reduce_and_take(
    const char* title,
    const Tensor& flat,
    at::ScalarType dtype,
    const ReduceScatterOptions& opts,
    const Tensors& inputs,
    Tensors outputs,
    std::function<void(const Tensor&)> take) {
  AllreduceOptions wire;
  wire.reduceOp = wire_op(opts.reduceOp, dtype);
  wire.timeout = opts.timeout;
  const bool mean = opts.reduceOp.op_ == ReduceOp::AVG;
  Tensors host{flat};
  return launch(
      OpType::REDUCE_SCATTER,
      title,
      inputs,
      std::move(outputs),
      {gloo_->allreduce(host, wire)},
      [flat, mean, n = size_, take = std::move(take)] {
        if (mean) {
          divide(flat, n);
        }
        take(flat);
      });
}

inline WorkPtr ProcessGroupCNCL::reduce_scatter(
    Tensors& outputs,
    std::vector<Tensors>& inputs,
    const ReduceScatterOptions& opts) {
  const auto output = checked(only(outputs));
  TORCH_CHECK(inputs.size() == 1, "CNCL takes one input list per process, but got ", inputs.size());
  const auto& list = inputs[0];
  check_list(list);
  TORCH_CHECK(
      list.size() == static_cast<size_t>(size_),
      "reduce_scatter takes one input for each of ", size_, " ranks, but got ", list.size());
  Tensors flat;
  int64_t begin = 0;
  for (int i = 0; i < size_; ++i) {
    flat.push_back(stage(list[i], narrow_double_).host.reshape({-1}));
    begin += i < rank_ ? flat.back().numel() : 0;
  }
  TORCH_CHECK(
      output.numel() == list[rank_].numel(),
      "reduce_scatter output has ", output.numel(), " elements where the input has ", list[rank_].numel());
  return reduce_and_take(
      "cncl:reduce_scatter", at::cat(flat), output.scalar_type(), opts, list, outputs, [output, begin](const Tensor& sum) {
        host_alias(output).copy_(sum.narrow(0, begin, output.numel()).view(output.sizes()));
      });
}

inline WorkPtr ProcessGroupCNCL::_reduce_scatter_base(Tensor& output, Tensor& input, const ReduceScatterOptions& opts) {
  checked(output);
  checked(input);
  if (input.dtype() != output.dtype()) {
    C10_THROW_ERROR(TypeError, "input tensor must be the same type as the output tensor.");
  }
  if (input.numel() != output.numel() * size_) {
    C10_THROW_ERROR(ValueError, "input tensor must be the same size as output size times world size");
  }
  auto staged = stage(input, narrow_double_);
  auto flat = staged.host.reshape({-1});
  if (staged.direct) {
    flat = flat.clone(); // the input keeps its values
  }
  const auto begin = output.numel() * rank_;
  return reduce_and_take(
      "cncl:_reduce_scatter_base", flat, output.scalar_type(), opts, {input}, {output}, [output, begin](const Tensor& sum) {
        host_alias(output).copy_(sum.narrow(0, begin, output.numel()).view(output.sizes()));
      });
}

inline WorkPtr ProcessGroupCNCL::reduce_scatter_tensor_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const ReduceScatterOptions& opts) {
  TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter takes as many outputs as inputs");
  std::vector<WorkPtr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(_reduce_scatter_base(outputs[i], inputs[i], opts));
  }
  return c10::make_intrusive<GroupWork>(rank_, parts);
}

inline WorkPtr ProcessGroupCNCL::alltoall_base(
    Tensor& output,
    Tensor& input,
    std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits,
    const AllToAllOptions& opts) {
  checked(output);
  checked(input);
  const auto target = stage(output, narrow_double_, false);
  auto host_output = target.host;
  auto host_input = stage(input, narrow_double_).host;
  return launch(
      OpType::ALLTOALL_BASE,
      "cncl:all_to_all",
      {input},
      {output},
      {gloo_->alltoall_base(host_output, host_input, output_splits, input_splits, opts)},
      [target] { target.write_back(); });
}

inline WorkPtr ProcessGroupCNCL::alltoall(Tensors& outputs, Tensors& inputs, const AllToAllOptions& opts) {
  check_list(outputs);
  check_list(inputs);
  TORCH_CHECK(
      outputs.size() == static_cast<size_t>(size_) && inputs.size() == static_cast<size_t>(size_),
      "all_to_all takes one input and one output for each of ", size_, " ranks");
  std::vector<int64_t> input_splits;
  std::vector<int64_t> output_splits;
  Tensors flat;
  for (const auto& input : inputs) {
    flat.push_back(stage(input, narrow_double_).host.reshape({-1}));
    input_splits.push_back(input.numel());
  }
  for (const auto& output : outputs) {
    output_splits.push_back(output.numel());
  }
  auto host_input = at::cat(flat);
  const auto total = std::accumulate(output_splits.begin(), output_splits.end(), int64_t{0});
  auto host_output = at::empty({total}, host_input.options());
  auto given = output_splits; // gloo takes its argument apart
  auto piece = gloo_->alltoall_base(host_output, host_input, given, input_splits, opts);
  return launch(OpType::ALLTOALL, "cncl:all_to_all", inputs, outputs, {piece}, [outputs, host_output, output_splits] {
    const auto parts = host_output.split_with_sizes(output_splits);
    for (size_t i = 0; i < outputs.size(); ++i) {
      host_alias(outputs[i]).copy_(parts[i].view(outputs[i].sizes()));
    }
  });
}

inline WorkPtr ProcessGroupCNCL::point_to_point(OpType type, const Tensor& given, int peer, int tag) {
  const auto tensor = checked(real_view(given));
  const bool sends = type == OpType::SEND;
  const auto staged = stage(tensor, narrow_double_, sends);
  Tensors host{staged.host};
  auto inner = sends ? gloo_->send(host, peer, tag) : gloo_->recv(host, peer, tag);
  std::function<void()> last_step;
  if (!sends) {
    last_step = [staged] { staged.write_back(); };
  }
  const auto operation = ++sequence_;
  const auto title = sends ? c10::str("cncl:send ", rank_, "->", peer) : c10::str("cncl:recv ", rank_, "<-", peer);
  const auto place = record(title, {given}, {given}, operation, true);
  auto work = c10::make_intrusive<PointToPointWork>(
      rank_,
      type,
      sends ? "cncl:send" : "cncl:recv",
      Tensors{given},
      operation,
      inner,
      options_->timeout,
      std::move(last_step));
  work->recorded_as(place);
  return remember(work);
}

inline WorkPtr ProcessGroupCNCL::send(Tensors& tensors, int dst, int tag) {
  return point_to_point(OpType::SEND, only(tensors), dst, tag);
}

inline WorkPtr ProcessGroupCNCL::recv(Tensors& tensors, int src, int tag) {
  return point_to_point(OpType::RECV, only(tensors), src, tag);
}

inline WorkPtr ProcessGroupCNCL::barrier(const BarrierOptions& opts) {
  // An all-reduce of nothing much: gloo's own barrier work has no future.
  AllreduceOptions wire;
  wire.timeout = opts.timeout;
  Tensors token{at::zeros({1}, at::TensorOptions().dtype(at::kByte))};
  return launch(OpType::BARRIER, "cncl:barrier", {}, {}, {gloo_->allreduce(token, wire)}, [token] {});
}

} // namespace mlu_cncl
