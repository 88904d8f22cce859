// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in flight: the memory it needs, and its end.
#include "proxy.hpp"

#include <cstdlib>
#include <thread>
#include <utility>

namespace {

constexpr size_t KEPT_BLOCKS = 64;       // of a chunk each
constexpr size_t MOST_STAGED = 64 << 20; // then the reader waits
constexpr size_t SMALL = 4 << 10, CHUNK = TPS_CHUNK;
using namespace std::chrono_literals;

// Called by the driver, from a thread of its own, where nothing may block for long.
void on_end(cl_event, cl_int status, void *data) {
  std::unique_ptr<std::shared_ptr<Watch>> watch(static_cast<std::shared_ptr<Watch> *>(data));
  (*watch)->session->end(*watch, status);
}

} // namespace

void Return::operator()(char *block) const { pool->give_back(block, size); }

Staged Pool::take(size_t size) {
  char *block = nullptr;
  if (size > SMALL && size <= CHUNK) {
    std::lock_guard guard(lock_);
    if (!free_.empty()) {
      block = free_.back();
      free_.pop_back();
    }
  }
  if (block == nullptr)
    block = static_cast<char *>(std::malloc(size > SMALL && size <= CHUNK ? CHUNK : size));
  if (block == nullptr)
    throw std::bad_alloc();
  return {this, block, size};
}

void Pool::give_back(char *block, size_t size) {
  if (size > SMALL && size <= CHUNK) {
    std::lock_guard guard(lock_);
    if (free_.size() < KEPT_BLOCKS) {
      free_.push_back(block);
      return;
    }
  }
  std::free(block);
}

// The reader waits for space, unless what holds it may itself wait for a word of the client.
Staged Session::take_staging(size_t size) {
  std::unique_lock guard(watching_);
  if (staged_ > MOST_STAGED) {
    flush_queues();
    while (staged_ > MOST_STAGED && open_user_events == 0)
      freed_.wait_for(guard, 20ms);
  }
  guard.unlock();
  return pool_.take(size);
}

void Session::watch(const std::shared_ptr<Watch> &watch) {
  watch->session = this;
  watch->since = std::chrono::steady_clock::now();
  {
    std::lock_guard guard(watching_);
    bool was_empty = watches_.empty();
    watch->place = watches_.insert(watches_.end(), watch);
    staged_ += watch->staged.size();
    watch->number = ++watch_count_;
    if (watch->is_read)
      reads_.push_back(watch);
    if (was_empty)
      watched_.notify_one();
  }
  auto *data = new std::shared_ptr<Watch>(watch);
  if (real.SetEventCallback(watch->event, CL_COMPLETE, on_end, data) != 0)
    delete data;
}

cl_int Session::mark(cl_command_queue queue, uint64_t ticket) {
  auto marker = std::make_shared<Watch>();
  cl_int code = real.EnqueueMarkerWithWaitList(queue, 0, nullptr, &marker->event);
  if (code != 0)
    return code;
  real.RetainCommandQueue(queue);
  marker->is_marker = true;
  marker->queue = queue;
  marker->ticket = ticket;
  real.Flush(queue);
  watch(marker);
  return 0;
}

cl_int Session::reply_when_dry() {
  for (const auto &[id, object] : objects_)
    if (object.kind == Kind::command_queue && object.handle != nullptr)
      if (cl_int code = mark(static_cast<cl_command_queue>(object.handle), 0); code != 0)
        return code;
  std::unique_lock guard(watching_);
  dry_ticket_ = ticket_;
  dry_number_ = watch_count_;
  tell_if_dry(guard);
  return 0;
}

void Session::tell_if_dry(std::unique_lock<std::mutex> &guard) {
  bool is_dry = watches_.empty() || watches_.front()->number > dry_number_;
  if (dry_ticket_ == 0 || !is_dry)
    return;
  uint64_t ticket = std::exchange(dry_ticket_, 0);
  guard.unlock();
  tell(TPS_REPLY, ticket, {0});
  guard.lock();
}

