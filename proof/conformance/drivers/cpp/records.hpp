/* `once.`, what is done once; `record.`, a struct with all that may be inside. */
#pragma once
#include "driver.hpp"

/* What records have inside, by NAME.FIELD. */
struct Line {
    outlive::mutex lock;
    uint64_t value;
    outlive::event moved;
    outlive::latch ready;
    outlive::once made;
    outlive::condition_variable changed;
    uint64_t count;
    outlive::semaphore<3> slots;
    outlive::semaphore<2> parts;
    outlive::barrier<2> step;
    outlive::barrier<2> tour;
    outlive::pi_mutex spindle;
};

struct OtherLine {
    outlive::mutex lock;
    uint64_t value;
    outlive::event moved;
    outlive::latch ready;
    outlive::once made;
    outlive::condition_variable changed;
    uint64_t count;
    outlive::semaphore<3> slots;
    outlive::semaphore<3> parts;
    outlive::barrier<2> step;
    outlive::barrier<2> tour;
    outlive::pi_mutex spindle;
};
static_assert(sizeof(Line) == sizeof(OtherLine));

class Records {
public:
    explicit Records(outlive::Domain &domain) : domain_(domain) {}

    string record(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") return records_.insert_or_assign(name, open_line<Line>(name, number(args.at(1)))), ok();
        if (verb == "other") return open_line<OtherLine>(name, 0), ok();
        Line &line = *find(records_, name);
        if (verb == "count") return ok(std::atomic_ref(line.count).fetch_add(1) + 1);
        if (verb == "spin_up") {
            spinning_.push_back(line.spindle.acquire(until(args.at(1))).value());
            return line.spindle.owner_died() ? "owner-died" : ok();
        }
        throw Wrong{"Usage", verb};
    }

    string once(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") return onces_.insert_or_assign(name, outlive::Once::open_or_create(domain_, name).value()), ok();
        if (Line *line = line_of(name)) return with_once(line->made, verb, args);
        return with_once(find(onces_, name), verb, args);
    }

    /* The record that NAME.FIELD is of. */
    Line *line_of(const string &name) {
        auto record = records_.find(name.substr(0, name.find('.')));
        return name.find('.') == string::npos || record == records_.end() ? nullptr : &*record->second;
    }

    static string line_got(Line &line) {
        return (line.lock.owner_died() ? "owner-died " : "ok ") + std::to_string(line.value);
    }

    string line_lock(Line &line, const string &verb, const Words &args) {
        if (verb == "lock") {
            line_held_.insert_or_assign(args.at(0), line.lock.acquire(until(args.at(1))).value());
            return line_got(line);
        }
        if (verb == "set") return line.value = number(args.at(1)), ok();
        if (verb == "consistent") return line.lock.mark_consistent(), ok();
        if (verb == "mark_not_recoverable") return find(line_held_, args.at(0)).mark_not_recoverable(), line_held_.erase(args.at(0)), ok();
        if (verb == "unlock") return line_held_.erase(args.at(0)), ok();
        throw Wrong{"Usage", verb};
    }

private:
    template <class T> outlive::Record<T> open_line(const string &name, uint64_t value) {
        return outlive::Record<T>::open_or_create(domain_, name,
                                        {&T::lock, &T::moved, &T::ready, &T::made, &T::changed, &T::slots, &T::parts,
                                         &T::step, &T::tour, &T::spindle},
                                        [&](T &line) {
                                            line.value = value;
                                            line.ready.expect(2).value();
                                            line.parts.set_permits(0).value();
                                            line.tour.set_policy(outlive::WhenOneDies::count_out).value();
                                        })
            .value();
    }

    template <class Once> string with_once(Once &once, const string &verb, const Words &args) {
        if (verb == "is_done") return ok(once.is_done() ? "yes" : "no");
        bool within = verb == "within";
        string how = "done";
        auto make = [&](bool previous_died) {
            how = previous_died ? "again" : "fresh";
            if (!within) return;
            /* The next lines come in the middle of it. */
            std::cout << ok(how) << std::endl;
            serve("once.leave " + args.at(0));
        };
        once.call(make, until(args.at(1))).value();
        return within && how != "done" ? ok() : ok(how);
    }

    outlive::Domain &domain_;
    /* Guards below what they are of: they go first. */
    Named<outlive::Record<Line>> records_;
    Named<outlive::Guard<outlive::mutex, void>> line_held_;
    std::vector<outlive::Guard<outlive::pi_mutex, void>> spinning_;
    Named<outlive::Once> onces_;
};
