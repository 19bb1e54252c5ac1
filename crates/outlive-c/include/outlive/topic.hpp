/* Topics: publish/subscribe with messages of any size, written and read in place. */
#ifndef OUTLIVE_TOPIC_HPP
#define OUTLIVE_TOPIC_HPP

#include "queue.hpp"
#include "tail.hpp"

namespace outlive {

using Header = outlive_header_t;

namespace detail {

/* A message of up to 168 bytes is aligned to 8. */
template <class T> constexpr bool is_aligned_in_place = alignof(T) <= 8 || (sizeof(T) > 168 && alignof(T) <= 64);

} // namespace detail

/** Memory lent for a message. Destroyed unpublished, it is given back. */
class Loan {
public:
    /** Returns the bytes to write; their contents are arbitrary before. */
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    /** Returns the memory as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another
     * size. */
    template <class T> T &as() const {
        static_assert(Payload<T>, "a message is trivially copyable, of standard layout, and no pointer");
        static_assert(detail::is_aligned_in_place<T>);
        if (bytes_.size() != sizeof(T)) detail::raise_other_size(bytes_.size(), sizeof(T));
        return *reinterpret_cast<T *>(bytes_.data());
    }
    /** Returns the memory as a head with items behind it: `publisher.loan_with_tail<H>(count)`. */
    template <class H> WithTail<H> with_tail() const { return WithTail<H>(bytes_); }
    expected<void> set_header(const Header &header) { return detail::done(outlive_loan_set_header(handle_.get(), &header)); }

private:
    friend class Publisher;
    Loan(outlive_loan_t *handle, std::span<std::byte> bytes) : handle_(handle), bytes_(bytes) {}
    detail::Handle<outlive_loan_t, outlive_loan_release> handle_;
    std::span<std::byte> bytes_;
};

/** A received message: it stays as it is as long as this lives, whatever its publisher does, and
 * longer than its subscriber. All threads may use it at once. */
class Sample {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_sample_data(raw())), outlive_sample_size(raw())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** Returns the message as a value, where it lies; throws an `Error` (OUTLIVE_OTHER_TYPE) if it
     * has another size. */
    template <class T> const T &as() const {
        static_assert(Payload<T>, "a message is trivially copyable, of standard layout, and no pointer");
        static_assert(detail::is_aligned_in_place<T>);
        if (bytes().size() != sizeof(T)) detail::raise_other_size(bytes().size(), sizeof(T));
        return *reinterpret_cast<const T *>(bytes().data());
    }
    /** Returns the message as a head with items behind it, where it lies; throws an `Error`
     * (OUTLIVE_OTHER_TYPE) if none has as many bytes. */
    template <class H> WithTail<const H> with_tail() const { return WithTail<const H>(bytes()); }
    Header header() const noexcept {
        Header header{};
        outlive_sample_header(raw(), &header);
        return header;
    }
    /** Returns its number among its publisher's messages; gaps are lost messages. */
    uint64_t sequence() const noexcept { return outlive_sample_sequence(raw()); }
    /** Returns its order among all messages of the topic. */
    uint64_t order() const noexcept { return outlive_sample_order(raw()); }
    /** Returns the token of the process that published it; 0: not known. */
    uint32_t publisher() const noexcept { return outlive_sample_publisher(raw()); }
    /** Returns the number of the session that it is of: each start of a publisher has a higher one. */
    uint32_t session() const noexcept { return outlive_sample_session(raw()); }
    /** Returns whether the process that published it is alive. */
    bool publisher_alive() const noexcept { return outlive_sample_publisher_alive(raw()) != 0; }
    /** Returns how long ago it was published, by its stamp; the largest span without a stamp. */
    std::chrono::nanoseconds age() const noexcept {
        uint64_t age = outlive_sample_age(raw());
        return age == UINT64_MAX ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(age);
    }

    outlive_sample_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Subscriber;
    explicit Sample(outlive_sample_t *handle) : handle_(handle) {}
    detail::Handle<outlive_sample_t, outlive_sample_release> handle_;
};

/** The reliable subscriber that is furthest behind a publisher: `who.pid`, `lag` in messages, and whether
 * it `is_in_the_way` of the next one. */
