/* `open.`, each kind by each of the three openings; `misuse.`, what a call refuses. */
#pragma once
#include "realtime.hpp"
#include "rw_locks.hpp"

class Openings {
public:
    explicit Openings(outlive::Domain &domain) : domain_(domain) {}

    string opening(const string &kind, const Words &args) {
        uint64_t given = args.size() > 2 ? number(args.at(2)) : 0;
        auto few = [&](uint32_t otherwise) { return given == 0 ? otherwise : static_cast<uint32_t>(given); };
        if (kind == "mutex") return opened<Lock>(args);
        if (kind == "rwlock") return opened<RwLock>(args);
        if (kind == "pi_mutex") return opened<PiMutex>(args);
        if (kind == "reentrant_mutex") return opened<ReentrantMutex>(args);
        if (kind == "ceiling_mutex") return opened<CeilingMutex>(args, few(2));
        if (kind == "condvar") return opened<outlive::Condvar>(args);
        if (kind == "once") return opened<outlive::Once>(args);
        if (kind == "event") return opened<outlive::Event>(args, few(0));
        if (kind == "latch") return opened<outlive::Latch>(args, few(1));
        if (kind == "semaphore") return opened<outlive::Semaphore>(args, few(1));
        if (kind == "barrier") return opened<outlive::Barrier>(args, few(1));
        if (kind == "queue") return opened<outlive::Queue>(args, at_most(outlive_queue_options_t OUTLIVE_QUEUE_OPTIONS_INIT, given));
        if (kind == "topic") return opened<outlive::Topic>(args, at_most(outlive_topic_options_t OUTLIVE_TOPIC_OPTIONS_INIT, given));
        if (kind == "pool") return opened<outlive::Pool>(args, at_most(outlive_pool_options_t OUTLIVE_POOL_OPTIONS_INIT, given));
        if (kind == "service")
            return opened<outlive::Client>(args, at_most(outlive_service_options_t OUTLIVE_SERVICE_OPTIONS_INIT, given));
        if (kind == "state") return opened<outlive::StateBytes>(args, given, string());
        if (kind == "record") {
            const string &how = args.at(0), &name = args.at(1);
            struct Number {
                uint64_t value;
            };
            using Record = outlive::Record<Number>;
            if (how == "open") Record::open(domain_, name, {}).value();
            else if (how == "create_new") Record::create_new(domain_, name, {}).value();
            else Record::open_or_create(domain_, name, {}).value();
            return ok();
        }
        throw Wrong{"Usage", kind};
    }

    string misuse(const string &verb, const Words &) {
        if (verb == "number") return outlive::Event::open_or_create(domain_, "misused-event", 7).value(), ok();
        if (verb == "unlock") {
            /* Unlocking never throws; saying that all is whole does. */
            auto lock = Lock::open_or_create(domain_, "misused-lock").value();
            return lock.mark_consistent(), ok();
        }
        /* The types keep the others out. */
        return "impossible";
    }

private:
    /* By one of the three openings, and closed again. */
    template <class T, class... Args> string opened(const Words &args, const Args &...more) {
        const string &how = args.at(0), &name = args.at(1);
        if (how == "open") T::open(domain_, name).value();
        else if (how == "create_new") T::create_new(domain_, name, more...).value();
        else T::open_or_create(domain_, name, more...).value();
        return ok();
    }

    template <class Options> static Options at_most(Options options, uint64_t bytes) {
        options.max_bytes = bytes;
        return options;
    }

    outlive::Domain &domain_;
};
