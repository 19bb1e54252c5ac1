/* Incoming messages, samples, requests and replies, as a range. */
#ifndef OUTLIVE_INCOMING_HPP
#define OUTLIVE_INCOMING_HPP

#include <iterator>
#include <optional>

#include "deadline.hpp"
#include "result.hpp"

namespace outlive {

/** An input iterator over what `end.recv(deadline)` returns. It ends at the deadline, and with the
 * code that the end's own `last_code` names; it throws every other failure as an `Error`. The
 * caller may move from what it points to. */
template <class End> class Incoming {
public:
    using value_type = typename End::value_type;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    Incoming(End &end, Deadline deadline) : end_(&end), deadline_(deadline), now_() { ++*this; }
    /* As far as the values can be copied and moved. */
    Incoming(const Incoming &) = default;
    Incoming(Incoming &&) = default;
    Incoming &operator=(const Incoming &) = default;
    Incoming &operator=(Incoming &&) = default;
    ~Incoming() = default;

    value_type &&operator*() const noexcept { return std::move(*now_); }
    Incoming &operator++() {
        now_.reset();
        auto next = end_->recv(deadline_);
        if (next) now_.emplace(*std::move(next));
        else if (int code = next.code(); code != ETIMEDOUT && code != EAGAIN && code != End::last_code) detail::raise(next.error());
        return *this;
    }
#pragma GCC diagnostic push
/* What it pointed to is gone, so there is nothing to return: an input iterator need not. */
#pragma GCC diagnostic ignored "-Weffc++"
    void operator++(int) { ++*this; }
#pragma GCC diagnostic pop
    friend bool operator==(const Incoming &at, std::default_sentinel_t) noexcept { return !at.now_; }

private:
    End *end_;
    Deadline deadline_;
    mutable std::optional<value_type> now_;
};

/** A range that ends at a deadline. It receives from its beginning on. */
template <class End> class Until {
public:
    Until(End &end, Deadline deadline) noexcept : end_(&end), deadline_(deadline) {}
    Incoming<End> begin() const { return {*end_, deadline_}; }
    std::default_sentinel_t end() const noexcept { return {}; }

private:
    End *end_;
    Deadline deadline_;
};

namespace detail {

/** The ranges of an `End` with `recv`. */
template <class End> class Ranges {
public:
    /** A range over what comes in from now on. */
    Incoming<End> begin() { return {static_cast<End &>(*this), never}; }
    std::default_sentinel_t end() const noexcept { return {}; }
    /** A range over what comes in until then; `at_once`: what is there already. */
    Until<End> until(Deadline deadline) & noexcept { return {static_cast<End &>(*this), deadline}; }
    /** A range over a temporary would dangle: keep the end first. */
    Until<End> until(Deadline deadline) && = delete;
};

} // namespace detail

} // namespace outlive

#endif
