/* Locks between processes: `mutex`, `recursive_mutex` and `shared_mutex` as members of a struct in a
 * `Record`, `Mutex<T>`, `ReentrantMutex<T>` and `RwLock<T>` by name, with the value that they guard.
 *
 * All of them satisfy the standard's requirements (TimedLockable, SharedTimedLockable), so
 * `std::scoped_lock`, `std::unique_lock` and `std::shared_lock` work. These cannot report that the
 * last owner died, so:
 *
 * - `lock()` returns normally then, and `owner_died()` is true in this thread until it calls
 *   `mark_consistent()` or unlocks.
 * - Unlocked without `mark_consistent()`, `owner_died()` is true again for the next locker: a
 *   program that does not check it leaves the warning to those that do.
 * - `mark_not_recoverable()` also unlocks: later lockers get an `Error` (ENOTRECOVERABLE), from
 *   `lock()`, `try_lock()` and the like, until a thread resets the lock (`lock_to_reset`, `reset`).
 * - An exception that unwinds through a guard unlocks as usual, and the next locker is not told, as
 *   with the standard's mutexes. The handler has to repair half-made changes before the guard goes,
 *   or the guarded code must not throw.
 * - Deadlock, a lock that is not open here, damaged memory: an `Error` as well.
 *
 *     std::scoped_lock held(line->lock);
 *     if (line->lock.owner_died()) { repair(*line); line->lock.mark_consistent(); }
 *
 * `acquire()` returns an `expected` guard instead, and throws nothing. A lock belongs to the thread
 * that took it. In a forked child, unlocking what its parent holds has no effect. */
#ifndef OUTLIVE_LOCK_HPP
#define OUTLIVE_LOCK_HPP

#include "domain.hpp"

