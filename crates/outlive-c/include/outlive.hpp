/* Outlive for C++20: header-only over the C interface (outlive.h, which says of each function which codes it returns and what
 * holds when a process dies).
 *
 * - `X::open(domain, name, ...)` gives an `outlive::expected<X>`: the thing, or a `Failure` with a code and a message. Nothing
 *   throws but `value()` and what is named here: an `outlive::Error`, a `std::system_error`. Without exceptions
 *   (-fno-exceptions) these abort with the message.
 * - Handles close themselves and are moved, not copied. What is made from something keeps it alive.
 * - Locks work with `std::scoped_lock`, `std::unique_lock` and `std::shared_lock` (outlive/lock.hpp says what holds there when
 *   an owner dies); `acquire()` gives a guard that says `owner_died()`.
 * - `for (auto message : receiver)`, `for (auto sample : subscriber)`, `for (auto request : server)`; `x.until(deadline)` ends
 *   at the deadline.
 * - Values in shared memory are trivially copyable and of standard layout, checked at compile time.
 * - A deadline is a span, a moment of either clock, `outlive::never` or `outlive::at_once`. */
#ifndef OUTLIVE_HPP
#define OUTLIVE_HPP

#include "outlive/condvar.hpp"
#include "outlive/domain.hpp"
#include "outlive/lock.hpp"
#include "outlive/meeting.hpp"
#include "outlive/pool.hpp"
#include "outlive/queue.hpp"
#include "outlive/realtime.hpp"
#include "outlive/record.hpp"
#include "outlive/result.hpp"
#include "outlive/rpc.hpp"
#include "outlive/state.hpp"
#include "outlive/sync.hpp"
#include "outlive/topic.hpp"
#include "outlive/wait_set.hpp"

#endif
