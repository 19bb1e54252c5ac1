/* `pi.`, `ceiling.` and `reentrant.` */
#pragma once
#include "sync.hpp"

using PiMutex = outlive::PiMutex<uint64_t>;
using ReentrantMutex = outlive::ReentrantMutex<uint64_t>;
using CeilingMutex = outlive::CeilingMutex<uint64_t>;

class RealTime {
public:
    RealTime(outlive::Domain &domain, Sync &sync) : domain_(domain), sync_(sync) {}

    string pi(const string &verb, const Words &args) {
        auto open = [&](const string &name, uint64_t value) { return PiMutex::open_or_create(domain_, name, value); };
        return act(pi_, pi_held_, open, verb, args);
    }

    string ceiling(const string &verb, const Words &args) {
        auto open = [&](const string &name, uint64_t value) { return CeilingMutex::open_or_create(domain_, name, 2, value); };
        return act(ceilings_, ceilings_held_, open, verb, args);
    }

    string reentrant(const string &verb, const Words &args) {
        auto open = [&](const string &name, uint64_t value) { return ReentrantMutex::open_or_create(domain_, name, value); };
        return act(reentrant_, reentrant_held_, open, verb, args);
    }

private:
    /* Mutexes for real-time threads, and those that their holder locks again: all have the same calls. */
    template <class Mutex, class Open>
    string act(Named<Mutex> &locks, Held<Mutex> &held, Open open, const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") return locks.insert_or_assign(name, open(name, number(args.at(1))).value()), ok();
        Mutex &lock = find(locks, name);
        if (verb == "lock") {
            auto taken = lock.acquire(until(args.at(1)));
            if (taken.code() == EPERM) throw Unsupported{"right to run at a real-time priority"};
            held[name].push_back(std::move(taken).value());
            return got(lock);
        }
        if (verb == "await") {
            auto is_so = [&] { return lock.value() == number(args.at(2)); };
            if (!sync_.condvar_of(args.at(1)).wait_until(held[name].back(), until(args.at(3)), is_so))
                throw outlive::Error(outlive::Failure(ETIMEDOUT, ""));
            return got(lock);
        }
        if (verb == "reset") {
            /* Marked not recoverable, no process holds it: it is made whole first. */
            lock.value() = number(args.at(1));
            return lock.reset(until(args.at(2))).value(), ok();
        }
        return act_on(lock, held, verb, args);
    }

    outlive::Domain &domain_;
    Sync &sync_;
    /* Guards below what they are of: they go first. */
    Named<PiMutex> pi_;
    Held<PiMutex> pi_held_;
    Named<ReentrantMutex> reentrant_;
    Held<ReentrantMutex> reentrant_held_;
    Named<CeilingMutex> ceilings_;
    Held<CeilingMutex> ceilings_held_;
};
