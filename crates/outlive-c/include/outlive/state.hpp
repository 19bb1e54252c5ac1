/* The latest value under a name: one writer, any number of readers; no reader and no writer waits
 * for another. */
#ifndef OUTLIVE_STATE_HPP
#define OUTLIVE_STATE_HPP

#include <vector>

#include "described.hpp"
#include "domain.hpp"

namespace outlive {

namespace detail {

inline expected<PeerInfo> writer_of(const outlive_state_t *state) {
    PeerInfo info{};
    if (int code = outlive_state_writer_now(state, &info)) return Failure::last(code);
    return info;
}

} // namespace detail

/** Sets the values of a state. One thread at a time may use it. */
template <class T> class StateWriter {
public:
    /** Sets the value, never waits, and returns its version. EPERM: not the writer any more. */
    expected<uint64_t> set(const T &value) {
        uint64_t version = 0;
        int code = outlive_state_writer_set(handle_.get(), std::addressof(value), sizeof(T), &version);
        if (code != 0) return Failure::last(code);
        return version;
    }

    /** Makes buffers for so many readers that are in `get` at the same time, 64 at most, and brings the
     * state's memory in: setting a value is no page fault and no system call. ENOSPC: more, or no
     * room for all of it. */
    expected<void> prefault(size_t readers) { return detail::done(outlive_state_writer_prefault(handle_.get(), readers)); }

private:
    template <class> friend class State;
    explicit StateWriter(outlive_state_writer_t *handle) : handle_(handle) {}
    detail::Handle<outlive_state_writer_t, outlive_state_writer_close> handle_;
};

/** A value, and its version. */
template <class T> struct Versioned {
    T value;
    uint64_t version;
};

/** A state. All threads may use it at once. */
template <class T>
class State : public detail::Named<State<T>, detail::NoCalls, outlive_state_t, outlive_state_open_fixed, outlive_state_close> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");

public:
    /** Opens the state of that name, or makes it with that value; the same as Rust's `State<T>`
     * with a T of as many bytes. OUTLIVE_OTHER_TYPE: it exists with values of another size. */
    static expected<State> open_or_create(const Domain &domain, const std::string &name, const T &initial = T{}) {
        return State::opened(OUTLIVE_OPEN_OR_CREATE, domain, name, sizeof(T), std::addressof(initial));
    }
    /** Opens the state of that name; ENOENT: there is none. */
    static expected<State> open(const Domain &domain, const std::string &name) {
        return State::opened(OUTLIVE_OPEN, domain, name, sizeof(T), nullptr);
    }
    /** Makes a new state of that name with that value; EEXIST: the name is in use. */
    static expected<State> create_new(const Domain &domain, const std::string &name, const T &initial = T{}) {
        return State::opened(OUTLIVE_CREATE_NEW, domain, name, sizeof(T), std::addressof(initial));
    }

    /** Open or make a state that has the description of a `T`, the same for all languages:
     * OUTLIVE_OTHER_TYPE, it exists with another one, and the message names the first field that
     * differs. */
    static expected<State> open_or_create(const Domain &domain, const std::string &name, const T &initial, Described) {
        return described_as(OUTLIVE_OPEN_OR_CREATE, domain, name, std::addressof(initial));
    }
    static expected<State> open(const Domain &domain, const std::string &name, Described) {
        return described_as(OUTLIVE_OPEN, domain, name, nullptr);
    }
    static expected<State> create_new(const Domain &domain, const std::string &name, const T &initial, Described) {
        return described_as(OUTLIVE_CREATE_NEW, domain, name, std::addressof(initial));
    }

    /** Returns the latest value, whole. Never waits. */
    expected<T> get() const {
        auto got = get_versioned();
        if (!got) return std::move(got).error();
        return got->value;
    }
    expected<Versioned<T>> get_versioned() const {
        Versioned<T> got;
        size_t size = 0;
        if (int code = outlive_state_get(State::raw(), std::addressof(got.value), sizeof(T), &size, &got.version))
            return Failure::last(code);
        if (size != sizeof(T)) return Failure(OUTLIVE_OTHER_TYPE, "the state's value has another size");
        return got;
    }
    uint64_t version() const noexcept { return outlive_state_version(State::raw()); }
    /** Waits for a value of another version than `seen`, and returns its version. EPIPE: the writer
     * is dead, and there is no such value. */
    expected<uint64_t> wait_changed(uint64_t seen, Deadline deadline = never) const {
        uint64_t version = 0;
        if (int code = outlive_state_wait_changed(State::raw(), seen, deadline.raw(), &version)) return Failure::last(code);
        return version;
    }
    /** Returns the thread or process that is the writer, dead or alive; ESRCH: there is none. */
    expected<PeerInfo> writer_now() const { return detail::writer_of(State::raw()); }
    /** Makes this process the writer, if there is none or it is dead; EBUSY: another is alive. */
    expected<StateWriter<T>> writer(Deadline deadline = at_once) const {
        outlive_state_writer_t *handle = nullptr;
        if (int code = outlive_state_writer(State::raw(), deadline.raw(), &handle)) return Failure::told(code);
        return StateWriter<T>(handle);
    }

private:
    using State::Named::Named;
    static expected<State> described_as(outlive_opening_t how, const Domain &domain, const std::string &name,
                                        const T *initial) {
        outlive_state_t *handle = nullptr;
        int code = outlive_state_open_described(domain.raw(), name.c_str(), how, &description_of<T>(), 0, initial,
                                                initial == nullptr ? 0 : sizeof(T), &handle);
        if (code != 0) return Failure::told(code);
        State state(handle);
        if (outlive_state_capacity(handle) != sizeof(T))
            return Failure(OUTLIVE_OTHER_TYPE, "the state's values have another size");
        return state;
    }
};