// Who is told that something has ended may rely on all that ended before it. So all is told in one
// order, and reads that have ended, but of which the driver has not said so yet, go first.
void Session::end(const std::shared_ptr<Watch> &watch, cl_int status) {
  std::unique_lock guard(watching_);
  if (watch->is_over)
    return;
  for (auto &read : reads_) {
    cl_int reached = CL_QUEUED;
    if (read->number < watch->number && !read->is_over &&
        real.GetEventInfo(read->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof reached, &reached,
                          nullptr) == 0 &&
        reached <= 0) {
      read->is_over = true;
      ended_.emplace_back(read, reached);
    }
  }
  std::erase_if(reads_, [](const auto &read) { return read->is_over; });
  watch->is_over = true;
  ended_.emplace_back(watch, status);
  if (!is_telling_) {
    is_telling_ = true;
    tell_ended(guard, SMALL);
  }
}

// Until all is told, or up to a read of more than `most` bytes, which is for a thread of our own.
void Session::tell_ended(std::unique_lock<std::mutex> &guard, size_t most) {
  while (!ended_.empty()) {
    if (ended_.front().first->is_read && ended_.front().first->staged.size() > most) {
      has_long_ = true;
      readable_.notify_one();
      return;
    }
    auto [watch, status] = std::move(ended_.front());
    ended_.pop_front();
    guard.unlock();
    tell_end(watch, status);
    guard.lock();
    staged_ -= watch->staged.size();
    watches_.erase(watch->place);
    freed_.notify_one();
    tell_if_dry(guard);
  }
  is_telling_ = false;
}

void Session::send_long_reads() {
  for (std::unique_lock guard(watching_);;) {
    readable_.wait(guard, [this] { return has_long_; });
    has_long_ = false;
    tell_ended(guard, SIZE_MAX);
  }
}

void Session::tell_end(const std::shared_ptr<Watch> &watch, cl_int status) {
  if (watch->is_read && status >= 0)
    for (size_t at = 0, length = 0; at < watch->staged.size(); at += length) {
      length = std::min(watch->staged.size() - at, size_t{TPS_FRAME});
      tell(TPS_DATA, 0, {watch->id, at}, {watch->staged.data() + at, length});
    }
  if (prints)
    print();
  cl_ulong times[4] = {};
  if (watch->has_times && watch->id != 0 && status >= 0)
    for (cl_uint i = 0; i < 4; i++)
      real.GetEventProfilingInfo(watch->event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i],
                                 &times[i], nullptr);
  auto code = static_cast<uint64_t>(static_cast<int64_t>(status));
  if (watch->id != 0)
    tell(TPS_DONE, 0, {watch->id, code, times[0], times[1], times[2], times[3]});
  // A command that ended badly has told so itself: the queue was finished.
  bool is_other = status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  if (watch->ticket != 0)
    tell(TPS_REPLY, watch->ticket, {is_other ? 0 : code});
}

// A driver may forget to call back, as PoCL does where a user event failed, and one may run nothing
// until somebody waits, as Oclgrind does: what is old is asked for, and waited for.
void Session::look_after() {
  for (;;) {
    std::vector<std::shared_ptr<Watch>> old;
    {
      std::unique_lock guard(watching_);
      watched_.wait(guard, [this] { return !watches_.empty(); });
      guard.unlock();
      std::this_thread::sleep_for(is_lazy_ ? 1ms : 20ms);
      guard.lock();
      auto now = std::chrono::steady_clock::now();
      for (auto &watch : watches_)
        if (!watch->is_over && now - watch->since > (is_lazy_ ? 1ms : 10ms))
          old.push_back(watch);
    }
    for (auto &watch : old) {
      cl_int status = CL_QUEUED;
      cl_int code = real.GetEventInfo(watch->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                      sizeof status, &status, nullptr);
      if (code != 0 || status <= 0)
        end(watch, code != 0 ? code : status);
      else if (status > CL_RUNNING)
        wait_for(watch->queue);
    }
  }
}

