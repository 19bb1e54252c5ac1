/* Semaphores and events. */
#ifndef OUTLIVE_SYNC_HPP
#define OUTLIVE_SYNC_HPP

#include <type_traits>
#include <vector>

#include "domain.hpp"

namespace outlive {

namespace detail {
template <class Self> class SemaphoreCalls;
}

/** A permit of a semaphore: given back by the destructor. It belongs to the thread that took it,
 * and must not live longer than the semaphore. */
class [[nodiscard]] Permit {
public:
    /* For the calls that take one. */
    Permit(outlive_semaphore_t *semaphore, uint32_t index) noexcept : semaphore_(semaphore), index_(index) {}
    Permit(const Permit &) = delete;
    Permit &operator=(const Permit &) = delete;
    Permit(Permit &&other) noexcept : semaphore_(std::exchange(other.semaphore_, nullptr)), index_(other.index_) {}
    Permit &operator=(Permit &&other) noexcept {
        std::swap(semaphore_, other.semaphore_);
        std::swap(index_, other.index_);
        return *this;
    }
    ~Permit() {
        if (semaphore_ != nullptr) outlive_semaphore_release(semaphore_);
    }
    /** Hands it, or the permit that this thread took last, to the owner of `token`, which takes it
     * by `take_up`: the permit is never free meanwhile. */
    expected<void> hand_to(uint32_t token) {
        int code = outlive_semaphore_hand_to(semaphore_, token);
        if (code == 0) semaphore_ = nullptr;
        return detail::done(code);
    }
    /** Consumes it, or the permit that this thread took last: there is one less, until a thread adds
     * one. So a semaphore counts items that one process produces and another consumes. */
    expected<void> consume() {
        int code = outlive_semaphore_consume(semaphore_);
        if (code == 0) semaphore_ = nullptr;
        return detail::done(code);
    }
    /** Returns its number, from 0 on; no two holders have the same. */
    uint32_t index() const noexcept { return index_; }

private:
    template <class> friend class detail::SemaphoreCalls;
    outlive_semaphore_t *semaphore_;
    uint32_t index_;
};

namespace detail {

/** The calls of a semaphore. */
template <class Self> class SemaphoreCalls {
public:
    using Permit = outlive::Permit;

    /** Takes a permit. ETIMEDOUT; EAGAIN (`at_once`). EDEADLK: this thread holds all. The semaphore
     * must live longer than its permits. */
    expected<Permit> acquire(Deadline deadline = never) {
        uint32_t index = 0;
        if (int code = outlive_semaphore_acquire(raw(), deadline.raw(), &index)) return Failure::last(code);
        return Permit(raw(), index);
    }
    /** Takes so many permits, all or none; they are given back one by one, or all by the vector's
     * end. ETIMEDOUT; EAGAIN (`at_once`). EDEADLK: this thread holds so many that the others would
     * not be enough. EOVERFLOW: there may never be so many. */
    expected<std::vector<Permit>> acquire_many(uint32_t permits, Deadline deadline = never) {
        std::vector<uint32_t> indexes(permits);
        std::vector<Permit> taken;
        taken.reserve(permits);
        if (int code = outlive_semaphore_acquire_many(raw(), permits, deadline.raw(), indexes.data()))
            return Failure::last(code);
        for (uint32_t index : indexes) taken.emplace_back(raw(), index);
        return taken;
    }
    /** Adds a permit; EOVERFLOW: there are as many as there may be. */
    expected<void> add() { return done(outlive_semaphore_add(raw())); }
    /** Takes a permit that another thread handed to this one, or to its process. */
    expected<Permit> take_up(Deadline deadline = never) {
        uint32_t index = 0;
        if (int code = outlive_semaphore_take_up(raw(), deadline.raw(), &index)) return Failure::last(code);
        return Permit(raw(), index);
    }
    /** Gives these permits of this semaphore back, all by one call; EPERM: this thread has fewer. */
    expected<void> release_many(std::vector<Permit> permits) {
        if (int code = outlive_semaphore_release_many(raw(), static_cast<uint32_t>(permits.size()))) return Failure::last(code);
        for (Permit &permit : permits) permit.semaphore_ = nullptr;
        return {};
    }
    /** Returns the threads that hold permits now, dead or alive, one entry for each permit. */
    expected<std::vector<PeerInfo>> holders() const { return holders_by(outlive_semaphore_holders, raw()); }
    /** Returns how many permits no thread holds now. */
    uint32_t available_permits() const noexcept { return outlive_semaphore_available_permits(raw()); }

private:
    outlive_semaphore_t *raw() const noexcept { return const_cast<Self &>(static_cast<const Self &>(*this)).raw(); }
};

} // namespace detail

/** A semaphore with room for so many permits as a member of a struct in a `Record`: 64 bytes and 4
 * a permit, in whole cache lines; the same as Rust's `EmbeddedSemaphore`. All permits are free at
 * first, unless `set_permits` says otherwise. */
template <uint32_t MaxPermits> class semaphore : public detail::SemaphoreCalls<semaphore<MaxPermits>> {
    static_assert(MaxPermits >= 1 && MaxPermits <= 65536, "a semaphore has 1 to 65,536 permits");

public:
    semaphore() = default;
    semaphore(const semaphore &) = delete;
    semaphore &operator=(const semaphore &) = delete;

    static constexpr uint32_t kind = OUTLIVE_SEMAPHORE, number = MaxPermits;
    /** Sets how many are free at first. To be called in a record's initialiser. */
    expected<void> set_permits(uint32_t permits) { return detail::done(outlive_semaphore_init(&words_, permits, MaxPermits)); }
    outlive_semaphore_t *raw() noexcept { return &words_; }

private:
    outlive_semaphore_t words_;
    uint32_t permits_[MaxPermits];
};
static_assert(sizeof(semaphore<3>) == 128 && std::is_standard_layout_v<semaphore<3>>);

/** A semaphore by name: a number of permits; a thread that dies gives its own back. All threads may
 * use it at once. */
class Semaphore : public detail::Named<Semaphore, detail::SemaphoreCalls<Semaphore>, outlive_semaphore_t, outlive_semaphore_open, outlive_semaphore_close> {
public:
    /** Opens the semaphore of that name, or makes it. `max_permits`: how many there may be at
     * a time, if `add` adds some; 0: as many as an existing one has, and in a new one no more than
     * `permits`. */
    static expected<Semaphore> open_or_create(const Domain &domain, const std::string &name, uint32_t permits, uint32_t max_permits = 0) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, permits, max_permits);
    }
    /** Opens the semaphore of that name, whatever numbers it has; ENOENT: there is none. */
    static expected<Semaphore> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0, 0);
    }
    /** Makes a new semaphore of that name; EEXIST: the name is in use. */
    static expected<Semaphore> create_new(const Domain &domain, const std::string &name, uint32_t permits, uint32_t max_permits = 0) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, permits, max_permits);
    }

