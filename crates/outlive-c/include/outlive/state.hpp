/* The latest value under a name: one writer, any number of readers, nobody waits for anybody. */
#ifndef OUTLIVE_STATE_HPP
#define OUTLIVE_STATE_HPP

#include "domain.hpp"

namespace outlive {

/** The one who sets the values. Used by one thread at a time. */
template <class T> class StateWriter {
public:
    /** Never waits; which version it is. EPERM: not the writer any more. */
    expected<uint64_t> set(const T &value) {
        uint64_t version = 0;
        int code = outlive_state_writer_set(handle_.get(), std::addressof(value), sizeof(T), &version);
        if (code != 0) return Failure::last(code);
        return version;
    }

private:
    template <class> friend class State;
    explicit StateWriter(outlive_state_writer_t *handle) : handle_(handle) {}
    detail::Handle<outlive_state_writer_t, outlive_state_writer_close> handle_;
};

/** A value, and which it is. */
template <class T> struct Versioned {
    T value;
    uint64_t version;
};

/** A state. May be used by all threads at once. */
template <class T> class State {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");

public:
    /** Opens it, or makes it with that value. OUTLIVE_OTHER_TYPE: it is there with values of another size. */
    static expected<State> open(const Domain &domain, const std::string &name, const T &initial = T{}) {
        outlive_state_t *handle = nullptr;
        int code =
            outlive_state_open(domain.raw(), name.c_str(), sizeof(T), std::addressof(initial), sizeof(T), &handle);
        if (code != 0) return Failure::last(code);
        State state(handle);
        if (outlive_state_capacity(handle) != sizeof(T))
            return Failure(OUTLIVE_OTHER_TYPE, "the state '" + name + "' is there, with values of another size");
        return state;
    }

    /** The latest value, whole. Never waits. */
    expected<T> get() const {
        auto got = get_versioned();
        if (!got) return std::move(got).error();
        return got->value;
    }
    expected<Versioned<T>> get_versioned() const {
        Versioned<T> got;
        size_t size = 0;
        if (int code = outlive_state_get(raw(), std::addressof(got.value), sizeof(T), &size, &got.version))
            return Failure::last(code);
        if (size != sizeof(T)) return Failure(OUTLIVE_OTHER_TYPE, "the state's value has another size");
        return got;
    }
    uint64_t version() const noexcept { return outlive_state_version(raw()); }
    /** Waits for another value than that of version `seen`; which it is. EPIPE: the writer is dead, and there is none. */
    expected<uint64_t> wait_changed(uint64_t seen, Deadline deadline = never) const {
        uint64_t version = 0;
        if (int code = outlive_state_wait_changed(raw(), seen, deadline.raw(), &version)) return Failure::last(code);
        return version;
    }
    /** The writer, if there is none or it is dead; EBUSY: another lives. */
    expected<StateWriter<T>> writer(Deadline deadline = at_once) const {
        outlive_state_writer_t *handle = nullptr;
        if (int code = outlive_state_writer(raw(), deadline.raw(), &handle)) return Failure::last(code);
        return StateWriter<T>(handle);
    }

    outlive_state_t *raw() const noexcept { return handle_.get(); }

private:
    explicit State(outlive_state_t *handle) : handle_(handle) {}
    detail::Handle<outlive_state_t, outlive_state_close> handle_;
};

} // namespace outlive

#endif
