/* Waiting for any of many sources. */
#ifndef OUTLIVE_WAIT_SET_HPP
#define OUTLIVE_WAIT_SET_HPP

#include <array>
#include <vector>

#include "jobs.hpp"
#include "meeting.hpp"
#include "node.hpp"
#include "notify.hpp"
#include "rpc.hpp"
#include "state.hpp"
#include "sync.hpp"
#include "topic.hpp"

namespace outlive {

/** A source that is ready: its `key`, and `what` it is ready for (OUTLIVE_READABLE, OUTLIVE_ENDED,
 * ...). */
using Ready = outlive_ready_t;

/** A set of sources to wait for, all of one domain. One thread at a time may use it. */
class WaitSet {
public:
    static expected<WaitSet> open(const Domain &domain) {
        outlive_wait_set_t *handle = nullptr;
        if (int code = outlive_wait_set_open(domain.raw(), &handle)) return Failure::last(code);
        return WaitSet(handle);
    }

    /* Each returns the key by which `wait` names the source. The handle that was added may be
     * closed before or after. */
    expected<uint64_t> add(const JobQueue &queue) { return key(outlive_wait_set_add_job_queue, queue.raw()); }
    expected<uint64_t> add(const Listener &listener) { return key(outlive_wait_set_add_listener, listener.raw()); }
    expected<uint64_t> add(const Receiver &receiver) { return key(outlive_wait_set_add_receiver, receiver.raw()); }
    expected<uint64_t> add(const Subscriber &subscriber) { return key(outlive_wait_set_add_subscriber, subscriber.raw()); }
    expected<uint64_t> add(const Server &server) { return key(outlive_wait_set_add_server, server.raw()); }
    expected<uint64_t> add(const Call &call) { return key(outlive_wait_set_add_call, call.raw()); }
    /** Adds a server's request: OUTLIVE_ENDED when its client wants no reply any more. */
    expected<uint64_t> add(const Request &request) { return key(outlive_wait_set_add_request, request.raw()); }
    /** Adds a stream that the server sends: OUTLIVE_ENDED when its client wants no further reply. */
    expected<uint64_t> add(const Stream &stream) { return key(outlive_wait_set_add_stream, stream.raw()); }
    /** Adds the replies to a request whose parts are sent, for `RequestStream::recv`. */
    expected<uint64_t> add(const RequestStream &stream) { return key(outlive_wait_set_add_request_stream, stream.raw()); }
    /** Adds a request's parts: OUTLIVE_READABLE when `next_part` has one, or says that there are no more;
     * OUTLIVE_ENDED when no client waits any more. */
    expected<uint64_t> add_parts(const Request &request) { return key(outlive_wait_set_add_parts, request.raw()); }
    expected<uint64_t> add_parts(const Stream &stream) { return key(outlive_wait_set_add_stream_parts, stream.raw()); }
    expected<uint64_t> add(const Publisher &publisher) { return key(outlive_wait_set_add_publisher, publisher.raw()); }
    /** Adds a publisher's period: OUTLIVE_MISSED when it has published nothing for so long, until it
     * does, or `take_missed`. */
    expected<uint64_t> add_due(const Publisher &publisher) { return key(outlive_wait_set_add_due, publisher.raw()); }
    /** Adds a watch of a domain: OUTLIVE_CHANGED, until `DomainWatch::changed`. */
    expected<uint64_t> add(const DomainWatch &watch) { return key(outlive_wait_set_add_domain_watch, watch.raw()); }
    /** Adds a watch of a service's clients: OUTLIVE_CHANGED, until `ClientWatch::next`. */
    expected<uint64_t> add(const ClientWatch &watch) { return key(outlive_wait_set_add_client_watch, watch.raw()); }
    /* A process that stands by adds the role: OUTLIVE_ENDED while no living process has it. Then
     * `queue.receiver()`, `state.writer()` or the server's opening takes it, unless another process was
     * faster: EBUSY. */
    expected<uint64_t> add_stand_by(const Queue &queue) { return key(outlive_wait_set_add_queue_stand_by, queue.raw()); }
    template <class T> expected<uint64_t> add_stand_by(const State<T> &state) {
        return key(outlive_wait_set_add_state_stand_by, state.raw());
    }
    /** Adds the role of a server of the service of that name, which is opened, or made, as
     * `Server::open_or_create` does; of a service for several servers: while there is room for one. */
    expected<uint64_t> add_server_stand_by(const Domain &domain, const std::string &name,
                                           const outlive_service_options_t &options = OUTLIVE_SERVICE_OPTIONS_INIT) {
        return key(outlive_wait_set_add_service_stand_by, domain.raw(), name.c_str(), OUTLIVE_OPEN_OR_CREATE, &options);
    }
    /** Adds a state: OUTLIVE_CHANGED, OUTLIVE_ENDED, until `take_state`. */
    template <class T> expected<uint64_t> add(const State<T> &state) { return key(outlive_wait_set_add_state, state.raw()); }
    expected<uint64_t> add(Event &event, uint32_t bits) { return key(outlive_wait_set_add_event, event.raw(), bits, 0u); }
    expected<uint64_t> add(event &event, uint32_t bits) { return key(outlive_wait_set_add_event, event.raw(), bits, 0u); }
    /** Adds a latch: OUTLIVE_SET once it is open. */
    expected<uint64_t> add(Latch &latch) { return key(outlive_wait_set_add_latch, latch.raw()); }
    expected<uint64_t> add(latch &latch) { return key(outlive_wait_set_add_latch, latch.raw()); }
    /** Adds a topic: OUTLIVE_CHANGED when its publishers or subscribers differ from the last report,
     * until `take_topic`. */
    expected<uint64_t> add(const Topic &topic) { return key(outlive_wait_set_add_topic, topic.raw()); }
    /** Adds a token's owner: OUTLIVE_ENDED when it has ended. */
    expected<uint64_t> add_peer(const Domain &domain, uint32_t token) {
        return key(outlive_wait_set_add_peer, domain.raw(), token);
    }
    /** Adds a timer: OUTLIVE_ELAPSED from then on, until `take_timer`. */
    expected<uint64_t> add_timer(Deadline at) { return key(outlive_wait_set_add_timer, at.raw()); }
    expected<uint64_t> add_timer_every(std::chrono::nanoseconds span) {
        return key(outlive_wait_set_add_timer_every, static_cast<uint64_t>(span.count()));
    }
    expected<void> remove(uint64_t key) { return detail::done(outlive_wait_set_remove(raw(), key)); }