namespace outlive {

namespace detail {

/** Returns whether the lock was taken; throws an `Error` for what is neither yes nor no. */
inline bool got(int code) {
    if (code == 0) [[likely]] return true;
    if (code == EOWNERDEAD) return true;
    if (code == EBUSY || code == ETIMEDOUT) return false;
    raise(Failure::last(code));
}

} // namespace detail

/** A lock that is held: unlocked by the destructor. `L` is the lock, `T` what it guards (void:
 * nothing that it knows of). As with the standard's guards, the lock object stays where it is
 * meanwhile: not moved, not destroyed. */
template <class L, class T> class [[nodiscard]] Guard {
public:
    Guard(L &lock, T *value) noexcept : lock_(&lock), value_(value) {}
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
    Guard(Guard &&other) noexcept : lock_(std::exchange(other.lock_, nullptr)), value_(other.value_) {}
    Guard &operator=(Guard &&other) noexcept {
        std::swap(lock_, other.lock_);
        std::swap(value_, other.value_);
        return *this;
    }
    ~Guard() { unlock(); }

    /** Returns whether an owner died holding it without a repair since: repair the value, then call
     * `mark_consistent()`. */
    bool owner_died() const { return lock_ && lock_->owner_died(); }
    void mark_consistent() { lock_->mark_consistent(); }
    /** Marks the lock not recoverable and unlocks it: later lockers get ENOTRECOVERABLE, until it is
     * reset. */
    void mark_not_recoverable() {
        if (L *lock = std::exchange(lock_, nullptr)) lock->mark_not_recoverable();
    }
    /** Returns the lock itself. */
    L *mutex() const noexcept { return lock_; }
    /** Lets go of the lock without unlocking it: the thread goes on holding it. */
    L *release() noexcept { return std::exchange(lock_, nullptr); }
    /** Unlocks before the destructor does. */
    void unlock() noexcept {
        if (L *lock = std::exchange(lock_, nullptr)) lock->unlock();
    }

    template <class U = T> requires(!std::is_void_v<U>) U &operator*() const noexcept { return *value_; }
    T *operator->() const noexcept { return value_; }

private:
    L *lock_;
    T *value_;
};

namespace detail {

/** The calls of all mutexes; `Self` has `raw()`, and `T *guarded()`; `Api` has C's functions. */
template <class Self, class T, class Api> class LockCalls {
public:
    void lock() { got(Api::lock(raw(), OUTLIVE_NEVER)); }
    bool try_lock() { return got(Api::lock(raw(), OUTLIVE_TRY)); }
    template <class Span> bool try_lock_for(const Span &span) { return try_lock_until(Deadline(span)); }
    template <class Moment> bool try_lock_until(const Moment &moment) {
        return got(Api::lock(raw(), Deadline(moment).raw()));
    }
    void unlock() noexcept { Api::unlock(raw()); }

    /** Returns whether this thread holds the lock, its last owner died holding it, and no holder
     * has repaired it since. */
    bool owner_died() const { return Api::owner_died(raw()); }
    /** Declares that what the lock guards is whole again. EPERM (an `Error`): this thread does not
     * hold it. */
    void mark_consistent() { done(Api::consistent(raw())).value(); }
    /** Marks the lock not recoverable and unlocks it: later lockers get ENOTRECOVERABLE, until it is
     * reset. EPERM
     * (an `Error`): this thread does not hold it. The lock is unlocked afterwards: do not call this
     * inside a standard guard, except a `unique_lock` that is `release()`d. */
    void mark_not_recoverable() { done(Api::mark_not_recoverable(raw())).value(); }

    /** Takes the lock, waiting until the deadline; fails with ETIMEDOUT, EBUSY (`at_once`),
     * ENOTRECOVERABLE, EDEADLK. */
    expected<Guard<Self, T>> acquire(Deadline deadline = never) {
        int code = Api::lock(raw(), deadline.raw());
        if (code != 0 && code != EOWNERDEAD) return Failure::last(code);
        return Guard<Self, T>(self(), self().guarded());
    }
    expected<Guard<Self, T>> try_acquire() { return acquire(at_once); }

    /** Returns the thread that holds it now, dead or alive; ESRCH: none does. */
    expected<PeerInfo> holder() const {
        PeerInfo info{};
        if (int code = Api::holder(raw(), &info)) return Failure::last(code);
        return info;
    }

protected:
    Self &self() { return static_cast<Self &>(*this); }
    auto *raw() const { return const_cast<Self &>(static_cast<const Self &>(*this)).raw(); }
};

struct MutexApi {
    static constexpr auto lock = outlive_mutex_lock_until;
    static constexpr auto unlock = outlive_mutex_unlock;
    static constexpr auto owner_died = outlive_mutex_owner_died;
    static constexpr auto consistent = outlive_mutex_consistent;
    static constexpr auto mark_not_recoverable = outlive_mutex_mark_not_recoverable;
    static constexpr auto holder = outlive_mutex_holder;
};

/** The calls of a mutex. */
template <class Self, class T> class MutexCalls : public LockCalls<Self, T, MutexApi> {
    using Calls = LockCalls<Self, T, MutexApi>;

public:
    /* By the shortest path. */
    void lock() { got(outlive_mutex_lock(Calls::raw())); }
    /** Takes a lock in any state, recoverable or not: make whole what it guards, call
     * `mark_consistent()`, unlock. */
    expected<void> lock_to_reset(Deadline deadline = never) {
        return done(outlive_mutex_lock_to_reset(Calls::raw(), deadline.raw()));
    }
    /** Sets how this process waits: one of the OUTLIVE_WAIT numbers. */
    expected<void> set_wait(uint32_t how) { return done(outlive_mutex_set_wait(Calls::raw(), how)); }
};

struct ReentrantMutexApi {
    static constexpr auto lock = outlive_reentrant_mutex_lock;
    static constexpr auto unlock = outlive_reentrant_mutex_unlock;
    static constexpr auto owner_died = outlive_reentrant_mutex_owner_died;
    static constexpr auto consistent = outlive_reentrant_mutex_consistent;
    static constexpr auto mark_not_recoverable = outlive_reentrant_mutex_mark_not_recoverable;
    static constexpr auto holder = outlive_reentrant_mutex_holder;
};

/** The calls of a mutex that its holder may lock again: it is unlocked when it has been unlocked as
 * often as locked. */
template <class Self, class T> class ReentrantMutexCalls : public LockCalls<Self, T, ReentrantMutexApi> {
public:
    /** Makes a lock usable again that was marked not recoverable. Its users have agreed on making what it guards
     * whole before. */
    expected<void> reset(Deadline deadline = never) {
        return done(outlive_reentrant_mutex_reset(ReentrantMutexCalls::raw(), deadline.raw()));
    }
    /** Sets how this process waits: one of the OUTLIVE_WAIT numbers. */
    expected<void> set_wait(uint32_t how) {
        return done(outlive_reentrant_mutex_set_wait(ReentrantMutexCalls::raw(), how));
    }
};

/** The calls of a reader-writer lock. */
template <class Self, class T> class RwLockCalls {
public:
    void lock() { got(outlive_rwlock_write(raw(), OUTLIVE_NEVER)); }
    bool try_lock() { return got(outlive_rwlock_write(raw(), OUTLIVE_TRY)); }
    template <class Span> bool try_lock_for(const Span &span) { return try_lock_until(Deadline(span)); }
    template <class Moment> bool try_lock_until(const Moment &moment) {
        return got(outlive_rwlock_write(raw(), Deadline(moment).raw()));
    }
    void unlock() noexcept {
        outlive_rwlock_unlock(raw());
    }

    /* A reader that comes after a writer's death has the lock alone, as its writer, to repair:
     * `owner_died()`. */
    void lock_shared() { got(outlive_rwlock_read(raw(), OUTLIVE_NEVER)); }
    bool try_lock_shared() { return got(outlive_rwlock_read(raw(), OUTLIVE_TRY)); }
    template <class Span> bool try_lock_shared_for(const Span &span) { return try_lock_shared_until(Deadline(span)); }
    template <class Moment> bool try_lock_shared_until(const Moment &moment) {
        return got(outlive_rwlock_read(raw(), Deadline(moment).raw()));
    }
    void unlock_shared() noexcept { unlock(); }

    /** Returns whether this thread holds the lock as its writer, the last one died writing, and no
     * holder has repaired it since. */
    bool owner_died() const { return outlive_rwlock_owner_died(raw()); }
    /** Declares that what the lock guards is whole again. EPERM (an `Error`): this thread does not
     * hold it as its writer. */
    void mark_consistent() {
        done(outlive_rwlock_consistent(raw())).value();
    }
    /** Marks the lock not recoverable and unlocks it, as a mutex's `mark_not_recoverable`. EPERM (an `Error`): this thread does
     * not hold it as its writer. */
    void mark_not_recoverable() { done(outlive_rwlock_mark_not_recoverable(raw())).value(); }
    /** Makes a lock usable again that was marked not recoverable. Its users have agreed on making what it guards
     * whole before. */
    expected<void> reset(Deadline deadline = never) { return done(outlive_rwlock_reset(raw(), deadline.raw())); }
    /** Returns the threads that hold it now, one writer or any number of readers, dead or alive. */
    expected<std::vector<PeerInfo>> holders() const { return holders_by(outlive_rwlock_holders, raw()); }

    /** Takes the lock for writing; fails as a mutex's `acquire`. */
    expected<Guard<Self, T>> write(Deadline deadline = never) {
        return taken<T>(outlive_rwlock_write(raw(), deadline.raw()));
    }
    /** Takes the lock for reading. With `owner_died()` it is held as by a writer. */
    expected<Guard<Self, const T>> read(Deadline deadline = never) {
        return taken<const T>(outlive_rwlock_read(raw(), deadline.raw()));
    }

    /** Takes the lock for reading, with the right to become the writer, which no thread refuses;
     * one thread at a time may. Fails as a mutex's `acquire`. */
    expected<Guard<Self, const T>> upgradable_read(Deadline deadline = never) {
        return taken<const T>(outlive_rwlock_upgradable_read(raw(), deadline.raw()));
    }
    /** Turns this thread, which reads by that guard, into the writer once the other readers have
     * left. No thread writes in between. EBUSY, unless it is the upgradable reader: a writer waits
     * already; ETIMEDOUT: the guard reads on. */
    expected<Guard<Self, T>> upgrade(Guard<Self, const T> &reading, Deadline deadline = never) {
        return turned<T>(reading, outlive_rwlock_upgrade(raw(), deadline.raw()));
    }
    /** Turns this thread, which writes by that guard, into a reader; no thread writes in between.
     * EPERM: `owner_died()`; the guard writes on. */
    expected<Guard<Self, const T>> downgrade(Guard<Self, T> &writing) {
        return turned<const T>(writing, outlive_rwlock_downgrade(raw()));
    }
    /** Turns this thread, which is the upgradable reader by that guard, into an ordinary one. */
    expected<Guard<Self, const T>> downgrade(Guard<Self, const T> &upgradable) {
        return turned<const T>(upgradable, outlive_rwlock_downgrade(raw()));
    }
    /** Turns this thread, which writes by that guard, into the upgradable reader; as `downgrade`.
     */
    expected<Guard<Self, const T>> downgrade_to_upgradable(Guard<Self, T> &writing) {
        return turned<const T>(writing, outlive_rwlock_downgrade_to_upgradable(raw()));
    }

private:
    template <class V, class G> expected<Guard<Self, V>> turned(G &guard, int code) {
        if (code != 0) return Failure::last(code);
        guard.release();
        return Guard<Self, V>(self(), self().guarded());
    }
    template <class V> expected<Guard<Self, V>> taken(int code) {
        if (code != 0 && code != EOWNERDEAD) return Failure::last(code);
        return Guard<Self, V>(self(), self().guarded());
    }
    Self &self() { return static_cast<Self &>(*this); }
    outlive_rwlock_t *raw() const { return const_cast<Self &>(static_cast<const Self &>(*this)).raw(); }
};

} // namespace detail

/** A mutex as a member of a struct in a `Record`: 8 bytes. */
class mutex : public detail::MutexCalls<mutex, void> {
public:
    mutex() = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    static constexpr uint32_t kind = OUTLIVE_MUTEX;
    outlive_mutex_t *raw() noexcept { return &words_; }
    void *guarded() noexcept { return nullptr; }

private:
    outlive_mutex_t words_;
};
static_assert(sizeof(mutex) == sizeof(outlive_mutex_t) && std::is_standard_layout_v<mutex>);

/** A mutex that the thread that holds it may lock again, as a member of a struct in a `Record`: 16
 * bytes. */
class recursive_mutex : public detail::ReentrantMutexCalls<recursive_mutex, void> {
public:
    recursive_mutex() = default;
    recursive_mutex(const recursive_mutex &) = delete;
    recursive_mutex &operator=(const recursive_mutex &) = delete;

