/* `sem.`, `event.`, `cond.`, `barrier.`, `latch.` */
#pragma once
#include "locks.hpp"

class Sync {
public:
    Sync(outlive::Domain &domain, Records &records, Locks &locks) : domain_(domain), records_(records), locks_(locks) {}

    string semaphore(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto permits = static_cast<uint32_t>(number(args.at(1)));
            semaphores_.insert_or_assign(name, outlive::Semaphore::open_or_create(domain_, name, permits).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) {
            return name.ends_with("slots") ? with_semaphore(line->slots, verb, args) : with_semaphore(line->parts, verb, args);
        }
        return with_semaphore(find(semaphores_, name), verb, args);
    }

    string event(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            uint32_t reset = args.at(1) == "automatic" ? OUTLIVE_RESET_AUTOMATIC : OUTLIVE_RESET_MANUAL;
            events_.insert_or_assign(name, outlive::Event::open_or_create(domain_, name, reset).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) return with_event(line->moved, verb, args);
        return with_event(find(events_, name), verb, args);
    }

    string condition(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            condvars_.insert_or_assign(name, outlive::Condvar::open_or_create(domain_, name).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) {
            if (verb == "await") {
                std::unique_lock held(line->lock, std::adopt_lock);
                auto is_so = [&] { return line->value == number(args.at(2)); };
                bool was_so = line->changed.wait_until(held, until(args.at(3)), is_so);
                held.release();
                if (!was_so) throw outlive::Error(outlive::Failure(ETIMEDOUT, ""));
                return Records::line_got(*line);
            }
            return line->changed.notify_one(), ok();
        }
        outlive::Condvar &condvar = find(condvars_, name);
        if (verb == "await") {
            Lock &lock = locks_.of(args.at(1));
            std::unique_lock held(lock, std::adopt_lock);
            bool is_so = condvar.wait_until(held, until(args.at(3)), [&] { return lock.value() == number(args.at(2)); });
            /* The guard goes on holding it. */
            held.release();
            if (!is_so) throw outlive::Error(outlive::Failure(ETIMEDOUT, ""));
            return got(lock);
        }
        if (verb == "notify") return condvar.notify_one(), ok();
        if (verb == "notify_all") return condvar.notify_all(), ok();
        throw Wrong{"Usage", verb};
    }

    string barrier(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            using When = outlive::Barrier::WhenOneDies;
            auto when = args.at(2) == "count_out" ? When::count_out : When::breaks;
            auto parties = static_cast<uint32_t>(number(args.at(1)));
            barriers_.insert_or_assign(name, outlive::Barrier::open_or_create(domain_, name, parties, when).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) return with_barrier(name.ends_with("step") ? line->step : line->tour, verb, args);
        return with_barrier(find(barriers_, name), verb, args);
    }

    string latch(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto arrivals = static_cast<uint32_t>(number(args.at(1)));
            latches_.insert_or_assign(name, outlive::Latch::open_or_create(domain_, name, arrivals).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) return with_latch(line->ready, verb, args);
        return with_latch(find(latches_, name), verb, args);
    }

    outlive::Event &event_of(const string &name) { return find(events_, name); }
    outlive::Condvar &condvar_of(const string &name) { return find(condvars_, name); }

private:
    template <class Semaphore> string with_semaphore(Semaphore &semaphore, const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "acquire") return permits_[name].push_back(semaphore.acquire(until(args.at(1))).value()), ok();
        if (verb == "acquire_many") {
            auto permits = semaphore.acquire_many(static_cast<uint32_t>(number(args.at(1))), until(args.at(2)));
            for (outlive::Permit &permit : permits.value()) permits_[name].push_back(std::move(permit));
            return ok();
        }
        if (verb == "release_many") {
            for (uint64_t left = number(args.at(1)); left > 0; --left) permits_[name].pop_back();
            return ok();
        }
        if (verb == "release") return permits_[name].pop_back(), ok();
        if (verb == "add") return semaphore.add().value(), ok();
        if (verb == "available") return ok(semaphore.available_permits());
        throw Wrong{"Usage", verb};
    }

    template <class Event> string with_event(Event &event, const string &verb, const Words &args) {
        if (verb == "bits") return ok(event.bits());
        auto bits = static_cast<uint32_t>(number(args.at(1)));
        if (verb == "set") return event.set(bits).value(), ok();
        if (verb == "clear") return event.clear(bits).value(), ok();
        if (verb == "any") return ok(event.wait_any(bits, until(args.at(2))).value());
        if (verb == "all") return ok(event.wait_all(bits, until(args.at(2))).value());
        throw Wrong{"Usage", verb};
    }

    template <class Barrier> string with_barrier(Barrier &barrier, const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "wait") {
            if (!seats_.contains(name)) seats_.emplace(name, barrier.join().value());
            return ok(std::to_string(find(seats_, name).wait(until(args.at(1))).value().index));
        }
        if (verb == "abort_wait") return ok(std::to_string(find(seats_, name).abort().value().index));
        if (verb == "abort") return barrier.abort().value(), ok();
        if (verb == "reset") return barrier.reset(until(args.at(1))).value(), ok();
        if (verb == "state") {
            auto counts = std::to_string(barrier.waiting()) + " of " + std::to_string(barrier.parties());
            return ok(counts + (barrier.is_broken() ? " broken" : ""));
        }
        if (verb == "repair") return barrier.repair(until(args.at(1))).value(), ok();
        throw Wrong{"Usage", verb};
    }

    template <class Latch> string with_latch(Latch &latch, const string &verb, const Words &args) {
        if (verb == "arrive") return ok(latch.arrive(static_cast<uint32_t>(number(args.at(1)))).value());
        if (verb == "wait") return latch.wait(until(args.at(1))).value(), ok();
        throw Wrong{"Usage", verb};
    }

    outlive::Domain &domain_;
    Records &records_;
    Locks &locks_;
    /* Permits and seats below what they are of: they go first. */
    Named<outlive::Semaphore> semaphores_;
    Named<std::vector<outlive::Permit>> permits_;
    Named<outlive::Event> events_;
    Named<outlive::Condvar> condvars_;
    Named<outlive::Barrier> barriers_;
    Named<outlive::Seat> seats_;
    Named<outlive::Latch> latches_;
};
