/* Outlive for C++20: header-only over the C interface. outlive.h says for each function which codes
 * it returns and what holds when a process dies.
 *
 * - `X::open_or_create(domain, name, ...)`, `X::open(domain, name)` and `X::create_new(domain, name,
 *   ...)` return an `outlive::expected<X>`: the object, or a `Failure` with a code and a message
 *   (ENOENT: `open` found nothing of that name; EEXIST: `create_new` found something; EINVAL: an
 *   option contradicts what is there; and the rest of `outlive_opening_t` in outlive.h). Only
 *   `value()` and the functions that say so here throw: an `outlive::Error`, a `std::system_error`.
 *   Without exceptions (-fno-exceptions) these abort with the message.
 * - Handles close themselves; they are moved, not copied. An object keeps what it was made from
 *   alive.
 * - Locks work with `std::scoped_lock`, `std::unique_lock` and `std::shared_lock` (outlive/lock.hpp
 *   says what holds there when an owner dies); `acquire()` returns a guard that has `owner_died()`.
 * - `for (auto message : receiver)`, `for (auto sample : subscriber)`, `for (auto request :
 *   server)`; `x.until(deadline)` ends at the deadline.
 * - Values in shared memory are trivially copyable and of standard layout, checked at compile time.
 * - A deadline is a duration, a point in time of either clock, `outlive::never` or
 *   `outlive::at_once`. */
#ifndef OUTLIVE_HPP
#define OUTLIVE_HPP

#include "outlive/condvar.hpp"
#include "outlive/config.hpp"
#include "outlive/described.hpp"
#include "outlive/domain.hpp"
#include "outlive/inline.hpp"
#include "outlive/jobs.hpp"
#include "outlive/lock.hpp"
#include "outlive/meeting.hpp"
#include "outlive/notify.hpp"
#include "outlive/pool.hpp"
#include "outlive/queue.hpp"
#include "outlive/realtime.hpp"
#include "outlive/record.hpp"
#include "outlive/result.hpp"
#include "outlive/rpc.hpp"
#include "outlive/state.hpp"
#include "outlive/sync.hpp"
#include "outlive/tail.hpp"
#include "outlive/topic.hpp"
#include "outlive/wait_set.hpp"

#endif