    static constexpr uint32_t kind = OUTLIVE_REENTRANT_MUTEX;
    outlive_reentrant_mutex_t *raw() noexcept { return &words_; }
    void *guarded() noexcept { return nullptr; }

private:
    outlive_reentrant_mutex_t words_;
};
static_assert(sizeof(recursive_mutex) == sizeof(outlive_reentrant_mutex_t) && std::is_standard_layout_v<recursive_mutex>);

/** A reader-writer lock as a member of a struct in a `Record`: 4,160 bytes. */
class shared_mutex : public detail::RwLockCalls<shared_mutex, void> {
public:
    shared_mutex() = default;
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    static constexpr uint32_t kind = OUTLIVE_RWLOCK;
    outlive_rwlock_t *raw() noexcept { return &words_; }
    void *guarded() noexcept { return nullptr; }

private:
    outlive_rwlock_t words_;
};
static_assert(sizeof(shared_mutex) == sizeof(outlive_rwlock_t) && std::is_standard_layout_v<shared_mutex>);

namespace detail {

/** A lock by name, with the value that it guards. */
template <class Self, class Calls, class T, class H, auto opens, auto closes, auto value_of>
class NamedLock : public Named<Self, Calls, H, opens, closes> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");
    static_assert(alignof(T) <= 64);
    using Base = Named<Self, Calls, H, opens, closes>;

public:
    /** Opens the lock of that name, or makes it with that value. */
    static expected<Self> open_or_create(const Domain &domain, const std::string &name, const T &initial = T{}) {
        return Base::opened(OUTLIVE_OPEN_OR_CREATE, domain, name, sizeof(T), &initial);
    }
    /** Opens the lock of that name; ENOENT: there is none. */
    static expected<Self> open(const Domain &domain, const std::string &name) {
        return Base::opened(OUTLIVE_OPEN, domain, name, sizeof(T), nullptr);
    }
    /** Makes a new lock of that name with that value; EEXIST: the name is in use. */
    static expected<Self> create_new(const Domain &domain, const std::string &name, const T &initial = T{}) {
        return Base::opened(OUTLIVE_CREATE_NEW, domain, name, sizeof(T), &initial);
    }

