/* Notifiers and listeners: notices that each listener counts. */
#ifndef OUTLIVE_NOTIFY_HPP
#define OUTLIVE_NOTIFY_HPP

#include <bit>
#include <utility>
#include <vector>

#include "domain.hpp"

namespace outlive {

/** How many notices of each number, 0 to 63, a listener has been told at once. */
class Notices {
public:
    explicit Notices(const outlive_notices_t &notices) noexcept : notices_(notices) {}
    /** Returns how many notices of that number there are. */
    uint64_t count(uint32_t number) const noexcept { return number < OUTLIVE_NOTICES ? notices_.counts[number] : 0; }
    /** Returns the numbers of which there are notices, as bits. */
    uint64_t bits() const noexcept { return notices_.bits; }
    /** Returns each number of which there are notices, in order, and how many. */
    std::vector<std::pair<uint32_t, uint64_t>> all() const {
        std::vector<std::pair<uint32_t, uint64_t>> all;
        for (uint64_t bits = notices_.bits; bits != 0; bits &= bits - 1) {
            auto number = static_cast<uint32_t>(std::countr_zero(bits));
            all.emplace_back(number, notices_.counts[number]);
        }
        return all;
    }

private:
    outlive_notices_t notices_;
};

/** Tells all listeners of a name that something with a number has happened. All threads may use it
 * at once. */
class Notifier : public detail::WithOptions<Notifier, detail::NoCalls, outlive_notifier_t, outlive_notifier_options_t,
                                            outlive_notifier_open, outlive_notifier_close> {
public:
    /** Adds a notice of that number to each listener's count; returns how many living listeners
     * there were. */
    expected<uint32_t> notify(uint32_t number) {
        uint32_t listeners = 0;
        if (int code = outlive_notifier_notify(raw(), number, &listeners)) return Failure::last(code);
        return listeners;
    }

private:
    using WithOptions::WithOptions;
};

/** Is told by all notifiers of a name how often each of 64 things has happened. One thread at a time
 * may use it. */
class Listener : public detail::WithOptions<Listener, detail::NoCalls, outlive_listener_t, outlive_notifier_options_t,
                                            outlive_listener_open, outlive_listener_close> {
public:
    /** Waits until there are notices, and takes all that are there; ETIMEDOUT, EAGAIN: there are
     * none. */
    expected<Notices> wait(Deadline deadline = never) {
        outlive_notices_t notices;
        if (int code = outlive_listener_wait(raw(), deadline.raw(), &notices)) return Failure::last(code);
        return Notices(notices);
    }

private:
    using WithOptions::WithOptions;
};

} // namespace outlive

#endif
