/* Condition variables between processes, over mutexes of all kinds: `mutex`, `recursive_mutex`,
 * `pi_mutex`, `ceiling_mutex`, and those with a name. */
#ifndef OUTLIVE_CONDVAR_HPP
#define OUTLIVE_CONDVAR_HPP

#include "lock.hpp"

namespace outlive {

namespace detail {

inline int waited(outlive_condvar_t *condvar, outlive_mutex_t *mutex, outlive_deadline_t deadline) {
    return outlive_condvar_wait_until(condvar, mutex, deadline);
}
inline int waited(outlive_condvar_t *condvar, outlive_reentrant_mutex_t *mutex, outlive_deadline_t deadline) {
    return outlive_condvar_wait_reentrant_mutex(condvar, mutex, deadline);
}
inline int waited(outlive_condvar_t *condvar, outlive_pi_mutex_t *mutex, outlive_deadline_t deadline) {
    return outlive_condvar_wait_pi_mutex(condvar, mutex, deadline);
}
inline int waited(outlive_condvar_t *condvar, outlive_ceiling_mutex_t *mutex, outlive_deadline_t deadline) {
    return outlive_condvar_wait_ceiling_mutex(condvar, mutex, deadline);
}

/** The calls of a condition variable. A `Lock` is a `std::unique_lock` or a `Guard` of a mutex of
 * Outlive's, which is held. */
template <class Self> class CondvarCalls {
public:
    /** Unlocks the mutex, waits for a notification, and locks the mutex again; returns false at the
     * deadline. It may return without a notification. If an owner died holding the mutex meanwhile,
     * or before without a repair since, the mutex's `owner_died()` is true. Throws an `Error` when
     * the mutex is not recoverable (ENOTRECOVERABLE), or was not held. A recursive mutex is unlocked
     * as a whole, and locked as often again. */
    template <class Lock> bool wait_until(Lock &lock, Deadline deadline) {
        return got(waited(raw(), lock.mutex()->raw(), deadline.raw()));
    }
    template <class Lock> void wait(Lock &lock) { wait_until(lock, never); }
    template <class Lock> bool wait_for(Lock &lock, Deadline span) { return wait_until(lock, span); }

    /** Waits until `is_so()`, or the deadline, or the mutex's `owner_died()`: check that first.
     * Returns what `is_so()` returned; true, without a call of `is_so`, when an owner died, since
     * what is guarded may be damaged. */
    template <class Lock, class Predicate> bool wait_until(Lock &lock, Deadline deadline, Predicate is_so) {
        while (!lock.mutex()->owner_died() && !is_so()) {
            if (!wait_until(lock, deadline)) return is_so();
        }
        return true;
    }
    template <class Lock, class Predicate> bool wait_for(Lock &lock, Deadline span, Predicate is_so) {
        return wait_until(lock, span, is_so);
    }
    template <class Lock, class Predicate> void wait(Lock &lock, Predicate is_so) { wait_until(lock, never, is_so); }

    /** Waits as `wait_until` does, under a `mutex` or a `Mutex`, and also until the owner of `token` has ended:
     * for what only that owner can do. Returns with the mutex held again: ETIMEDOUT, ESRCH: the owner has ended. */
    template <class Lock> expected<void> wait_or_end(Lock &lock, const Domain &domain, uint32_t token, Deadline deadline = never) {
        int code = outlive_condvar_wait_or_end(raw(), lock.mutex()->raw(), domain.raw(), token, deadline.raw());
        /* The mutex's `owner_died()` says so. */
        return done(code == EOWNERDEAD ? 0 : code);
    }

    void notify_one() { done(outlive_condvar_notify_one(raw())).value(); }
    void notify_all() { done(outlive_condvar_notify_all(raw())).value(); }

private:
    outlive_condvar_t *raw() { return static_cast<Self &>(*this).raw(); }
};

} // namespace detail

/** A condition variable as a member of a struct in a `Record`: 32 bytes. */
class condition_variable : public detail::CondvarCalls<condition_variable> {
public:
    condition_variable() = default;
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    static constexpr uint32_t kind = OUTLIVE_CONDVAR;
    outlive_condvar_t *raw() noexcept { return &words_; }

private:
    outlive_condvar_t words_;
};
static_assert(sizeof(condition_variable) == sizeof(outlive_condvar_t) && std::is_standard_layout_v<condition_variable>);

/** A condition variable by name. */
class Condvar : public detail::Named<Condvar, detail::CondvarCalls<Condvar>, outlive_condvar_t, outlive_condvar_open, outlive_condvar_close> {
public:
    /** Opens the condition variable of that name, or makes it. */
    static expected<Condvar> open_or_create(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name);
    }
    /** Opens the condition variable of that name; ENOENT: there is none. */
    static expected<Condvar> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name);
    }
    /** Makes a new condition variable of that name; EEXIST: the name is in use. */
    static expected<Condvar> create_new(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_CREATE_NEW, domain, name);
    }

private:
    using Named::Named;
};

} // namespace outlive

#endif
