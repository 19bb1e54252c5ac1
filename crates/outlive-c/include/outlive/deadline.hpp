/* Deadlines: until when a call may wait. */
#ifndef OUTLIVE_DEADLINE_HPP
#define OUTLIVE_DEADLINE_HPP

#include <outlive.h>

#include <chrono>

namespace outlive {

/** A point in time: from a duration from now on, or from a point in time of `steady_clock` or of
 * the time of day; `never`, or `at_once`. */
class Deadline {
public:
    constexpr explicit Deadline(outlive_deadline_t raw) noexcept : raw_(raw) {}

    template <class Rep, class Period>
    Deadline(std::chrono::duration<Rep, Period> span) noexcept : raw_(OUTLIVE_NEVER) {
        using namespace std::chrono;
        /* What does not fit into nanoseconds, nearly 300 years, is never. */
        double seconds = duration_cast<duration<double>>(span).count();
        if (seconds <= 0) raw_ = outlive_after(0);
        else if (seconds < 9e9) raw_ = outlive_after(static_cast<uint64_t>(ceil<nanoseconds>(span).count()));
    }

    /* libstdc++'s and libc++'s steady clock is CLOCK_MONOTONIC. */
    template <class Duration>
    Deadline(std::chrono::time_point<std::chrono::steady_clock, Duration> moment) noexcept
        : Deadline(span_to(moment, std::chrono::steady_clock::now())) {}

    template <class Duration>
    Deadline(std::chrono::time_point<std::chrono::system_clock, Duration> moment) noexcept : raw_(0) {
        using namespace std::chrono;
        auto whole = floor<seconds>(moment);
        auto rest = duration_cast<nanoseconds>(moment - whole).count();
        raw_ = outlive_at_time_of_day(whole.time_since_epoch().count(), static_cast<uint32_t>(rest));
    }

    constexpr outlive_deadline_t raw() const noexcept { return raw_; }

private:
    template <class Moment, class Now> static auto span_to(Moment moment, Now now) noexcept {
        /* What has passed long ago would overflow. */
        return moment < now ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(moment - now);
    }

    outlive_deadline_t raw_;
};

/** Wait without a deadline; a call still ends when what it waits for can never come because its
 * peer died. */
inline constexpr Deadline never{OUTLIVE_NEVER};
/** Do not wait: locks give EBUSY, everything else EAGAIN. */
inline constexpr Deadline at_once{OUTLIVE_TRY};

} // namespace outlive

#endif
