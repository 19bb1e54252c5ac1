/* `lock.` */
#pragma once
#include "records.hpp"

using Lock = outlive::Mutex<uint64_t>;

/* The guards of a kind of mutex. */
template <class Mutex> using Held = Named<std::vector<outlive::Guard<Mutex, uint64_t>>>;

/* The verbs that mutexes of every kind have in common. */
template <class Mutex> string act_on(Mutex &lock, Held<Mutex> &held, const string &verb, const Words &args) {
    auto &guards = held[args.at(0)];
    if (verb == "set") return lock.value() = number(args.at(1)), ok();
    if (verb == "consistent") return lock.mark_consistent(), ok();
    /* Unlocking what is not held does nothing. */
    if (verb == "unlock" && guards.empty()) return ok();
    if (verb == "mark_not_recoverable") guards.back().mark_not_recoverable();
    if (verb == "mark_not_recoverable" || verb == "unlock") return guards.pop_back(), ok();
    if (verb == "holder") {
        auto holder = lock.holder();
        if (holder.code() == ESRCH) return ok("nobody");
        return ok(holder.value().pid);
    }
    throw Wrong{"Usage", verb};
}

class Locks {
public:
    Locks(outlive::Domain &domain, Records &records) : domain_(domain), records_(records) {}

    string lock(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            locks_.insert_or_assign(name, Lock::open_or_create(domain_, name, number(args.at(1))).value());
            return ok();
        }
        if (Line *line = records_.line_of(name)) return records_.line_lock(*line, verb, args);
        Lock &lock = find(locks_, name);
        if (verb == "lock") {
            held_[name].push_back(lock.acquire(until(args.at(1))).value());
            return got(lock);
        }
        if (verb == "reset") {
            lock.lock_to_reset(until(args.at(2))).value();
            std::lock_guard held(lock, std::adopt_lock);
            lock.value() = number(args.at(1));
            lock.mark_consistent();
            return ok();
        }
        if (verb == "within") {
            std::scoped_lock held(lock);
            std::cout << got(lock) << std::endl;
            serve("lock.leave " + name);
            return ok();
        }
        if (verb == "churn") {
            for (uint64_t end = now_ms() + number(args.at(1)); now_ms() < end;) {
                std::scoped_lock held(lock);
                lock.value()++;
            }
            return ok();
        }
        if (verb == "awaits") {
            outlive::Deadline deadline = until(args.at(2));
            for (;;) {
                auto guard = lock.acquire(deadline).value();
                if (*guard >= number(args.at(1))) return ok();
            }
        }
        return act_on(lock, held_, verb, args);
    }

    Lock &of(const string &name) { return find(locks_, name); }

private:
    outlive::Domain &domain_;
    Records &records_;
    /* Guards below what they are of: they go first. */
    Named<Lock> locks_;
    Held<Lock> held_;
};