void Session::wait_for(cl_command_queue queue) {
  {
    std::lock_guard guard(watching_);
    for (cl_command_queue other : waiting_)
      if (other == queue)
        return;
    waiting_.push_back(queue);
  }
  real.RetainCommandQueue(queue);
  std::thread([this, queue] {
    auto since = std::chrono::steady_clock::now();
    real.Finish(queue);
    std::lock_guard guard(watching_);
    std::erase(waiting_, queue);
    is_lazy_ = is_lazy_ || std::chrono::steady_clock::now() - since < 5ms;
    real.ReleaseCommandQueue(queue);
  }).detach();
}

// ---- A command

Command::Command(Session &session, In &in, cl_command_queue queue)
    : session_(session), in_(in), queue_id_(in.first()), id_(in.word()), is_kept_(in.word() != 0) {
  watch_->queue = queue;
  watch_->id = id_;
  for (uint64_t left = in.length(); left > 0; left--) {
    Object *event = in.session().object(in.word(), Kind::event);
    cl_int wrong = event == nullptr ? CL_INVALID_EVENT_WAIT_LIST : event->error;
    only_ends_ =
        only_ends_ || (in.code() == 0 && wrong == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    in.fail_if(wrong != 0, wrong);
    if (wrong == 0)
      waits_.push_back(static_cast<cl_event>(event->handle));
  }
}

const void *Command::upload(uint64_t id, size_t size) {
  watch_->staged = session_.take_upload(id);
  in_.must(watch_->staged && watch_->staged.size() == size);
  return watch_->staged.data();
}

void *Command::download(size_t size) {
  in_.must(size > 0 && size <= session_.most_upload() && id_ != 0);
  if (in_.code() != 0)
    return nullptr;
  watch_->is_read = true;
  watch_->staged = session_.take_staging(size);
  return watch_->staged.data();
}

cl_event *Command::event() { return id_ != 0 || watch_->staged ? &watch_->event : nullptr; }

cl_int Command::done(cl_int code) {
  if (in_.is_bad())
    return code;
  auto told = static_cast<uint64_t>(static_cast<int64_t>(code));
  if (code != 0) {
    if (session_.ticket() == 0 && !only_ends_)
      session_.tell(TPS_FAILED, 0, {queue_id_, told, id_});
    if (id_ != 0)
      session_.tell(TPS_DONE, 0, {id_, told, 0, 0, 0, 0});
    if (id_ != 0 && is_kept_)
      session_.keep(id_, Kind::event, nullptr, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    return code;
  }
  session_.must_flush(watch_->queue);
  if (watch_->event == nullptr)
    return 0;
  Object *queue = session_.object(queue_id_, Kind::command_queue);
  watch_->has_times = queue != nullptr && queue->has_times;
  if (id_ != 0 && is_kept_) {
    real.RetainEvent(watch_->event);
    session_.keep(id_, Kind::event, watch_->event, 0);
  }
  session_.watch(watch_);
  return 0;
}

namespace {

size_t packed(const size_t region[3], size_t bytes) {
  for (size_t i = 0; i < 3; i++)
    if (__builtin_mul_overflow(bytes, region[i], &bytes))
      return 0;
  return bytes;
}

size_t allowed(In &in, size_t bytes) {
  in.must(bytes > 0 && bytes <= in.session().most_upload());
  return in.code() == 0 ? bytes : 0;
}

} // namespace

size_t packed_bytes(In &in, const Sizes &region) {
  return allowed(in, region == nullptr ? 0 : packed(region.get(), 1));
}

size_t image_bytes(cl_mem image, const size_t region[3]) {
  size_t element = 0;
  if (real.GetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, nullptr) != 0)
    return 0;
  return packed(region, element);
}

size_t image_bytes(In &in, cl_mem image, const Sizes &region) {
  bool is_one = in.code() == 0 && region != nullptr;
  return allowed(in, is_one ? image_bytes(image, region.get()) : 0);
}
