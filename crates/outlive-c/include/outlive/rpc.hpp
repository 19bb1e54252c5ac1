/* Requests and replies. No call is ever begun twice, and a server's death ends its calls at
 * once. */
#ifndef OUTLIVE_RPC_HPP
#define OUTLIVE_RPC_HPP

#include "queue.hpp"

namespace outlive {

/** A reply. All threads may use it at once. */
class Reply {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_reply_data(handle_.get())), outlive_reply_size(handle_.get())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** Returns the reply as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another
     * size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }

private:
    friend class Client;
    friend class Call;
    friend class RequestLoan;
    friend class RequestStream;
    explicit Reply(outlive_reply_t *handle) : handle_(handle) {}
    detail::Handle<outlive_reply_t, outlive_reply_release> handle_;
};

/** A call in flight: `for (auto reply : call)` over a stream of replies. Destroyed before it is
 * over, it is cancelled. */
class Call : public detail::Ranges<Call> {
public:
    using value_type = Reply;
    /** A range ends after the last reply; a server's death (EPIPE, ECONNRESET) is an `Error`. */
    static constexpr int last_code = ENODATA;

    /** Returns the next reply. Without a value and with code ENODATA: there are no more. */
    expected<Reply> recv(Deadline deadline = never) {
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_call_next(raw(), deadline.raw(), &handle)) return Failure::last(code);
        if (handle == nullptr) return Failure(ENODATA, "the last reply has been taken");
        return Reply(handle);
    }

    outlive_call_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Client;
    friend class RequestLoan;
    friend class RequestStream;
    explicit Call(outlive_call_t *handle) : handle_(handle) {}
    detail::Handle<outlive_call_t, outlive_call_release> handle_;
};

/** Memory for one request, to be written in place; the server reads it there. Destroyed unsent, it goes
 * back. `std::move(loan).begin()`, `std::move(loan).call()`. */
class RequestLoan {
public:
    std::span<std::byte> bytes() noexcept {
        return {static_cast<std::byte *>(outlive_request_loan_data(handle_.get())), size_};
    }
    /** Sends the request without waiting for the reply. */
    expected<Call> begin(Deadline deadline = never) && {
        outlive_call_t *handle = nullptr;
        if (int code = outlive_request_loan_begin(handle_.release(), deadline.raw(), &handle)) return Failure::last(code);
        return Call(handle);
    }
    /** Sends the request, and waits for the reply: as `Client::call`. */
    expected<Reply> call(Deadline deadline = never) && {
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_request_loan_call(handle_.release(), deadline.raw(), &handle)) return Failure::last(code);
        return Reply(handle);
    }

private:
    friend class Client;
    RequestLoan(outlive_request_loan_t *handle, size_t size) : handle_(handle), size_(size) {}
    detail::Handle<outlive_request_loan_t, outlive_request_loan_release> handle_;
    size_t size_;
};

/** Memory for one part of a request, to be written in place; the server reads it there. Destroyed unsent,
 * it goes back, and the stream goes on. */
class PartLoan {
public:
    std::span<std::byte> bytes() noexcept {
        return {static_cast<std::byte *>(outlive_part_loan_data(handle_.get())), size_};
    }

private:
    friend class RequestStream;
    PartLoan(outlive_part_loan_t *handle, size_t size) : handle_(handle), size_(size) {}
    detail::Handle<outlive_part_loan_t, outlive_part_loan_release> handle_;
    size_t size_;
};

/** A request whose parts are sent one after the other; the server takes them by
 * `Request::next_part`. Destroyed before `finish`, its call is cancelled. Eight parts may be under
 * way. */
class RequestStream {
public:
    /** Sends a part. ESHUTDOWN: the server has replied already, and takes no more parts; `finish`
     * returns the call, which has the reply. EPIPE, ECONNRESET: the server died. ETIMEDOUT. */
    template <Message M> expected<void> send(const M &part, Deadline deadline = never) {
        auto bytes = bytes_of(part);
        return detail::done(outlive_request_stream_send(raw(), bytes.data(), bytes.size(), deadline.raw()));
    }
    /** Lends memory for a part of so many bytes, to be written in place; waits as `send` does. */
    expected<PartLoan> loan(size_t size, Deadline deadline = never) {
        outlive_part_loan_t *handle = nullptr;
        if (int code = outlive_request_stream_loan(raw(), size, deadline.raw(), &handle)) return Failure::last(code);
        return PartLoan(handle, size);
    }
    /** Sends a part that this stream has lent; never waits. `stream.send(std::move(part))`. EAGAIN: other
     * parts have taken its place. */
    expected<void> send(PartLoan &&part) {
        return detail::done(outlive_request_stream_send_loan(raw(), part.handle_.release()));
    }
    /** Returns a reply that the server has sent before it has all parts, as `Call::recv`. */
    expected<Reply> recv(Deadline deadline = never) {
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_request_stream_next(raw(), deadline.raw(), &handle)) return Failure::last(code);
        if (handle == nullptr) return Failure(ENODATA, "the last reply has been taken");
        return Reply(handle);
    }
    /** Says that no more parts come, and returns the call. Never waits. `std::move(stream).finish()`. */
    expected<Call> finish() && {
        outlive_call_t *handle = nullptr;
        if (int code = outlive_request_stream_finish(handle_.release(), &handle)) return Failure::last(code);
        return Call(handle);
    }
    outlive_request_stream_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Client;
    explicit RequestStream(outlive_request_stream_t *handle) : handle_(handle) {}
    detail::Handle<outlive_request_stream_t, outlive_request_stream_release> handle_;
};