    /** The value that it guards: only the lock's holder may touch it, and a reader only read it. */
    T &value() noexcept { return *guarded(); }
    T *guarded() noexcept { return static_cast<T *>(value_of(Base::raw())); }

protected:
    using Base::Base;
};

} // namespace detail

/** A mutex by name, with the value that it guards; the same as Rust's `Mutex<T>` with a T of as
 * many bytes. */
template <class T>
class Mutex : public detail::NamedLock<Mutex<T>, detail::MutexCalls<Mutex<T>, T>, T, outlive_mutex_t, outlive_mutex_open,
                                       outlive_mutex_close, outlive_mutex_value> {
    using Mutex::NamedLock::NamedLock;
};

/** A mutex by name that the thread that holds it may lock again, with the value that it guards; the
 * same as Rust's `ReentrantMutex<T>` with a T of as many bytes. */
template <class T>
class ReentrantMutex
    : public detail::NamedLock<ReentrantMutex<T>, detail::ReentrantMutexCalls<ReentrantMutex<T>, T>, T, outlive_reentrant_mutex_t,
                               outlive_reentrant_mutex_open, outlive_reentrant_mutex_close, outlive_reentrant_mutex_value> {
    using ReentrantMutex::NamedLock::NamedLock;
};

/** A reader-writer lock by name, with the value that it guards; the same as Rust's `RwLock<T>` with
 * a T of as many bytes. */
template <class T>
class RwLock : public detail::NamedLock<RwLock<T>, detail::RwLockCalls<RwLock<T>, T>, T, outlive_rwlock_t,
                                        outlive_rwlock_open, outlive_rwlock_close, outlive_rwlock_value> {
    using RwLock::NamedLock::NamedLock;
};

} // namespace outlive

#endif