using Laggard = outlive_laggard_t;

/** Publishes messages to a topic. One thread at a time may use it and its loans. */
class Publisher {
public:
    /** Makes memory for messages of up to so many bytes, and brings it in; `held` are in use at a time
     * beside those in the ring: loans, and samples that subscribers hold. */
    expected<void> prefault(size_t held, size_t size) {
        return detail::done(outlive_publisher_prefault(raw(), held, size));
    }
    /** Lends memory for so many bytes; ENOSPC: subscribers hold what there is. */
    expected<Loan> loan(size_t size) {
        outlive_loan_t *handle = nullptr;
        void *data = nullptr;
        if (int code = outlive_publisher_loan(raw(), size, &handle, &data)) return Failure::last(code);
        return Loan(handle, {static_cast<std::byte *>(data), size});
    }
    /** Lends memory for an `H` with so many items behind it: `loan.with_tail<H>()`. */
    template <class H> expected<Loan> loan_with_tail(size_t count) { return loan(WithTail<H>::size(count)); }
    /** Publishes a loan of this publisher's, and returns its number. Waits, until the deadline,
     * only for reliable subscribers. */
    expected<uint64_t> publish(Loan loan, Deadline deadline = never) {
        uint64_t sequence = 0;
        int code = outlive_publisher_publish(raw(), loan.handle_.release(), deadline.raw(), &sequence);
        if (code != 0) return Failure::last(code);
        return sequence;
    }
    /** Publishes a copy, and returns its number. */
    template <Message M> expected<uint64_t> publish(const M &message, Deadline deadline = never) {
        return publish_copy(bytes_of(message), nullptr, deadline);
    }
    template <Message M> expected<uint64_t> publish(const M &message, const Header &header, Deadline deadline = never) {
        return publish_copy(bytes_of(message), &header, deadline);
    }
    /** Publishes a copy of a head with these items behind it, and returns its number. */
    template <class H>
    expected<uint64_t> publish_with_tail(const H &head, std::span<typename WithTail<const H>::Item> items,
                                         Deadline deadline = never) {
        expected<Loan> loan = loan_with_tail<H>(items.size());
        if (!loan) return loan.error();
        WithTail<H> message = loan->template with_tail<H>();
        message.head() = head;
        std::ranges::copy(items, message.tail().begin());
        return publish(std::move(*loan), deadline);
    }
    uint32_t subscriber_count() const noexcept { return outlive_publisher_subscriber_count(raw()); }
    /** Says that the publisher is there, although it has nothing to publish. */
    void assert_liveliness() noexcept { outlive_publisher_assert_liveliness(raw()); }
    /** Returns how many of its periods have passed without a message. */
    uint64_t missed() const noexcept { return outlive_publisher_missed(raw()); }
    /** Returns how often it has stopped waiting for a reliable subscriber, after its `max_blocking`. */
    uint64_t stopped_waiting() const noexcept { return outlive_publisher_stopped_waiting(raw()); }
    /** Returns the reliable subscriber that is furthest behind; ESRCH: there is none that it waits for. */
    expected<Laggard> slowest() const {
        Laggard laggard{};
        if (int code = outlive_publisher_slowest(raw(), &laggard)) return Failure::last(code);
        return laggard;
    }

    outlive_publisher_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Topic;
    explicit Publisher(outlive_publisher_t *handle) : handle_(handle) {}
    expected<uint64_t> publish_copy(std::span<const std::byte> bytes, const Header *header, Deadline deadline) {
        uint64_t sequence = 0;
        int code =
            outlive_publisher_publish_copy(raw(), bytes.data(), bytes.size(), header, deadline.raw(), &sequence);
        if (code != 0) return Failure::last(code);
        return sequence;
    }
    detail::Handle<outlive_publisher_t, outlive_publisher_close> handle_;
};

/** Receives the messages of a topic: each subscriber gets all of them. One thread at a time may use
 * it. */
class Subscriber : public detail::Ranges<Subscriber> {
public:
    using value_type = Sample;
    /** A range ends at its deadline only: publishers come and go. */
    static constexpr int last_code = 0;