/** Calls a service. All threads may use it at once. */
class Client : public detail::WithOptions<Client, detail::NoCalls, outlive_client_t, outlive_service_options_t,
                                          outlive_client_open, outlive_client_close> {
public:
    /** Sends a request, and waits for the reply. EPIPE: the server died, and no server had begun
     * the call. ECONNRESET: it died after it had begun the call. ENOTCONN: there is no server.
     * OUTLIVE_FAILED: the server could not do what was asked; the failure's message says why, and
     * `value()` throws a `ServiceError`. */
    template <Message M> expected<Reply> call(const M &request, Deadline deadline = never) {
        auto bytes = bytes_of(request);
        outlive_reply_t *handle = nullptr;
        if (int code = outlive_client_call(raw(), bytes.data(), bytes.size(), deadline.raw(), &handle))
            return Failure::last(code);
        return Reply(handle);
    }
    /** Says that the client is there, although it has nothing to ask. */
    void assert_liveliness() noexcept { outlive_client_assert_liveliness(raw()); }
    /** Makes memory for so many requests and replies of up to so many bytes each, and brings it in. */
    expected<void> prefault(size_t messages, size_t size) {
        return detail::done(outlive_client_prefault(raw(), messages, size));
    }
    /** Lends memory for a request of so many bytes, to be written in place; waits while the service's
     * memory is in use. ETIMEDOUT. */
    expected<RequestLoan> loan(size_t size, Deadline deadline = never) {
        outlive_request_loan_t *handle = nullptr;
        if (int code = outlive_client_loan(raw(), size, deadline.raw(), &handle)) return Failure::last(code);
        return RequestLoan(handle, size);
    }
    /** Sends a request without waiting for the reply. */
    template <Message M> expected<Call> begin(const M &request, Deadline deadline = never) {
        auto bytes = bytes_of(request);
        outlive_call_t *handle = nullptr;
        if (int code = outlive_client_begin(raw(), bytes.data(), bytes.size(), deadline.raw(), &handle))
            return Failure::last(code);
        return Call(handle);
    }
    /** Sends a request of which further parts follow. */
    template <Message M> expected<RequestStream> stream(const M &request, Deadline deadline = never) {
        auto bytes = bytes_of(request);
        outlive_request_stream_t *handle = nullptr;
        if (int code = outlive_client_stream(raw(), bytes.data(), bytes.size(), deadline.raw(), &handle))
            return Failure::last(code);
        return RequestStream(handle);
    }

private:
    using WithOptions::WithOptions;
};

/** A part of a request. All threads may use it at once. */
class Part {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_part_data(handle_.get())), outlive_part_size(handle_.get())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** Returns the part as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }

private:
    friend class Request;
    friend class Stream;
    explicit Part(outlive_part_t *handle) : handle_(handle) {}
    detail::Handle<outlive_part_t, outlive_part_release> handle_;
};

/** Memory for one reply of a stream, to be written in place; the client reads it there. Destroyed unsent,
 * it goes back, and the stream goes on. */
class StreamLoan {
public:
    std::span<std::byte> bytes() noexcept {
        return {static_cast<std::byte *>(outlive_stream_loan_data(handle_.get())), size_};
    }

private:
    friend class Stream;
    StreamLoan(outlive_stream_loan_t *handle, size_t size) : handle_(handle), size_(size) {}
    detail::Handle<outlive_stream_loan_t, outlive_stream_loan_release> handle_;
    size_t size_;
};

/** Several replies to one request. Destroyed before `finish`, the client gets ECONNABORTED; `fail`
 * tells it why. */
