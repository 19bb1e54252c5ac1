/* Asking and answering. No call is ever begun twice, and a server's death ends its calls at once. */
#ifndef OUTLIVE_RPC_HPP
#define OUTLIVE_RPC_HPP

#include "queue.hpp"

namespace outlive {

/** A reply. May be used by all threads at once. */
class Reply {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_reply_data(handle_.get())), outlive_reply_size(handle_.get())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** As a value; an `Error` (OUTLIVE_OTHER_TYPE) if it has another size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }

private:
    friend class Client;
    friend class Call;
    explicit Reply(outlive_reply_t *handle) : handle_(handle) {}
    detail::Handle<outlive_reply_t, outlive_reply_free> handle_;
};

/** A call that is under way: `for (auto reply : call)` over a stream of them. Dropped before it is over, it is cancelled. */
class Call : public detail::Ranges<Call> {
public:
    using value_type = Reply;
    /** A range ends after the last reply; a server's death (EPIPE, ECONNRESET) is an `Error`. */
    static constexpr int last_code = ENODATA;

    /** The next reply. Without a value and with code ENODATA: there are no more. */
    expected<Reply> recv(Deadline deadline = never) {
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_call_next(raw(), deadline.raw(), &handle)) return Failure::last(code);
        if (handle == nullptr) return Failure(ENODATA, "the last reply has been taken");
        return Reply(handle);
    }

    outlive_call_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Client;
    explicit Call(outlive_call_t *handle) : handle_(handle) {}
    detail::Handle<outlive_call_t, outlive_call_drop> handle_;
};

/** The end that asks. It and its calls are used by one thread at a time. */
class Client {
public:
    /** Begin `options` with OUTLIVE_SERVICE_OPTIONS_INIT. */
    static expected<Client> open(const Domain &domain, const std::string &name,
                                 const outlive_service_options_t &options = OUTLIVE_SERVICE_OPTIONS_INIT) {
        outlive_client_t *handle = nullptr;
        if (int code = outlive_client_open(domain.raw(), name.c_str(), &options, &handle)) return Failure::last(code);
        return Client(handle);
    }

    /** Asks, and waits for the reply. EPIPE: the server died, and nobody had begun. ECONNRESET: it died with the call begun.
     * ENOTCONN: there is none. */
    template <Message M> expected<Reply> call(const M &request, Deadline deadline = never) {
        auto bytes = bytes_of(request);
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_client_call(raw(), bytes.data(), bytes.size(), deadline.raw(), &handle))
            return Failure::last(code);
        return Reply(handle);
    }
    /** Asks without waiting for the reply. */
    template <Message M> expected<Call> begin(const M &request, Deadline deadline = never) {
        auto bytes = bytes_of(request);
        outlive_call_t *handle = nullptr;
        if (int code = outlive_client_begin(raw(), bytes.data(), bytes.size(), deadline.raw(), &handle))
            return Failure::last(code);
        return Call(handle);
    }

    outlive_client_t *raw() const noexcept { return handle_.get(); }

private:
    explicit Client(outlive_client_t *handle) : handle_(handle) {}
    detail::Handle<outlive_client_t, outlive_client_close> handle_;
};

/** Several replies to one request. Dropped before `finish`, the client is told ECONNABORTED. */
class Stream {
public:
    template <Message M> expected<void> send(const M &reply, Deadline deadline = never) {
        auto bytes = bytes_of(reply);
        return detail::done(outlive_stream_send(handle_.get(), bytes.data(), bytes.size(), deadline.raw()));
    }
    expected<void> finish() && { return detail::done(outlive_stream_finish(handle_.release())); }

private:
    friend class Request;
    explicit Stream(outlive_stream_t *handle) : handle_(handle) {}
    detail::Handle<outlive_stream_t, outlive_stream_drop> handle_;
};

/** A request that waits for its reply. Dropped without, the client is told ECONNABORTED. */
class Request {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_request_data(handle_.get())), outlive_request_size(handle_.get())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** As a value; an `Error` (OUTLIVE_OTHER_TYPE) if it has another size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }
    /** The client wants no reply any more, or is dead. */
    bool is_cancelled() const noexcept { return outlive_request_is_cancelled(handle_.get()); }
    expected<PeerInfo> client() const {
        PeerInfo info{};
        if (int code = outlive_request_client(handle_.get(), &info)) return Failure::last(code);
        return info;
    }

    /** Replies; never waits. `std::move(request).reply(...)`: it is used up. EPIPE: the client died. */
    template <Message M> expected<void> reply(const M &reply) && {
        auto bytes = bytes_of(reply);
        return detail::done(outlive_request_reply(handle_.release(), bytes.data(), bytes.size()));
    }
    /** Begins to reply by several replies. */
    expected<Stream> stream() && {
        outlive_stream_t *handle = nullptr;
        if (int code = outlive_request_stream(handle_.release(), &handle)) return Failure::last(code);
        return Stream(handle);
    }

private:
    friend class Server;
    explicit Request(outlive_request_t *handle) : handle_(handle) {}
    detail::Handle<outlive_request_t, outlive_request_drop> handle_;
};

/** The end that answers: one at a time, of all processes. Used by one thread at a time. */
class Server : public detail::Ranges<Server> {
public:
    using value_type = Request;
    /** A range ends at its deadline only: clients come and go. */
    static constexpr int last_code = 0;

    /** EBUSY: another serves and lives. */
    static expected<Server> open(const Domain &domain, const std::string &name,
                                 const outlive_service_options_t &options = OUTLIVE_SERVICE_OPTIONS_INIT) {
        outlive_server_t *handle = nullptr;
        if (int code = outlive_server_open(domain.raw(), name.c_str(), &options, &handle)) return Failure::told(code);
        return Server(handle);
    }

    /** The next request. ETIMEDOUT, EAGAIN: nothing there. */
    expected<Request> recv(Deadline deadline = never) {
        outlive_request_t *handle = nullptr;
        if (int code = outlive_server_next(raw(), deadline.raw(), &handle)) return Failure::last(code);
        return Request(handle);
    }

    outlive_server_t *raw() const noexcept { return handle_.get(); }

private:
    explicit Server(outlive_server_t *handle) : handle_(handle) {}
    detail::Handle<outlive_server_t, outlive_server_close> handle_;
};

} // namespace outlive

#endif