    /** Returns how often a timer has elapsed. */
    expected<uint64_t> take_timer(uint64_t key) { return taken(outlive_wait_set_take_timer, key); }
    /** Returns the reliable subscriber that is furthest behind a publisher of the set: for which process
     * the set waits. ESRCH: there is none. */
    expected<Laggard> slowest(uint64_t key) const {
        Laggard laggard{};
        if (int code = outlive_wait_set_slowest(raw(), key, &laggard)) return Failure::last(code);
        return laggard;
    }
    /** Returns how many periods a publisher has missed since its last message, or the last call. */
    expected<uint64_t> take_missed(uint64_t key) { return taken(outlive_wait_set_take_missed, key); }
    /** How many publishers and subscribers a topic has. */
    struct Ends {
        uint32_t publishers = 0;
        uint32_t subscribers = 0;
    };
    /** Returns how many publishers and subscribers a topic has now; EAGAIN: that has not changed. */
    expected<Ends> take_topic(uint64_t key) {
        Ends ends;
        if (int code = outlive_wait_set_take_topic(raw(), key, &ends.publishers, &ends.subscribers))
            return Failure::last(code);
        return ends;
    }
    /** Returns the version of a state's new value; EPIPE: its writer died. */
    expected<uint64_t> take_state(uint64_t key) { return taken(outlive_wait_set_take_state, key); }

    /** Waits, and returns what is ready, up to 32 at a time; ETIMEDOUT, EAGAIN: nothing is. */
    expected<std::vector<Ready>> wait(Deadline deadline = never) {
        std::array<Ready, 32> ready;
        size_t count = 0;
        int code = outlive_wait_set_wait(raw(), ready.data(), ready.size(), &count, deadline.raw());
        if (code != 0) return Failure::last(code);
        return std::vector<Ready>(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count));
    }
    /** Returns a descriptor for `epoll` and `poll`: readable when a source is ready, until
     * `wait(at_once)` has found none. It is the set's own. */
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