/** Sets the values of a `StateBytes`. One thread at a time may use it. */
class BytesWriter {
public:
    /** Sets the value, never waits, and returns its version. EMSGSIZE: too long. EPERM: not the
     * writer any more. */
    template <Message M> expected<uint64_t> set(const M &value) {
        auto bytes = bytes_of(value);
        uint64_t version = 0;
        int code = outlive_state_writer_set(handle_.get(), bytes.data(), bytes.size(), &version);
        if (code != 0) return Failure::last(code);
        return version;
    }

    /** Makes buffers for so many readers that are in `get` at the same time, 64 at most, and brings the
     * state's memory in: setting a value is no page fault and no system call. ENOSPC: more, or no
     * room for all of it. */
    expected<void> prefault(size_t readers) { return detail::done(outlive_state_writer_prefault(handle_.get(), readers)); }

private:
    friend class StateBytes;
    explicit BytesWriter(outlive_state_writer_t *handle) : handle_(handle) {}
    detail::Handle<outlive_state_writer_t, outlive_state_writer_close> handle_;
};

/** A state whose values are bytes, of any length up to the maximum that it was made for. All
 * threads may use it at once. */
class StateBytes
    : public detail::Named<StateBytes, detail::NoCalls, outlive_state_t, outlive_state_open, outlive_state_close> {
public:
    /** Opens the state of that name, or makes it for values of at most `capacity` bytes with this one
     * in it. EINVAL: it exists for others. ENOSPC: this one is longer. */
    template <Message M>
    static expected<StateBytes> open_or_create(const Domain &domain, const std::string &name, size_t capacity,
                                               const M &initial) {
        auto bytes = bytes_of(initial);
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, capacity, bytes.data(), bytes.size());
    }
    /** Opens the state of that name, of any type; ENOENT: there is none. */
    static expected<StateBytes> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0, nullptr, 0);
    }
    /** Makes a new state of that name; EEXIST: the name is in use. */
    template <Message M>
    static expected<StateBytes> create_new(const Domain &domain, const std::string &name, size_t capacity, const M &initial) {
        auto bytes = bytes_of(initial);
        return opened(OUTLIVE_CREATE_NEW, domain, name, capacity, bytes.data(), bytes.size());
    }

    /** Opens or makes a state whose values are what `payload` describes: slices, or messages in an
     * encoding of their own. `capacity` is the most bytes of a value; 0: 4 KiB. */
    static expected<StateBytes> open_or_create(const Domain &domain, const std::string &name,
                                               const outlive_payload_t &payload, size_t capacity = 0) {
        outlive_state_t *handle = nullptr;
        int code = outlive_state_open_described(domain.raw(), name.c_str(), OUTLIVE_OPEN_OR_CREATE, &payload, capacity,
                                                nullptr, 0, &handle);
        if (code != 0) return Failure::told(code);
        return StateBytes(handle);
    }

    /** Returns the latest value, whole, and its version. Never waits. */
    expected<Versioned<std::vector<std::byte>>> get_versioned() const {
        Versioned<std::vector<std::byte>> got{std::vector<std::byte>(capacity()), 0};
        size_t size = 0;
        int code = outlive_state_get(raw(), got.value.data(), got.value.size(), &size, &got.version);
        if (code != 0) return Failure::last(code);
        got.value.resize(size);
        return got;
    }
    /** Returns how many bytes a value may have. */
    size_t capacity() const noexcept { return outlive_state_capacity(raw()); }
    uint64_t version() const noexcept { return outlive_state_version(raw()); }
    /** Waits for a value of another version than `seen`, and returns its version. EPIPE: the writer
     * is dead, and there is no such value. */
    expected<uint64_t> wait_changed(uint64_t seen, Deadline deadline = never) const {
        uint64_t version = 0;
        if (int code = outlive_state_wait_changed(raw(), seen, deadline.raw(), &version)) return Failure::last(code);
        return version;
    }
    /** Returns the thread or process that is the writer, dead or alive; ESRCH: there is none. */
    expected<PeerInfo> writer_now() const { return detail::writer_of(raw()); }
    /** Makes this process the writer, if there is none or it is dead; EBUSY: another is alive. */
    expected<BytesWriter> writer(Deadline deadline = at_once) const {
        outlive_state_writer_t *handle = nullptr;
        if (int code = outlive_state_writer(raw(), deadline.raw(), &handle)) return Failure::told(code);
        return BytesWriter(handle);
    }

private:
    using Named::Named;
};

} // namespace outlive

#endif
