/* Mutexes for real-time threads: `pi_mutex` and `ceiling_mutex<40>` as members of a struct in a
 * `Record`, `PiMutex<T>` and `CeilingMutex<T>` by name with their values. They have the calls of a
 * mutex (lock.hpp), and the same behaviour when an owner dies. */
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
    static constexpr auto mark_not_recoverable = outlive_pi_mutex_mark_not_recoverable;
    static constexpr auto holder = outlive_pi_mutex_holder;
};

struct CeilingMutexApi {
    static constexpr auto lock = outlive_ceiling_mutex_lock;
    static constexpr auto unlock = outlive_ceiling_mutex_unlock;
    static constexpr auto owner_died = outlive_ceiling_mutex_owner_died;
    static constexpr auto consistent = outlive_ceiling_mutex_consistent;
    static constexpr auto mark_not_recoverable = outlive_ceiling_mutex_mark_not_recoverable;
    static constexpr auto holder = outlive_ceiling_mutex_holder;
};

/** The calls of a mutex with priority inheritance. */
template <class Self, class T> class PiMutexCalls : public LockCalls<Self, T, PiMutexApi> {
public:
    /** Makes a lock usable again that was marked not recoverable. Its users have agreed on making what it guards
     * whole before. */
    expected<void> reset(Deadline deadline = never) {
        return done(outlive_pi_mutex_reset(PiMutexCalls::raw(), deadline.raw()));
    }
};

/** The calls of a mutex with a ceiling. */
template <class Self, class T> class CeilingMutexCalls : public LockCalls<Self, T, CeilingMutexApi> {
public:
    /** Makes a lock usable again that was marked not recoverable, as `PiMutexCalls::reset`. */
    expected<void> reset(Deadline deadline = never) {
        return done(outlive_ceiling_mutex_reset(CeilingMutexCalls::raw(), deadline.raw()));
    }
};

} // namespace detail

/** A mutex whose holder inherits the priority of its waiters, as a member of a struct in a
 * `Record`: 64 bytes. */
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

/** A mutex with priority inheritance by name, with the value that it guards; the same as Rust's
 * `PiMutex<T>` with a T of as many bytes. */
template <class T>
class PiMutex : public detail::NamedLock<PiMutex<T>, detail::PiMutexCalls<PiMutex<T>, T>, T, outlive_pi_mutex_t,
                                         outlive_pi_mutex_open, outlive_pi_mutex_close, outlive_pi_mutex_value> {
    using PiMutex::NamedLock::NamedLock;
};

/** A mutex whose holders run at its ceiling, a real-time priority of 1 to 99, as a member of a
 * struct in a `Record`: 16 bytes. EPERM: the thread may not run at the ceiling. */
template <uint32_t Ceiling> class ceiling_mutex : public detail::CeilingMutexCalls<ceiling_mutex<Ceiling>, void> {
    static_assert(Ceiling >= 1 && Ceiling <= 99, "a ceiling is a priority of 1 to 99");

public:
    ceiling_mutex() = default;
    ceiling_mutex(const ceiling_mutex &) = delete;
    ceiling_mutex &operator=(const ceiling_mutex &) = delete;

    static constexpr uint32_t kind = OUTLIVE_CEILING_MUTEX, number = Ceiling;
    outlive_ceiling_mutex_t *raw() noexcept { return &words_; }
    void *guarded() noexcept { return nullptr; }

private:
    outlive_ceiling_mutex_t words_;
};
static_assert(sizeof(ceiling_mutex<1>) == sizeof(outlive_ceiling_mutex_t) && std::is_standard_layout_v<ceiling_mutex<1>>);

namespace detail {

/** A mutex with a ceiling by name. */
template <class Self, class T>
using NamedCeiling =
    Named<Self, CeilingMutexCalls<Self, T>, outlive_ceiling_mutex_t, outlive_ceiling_mutex_open, outlive_ceiling_mutex_close>;

} // namespace detail

/** A mutex with a ceiling by name, with the value that it guards; the same as Rust's
 * `CeilingMutex<T>` with a T of as many bytes. */
template <class T> class CeilingMutex : public detail::NamedCeiling<CeilingMutex<T>, T> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");
    static_assert(alignof(T) <= 64);

public:
    /** Opens the mutex of that name, or makes it with that value; EINVAL: it exists with another
     * ceiling. */
    static expected<CeilingMutex> open_or_create(const Domain &domain, const std::string &name, uint32_t ceiling,
                                                 const T &initial = T{}) {
        return CeilingMutex::opened(OUTLIVE_OPEN_OR_CREATE, domain, name, ceiling, sizeof(T), &initial);
    }
    /** Opens the mutex of that name, whatever its ceiling; ENOENT: there is none. */
    static expected<CeilingMutex> open(const Domain &domain, const std::string &name) {
        return CeilingMutex::opened(OUTLIVE_OPEN, domain, name, 0, sizeof(T), nullptr);
    }
    /** Makes a new mutex of that name with that value; EEXIST: the name is in use. */
    static expected<CeilingMutex> create_new(const Domain &domain, const std::string &name, uint32_t ceiling,
                                             const T &initial = T{}) {
        return CeilingMutex::opened(OUTLIVE_CREATE_NEW, domain, name, ceiling, sizeof(T), &initial);
    }

    /** The value that it guards: only the lock's holder may touch it. */
    T &value() noexcept { return *guarded(); }
    T *guarded() noexcept { return static_cast<T *>(outlive_ceiling_mutex_value(CeilingMutex::raw())); }

private:
    using CeilingMutex::Named::Named;
};

/** A mutex with a ceiling by name, without a value. */
template <> class CeilingMutex<void> : public detail::NamedCeiling<CeilingMutex<void>, void> {
public:
    /** Opens the mutex of that name, or makes it; EINVAL: it exists with another ceiling. */
    static expected<CeilingMutex> open_or_create(const Domain &domain, const std::string &name, uint32_t ceiling) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, ceiling, 0, nullptr);
    }
    /** Opens the mutex of that name, whatever its ceiling; ENOENT: there is none. */
    static expected<CeilingMutex> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0, 0, nullptr);
    }
    /** Makes a new mutex of that name; EEXIST: the name is in use. */
    static expected<CeilingMutex> create_new(const Domain &domain, const std::string &name, uint32_t ceiling) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, ceiling, 0, nullptr);
    }

    void *guarded() noexcept { return nullptr; }

private:
    using Named::Named;
};

} // namespace outlive

#endif