class Stream {
public:
    template <Message M> expected<void> send(const M &reply, Deadline deadline = never) {
        auto bytes = bytes_of(reply);
        return detail::done(outlive_stream_send(handle_.get(), bytes.data(), bytes.size(), deadline.raw()));
    }
    /** Lends memory for a reply of so many bytes, to be written in place; waits while eight replies are
     * under way. */
    expected<StreamLoan> loan(size_t size, Deadline deadline = never) {
        outlive_stream_loan_t *handle = nullptr;
        if (int code = outlive_stream_loan(handle_.get(), size, deadline.raw(), &handle)) return Failure::last(code);
        return StreamLoan(handle, size);
    }
    /** Sends a reply that this stream has lent; never waits. `stream.send(std::move(reply))`. EAGAIN: other
     * replies have taken its place. */
    expected<void> send(StreamLoan &&reply) {
        return detail::done(outlive_stream_send_loan(handle_.get(), reply.handle_.release()));
    }
    expected<void> finish() && { return detail::done(outlive_stream_finish(handle_.release())); }
    /** Returns the next part of the request, as `Request::next_part`. */
    expected<Part> next_part(Deadline deadline = never) {
        outlive_part_t *handle = nullptr;
        if (int code = outlive_stream_next_part(handle_.get(), deadline.raw(), &handle)) return Failure::last(code);
        if (handle == nullptr) return Failure(ENODATA, "the last part has been taken");
        return Part(handle);
    }
    /** Ends the stream without a last reply: after the replies that were sent, the client gets
     * OUTLIVE_FAILED with this text. Never waits. `std::move(stream).fail(...)`. */
    expected<void> fail(const std::string &why) && {
        return detail::done(outlive_stream_fail(handle_.release(), why.c_str()));
    }

    outlive_stream_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Request;
    explicit Stream(outlive_stream_t *handle) : handle_(handle) {}
    detail::Handle<outlive_stream_t, outlive_stream_release> handle_;
};

/** Memory for the reply to a request, to be written in place; the client reads it there. Destroyed
 * unsent, the client gets ECONNABORTED. `std::move(loan).send()`. */
class ReplyLoan {
public:
    std::span<std::byte> bytes() noexcept {
        return {static_cast<std::byte *>(outlive_reply_loan_data(handle_.get())), size_};
    }
    /** Returns the bytes of the request. */
    std::span<const std::byte> request() const noexcept {
        size_t size = 0;
        auto data = outlive_reply_loan_request(handle_.get(), &size);
        return {static_cast<const std::byte *>(data), size};
    }
    /** Sends the reply; never waits. EPIPE: the client died. */
    expected<void> send() && { return detail::done(outlive_reply_loan_send(handle_.release())); }
    /** Gives the memory back, and tells the client why it gets no reply: see `Request::fail`. */
    expected<void> fail(const std::string &why) && {
        return detail::done(outlive_reply_loan_fail(handle_.release(), why.c_str()));
    }

private:
    friend class Request;
    ReplyLoan(outlive_reply_loan_t *handle, size_t size) : handle_(handle), size_(size) {}
    detail::Handle<outlive_reply_loan_t, outlive_reply_loan_release> handle_;
    size_t size_;
};

/** A request that waits for its reply. Destroyed without one, the client gets ECONNABORTED; `fail`
 * tells it why. A handler that throws:
 *
 *     try {
 *         auto answer = handle(request.bytes());
 *         std::move(request).reply(answer).value();
 *     } catch (const std::exception &error) {
 *         std::move(request).fail(error.what());
 *     }
 */
class Request {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_request_data(handle_.get())), outlive_request_size(handle_.get())};
    }
    std::string_view text() const noexcept { return text_of(bytes()); }
    /** Returns the request as a value; throws an `Error` (OUTLIVE_OTHER_TYPE) if it has another
     * size. */
    template <class T> T as() const { return detail::value_of<T>(bytes()); }
    /** Returns whether the client wants no reply any more, or is dead. */
    bool is_cancelled() const noexcept { return outlive_request_is_cancelled(handle_.get()); }
    /** Waits until the client wants no reply any more, or is dead; ETIMEDOUT. */
    expected<void> wait_cancelled(Deadline deadline = never) const {
        return detail::done(outlive_request_wait_cancelled(handle_.get(), deadline.raw()));
    }
    /** Returns the next part of the request. Without a value and with code ENODATA: there are no
     * more. ECANCELED: no client waits for a reply any more. ETIMEDOUT, EAGAIN. */
    expected<Part> next_part(Deadline deadline = never) {
        outlive_part_t *handle = nullptr;
        if (int code = outlive_request_next_part(handle_.get(), deadline.raw(), &handle)) return Failure::last(code);
        if (handle == nullptr) return Failure(ENODATA, "the last part has been taken");
        return Part(handle);
    }
    const outlive_request_t *raw() const noexcept { return handle_.get(); }
    expected<PeerInfo> client() const {
        PeerInfo info{};
        if (int code = outlive_request_client(handle_.get(), &info)) return Failure::last(code);
        return info;
    }

    /** Sends the reply; never waits. `std::move(request).reply(...)`: the request is consumed.
     * EPIPE: the client died. */
    template <Message M> expected<void> reply(const M &reply) && {
        auto bytes = bytes_of(reply);
        return detail::done(outlive_request_reply(handle_.release(), bytes.data(), bytes.size()));
    }
    /** Lends memory for a reply of so many bytes, to be written in place. Never waits.
     * `std::move(request).loan(...)`: the request is consumed; its bytes are the loan's `request()`. */
    expected<ReplyLoan> loan(size_t size) && {
        outlive_reply_loan_t *handle = nullptr;
        if (int code = outlive_request_loan(handle_.release(), size, &handle)) return Failure::last(code);
        return ReplyLoan(handle, size);
    }
    /** Tells the client that what it asked for could not be done, and why: it gets OUTLIVE_FAILED
     * with this text. Never waits. `std::move(request).fail(error.what())`. */
    expected<void> fail(const std::string &why) && {
        return detail::done(outlive_request_fail(handle_.release(), why.c_str()));
    }
    /** Begins a stream: several replies to one request. */
    expected<Stream> stream() && {
        outlive_stream_t *handle = nullptr;
        if (int code = outlive_request_stream(handle_.release(), &handle)) return Failure::last(code);
        return Stream(handle);
    }

