/* Outlive's objects with the members that Boost.Interprocess's tests use. An object without a name
 * has a fresh one in the domain that OUTLIVE_DOMAIN names; all else is Outlive's. */
#ifndef OUTLIVE_OBJECTS_HPP
#define OUTLIVE_OBJECTS_HPP

#include <boost/interprocess/creation_tags.hpp>
#include <boost/interprocess/detail/timed_utils.hpp>
#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/sync/cv_status.hpp>
#include <boost/interprocess/sync/posix/timepoint_to_timespec.hpp>

#include <outlive/condvar.hpp>
#include <outlive/lock.hpp>
#include <outlive/sync.hpp>

#include <atomic>
#include <string>

namespace boost::interprocess::outlive_objects {

inline outlive::Domain &domain() {
    static outlive::Domain domain = outlive::Domain::open_default().value();
    return domain;
}

/** Returns the deadline of a point in time of any clock of Boost's: all are the time of day. */
template <class TimePoint> outlive::Deadline until(const TimePoint &moment) {
    if (ipcdetail::is_pos_infinity(moment)) return outlive::never;
    timespec time = ipcdetail::timepoint_to_timespec(moment);
    return outlive::Deadline(outlive_at_time_of_day(time.tv_sec, static_cast<uint32_t>(time.tv_nsec)));
}

template <class Duration> auto moment_after(const Duration &span) { return ipcdetail::duration_to_ustime(span); }

/** Returns the object; throws Boost's exception where the name decides. */
template <class Object> Object opened(outlive::expected<Object> object) {
    if (object.code() == EEXIST) throw interprocess_exception(error_info(already_exists_error));
    if (object.code() == ENOENT) throw interprocess_exception(error_info(not_found_error));
    return std::move(object).value();
}

/** Asks for an object with a name of its own. */
struct Unnamed {};

inline std::string fresh_name() {
    static std::atomic<unsigned> next;
    return "object." + std::to_string(next++);
}

/** An object by a name of its own, or by the one that it is given. `Object` is Outlive's. */
template <class Object> class Opened {
    std::string name_;

public:
    template <class... Args>
    explicit Opened(Unnamed, Args... args) : name_(fresh_name()), object_(opened(Object::create_new(domain(), name_, args...))) {}
    template <class... Args>
    Opened(create_only_t, const char *name, Args... args) : object_(opened(Object::create_new(domain(), name, args...))) {}
    template <class... Args>
    Opened(open_or_create_t, const char *name, Args... args) : object_(opened(Object::open_or_create(domain(), name, args...))) {}
    Opened(open_only_t, const char *name) : object_(opened(Object::open(domain(), name))) {}
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;
    ~Opened() {
        if (!name_.empty()) remove(name_.c_str());
    }

    static bool remove(const char *name) { return domain().remove(name).has_value(); }
    /* Boost's objects undo their creation otherwise; Outlive's names stay. */
    void dont_close_on_destruction() {}

    /* For Outlive's condition variable. */
    auto *raw() noexcept { return object_.raw(); }
    bool owner_died() const { return object_.owner_died(); }

protected:
    Object object_;
};

/** The calls that Boost's mutexes have, of an object with those of the standard's. */
template <class Base> class MutexCalls : public Base {
public:
    using internal_mutex_type = MutexCalls;
    using Base::Base;

    internal_mutex_type &internal_mutex() { return *this; }
    void lock() { this->object_.lock(); }
    bool try_lock() { return this->object_.try_lock(); }
    template <class TimePoint> bool timed_lock(const TimePoint &moment) { return this->object_.try_lock_until(until(moment)); }
    template <class TimePoint> bool try_lock_until(const TimePoint &moment) { return timed_lock(moment); }
    template <class Duration> bool try_lock_for(const Duration &span) { return timed_lock(moment_after(span)); }
    void unlock() { this->object_.unlock(); }
};

/** The same for readers. */
template <class Base> class SharableCalls : public MutexCalls<Base> {
public:
    using MutexCalls<Base>::MutexCalls;

    void lock_sharable() { this->object_.lock_shared(); }
    bool try_lock_sharable() { return this->object_.try_lock_shared(); }
    template <class TimePoint> bool timed_lock_sharable(const TimePoint &moment) {
        return this->object_.try_lock_shared_until(until(moment));
    }
    void unlock_sharable() { this->object_.unlock_shared(); }

    void lock_shared() { lock_sharable(); }
    bool try_lock_shared() { return try_lock_sharable(); }
    template <class TimePoint> bool try_lock_shared_until(const TimePoint &moment) { return timed_lock_sharable(moment); }
    template <class Duration> bool try_lock_shared_for(const Duration &span) { return timed_lock_sharable(moment_after(span)); }
    void unlock_shared() { unlock_sharable(); }
};

/** The same for a reader that may become the writer, and for what turns into what. */
template <class Base> class UpgradableCalls : public SharableCalls<Base> {
public:
    using SharableCalls<Base>::SharableCalls;

    void lock_upgradable() { read_upgradable(outlive::never); }
    bool try_lock_upgradable() { return read_upgradable(outlive::at_once); }
    template <class TimePoint> bool timed_lock_upgradable(const TimePoint &moment) { return read_upgradable(until(moment)); }
    void unlock_upgradable() { this->object_.unlock(); }

    void unlock_and_lock_upgradable() { done(outlive_rwlock_downgrade_to_upgradable(this->raw())); }
    void unlock_and_lock_sharable() { done(outlive_rwlock_downgrade(this->raw())); }
    void unlock_upgradable_and_lock_sharable() { done(outlive_rwlock_downgrade(this->raw())); }
    void unlock_upgradable_and_lock() { upgrade(outlive::never); }
    bool try_unlock_upgradable_and_lock() { return upgrade(outlive::at_once); }
    template <class TimePoint> bool timed_unlock_upgradable_and_lock(const TimePoint &moment) { return upgrade(until(moment)); }
    bool try_unlock_sharable_and_lock() { return upgrade(outlive::at_once); }
    /* Outlive has no such step: it is refused. */
    bool try_unlock_sharable_and_lock_upgradable() { return false; }

private:
    static void done(int code) { outlive::detail::done(code).value(); }
    bool read_upgradable(outlive::Deadline deadline) {
        return outlive::detail::got(outlive_rwlock_upgradable_read(this->raw(), deadline.raw()));
    }
    bool upgrade(outlive::Deadline deadline) {
        return outlive::detail::got(outlive_rwlock_upgrade(this->raw(), deadline.raw()));
    }
};

/** Boost's semaphore is given back by any thread; Outlive's by the thread that has the permit, which
 * is all that these tests do. */
template <class Base> class SemaphoreCalls : public Base {
public:
    using Base::Base;

    void wait() { acquire(outlive::never); }
    bool try_wait() { return acquire(outlive::at_once); }
    template <class TimePoint> bool timed_wait(const TimePoint &moment) { return acquire(until(moment)); }
    void post() { outlive_semaphore_release(this->raw()); }

private:
    bool acquire(outlive::Deadline deadline) {
        uint32_t index = 0;
        int code = outlive_semaphore_acquire(this->raw(), deadline.raw(), &index);
        if (code == EAGAIN || code == ETIMEDOUT) return false;
        outlive::detail::done(code).value();
        return true;
    }
};

template <class Base> class ConditionCalls : public Base {
public:
    using Base::Base;

    void notify_one() { this->object_.notify_one(); }
    void notify_all() { this->object_.notify_all(); }
    template <class Lock> void wait(Lock &lock) { this->object_.wait(lock); }
    template <class Lock, class Predicate> void wait(Lock &lock, Predicate is_so) { this->object_.wait(lock, is_so); }
    template <class Lock, class TimePoint> bool timed_wait(Lock &lock, const TimePoint &moment) {
        return this->object_.wait_until(lock, until(moment));
    }
    template <class Lock, class TimePoint, class Predicate> bool timed_wait(Lock &lock, const TimePoint &moment, Predicate is_so) {
        return this->object_.wait_until(lock, until(moment), is_so);
    }
    template <class Lock, class TimePoint> cv_status wait_until(Lock &lock, const TimePoint &moment) {
        return timed_wait(lock, moment) ? cv_status::no_timeout : cv_status::timeout;
    }
    template <class Lock, class TimePoint, class Predicate> bool wait_until(Lock &lock, const TimePoint &moment, Predicate is_so) {
        return timed_wait(lock, moment, is_so);
    }
    template <class Lock, class Duration> cv_status wait_for(Lock &lock, const Duration &span) {
        return wait_until(lock, moment_after(span));
    }
    template <class Lock, class Duration, class Predicate> bool wait_for(Lock &lock, const Duration &span, Predicate is_so) {
        return timed_wait(lock, moment_after(span), is_so);
    }
};

} // namespace boost::interprocess::outlive_objects

#endif
