/* `set.`, waiting for several. */
#pragma once
#include "notifiers.hpp"
#include "queues.hpp"
#include "sync.hpp"
#include "topics.hpp"

struct WaitSet {
    outlive::WaitSet set;
    std::map<uint64_t, string> names{};
};

class Waits {
public:
    Waits(outlive::Domain &domain, Queues &queues, Topics &topics, Sync &sync, Notifiers &notifiers)
        : domain_(domain), queues_(queues), topics_(topics), sync_(sync), notifiers_(notifiers) {}

    string wait_set(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            sets_.insert_or_assign(name, WaitSet{outlive::WaitSet::open(domain_).value()});
            return ok();
        }
        auto &[set, names] = find(sets_, name);
        if (verb == "wait") {
            Words ready;
            for (auto [key, what, reserved] : set.wait(until(args.at(1))).value()) ready.push_back(names[key]);
            std::ranges::sort(ready);
            string answer = "ok";
            for (const string &name : ready) answer += " " + name;
            return answer;
        }
        if (verb == "slowest") {
            auto room = std::ranges::find(names, args.at(1), [](const auto &one) { return one.second; });
            return ok(Topics::named(set.slowest(room->first)));
        }
        uint64_t key;
        if (verb == "add_publisher") key = set.add(topics_.of(args.at(1)).out.value()).value();
        else if (verb == "add_queue") key = set.add(queues_.of(args.at(1)).receiver()).value();
        else if (verb == "add_topic") key = set.add(topics_.of(args.at(1)).in.value()).value();
        else if (verb == "add_event") key = set.add(sync_.event_of(args.at(1)), static_cast<uint32_t>(number(args.at(2)))).value();
        else if (verb == "add_listener") key = set.add(notifiers_.of(args.at(1))).value();
        else if (verb == "add_peer") key = set.add_peer(domain_, static_cast<uint32_t>(number(args.at(2)))).value();
        else if (verb == "add_stand_by") key = set.add_server_stand_by(domain_, args.at(1)).value();
        else throw Wrong{"Usage", verb};
        names[key] = args.at(1);
        return ok();
    }

private:
    outlive::Domain &domain_;
    Queues &queues_;
    Topics &topics_;
    Sync &sync_;
    Notifiers &notifiers_;
    Named<WaitSet> sets_;
};