private:
    using Named::Named;
};

namespace detail {

/** The calls of an event. */
template <class Self> class EventCalls {
public:
    /** Sets bits, and wakes their waiters; returns the bits as they were. */
    expected<uint32_t> set(uint32_t bits) {
        uint32_t before = 0;
        if (int code = outlive_event_set(raw(), bits, &before)) return Failure::last(code);
        return before;
    }
    expected<uint32_t> clear(uint32_t bits) {
        uint32_t before = 0;
        if (int code = outlive_event_clear(raw(), bits, &before)) return Failure::last(code);
        return before;
    }
    uint32_t bits() const noexcept { return outlive_event_bits(raw()); }
    /** Waits, and returns which of the bits were set. ETIMEDOUT; EAGAIN (`at_once`). */
    expected<uint32_t> wait_any(uint32_t bits, Deadline deadline = never) {
        uint32_t seen = 0;
        if (int code = outlive_event_wait_any(raw(), bits, deadline.raw(), &seen)) return Failure::last(code);
        return seen;
    }
    expected<uint32_t> wait_all(uint32_t bits, Deadline deadline = never) {
        uint32_t seen = 0;
        if (int code = outlive_event_wait_all(raw(), bits, deadline.raw(), &seen)) return Failure::last(code);
        return seen;
    }

private:
    outlive_event_t *raw() const noexcept { return const_cast<Self &>(static_cast<const Self &>(*this)).raw(); }
};

} // namespace detail

/** An event as a member of a struct in a `Record`: 32 bytes; bits stay set until they are
 * cleared. */
class event : public detail::EventCalls<event> {
public:
    event() = default;
    event(const event &) = delete;
    event &operator=(const event &) = delete;

    static constexpr uint32_t kind = OUTLIVE_EVENT;
    /** Sets how bits are reset, OUTLIVE_RESET_MANUAL or OUTLIVE_RESET_AUTOMATIC. To be called in a record's
     * initialiser. */
    expected<void> set_reset(uint32_t reset) { return detail::done(outlive_event_init(&words_, reset)); }
    outlive_event_t *raw() noexcept { return &words_; }

private:
    outlive_event_t words_;
};
static_assert(sizeof(event) == sizeof(outlive_event_t) && std::is_standard_layout_v<event>);

/** Thirty-one bits to wait for, by name. */
class Event : public detail::Named<Event, detail::EventCalls<Event>, outlive_event_t, outlive_event_open, outlive_event_close> {
public:
    /** Opens the event of that name, or makes it. `reset`: OUTLIVE_RESET_MANUAL, or
     * OUTLIVE_RESET_AUTOMATIC: a waiter clears the bits that it waited for; 0: what an existing one
     * has, and a new one is manual. */
    static expected<Event> open_or_create(const Domain &domain, const std::string &name, uint32_t reset = 0) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, reset);
    }
    /** Opens the event of that name; ENOENT: there is none. */
    static expected<Event> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0);
    }
    /** Makes a new event of that name; EEXIST: the name is in use. */
    static expected<Event> create_new(const Domain &domain, const std::string &name, uint32_t reset = 0) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, reset);
    }

private:
    using Named::Named;
};

} // namespace outlive

#endif