    /** Returns the next message. ETIMEDOUT, EAGAIN: none is there. ETIME: none has come for longer
     * than the period. ENOBUFS: 256 are held. */
    expected<Sample> recv(Deadline deadline = never) {
        outlive_sample_t *handle = nullptr;
        if (int code = outlive_subscriber_recv(raw(), &handle, deadline.raw())) return Failure::last(code);
        return Sample(handle);
    }
    /** Returns the newest message, taken before or not; EAGAIN: no message is there. */
    expected<Sample> latest() {
        outlive_sample_t *handle = nullptr;
        if (int code = outlive_subscriber_latest(raw(), &handle)) return Failure::last(code);
        return Sample(handle);
    }
    /** Returns how many messages were overwritten before this subscriber took them. */
    uint64_t lost() const noexcept { return outlive_subscriber_lost(raw()); }
    /** Returns how many messages were older than its max_age, or than their lifespan. */
    uint64_t expired() const noexcept { return outlive_subscriber_expired(raw()); }
    /** Returns how many of its periods have passed without a message. */
    uint64_t missed() const noexcept { return outlive_subscriber_missed(raw()); }
    /** Returns how often a publisher was alive and did nothing for the time that `liveliness` says. */
    uint64_t lapses() const noexcept { return outlive_subscriber_lapses(raw()); }
    /** Returns the session and the process of the publisher of which a receive told last. */
    std::pair<uint32_t, uint32_t> told() const noexcept {
        std::pair<uint32_t, uint32_t> told{};
        outlive_subscriber_told(raw(), &told.first, &told.second);
        return told;
    }
    /** Returns how many messages it had lost when it was told OUTLIVE_LAGGED last. */
    uint64_t lagged() const noexcept { return outlive_subscriber_lagged(raw()); }
    /** Returns how many messages are waiting for it. */
    uint64_t lag() const noexcept { return outlive_subscriber_lag(raw()); }
    uint32_t publisher_count() const noexcept { return outlive_subscriber_publisher_count(raw()); }

    outlive_subscriber_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Topic;
    explicit Subscriber(outlive_subscriber_t *handle) : handle_(handle) {}
    detail::Handle<outlive_subscriber_t, outlive_subscriber_close> handle_;
};

/** A topic; its publishers and subscribers are made from it. All threads may use it at once. */
class Topic : public detail::WithOptions<Topic, detail::NoCalls, outlive_topic_t, outlive_topic_options_t, outlive_topic_open,
                                         outlive_topic_close> {
public:
    /** Makes a publisher. Begin `options` with OUTLIVE_PUBLISHER_OPTIONS_INIT; `options.max_blocking` is a
     * number of nanoseconds, OUTLIVE_BLOCK_FOREVER or OUTLIVE_BLOCK_NEVER. */
    expected<Publisher> publisher(const outlive_publisher_options_t &options = OUTLIVE_PUBLISHER_OPTIONS_INIT) const {
        outlive_publisher_t *handle = nullptr;
        if (int code = outlive_topic_publisher(raw(), &options, &handle)) return Failure::last(code);
        return Publisher(handle);
    }
    /** Makes a subscriber. Begin `options` with OUTLIVE_SUBSCRIBER_OPTIONS_INIT. */
    expected<Subscriber>
    subscriber(const outlive_subscriber_options_t &options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT) const {
        outlive_subscriber_t *handle = nullptr;
        if (int code = outlive_topic_subscriber(raw(), &options, &handle)) return Failure::last(code);
        return Subscriber(handle);
    }
    uint32_t publisher_count() const noexcept { return counts().first; }
    uint32_t subscriber_count() const noexcept { return counts().second; }
    /** Returns what the topic was made with. */
    outlive_topic_options_t config() const noexcept {
        outlive_topic_options_t config = OUTLIVE_TOPIC_OPTIONS_INIT;
        outlive_topic_config(raw(), &config);
        return config;
    }

private:
    using WithOptions::WithOptions;
    std::pair<uint32_t, uint32_t> counts() const noexcept {
        std::pair<uint32_t, uint32_t> counts{};
        outlive_topic_counts(raw(), &counts.first, &counts.second);
        return counts;
    }
};

} // namespace outlive

#endif
