/* `rw.` */
#pragma once
#include "driver.hpp"

using RwLock = outlive::RwLock<uint64_t>;

class RwLocks {
public:
    explicit RwLocks(outlive::Domain &domain) : domain_(domain) {}

    string rw(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            rw_locks_.insert_or_assign(name, RwLock::open_or_create(domain_, name, number(args.at(1))).value());
            return ok();
        }
        RwLock &lock = find(rw_locks_, name);
        if (verb == "read") return readers_.insert_or_assign(name, lock.read(until(args.at(1))).value()), got(lock);
        if (verb == "write") return writers_.insert_or_assign(name, lock.write(until(args.at(1))).value()), got(lock);
        if (verb == "upgradable")
            return readers_.insert_or_assign(name, lock.upgradable_read(until(args.at(1))).value()), got(lock);
        if (verb == "upgrade") {
            auto writing = lock.upgrade(find(readers_, name), until(args.at(1)));
            writers_.insert_or_assign(name, std::move(writing.value()));
            return readers_.erase(name), ok();
        }
        if (verb == "downgrade" && readers_.contains(name)) {
            auto reading = lock.downgrade(find(readers_, name));
            return readers_.insert_or_assign(name, std::move(reading.value())), ok();
        }
        if (verb == "downgrade" || verb == "downgrade_to_upgradable") {
            auto &writing = find(writers_, name);
            auto reading = verb == "downgrade" ? lock.downgrade(writing) : lock.downgrade_to_upgradable(writing);
            readers_.insert_or_assign(name, std::move(reading.value()));
            return writers_.erase(name), ok();
        }
        if (verb == "set") return lock.value() = number(args.at(1)), ok();
        if (verb == "consistent") return lock.mark_consistent(), ok();
        if (verb == "mark_not_recoverable") {
            lock.mark_not_recoverable();
            /* They hold nothing any more, and unlocking what is not held does nothing. */
            return readers_.erase(name), writers_.erase(name), ok();
        }
        if (verb == "unlock") return readers_.erase(name), writers_.erase(name), ok();
        if (verb == "reset") {
            /* Marked not recoverable, no process holds it: it is made whole first. */
            lock.value() = number(args.at(1));
            lock.reset(until(args.at(2))).value();
            return ok();
        }
        throw Wrong{"Usage", verb};
    }

private:
    outlive::Domain &domain_;
    /* Guards below what they are of: they go first. */
    Named<RwLock> rw_locks_;
    Named<outlive::Guard<RwLock, const uint64_t>> readers_;
    Named<outlive::Guard<RwLock, uint64_t>> writers_;
};