private:
    friend class Server;
    explicit Request(outlive_request_t *handle) : handle_(handle) {}
    detail::Handle<outlive_request_t, outlive_request_release> handle_;
};

/** Tells which clients of a service do nothing, and which have died: `Server::watch_clients` makes
 * it, or `open` in any other process. One thread at a time may use it. */
class ClientWatch {
public:
    /** Follows the clients of the service of that name; ENOENT: there is no such service. */
    static expected<ClientWatch> open(const Domain &domain, const std::string &name, std::chrono::nanoseconds lease) {
        outlive_client_watch_t *handle = nullptr;
        int code = outlive_client_watch_open(domain.raw(), name.c_str(), static_cast<uint64_t>(lease.count()), &handle);
        if (code != 0) return Failure::last(code);
        return ClientWatch(handle);
    }
    /** What has become of a client. */
    struct Event {
        /** OUTLIVE_CLIENT_NOT_LIVELY, OUTLIVE_CLIENT_LIVELY or OUTLIVE_CLIENT_DIED. */
        uint32_t what;
        outlive_peer_info_t client;
    };
    /** Waits until something has become of a client; ETIMEDOUT, EAGAIN: there is nothing to tell. */
    expected<Event> next(Deadline deadline = never) {
        Event event{};
        if (int code = outlive_client_watch_next(raw(), deadline.raw(), &event.what, &event.client)) return Failure::last(code);
        return event;
    }
    /** Returns how often a client's lease has passed. */
    uint64_t lapses() const noexcept { return outlive_client_watch_lapses(raw()); }
    /** Returns how many clients have died. */
    uint64_t deaths() const noexcept { return outlive_client_watch_deaths(raw()); }

    outlive_client_watch_t *raw() const noexcept { return handle_.get(); }

private:
    friend class Server;
    explicit ClientWatch(outlive_client_watch_t *handle) : handle_(handle) {}
    detail::Handle<outlive_client_watch_t, outlive_client_watch_close> handle_;
};

/** Receives a service's requests: one server at a time, of all processes, or as many as `max_servers`;
 * opening another is EBUSY while it lives. One thread at a time may use it. */
class Server : public detail::WithOptions<Server, detail::Ranges<Server>, outlive_server_t, outlive_service_options_t,
                                          outlive_server_open, outlive_server_close> {
public:
    using value_type = Request;
    /** A range ends at its deadline only: clients come and go. */
    static constexpr int last_code = 0;

    /** Returns the next request. ETIMEDOUT, EAGAIN: no request is there. */
    expected<Request> recv(Deadline deadline = never) {
        outlive_request_t *handle = nullptr;
        if (int code = outlive_server_next(raw(), deadline.raw(), &handle)) return Failure::last(code);
        return Request(handle);
    }
    /** Follows what becomes of the service's clients: which of them have done nothing for so long, and
     * which have died. */
    expected<ClientWatch> watch_clients(std::chrono::nanoseconds lease) {
        outlive_client_watch_t *handle = nullptr;
        auto nanoseconds = static_cast<uint64_t>(lease.count());
        if (int code = outlive_server_watch_clients(raw(), nanoseconds, &handle)) return Failure::last(code);
        return ClientWatch(handle);
    }
    /** Makes memory for so many requests and replies of up to so many bytes each, and brings it in. */
    expected<void> prefault(size_t messages, size_t size) {
        return detail::done(outlive_server_prefault(raw(), messages, size));
    }

private:
    using WithOptions::WithOptions;
};

} // namespace outlive

#endif
