/* Mutexes for real-time threads: `pi_mutex` as a member of a struct in a `Record`, `PiMutex<T>` by name with its value,
 * `CeilingMutex` by name. They do what a mutex does (lock.hpp), deaths included. */
#ifndef OUTLIVE_REALTIME_HPP
#define OUTLIVE_REALTIME_HPP

#include "lock.hpp"

namespace outlive {

namespace detail {

struct PiMutexApi {
    static constexpr auto lock = outlive_pi_mutex_lock;
    static constexpr auto unlock = outlive_pi_mutex_unlock;
    static constexpr auto owner_died = outlive_pi_mutex_owner_died;
    static constexpr auto consistent = outlive_pi_mutex_consistent;
    static constexpr auto holder = outlive_pi_mutex_holder;
};

struct CeilingMutexApi {
    static constexpr auto lock = outlive_ceiling_mutex_lock;
    static constexpr auto unlock = outlive_ceiling_mutex_unlock;
    static constexpr auto owner_died = outlive_ceiling_mutex_owner_died;
    static constexpr auto consistent = outlive_ceiling_mutex_consistent;
    static constexpr auto holder = outlive_ceiling_mutex_holder;
};

/** What a mutex with priority inheritance does. */
template <class Self, class T> class PiMutexCalls : public LockCalls<Self, T, PiMutexApi> {
public:
    /** Makes a lock that was given up usable again; what it guards was made whole before, by an agreement of its users. */
    expected<void> reset(Deadline deadline = never) {
        return done(outlive_pi_mutex_reset(PiMutexCalls::raw(), deadline.raw()));
    }
};

} // namespace detail

/** A mutex whose holder inherits the priority of who waits for it, as a member of a struct in a `Record`: 64 bytes. */
class pi_mutex : public detail::PiMutexCalls<pi_mutex, void> {
public:
    pi_mutex() = default;
    pi_mutex(const pi_mutex &) = delete;
    pi_mutex &operator=(const pi_mutex &) = delete;

    static constexpr uint32_t kind = OUTLIVE_PI_MUTEX;
    outlive_pi_mutex_t *raw() noexcept { return &words_; }
    void *guarded() noexcept { return nullptr; }

private:
    outlive_pi_mutex_t words_;
};
static_assert(sizeof(pi_mutex) == sizeof(outlive_pi_mutex_t) && std::is_standard_layout_v<pi_mutex>);

/** The same by name, with the value that it guards; the same as Rust's `PiMutex<T>` with a T of as many bytes. */
template <class T> class PiMutex : public detail::PiMutexCalls<PiMutex<T>, T> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");
    static_assert(alignof(T) <= 64);

public:
    /** Opens it, or makes it with that value. */
    static expected<PiMutex> open(const Domain &domain, const std::string &name, const T &initial = T{}) {
        outlive_pi_mutex_t *lock = nullptr;
        int code = outlive_pi_mutex_open(domain.raw(), name.c_str(), sizeof(T), &initial, &lock);
        if (code != 0) return Failure::last(code);
        return PiMutex(lock);
    }

    /** What it guards: to be touched by who holds the lock. */
    T &value() noexcept { return *guarded(); }

    outlive_pi_mutex_t *raw() noexcept { return lock_.get(); }
    T *guarded() noexcept { return static_cast<T *>(outlive_pi_mutex_value(lock_.get())); }

private:
    explicit PiMutex(outlive_pi_mutex_t *lock) : lock_(lock) {}
    detail::Handle<outlive_pi_mutex_t, outlive_pi_mutex_close> lock_;
};

/** A mutex by name whose holders run at its ceiling, a real-time priority of 1 to 99: EPERM without the right to. */
class CeilingMutex : public detail::LockCalls<CeilingMutex, void, detail::CeilingMutexApi> {
public:
    /** Opens it, or makes it; EINVAL: it is there with another ceiling. */
    static expected<CeilingMutex> open(const Domain &domain, const std::string &name, uint32_t ceiling) {
        outlive_ceiling_mutex_t *handle = nullptr;
        int code = outlive_ceiling_mutex_open(domain.raw(), name.c_str(), ceiling, &handle);
        if (code != 0) return Failure::last(code);
        return CeilingMutex(handle);
    }
    /** As a mutex's with priority inheritance. */
    expected<void> reset(Deadline deadline = never) {
        return detail::done(outlive_ceiling_mutex_reset(raw(), deadline.raw()));
    }

    outlive_ceiling_mutex_t *raw() const noexcept { return handle_.get(); }
    void *guarded() noexcept { return nullptr; }

private:
    explicit CeilingMutex(outlive_ceiling_mutex_t *handle) : handle_(handle) {}
    detail::Handle<outlive_ceiling_mutex_t, outlive_ceiling_mutex_close> handle_;
};

} // namespace outlive

#endif
