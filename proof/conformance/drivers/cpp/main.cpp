/* C++'s driver: does what each line of its input says, by outlive.hpp alone, and answers with a
 * line. Failures come as exceptions. doc/conformance.md has the commands; the drivers of the other
 * languages do the same, each with its own means. */
#include "../sanitizers.h"
#include "driver.hpp"
#include "jobs.hpp"
#include "locks.hpp"
#include "nodes.hpp"
#include "notifiers.hpp"
#include "openings.hpp"
#include "pools.hpp"
#include "queues.hpp"
#include "realtime.hpp"
#include "records.hpp"
#include "rw_locks.hpp"
#include "services.hpp"
#include "states.hpp"
#include "sync.hpp"
#include "topics.hpp"
#include "waits.hpp"

namespace {

class Driver {
public:
    explicit Driver(outlive::Domain domain) : domain_(std::move(domain)) {
        family("lock", locks_, &Locks::lock);
        family("rw", rw_locks_, &RwLocks::rw);
        family("sem", sync_, &Sync::semaphore);
        family("event", sync_, &Sync::event);
        family("cond", sync_, &Sync::condition);
        family("barrier", sync_, &Sync::barrier);
        family("latch", sync_, &Sync::latch);
        family("pi", real_time_, &RealTime::pi);
        family("ceiling", real_time_, &RealTime::ceiling);
        family("reentrant", real_time_, &RealTime::reentrant);
        family("once", records_, &Records::once);
        family("record", records_, &Records::record);
        family("pool", pools_, &Pools::pool);
        family("queue", queues_, &Queues::queue);
        family("jobs", jobs_, &Jobs::jobs);
        family("topic", topics_, &Topics::topic);
        family("sample", topics_, &Topics::sample);
        family("state", states_, &States::state);
        family("bytes", states_, &States::bytes);
        family("notifier", notifiers_, &Notifiers::notifier);
        family("listener", notifiers_, &Notifiers::listener);
        family("client", services_, &Services::client);
        family("server", services_, &Services::server);
        family("node", nodes_, &Nodes::node);
        family("watch", nodes_, &Nodes::watch);
        family("config", nodes_, &Nodes::config);
        family("set", waits_, &Waits::wait_set);
        family("open", openings_, &Openings::opening);
        family("misuse", openings_, &Openings::misuse);
        family("domain", *this, &Driver::domain);
        family("peer", *this, &Driver::peer);
    }

    string answer(Words &words) {
        try {
            string command = words.at(0);
            words.erase(words.begin());
            return act(command, words);
        } catch (const outlive::Error &error) {
            /* A std::system_error says its code's own words behind its message. */
            string what = error.what(), behind = ": " + error.code().message();
            if (what.ends_with(behind)) what.resize(what.size() - behind.size());
            return "error " + name_of(error.code()) + " " + what;
        } catch (const Unsupported &lacking) {
            return "error Unsupported " + lacking.what;
        } catch (const Wrong &wrong) {
            return "error " + wrong.name + " " + wrong.message;
        } catch (const std::exception &error) {
            return string("error Usage ") + error.what();
        }
    }

private:
    /* Its verbs are acted on by that object. */
    template <class Of> void family(const string &name, Of &of, string (Of::*act)(const string &, const Words &)) {
        families_[name] = [&of, act](const string &verb, const Words &args) { return (of.*act)(verb, args); };
    }

    string act(const string &command, const Words &args) {
        auto dot = command.find('.');
        auto family = families_.find(command.substr(0, dot));
        if (dot != string::npos && family != families_.end()) return family->second(command.substr(dot + 1), args);
        if (command == "token") return ok(domain_.token().value());
        if (command == "process_token") return ok(domain_.process_token().value());
        if (command == "exit") _exit(0);
        if (command == "crash") std::abort();
        if (command == "hang") return sleep(60), ok();
        throw Wrong{"Usage", "no command " + command};
    }

    string peer(const string &verb, const Words &args) {
        auto token = static_cast<uint32_t>(number(args.at(0)));
        if (verb == "alive") return ok(domain_.is_alive(token) ? "yes" : "no");
        if (verb == "wait_dead") return domain_.wait_dead(token, until(args.at(1))).value(), ok();
        throw Wrong{"Usage", verb};
    }

    string domain(const string &verb, const Words &args) {
        if (verb == "find") return outlive::Domain::open_at(args.at(0)).value(), ok();
        if (verb == "create") return outlive::Domain::create_new_at(domain_.path() + "/" + args.at(0)).value(), ok();
        throw Wrong{"Usage", verb};
    }

    outlive::Domain domain_;
    Records records_{domain_};
    Locks locks_{domain_, records_};
    RwLocks rw_locks_{domain_};
    Sync sync_{domain_, records_, locks_};
    RealTime real_time_{domain_, sync_};
    Pools pools_{domain_};
    Queues queues_{domain_};
    Jobs jobs_{domain_};
    Topics topics_{domain_};
    States states_{domain_};
    Services services_{domain_};
    Notifiers notifiers_{domain_};
    Nodes nodes_{domain_};
    Waits waits_{domain_, queues_, topics_, sync_, notifiers_};
    Openings openings_{domain_};
    Named<std::function<string(const string &, const Words &)>> families_;
};

std::optional<Driver> driver;

} // namespace

void serve(const string &last) {
    string line;
    while (std::getline(std::cin, line)) {
        if (line == last) return;
        std::istringstream in(line);
        Words words{std::istream_iterator<string>(in), {}};
        std::cout << driver->answer(words) << std::endl;
    }
}

int main(int count, char **arguments) {
    auto domain = outlive::Domain::open_or_create_at(count == 2 ? arguments[1] : "");
    if (!domain) {
        std::cerr << "usage: driver FOLDER; " << domain.error().message() << "\n";
        return 2;
    }
    std::cout << "ready" << std::endl;
    driver.emplace(std::move(domain).value());
    serve("");
    driver.reset();
}
