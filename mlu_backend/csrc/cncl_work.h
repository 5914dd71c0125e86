// Work handles of the process group: what `async_op=True` returns.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "cncl_record.h"

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace mlu_cncl {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Future = c10::ivalue::Future;

// A future whose value is the list of output tensors, as DDP and communication hooks expect. It names the devices of
// its outputs, because a future refuses values that live on a device it was not made for.
inline c10::intrusive_ptr<Future> tensor_future(const std::vector<Tensor>& outputs) {
  std::vector<c10::Device> devices;
  for (const auto& output : outputs) {
    if (output.device().is_privateuseone()) {
      devices.push_back(output.device());
    }
  }
  return c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

class CnclWork : public c10d::Work {
 public:
  CnclWork(int rank, c10d::OpType type, const char* title, std::vector<Tensor> outputs, uint64_t sequence)
      : c10d::Work(rank, type, title, outputs),
        outputs_(std::move(outputs)),
        future_(tensor_future(outputs_)),
        sequence_(sequence) {}

  std::vector<Tensor> result() override {
    return outputs_;
  }

  c10::intrusive_ptr<Future> getFuture() override {
    return future_;
  }

  uint64_t getSequencenumber() const override {
    return sequence_;
  }

  void abort() override {}

  // Its place in the flight record, told before the work can complete.
  void recorded_as(std::optional<uint64_t> record) {
    record_ = record;
  }

 protected:
  static void close_record(const std::optional<uint64_t>& record, bool succeeded) {
    if (record) {
      FlightRecord::get().end(*record, succeeded);
    }
  }

  void complete(const std::exception_ptr& error) {
    close_record(record_, !error);
    // The future goes first: whoever returns from wait() may read it.
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(c10::IValue(outputs_));
    }
    finish(error);
  }

  std::vector<Tensor> outputs_;
  c10::intrusive_ptr<Future> future_;
  uint64_t sequence_;
  std::optional<uint64_t> record_;
};

// One collective, made of one or more pieces of gloo work and a step that runs once all of them are done (division,
// copying staged memory back). The step runs on gloo's thread, so polling and futures see finished results.
class CollectiveWork : public CnclWork {
 public:
  using CnclWork::CnclWork;

  static WorkPtr start(
      const c10::intrusive_ptr<CollectiveWork>& self,
      const std::vector<WorkPtr>& pieces,
      std::function<void()> last_step) {
    if (pieces.empty()) {
      self->settle(nullptr, last_step);
      return self;
    }
    auto left = std::make_shared<std::atomic<size_t>>(pieces.size());
    auto error = std::make_shared<std::exception_ptr>();
    auto guard = std::make_shared<std::mutex>();
    for (const auto& piece : pieces) {
      // The piece is captured too: gloo's work must outlive its own callback.
      piece->getFuture()->addCallback([self, piece, left, error, guard, last_step](Future& done) {
        if (done.hasError()) {
          std::lock_guard<std::mutex> lock(*guard);
          if (!*error) {
            *error = done.exception_ptr();
          }
        }
        if (left->fetch_sub(1) == 1) {
          self->settle(*error, last_step);
        }
      });
    }
    return self;
  }

 private:
  void settle(std::exception_ptr error, const std::function<void()>& last_step) {
    if (!error && last_step) {
      try {
        last_step();
      } catch (...) {
        error = std::current_exception();
      }
    }
    complete(error);
  }
};

// A send or a receive. gloo learns that one is over only inside its wait(), so the first caller that needs to know
// either waits itself or, when it may not block, leaves a thread waiting.
class PointToPointWork : public CnclWork {
 public:
  PointToPointWork(
      int rank,
      c10d::OpType type,
      const char* title,
      std::vector<Tensor> outputs,
      uint64_t sequence,
      WorkPtr inner,
      std::chrono::milliseconds timeout,
      std::function<void()> last_step)
      : CnclWork(rank, type, title, std::move(outputs), sequence),
        inner_(std::move(inner)),
        timeout_(timeout),
        last_step_(std::move(last_step)) {}

  // A handle may be dropped right after isend, as is usual with streams; gloo would give the transfer up.
  ~PointToPointWork() override {
    if (!claimed_.exchange(true)) {
      std::thread([inner = std::move(inner_), timeout = timeout_, last_step = std::move(last_step_), record = record_] {
        bool succeeded = true;
        try {
          inner->wait(timeout);
          if (last_step) {
            last_step();
          }
        } catch (...) {
          succeeded = false; // nobody is left to be told
        }
        close_record(record, succeeded);
      }).detach();
    }
  }

  bool isCompleted() override {
    wait_elsewhere();
    return c10d::Work::isCompleted();
  }

  c10::intrusive_ptr<Future> getFuture() override {
    wait_elsewhere();
    return future_;
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    if (!claimed_.exchange(true)) {
      run(timeout == kNoTimeout ? timeout_ : timeout);
    }
    return c10d::Work::wait(timeout);
  }

  int sourceRank() const override {
    return inner_->sourceRank();
  }

 private:
  void wait_elsewhere() {
    if (!claimed_.exchange(true)) {
      auto self = c10::intrusive_ptr<PointToPointWork>::unsafe_reclaim_from_nonowning(this);
      std::thread([self] { self->run(self->timeout_); }).detach();
    }
  }

  void run(std::chrono::milliseconds timeout) {
    std::exception_ptr error;
    try {
      inner_->wait(timeout);
      if (last_step_) {
        last_step_();
      }
    } catch (...) {
      error = std::current_exception();
    }
    complete(error);
  }

  WorkPtr inner_;
  std::chrono::milliseconds timeout_;
  std::function<void()> last_step_;
  std::atomic<bool> claimed_{false};
};

// Several operations started between startCoalescing and endCoalescing, waited for as one.
class GroupWork : public c10d::Work {
 public:
  GroupWork(int rank, std::vector<WorkPtr> parts)
      : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override {
    bool all = true;
    for (const auto& part : parts_) {
      all = part->isCompleted() && all;
    }
    return all;
  }

  bool isSuccess() const override {
    for (const auto& part : parts_) {
      if (!part->isSuccess()) {
        return false;
      }
    }
    return true;
  }

  std::exception_ptr exception() const override {
    for (const auto& part : parts_) {
      if (auto error = part->exception()) {
        return error;
      }
    }
    return nullptr;
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    for (const auto& part : parts_) {
      part->wait(timeout);
    }
    return true;
  }

  void synchronize() override {}

  void abort() override {}

  std::vector<Tensor> result() override {
    std::vector<Tensor> all;
    for (const auto& part : parts_) {
      for (auto& tensor : part->result()) {
        all.push_back(tensor);
      }
    }
    return all;
  }

  c10::intrusive_ptr<Future> getFuture() override {
    std::lock_guard<std::mutex> lock(future_guard_);
    if (!future_) {
      auto whole = c10::make_intrusive<CollectiveWork>(rank_, c10d::OpType::COALESCED, nullptr, result(), 0);
      future_ = CollectiveWork::start(whole, parts_, nullptr)->getFuture();
    }
    return future_;
  }

 private:
  std::vector<WorkPtr> parts_;
  std::mutex future_guard_;
  c10::intrusive_ptr<Future> future_;
};

} // namespace mlu_cncl
