// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts calls of torch.distributed below Python: those of a kind whose row recorder.py has told.
//
// Compiled against a program's own torch (toposeat/profile/recording/torch_counter.py) and loaded
// by recorder.py. Its kernels stand at the key ADInplaceOrView, in front of recorder.py's at
// BackendSelect. A call of a known kind is counted here and goes on behind both; any other goes on
// to recorder.py, which counts it and tells the row by tps_learn. Where another key stands between
// (tracing, fake tensors), or this one is left out (inference), recorder.py sees all calls.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace {

struct Kind {
  int64_t operation; // the place of the operator among recorder.py's
  const void *group; // forgotten before the process group goes
  int64_t bytes;
  int64_t other; // root or peer, -1 for none
  int64_t type;
  int64_t device;
  bool operator==(const Kind &) const = default;
};

struct KindHash {
  size_t operator()(const Kind &kind) const {
    size_t hash = std::hash<const void *>{}(kind.group);
    for (int64_t each : {kind.operation, kind.bytes, kind.other, kind.type, kind.device})
      hash = hash * 1099511628211U + static_cast<size_t>(each);
    return hash;
  }
};

constexpr size_t max_kinds = 1 << 16; // calls of ever new sizes are recorder.py's
const c10::DispatchKeySet behind_recorder(c10::DispatchKeySet::FULL_AFTER,
                                          c10::DispatchKey::BackendSelect);
const c10::DispatchKeySet behind_own(c10::DispatchKeySet::FULL_AFTER,
                                     c10::DispatchKey::ADInplaceOrView);

std::mutex lock;
// Never destroyed: threads of the program call while it ends.
auto &row_of = *new std::unordered_map<Kind, uint64_t, KindHash>;
torch::Library *library = nullptr;
uint64_t *table = nullptr;                  // calls and bytes by row
thread_local const Kind *unknown = nullptr; // of the call that recorder.py sees now

void add(uint64_t row, uint64_t bytes) {
  __atomic_fetch_add(&table[2 * row], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&table[2 * row + 1], bytes, __ATOMIC_RELAXED);
}

bool find_row(const Kind &kind, uint64_t &row) {
  const std::lock_guard held(lock);
  const auto found = row_of.find(kind);
  if (found == row_of.end())
    return false;
  row = found->second;
  return true;
}

struct Unknown {
  explicit Unknown(const Kind *kind) { unknown = kind; }
  ~Unknown() { unknown = nullptr; }
  Unknown(const Unknown &) = delete;
  Unknown &operator=(const Unknown &) = delete;
};

// A call whose size is that of one argument: the places of group, tensor, and root or peer (-1:
// none).
struct Counter final : c10::OperatorKernel {
  Counter(int64_t of, int64_t group, int64_t tensor, int64_t other)
      : operation(of), group_at(group), tensor_at(tensor), other_at(other) {}

  void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack) {
    const auto next = keys & behind_own;
    Kind kind{};
    uint64_t row = 0;
    const bool told = table != nullptr && is_kind(handle, *stack, kind);
    if (told && next.highestPriorityTypeId() == c10::DispatchKey::BackendSelect &&
        find_row(kind, row)) {
      add(row, static_cast<uint64_t>(kind.bytes));
      handle.redispatchBoxed(keys & behind_recorder, stack);
      return;
    }
    const Unknown guard(told ? &kind : nullptr);
    handle.redispatchBoxed(next, stack);
  }

  // Whether the call is of a kind that can be told here; what PyTorch refuses is not, for example
  // the size of a sparse tensor.
  bool is_kind(const c10::OperatorHandle &handle, const torch::jit::Stack &stack,
               Kind &kind) const {
    try {
      const auto *argument = stack.data() + stack.size() - handle.schema().arguments().size();
      const c10::IValue &given = argument[tensor_at];
      at::Tensor tensor;
      if (given.isTensorList() && given.toTensorList().size() == 1)
        tensor = given.toTensorList().get(0);
      else if (given.isTensor())
        tensor = given.toTensor();
      if (!tensor.defined() || !argument[group_at].isObject())
        return false;
      const auto device = tensor.device();
      kind = {operation,
              argument[group_at].toObjectRef().getSlot(0).toCapsule().get(),
              static_cast<int64_t>(tensor.nbytes()),
              other_at < 0 ? -1 : argument[other_at].toInt(),
              static_cast<int64_t>(tensor.scalar_type()),
              static_cast<int64_t>(device.type()) * 256 + device.index()};
      return true;
    } catch (const std::exception &) {
      return false;
    }
  }

  int64_t operation, group_at, tensor_at, other_at;
};

} // namespace

extern "C" {

// Calls are counted from now on, in this table of the record.
__attribute__((visibility("default"))) void tps_begin(uint64_t *counts) { table = counts; }

// No call is, in the child of a fork: the table is its parent's.
__attribute__((visibility("default"))) void tps_end(void) { table = nullptr; }

// Stand in front of an operator of c10d. 0 if that cannot be.
__attribute__((visibility("default"))) int tps_watch(const char *name, int64_t operation,
                                                     int64_t group, int64_t tensor, int64_t other) {
  try {
    if (library == nullptr)
      library = new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::ADInplaceOrView,
                                   __FILE__, __LINE__);
    library->impl(name, torch::CppFunction::makeFromBoxedFunctor(
                            std::make_unique<Counter>(operation, group, tensor, other)));
    return 1;
  } catch (const std::exception &) {
    return 0;
  }
}

// Stand in front of none any more.
__attribute__((visibility("default"))) void tps_leave(void) {
  delete library;
  library = nullptr;
  const std::lock_guard held(lock);
  row_of.clear();
}

// One more call of a row.
__attribute__((visibility("default"))) void tps_add(uint64_t row, uint64_t bytes) {
  if (table != nullptr)
    add(row, bytes);
}

// The row of the call that this thread is in: calls of its kind are counted here. The process
// group, null if none was.
__attribute__((visibility("default"))) const void *tps_learn(uint64_t row) {
  if (unknown == nullptr)
    return nullptr;
  const std::lock_guard held(lock);
  if (row_of.size() < max_kinds)
    row_of.emplace(*unknown, row);
  return unknown->group;
}

// A process group goes; another one may get its place in memory.
__attribute__((visibility("default"))) void tps_forget(const void *group) {
  const std::lock_guard held(lock);
  std::erase_if(row_of, [group](const auto &each) { return each.first.group == group; });
}
}
