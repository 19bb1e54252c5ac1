/* Barriers, latches, and actions that are done once. */
#ifndef OUTLIVE_MEETING_HPP
#define OUTLIVE_MEETING_HPP

#include <type_traits>

#include "domain.hpp"

namespace outlive {

/** What a participant is told when a phase has begun. */
struct Turn {
    /** The participant's number, from 0 to parties - 1, which no other participant of the phase has:
     * that of its seat, the same in each phase. */
    uint32_t index;
    /** True for one participant of the phase. */
    bool is_leader;
};

/** A seat at a barrier: given up by the destructor. It belongs to the thread that took it, and must
 * not live longer than the barrier. */
class [[nodiscard]] Seat {
public:
    /* For the call that takes a seat. */
    explicit Seat(outlive_barrier_t *barrier) noexcept : barrier_(barrier) {}
    Seat(const Seat &) = delete;
    Seat &operator=(const Seat &) = delete;
    Seat(Seat &&other) noexcept : barrier_(std::exchange(other.barrier_, nullptr)) {}
    Seat &operator=(Seat &&other) noexcept {
        std::swap(barrier_, other.barrier_);
        return *this;
    }
    ~Seat() {
        if (barrier_ != nullptr) outlive_barrier_leave(barrier_);
    }
    /** Arrives, and waits until all participants have. OUTLIVE_BROKEN: a participant died, or the
     * barrier was aborted or reset (`repair`, `reset`). ETIMEDOUT: the arrival counts; wait again, or
     * `abort`. */
    expected<Turn> wait(Deadline deadline = never) {
        outlive_turn_t turn = {0, 0};
        if (int code = outlive_barrier_wait(barrier_, deadline.raw(), &turn)) return Failure::last(code);
        return Turn{turn.index, turn.leader != 0};
    }
    /** Breaks the phase in which this participant has arrived and which it has not passed
     * (ETIMEDOUT): OUTLIVE_BROKEN. If all have arrived meanwhile, nothing is broken, and it passes. */
    expected<Turn> abort() {
        outlive_turn_t turn = {0, 0};
        if (int code = outlive_barrier_abort_wait(barrier_, &turn)) return Failure::last(code);
        return Turn{turn.index, turn.leader != 0};
    }

private:
    outlive_barrier_t *barrier_;
};

/** What a participant's death does: it breaks the barrier, or the dead one is counted out;
 * `whichever`: what an existing barrier has, and in a new one it breaks it. */
enum class WhenOneDies : uint32_t { whichever = 0, breaks = OUTLIVE_DEATH_BREAKS, count_out = OUTLIVE_DEATH_COUNTS_OUT };

namespace detail {

/** The calls of a barrier. */
template <class Self> class BarrierCalls {
public:
    using Seat = outlive::Seat;
    using WhenOneDies = outlive::WhenOneDies;

    /** Takes a seat for the calling thread. EUSERS: all are taken. OUTLIVE_BROKEN. */
    expected<Seat> join() {
        if (int code = outlive_barrier_join(raw())) return Failure::last(code);
        return Seat(raw());
    }
    /** Makes a broken barrier whole: the dead lose their seats, the living begin a new phase. */
    expected<void> repair(Deadline deadline = never) { return done(outlive_barrier_repair(raw(), deadline.raw())); }
    /** Breaks the barrier for all participants, until it is reset or repaired. */
    expected<void> abort() { return done(outlive_barrier_abort(raw())); }
    /** Makes the barrier empty and whole: participants that wait get OUTLIVE_BROKEN. */
    expected<void> reset(Deadline deadline = never) { return done(outlive_barrier_reset(raw(), deadline.raw())); }
    /** How many participants it has seats for. */
    uint32_t parties() { return state().parties; }
    /** How many participants have arrived and wait for the others; 0 when it is broken. */
    uint32_t waiting() { return state().waiting; }
    /** Whether a death or an abort has broken it. */
    bool is_broken() { return state().broken != 0; }

private:
    outlive_barrier_t *raw() { return static_cast<Self &>(*this).raw(); }
    outlive_barrier_state_t state() {
        outlive_barrier_state_t now = {0, 0, 0};
        outlive_barrier_state(raw(), &now);
        return now;
    }
};

} // namespace detail

/** A barrier for so many participants as a member of a struct in a `Record`: 64 bytes and 4 a seat,
 * in whole cache lines; the same as Rust's `EmbeddedBarrier`. A death breaks it, unless
 * `set_policy` says otherwise. */
template <uint32_t Parties> class barrier : public detail::BarrierCalls<barrier<Parties>> {
    static_assert(Parties >= 1 && Parties <= 65536, "a barrier has 1 to 65,536 participants");

public:
    barrier() = default;
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    static constexpr uint32_t kind = OUTLIVE_BARRIER, number = Parties;
    /** Sets what a participant's death does. To be called in a record's initialiser. */
    expected<void> set_policy(WhenOneDies when_one_dies) {
        return detail::done(outlive_barrier_init(&words_, static_cast<uint32_t>(when_one_dies)));
    }
    outlive_barrier_t *raw() noexcept { return &words_; }

private:
    outlive_barrier_t words_;
    uint32_t seats_[Parties];
};
static_assert(sizeof(barrier<3>) == 128 && std::is_standard_layout_v<barrier<3>>);

/** A barrier by name. */
class Barrier : public detail::Named<Barrier, detail::BarrierCalls<Barrier>, outlive_barrier_t, outlive_barrier_open, outlive_barrier_close> {
public:
    /** Opens the barrier of that name, or makes it, for so many participants. */
    static expected<Barrier> open_or_create(const Domain &domain, const std::string &name, uint32_t parties, WhenOneDies when_one_dies = WhenOneDies::whichever) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, parties, static_cast<uint32_t>(when_one_dies));
    }
    /** Opens the barrier of that name, whatever its numbers; ENOENT: there is none. */
    static expected<Barrier> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0, 0);
    }
    /** Makes a new barrier of that name; EEXIST: the name is in use. */
    static expected<Barrier> create_new(const Domain &domain, const std::string &name, uint32_t parties, WhenOneDies when_one_dies = WhenOneDies::whichever) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, parties, static_cast<uint32_t>(when_one_dies));
    }

