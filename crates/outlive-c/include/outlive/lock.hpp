/* Locks between processes: `mutex` and `shared_mutex` as members of a struct in a `Record`, `Mutex<T>` and `RwLock<T>` by name,
 * with the value that they guard.
 *
 * All of them satisfy the standard's requirements (TimedLockable, SharedTimedLockable), so `std::scoped_lock`,
 * `std::unique_lock` and `std::shared_lock` work. These have no way to say that the last owner died, so:
 *
 * - `lock()` returns normally then, and `owner_died()` is true in this thread until it calls `mark_consistent()` or unlocks.
 * - Unlocked without `mark_consistent()`, `owner_died()` is true again for the next one to lock: a program that does not look
 *   leaves the warning to those that do.
 * - `give_up()` gives the lock back, and gives it up: whoever locks it later gets an `Error` (ENOTRECOVERABLE), from
 *   `lock()`, `try_lock()` and their kind, until somebody starts anew (`lock_to_reset`, `reset`).
 * - An exception that unwinds through a guard unlocks as usual, and the next one is told of nothing, as with the standard's
 *   mutexes. What was changed by half is for the handler to put right before the guard goes, or for the guarded code not to
 *   throw from.
 * - Deadlock, a lock that is not open here, damaged memory: an `Error` as well.
 *
 *     std::scoped_lock held(line->lock);
 *     if (line->lock.owner_died()) { repair(*line); line->lock.mark_consistent(); }
 *
 * `acquire()` gives an `expected` guard instead, and throws nothing. A lock belongs to the thread that took it. In a forked
 * child unlocking what its parent holds does nothing. */
#ifndef OUTLIVE_LOCK_HPP
#define OUTLIVE_LOCK_HPP

#include "domain.hpp"

