/* Queues: many senders, one receiver. `peek` and `commit` lose no acknowledged message; `recv` can
 * lose the one message that a receiver had taken when it died. */
#ifndef OUTLIVE_QUEUE_HPP
#define OUTLIVE_QUEUE_HPP

#include <cstring>
#include <vector>

#include "domain.hpp"
#include "incoming.hpp"

namespace outlive {

namespace detail {

[[noreturn]] inline void raise_other_size(size_t got, size_t wanted) {
    raise(Failure(OUTLIVE_OTHER_TYPE,
                  "a message of " + std::to_string(got) + " bytes is not a value of " + std::to_string(wanted)));
}

/** Returns a value from unaligned bytes; throws an `Error` if they are not of its size. */
template <class T> T value_of(std::span<const std::byte> bytes) {
    static_assert(Payload<T>, "a message is trivially copyable, of standard layout, and no pointer");
    if (bytes.size() != sizeof(T)) raise_other_size(bytes.size(), sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

} // namespace detail

/** A message that was received: its bytes are private memory. */
class Received {
public:
    explicit Received(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    /** Returns the number of bytes. */
    size_t size() const noexcept { return bytes_.size(); }
    std::string_view text() const noexcept { return text_of(bytes_); }
    /** Returns the message as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another
     * size. */
    template <class T> T as() const { return detail::value_of<T>(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/** A message where it lies in the queue: valid until `Receiver::commit`, or the receiver's next
 * call. */
class Peeked {
public:
    Peeked(std::span<const std::byte> bytes, bool redelivered) noexcept : bytes_(bytes), redelivered_(redelivered) {}

    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    /** Returns the number of bytes. */
    size_t size() const noexcept { return bytes_.size(); }
    std::string_view text() const noexcept { return text_of(bytes_); }
    template <class T> T as() const { return detail::value_of<T>(bytes_); }
    /** Returns whether an earlier receiver got this message too and died before it committed it: it
     * may have acted on it. */
    bool redelivered() const noexcept { return redelivered_; }

private:
    std::span<const std::byte> bytes_;
    bool redelivered_;
};

/** Puts messages into a queue. One thread at a time may use it. */
class Sender {
public:
    /** Sends a copy; EPIPE: the receiver died, and no process has taken over. ETIMEDOUT, EAGAIN:
     * full. After a success the message outlives this process. */
    template <Message M> expected<void> send(const M &message, Deadline deadline = never) {
        auto bytes = bytes_of(message);
        return detail::done(outlive_sender_send(raw(), bytes.data(), bytes.size(), deadline.raw()));
    }
    /** Sends many messages in one step: either all of them are in the queue, or none is. */
    expected<void> send_batch(std::span<const std::span<const std::byte>> messages, Deadline deadline = never) {
        std::vector<outlive_bytes_t> all;
        all.reserve(messages.size());
        for (auto message : messages) all.push_back({message.data(), message.size()});
        return detail::done(outlive_sender_send_batch(raw(), all.data(), all.size(), deadline.raw()));
    }

    outlive_sender_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Queue;
    explicit Sender(outlive_sender_t *handle) : handle_(handle) {}
    detail::Handle<outlive_sender_t, outlive_sender_close> handle_;
};

/** Takes messages out of a queue. One thread at a time may use it. */
class Receiver : public detail::Ranges<Receiver> {
public:
    using value_type = Received;
    /** A range ends when all senders are gone: `end_when_senders_gone`. */
    static constexpr int last_code = EPIPE;

    /** Takes a message out of the queue; a process that dies after that takes it along (`peek` and
     * `commit` do not lose it). ETIMEDOUT, EAGAIN: the queue is empty. EPIPE: all senders are
     * gone. */
    expected<Received> recv(Deadline deadline = never) {
        std::vector<std::byte> bytes(most_);
        for (;;) {
            size_t size = 0;
            int code = outlive_receiver_recv(raw(), bytes.data(), bytes.size(), &size, deadline.raw());
            if (code == EMSGSIZE && size > bytes.size()) {
                /* The message stays in the queue. */
                bytes.resize(most_ = size);
                continue;
            }
            if (code != 0) return Failure::last(code);
            bytes.resize(size);
            return Received(std::move(bytes));
        }
    }
    /** Returns the next message where it lies. A second peek without a commit returns the same
     * message. */
    expected<Peeked> peek(Deadline deadline = never) {
        const void *data = nullptr;
        size_t size = 0;
        uint32_t redelivered = 0;
        if (int code = outlive_receiver_peek(raw(), &data, &size, &redelivered, deadline.raw())) return Failure::last(code);
        return Peeked({static_cast<const std::byte *>(data), size}, redelivered != 0);
    }
    /** Takes the message that was peeked at out of the queue for good. */
    expected<void> commit() { return detail::done(outlive_receiver_commit(raw())); }
    /** Sets whether receiving ends (EPIPE; a range: at its end) once there have been senders and
     * all are gone. */
    expected<void> end_when_senders_gone(bool end = true) {
        return detail::done(outlive_receiver_end_when_senders_gone(raw(), end));
    }

    outlive_receiver_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Queue;
    explicit Receiver(outlive_receiver_t *handle) : handle_(handle) {}
    detail::Handle<outlive_receiver_t, outlive_receiver_close> handle_;
    /* The most bytes that a message had. */
    size_t most_ = 256;
};

/** A queue; its senders and its receiver are made from it. All threads may use it at once. */
class Queue : public detail::WithOptions<Queue, detail::NoCalls, outlive_queue_t, outlive_queue_options_t, outlive_queue_open,
                                         outlive_queue_close> {
public:
    /** Makes a sender; there may be any number of them. */
    expected<Sender> sender() const {
        outlive_sender_t *handle = nullptr;
        if (int code = outlive_queue_sender(raw(), &handle)) return Failure::last(code);
        return Sender(handle);
    }
    /** Makes this process the one receiver, waiting for a living one to leave or to end; EBUSY: another
     * is alive. */
    expected<Receiver> receiver(Deadline deadline = at_once) const {
        outlive_receiver_t *handle = nullptr;
        if (int code = outlive_queue_receiver(raw(), deadline.raw(), &handle)) return Failure::told(code);
        return Receiver(handle);
    }
    expected<outlive_queue_counters_t> counters() const {
        outlive_queue_counters_t counters{};
        if (int code = outlive_queue_counters(raw(), &counters)) return Failure::last(code);
        return counters;
    }
    /** Waits until all messages that were sent have been received, or committed, also those that are
     * sent meanwhile. */
    expected<void> join(Deadline deadline = never) const {
        return detail::done(outlive_queue_join(raw(), deadline.raw()));
    }
    /** Returns whether it is full: `max_messages` messages are unread, or as many as its bytes
     * allow. While other processes send and receive, that is about a moment that has passed. */
    expected<bool> is_full() const {
        uint32_t full = 0;
        if (int code = outlive_queue_is_full(raw(), &full)) return Failure::last(code);
        return full != 0;
    }

private:
    using WithOptions::WithOptions;
};

} // namespace outlive

#endif
