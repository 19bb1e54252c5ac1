/* `notifier.` and `listener.` */
#pragma once
#include "driver.hpp"

class Notifiers {
public:
    explicit Notifiers(outlive::Domain &domain) : domain_(domain) {}

    string notifier(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            notifiers_.insert_or_assign(name, outlive::Notifier::open_or_create(domain_, name, given(args)).value());
            return ok();
        }
        if (verb == "notify") return ok(find(notifiers_, name).notify(static_cast<uint32_t>(number(args.at(1)))).value());
        if (verb == "close") return notifiers_.erase(name), ok();
        throw Wrong{"Usage", "notifier." + verb};
    }

    string listener(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            listeners_.insert_or_assign(name, outlive::Listener::open_or_create(domain_, name, given(args)).value());
            return ok();
        }
        if (verb == "wait") {
            string answer = "ok";
            for (auto [id, count] : find(listeners_, name).wait(until(args.at(1))).value().all())
                answer += " " + std::to_string(id) + ":" + std::to_string(count);
            return answer;
        }
        if (verb == "close") return listeners_.erase(name), ok();
        throw Wrong{"Usage", "listener." + verb};
    }

    outlive::Listener &of(const string &name) { return find(listeners_, name); }

private:
    /* `created=1`, `left=2`, `died=3`. */
    static outlive_notifier_options_t given(const Words &args) {
        outlive_notifier_options_t options = OUTLIVE_NOTIFIER_OPTIONS_INIT;
        auto bit = [&](const string &key) {
            uint64_t id = option(args, key, 64);
            return id < 64 ? 1ull << id : 0;
        };
        options.on_created = bit("created");
        options.on_left = bit("left");
        options.on_died = bit("died");
        return options;
    }

    outlive::Domain &domain_;
    Named<outlive::Notifier> notifiers_;
    Named<outlive::Listener> listeners_;
};
