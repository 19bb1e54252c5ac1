/* Waiting for any of many things. */
#ifndef OUTLIVE_WAIT_SET_HPP
#define OUTLIVE_WAIT_SET_HPP

#include <array>
#include <vector>

#include "rpc.hpp"
#include "state.hpp"
#include "sync.hpp"
#include "topic.hpp"

namespace outlive {

/** Something that is ready: its `key`, and `what` about it (OUTLIVE_READABLE, OUTLIVE_ENDED, ...). */
using Ready = outlive_ready_t;

/** A set of things to wait for, of one domain. Used by one thread at a time. */
class WaitSet {
public:
    static expected<WaitSet> open(const Domain &domain) {
        outlive_wait_set_t *handle = nullptr;
        if (int code = outlive_wait_set_open(domain.raw(), &handle)) return Failure::last(code);
        return WaitSet(handle);
    }

    /* Each gives the key by which `wait` names it. What was added may be closed before or after. */
    expected<uint64_t> add(const Receiver &receiver) { return key(outlive_wait_set_add_receiver, receiver.raw()); }
    expected<uint64_t> add(const Subscriber &subscriber) { return key(outlive_wait_set_add_subscriber, subscriber.raw()); }
    expected<uint64_t> add(const Server &server) { return key(outlive_wait_set_add_server, server.raw()); }
    expected<uint64_t> add(const Call &call) { return key(outlive_wait_set_add_call, call.raw()); }
    expected<uint64_t> add(const Publisher &publisher) { return key(outlive_wait_set_add_publisher, publisher.raw()); }
    /** OUTLIVE_CHANGED, OUTLIVE_ENDED, until `take_state`. */
    template <class T> expected<uint64_t> add(const State<T> &state) { return key(outlive_wait_set_add_state, state.raw()); }
    expected<uint64_t> add(Event &event, uint32_t bits) { return key(outlive_wait_set_add_event, event.raw(), bits, 0u); }
    expected<uint64_t> add(event &event, uint32_t bits) { return key(outlive_wait_set_add_event, event.raw(), bits, 0u); }
    /** OUTLIVE_ENDED when the token's owner has ended. */
    expected<uint64_t> add_peer(const Domain &domain, uint32_t token) {
        return key(outlive_wait_set_add_peer, domain.raw(), token);
    }
    /** OUTLIVE_ELAPSED from then on, until `take_timer`. */
    expected<uint64_t> add_timer(Deadline at) { return key(outlive_wait_set_add_timer, at.raw()); }
    expected<uint64_t> add_timer_every(std::chrono::nanoseconds span) {
        return key(outlive_wait_set_add_timer_every, static_cast<uint64_t>(span.count()));
    }
    expected<void> remove(uint64_t key) { return detail::done(outlive_wait_set_remove(raw(), key)); }

    /** How many of a timer's moments have passed. */
    expected<uint64_t> take_timer(uint64_t key) { return taken(outlive_wait_set_take_timer, key); }
    /** The version of a state's new value; EPIPE: its writer died. */
    expected<uint64_t> take_state(uint64_t key) { return taken(outlive_wait_set_take_state, key); }

    /** What is ready, up to 32 at a time; ETIMEDOUT, EAGAIN: nothing. */
    expected<std::vector<Ready>> wait(Deadline deadline = never) {
        std::array<Ready, 32> ready;
        size_t count = 0;
        int code = outlive_wait_set_wait(raw(), ready.data(), ready.size(), &count, deadline.raw());
        if (code != 0) return Failure::last(code);
        return std::vector<Ready>(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count));
    }
    /** For `epoll` and `poll`: readable when something is ready, until `wait(at_once)` has found nothing. The set's own. */
    expected<int> fd() {
        int fd = -1;
        if (int code = outlive_wait_set_fd(raw(), &fd)) return Failure::last(code);
        return fd;
    }

    outlive_wait_set_t *raw() const noexcept { return handle_.get(); }

private:
    explicit WaitSet(outlive_wait_set_t *handle) : handle_(handle) {}
    template <class Add, class... What> expected<uint64_t> key(Add add, What... what) {
        uint64_t key = 0;
        if (int code = add(raw(), what..., &key)) return Failure::last(code);
        return key;
    }
    template <class Take> expected<uint64_t> taken(Take take, uint64_t key) {
        uint64_t got = 0;
        if (int code = take(raw(), key, &got)) return Failure::last(code);
        return got;
    }
    detail::Handle<outlive_wait_set_t, outlive_wait_set_close> handle_;
};

} // namespace outlive

#endif