private:
    using Named::Named;
};

namespace detail {

/** The calls of a latch. */
template <class Self> class LatchCalls {
public:
    /** Arrives so many times; returns how many arrivals are missing now. The last arrival wakes all
     * waiters. */
    expected<uint32_t> arrive(uint32_t arrivals = 1) {
        uint32_t missing = 0;
        if (int code = outlive_latch_arrive(raw(), arrivals, &missing)) return Failure::last(code);
        return missing;
    }
    /** Opens the latch at once. */
    expected<void> open_now() { return done(outlive_latch_arrive(raw(), UINT32_MAX, nullptr)); }
    /** Waits until the latch is open. ETIMEDOUT; EAGAIN (`at_once`). */
    expected<void> wait(Deadline deadline = never) { return done(outlive_latch_wait(raw(), deadline.raw())); }
    bool is_open() { return wait(at_once).has_value(); }

private:
    outlive_latch_t *raw() { return static_cast<Self &>(*this).raw(); }
};

/** The calls of a once. */
template <class Self> class OnceCalls {
public:
    /** Makes sure that the action has been done: calls `make(previous_died)`, which must not throw,
     * unless it has been done. If another thread is doing it, this waits for that. `previous_died`:
     * a thread began before and died, so half of it may be done. ETIMEDOUT; EBUSY (`at_once`);
     * EDEADLK: this thread is doing it. */
    template <class Make> expected<void> call(Make make, Deadline deadline = never) {
        auto act = [](void *argument, int previous_died) noexcept {
            (*static_cast<Make *>(argument))(previous_died != 0);
        };
        return done(outlive_once_do(raw(), act, std::addressof(make), deadline.raw()));
    }
    bool is_done() { return outlive_once_is_done(raw()) != 0; }

private:
    outlive_once_t *raw() { return static_cast<Self &>(*this).raw(); }
};

} // namespace detail

/** A latch as a member of a struct in a `Record`: `expect` in its initialiser sets how many
 * arrivals open it. */
class latch : public detail::LatchCalls<latch> {
public:
    latch() = default;
    latch(const latch &) = delete;
    latch &operator=(const latch &) = delete;

    static constexpr uint32_t kind = OUTLIVE_LATCH;
    /** Sets how many arrivals open it. To be called in a record's initialiser. */
    expected<void> expect(uint32_t arrivals) { return detail::done(outlive_latch_init(&words_, arrivals)); }
    outlive_latch_t *raw() noexcept { return &words_; }

private:
    outlive_latch_t words_;
};
static_assert(sizeof(latch) == sizeof(outlive_latch_t) && std::is_standard_layout_v<latch>);

/** A latch by name, which so many arrivals open. */
class Latch : public detail::Named<Latch, detail::LatchCalls<Latch>, outlive_latch_t, outlive_latch_open, outlive_latch_close> {
public:
    /** Opens the latch of that name, or makes it. */
    static expected<Latch> open_or_create(const Domain &domain, const std::string &name, uint32_t arrivals) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, arrivals);
    }
    /** Opens the latch of that name, whatever number it began with; ENOENT: there is none. */
    static expected<Latch> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name, 0);
    }
    /** Makes a new latch of that name; EEXIST: the name is in use. */
    static expected<Latch> create_new(const Domain &domain, const std::string &name, uint32_t arrivals) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, arrivals);
    }

private:
    using Named::Named;
};

/** An action that is done once, as a member of a struct in a `Record`: 8 bytes. */
class once : public detail::OnceCalls<once> {
public:
    once() = default;
    once(const once &) = delete;
    once &operator=(const once &) = delete;

    static constexpr uint32_t kind = OUTLIVE_ONCE;
    outlive_once_t *raw() noexcept { return &words_; }

private:
    outlive_once_t words_;
};
static_assert(sizeof(once) == sizeof(outlive_once_t) && std::is_standard_layout_v<once>);

/** An action that is done once, by name. */
class Once : public detail::Named<Once, detail::OnceCalls<Once>, outlive_once_t, outlive_once_open, outlive_once_close> {
public:
    /** Opens the once of that name, or makes it. */
    static expected<Once> open_or_create(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name);
    }
    /** Opens the once of that name; ENOENT: there is none. */
    static expected<Once> open(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_OPEN, domain, name);
    }
    /** Makes a new once of that name; EEXIST: the name is in use. */
    static expected<Once> create_new(const Domain &domain, const std::string &name) {
        return opened(OUTLIVE_CREATE_NEW, domain, name);
    }

private:
    using Named::Named;
};

} // namespace outlive

#endif
