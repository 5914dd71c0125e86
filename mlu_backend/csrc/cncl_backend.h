// The process group `cncl`: CNCL's rules in front, gloo behind.
//
// Every operation checks what CNCL would refuse, stages its tensors, starts the gloo operation and returns a handle.
// Lists of unequal length, reduce-scatter and all-to-all are built from operations that gloo runs asynchronously, so
// that every handle has a future.
#pragma once

#include "cncl_tensors.h"
#include "cncl_work.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <optional>
#include <string>

namespace mlu_cncl {

using namespace c10d;
using Tensors = std::vector<Tensor>;

constexpr auto kCnclDefaultTimeout = std::chrono::milliseconds(10 * 60 * 1000); // process_group_cncl.hpp:130

struct CnclOptions : Backend::Options {
  explicit CnclOptions(bool high_priority = false)
      : Backend::Options("cncl", kCnclDefaultTimeout), is_high_priority_stream(high_priority) {}

  bool is_high_priority_stream; // kept for programs that read it; results never depend on a stream here
};

class ProcessGroupCNCL : public Backend {
 public:
  ProcessGroupCNCL(
      c10::intrusive_ptr<Backend> gloo,
      int rank,
      int size,
      c10::intrusive_ptr<CnclOptions> options,
      bool narrow_double)
      : Backend(rank, size),
        gloo_(std::move(gloo)),
        options_(std::move(options)),
        narrow_double_(narrow_double),
        number_(FlightRecord::get().next_group()) {
    FlightRecord::get().read_environment();
  }

  ~ProcessGroupCNCL() override; // cncl.cpp: it has to let go of Python's lock

  const std::string getBackendName() const override {
    return "cncl";
  }

  c10::intrusive_ptr<Backend::Options> getBackendOptions() override {
    return options_;
  }

  c10::intrusive_ptr<CnclOptions> options() const {
    return options_;
  }

  bool narrow_double() const {
    return narrow_double_;
  }

  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
    gloo_->setTimeout(timeout);
  }

  void setSequenceNumberForGroup() override {
    gloo_->setSequenceNumberForGroup();
  }

  uint64_t getSequenceNumberForGroup() override {
    return gloo_->getSequenceNumberForGroup();
  }

  ErrorType getError() override {
    return ErrorType::SUCCESS;
  }

  void abort() override {
    gloo_->abort();
  }

  void shutdown() override {
    gloo_->shutdown();
  }

  void monitoredBarrier(const BarrierOptions& opts, bool wait_all_ranks = false) override {
    gloo_->monitoredBarrier(opts, wait_all_ranks);
  }

  bool supportsCoalescing() const override {
    return true;
  }

  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const AllgatherOptions& opts) override;
  WorkPtr _allgather_base(Tensor& output, Tensor& input, const AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs, const AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(
      Tensor& output,
      Tensor& input,
      std::vector<int64_t>& output_splits,
      std::vector<int64_t>& input_splits,
      const AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int dst, int tag) override;
  WorkPtr recv(Tensors& tensors, int src, int tag) override;
  WorkPtr barrier(const BarrierOptions& opts) override;

 private:
  // What remains of an operation once gloo has started: its pieces, and the step after the last of them.
  WorkPtr launch(
      OpType type,
      const char* title,
      const Tensors& inputs,
      Tensors outputs,
      const std::vector<WorkPtr>& pieces,
      std::function<void()> last_step = nullptr);
  WorkPtr remember(WorkPtr work);
  std::optional<uint64_t> record(
      std::string title,
      const Tensors& inputs,
      const Tensors& outputs,
      uint64_t operation,
      bool between_two);

  // Sums (or else) `flat` over all ranks and lets `take` pick this rank's part.
  WorkPtr reduce_and_take(
      const char* title,
      const Tensor& flat,
      at::ScalarType dtype,
      const ReduceScatterOptions& opts,
      const Tensors& inputs,
      Tensors outputs,
      std::function<void(const Tensor&)> take);
  WorkPtr point_to_point(OpType type, const Tensor& tensor, int peer, int tag);

  c10::intrusive_ptr<Backend> gloo_;
  c10::intrusive_ptr<CnclOptions> options_;
  bool narrow_double_;
  int64_t number_; // of this group in the process
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> collectives_{0};
  std::atomic<uint64_t> transfers_{0};

  std::mutex group_guard_;
  std::optional<std::vector<WorkPtr>> group_; // set between startCoalescing and endCoalescing
};

} // namespace mlu_cncl