namespace outlive {

namespace detail {

/** Whether the lock was got; `Error` for what is neither yes nor no. */
inline bool got(int code) {
    if (code == 0) [[likely]] return true;
    if (code == EOWNERDEAD) return true;
    if (code == EBUSY || code == ETIMEDOUT) return false;
    raise(Failure::last(code));
}

} // namespace detail

/** A lock in hand: given back when this goes. `L` is the lock, `T` what it guards (void: nothing that it knows of).
 * As with the standard's guards, the lock object stays where it is meanwhile: not moved, not destroyed. */
template <class L, class T> class [[nodiscard]] Guard {
public:
    Guard(L &lock, T *value) noexcept : lock_(&lock), value_(value) {}
    Guard(Guard &&other) noexcept : lock_(std::exchange(other.lock_, nullptr)), value_(other.value_) {}
    Guard &operator=(Guard &&other) noexcept {
        std::swap(lock_, other.lock_);
        std::swap(value_, other.value_);
        return *this;
    }
    ~Guard() { unlock(); }

    /** An owner died holding it, and nobody has repaired since: look after the value, then `mark_consistent()`. */
    bool owner_died() const { return lock_ && lock_->owner_died(); }
    void mark_consistent() { lock_->mark_consistent(); }
    /** Gives the lock back, and up: ENOTRECOVERABLE for all who come later, until it is reset. */
    void give_up() {
        if (L *lock = std::exchange(lock_, nullptr)) lock->give_up();
    }
    /** The lock itself. */
    L *mutex() const noexcept { return lock_; }
    /** Before its time. */
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

/** What all mutexes do; `Self` has `raw()`, and `T *guarded()`; `Api` has C's functions. */
template <class Self, class T, class Api> class LockCalls {
public:
    void lock() { got(Api::lock(raw(), OUTLIVE_NEVER)); }
    bool try_lock() { return got(Api::lock(raw(), OUTLIVE_TRY)); }
    template <class Span> bool try_lock_for(const Span &span) { return try_lock_until(Deadline(span)); }
    template <class Moment> bool try_lock_until(const Moment &moment) {
        return got(Api::lock(raw(), Deadline(moment).raw()));
    }
    void unlock() noexcept { Api::unlock(raw()); }

    /** This thread holds the lock, its last owner died holding it, and nothing was declared whole yet. */
    bool owner_died() const { return Api::owner_died(raw()); }
    /** What the lock guards is whole again. EPERM (an `Error`): this thread does not hold it. */
    void mark_consistent() { done(Api::consistent(raw())).value(); }
    /** Gives the lock back, and up: ENOTRECOVERABLE for all who come later, until it is reset. EPERM (an `Error`): this thread
     * does not hold it. Afterwards it is unlocked: not inside a standard guard, but for a `unique_lock` that is `release()`d. */
    void give_up() { done(Api::give_up(raw())).value(); }

    /** Takes the lock, waiting until the deadline; fails with ETIMEDOUT, EBUSY (`at_once`), ENOTRECOVERABLE, EDEADLK. */
    expected<Guard<Self, T>> acquire(Deadline deadline = never) {
        int code = Api::lock(raw(), deadline.raw());
        if (code != 0 && code != EOWNERDEAD) return Failure::last(code);
        return Guard<Self, T>(self(), self().guarded());
    }
    expected<Guard<Self, T>> try_acquire() { return acquire(at_once); }

    /** Who holds it just now, dead or alive; ESRCH: nobody. */
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
    static constexpr auto give_up = outlive_mutex_give_up;
    static constexpr auto holder = outlive_mutex_holder;
};

/** What a mutex does. */
template <class Self, class T> class MutexCalls : public LockCalls<Self, T, MutexApi> {
    using Calls = LockCalls<Self, T, MutexApi>;

public:
    /* By the shortest way. */
    void lock() { got(outlive_mutex_lock(Calls::raw())); }
    /** Takes a lock in whatever state, given up or not: make whole what it guards, `mark_consistent()`, unlock. */
    expected<void> lock_to_reset(Deadline deadline = never) {
        return done(outlive_mutex_lock_to_reset(Calls::raw(), deadline.raw()));
    }
    /** How this process waits: one of the OUTLIVE_WAIT numbers. */
    expected<void> set_wait(uint32_t how) { return done(outlive_mutex_set_wait(Calls::raw(), how)); }
};

/** What a reader-writer lock does. */
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

    /* A reader who comes after a writer's death has the lock alone, as its writer, to repair: `owner_died()`. */
    void lock_shared() { got(outlive_rwlock_read(raw(), OUTLIVE_NEVER)); }
    bool try_lock_shared() { return got(outlive_rwlock_read(raw(), OUTLIVE_TRY)); }
    template <class Span> bool try_lock_shared_for(const Span &span) { return try_lock_shared_until(Deadline(span)); }
    template <class Moment> bool try_lock_shared_until(const Moment &moment) {
        return got(outlive_rwlock_read(raw(), Deadline(moment).raw()));
    }
    void unlock_shared() noexcept { unlock(); }

    /** This thread holds the lock, as its writer; the last one died writing, and nothing was declared whole yet. */
    bool owner_died() const { return outlive_rwlock_owner_died(raw()); }
    /** What the lock guards is whole again. EPERM (an `Error`): this thread does not hold it as its writer. */
    void mark_consistent() {
        done(outlive_rwlock_consistent(raw())).value();
    }
    /** As a mutex's. EPERM (an `Error`): this thread does not hold it as its writer. */
    void give_up() { done(outlive_rwlock_give_up(raw())).value(); }
    /** Makes a lock that was given up usable again; what it guards was made whole before, by an agreement of its users. */
    expected<void> reset(Deadline deadline = never) { return done(outlive_rwlock_reset(raw(), deadline.raw())); }

    /** Takes the lock to write; fails as a mutex's. */
    expected<Guard<Self, T>> write(Deadline deadline = never) {
        return taken<T>(outlive_rwlock_write(raw(), deadline.raw()));
    }
    /** Takes the lock to read. With `owner_died()` it is held as by a writer. */
    expected<Guard<Self, const T>> read(Deadline deadline = never) {
        return taken<const T>(outlive_rwlock_read(raw(), deadline.raw()));
    }

private:
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

/** A mutex by name, with the value that it guards; the same as Rust's `Mutex<T>` with a T of as many bytes. */
template <class T> class Mutex : public detail::MutexCalls<Mutex<T>, T> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");
    static_assert(alignof(T) <= 64);

public:
    /** Opens it, or makes it with that value. */
    static expected<Mutex> open(const Domain &domain, const std::string &name, const T &initial = T{}) {
        outlive_mutex_t *lock = nullptr;
        int code = outlive_mutex_open(domain.raw(), name.c_str(), sizeof(T), &initial, &lock);
        if (code != 0) return Failure::last(code);
        return Mutex(lock);
    }

    /** What it guards: to be touched by who holds the lock. */
    T &value() noexcept { return *guarded(); }

    outlive_mutex_t *raw() noexcept { return lock_.get(); }
    T *guarded() noexcept { return static_cast<T *>(outlive_mutex_value(lock_.get())); }

private:
    explicit Mutex(outlive_mutex_t *lock) : lock_(lock) {}
    detail::Handle<outlive_mutex_t, outlive_mutex_close> lock_;
};

/** A reader-writer lock by name, with the value that it guards; the same as Rust's `RwLock<T>` with a T of as many bytes. */
template <class T> class RwLock : public detail::RwLockCalls<RwLock<T>, T> {
    static_assert(Payload<T>, "a value in shared memory is trivially copyable, of standard layout, and no pointer");
    static_assert(alignof(T) <= 64);

public:
    /** Opens it, or makes it with that value. */
    static expected<RwLock> open(const Domain &domain, const std::string &name, const T &initial = T{}) {
        outlive_rwlock_t *lock = nullptr;
        int code = outlive_rwlock_open(domain.raw(), name.c_str(), sizeof(T), &initial, &lock);
        if (code != 0) return Failure::last(code);
        return RwLock(lock);
    }

    /** What it guards: to be read by who reads, written by who writes. */
    T &value() noexcept { return *guarded(); }

    outlive_rwlock_t *raw() noexcept { return lock_.get(); }
    T *guarded() noexcept { return static_cast<T *>(outlive_rwlock_value(lock_.get())); }

private:
    explicit RwLock(outlive_rwlock_t *lock) : lock_(lock) {}
    detail::Handle<outlive_rwlock_t, outlive_rwlock_close> lock_;
};

} // namespace outlive

#endif
