/* C++'s driver: does what each line of its input says, by outlive.hpp alone, and answers with a
 * line. Failures come as exceptions. doc/conformance.md has the commands; the drivers of the other
 * languages do the same, each with its own means. */
#include <outlive.hpp>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <unistd.h>

#include "driver.h"

using namespace std::chrono_literals;
using std::string;
using Words = std::vector<string>;
template <class T> using Named = std::map<string, T>;

namespace {

/* What the header has no class for, or this machine does not let us do. */
struct Unsupported {
    string what = "";
};
/* A line that makes no sense, or bytes that are not what was sent. */
struct Wrong {
    string name, message;
};

string show(std::span<const std::byte> bytes) {
    char shown[64];
    ::show(shown, bytes.data(), bytes.size());
    return shown;
}

uint64_t number(const string &word) { return std::stoull(word); }

/* Milliseconds, or `try`. */
outlive::Deadline until(const string &word) {
    if (word == "try") return outlive::at_once;
    return std::chrono::milliseconds(number(word));
}

std::vector<std::byte> pattern(size_t size, uint64_t seed) {
    std::vector<std::byte> bytes(size);
    ::pattern(reinterpret_cast<unsigned char *>(bytes.data()), size, seed);
    return bytes;
}

std::vector<std::byte> message(const string &word) {
    if (auto star = word.find('*'); star != string::npos) return pattern(number(word), number(word.substr(star + 1)));
    auto bytes = std::as_bytes(std::span(word));
    return {bytes.begin(), bytes.end()};
}

/* `KEY=NUMBER` among the options. */
uint64_t option(const Words &options, const string &key, uint64_t otherwise) {
    for (const string &option : options)
        if (option.starts_with(key + "=")) return number(option.substr(key.size() + 1));
    return otherwise;
}

bool flag(const Words &options, const string &word) { return std::ranges::find(options, word) != options.end(); }

template <class T> T &find(Named<T> &things, const string &name) {
    auto found = things.find(name);
    if (found == things.end()) throw Wrong{"Usage", "nothing is called " + name};
    return found->second;
}

string ok() { return "ok"; }
template <class T> string ok(const T &value) {
    std::ostringstream out;
    out << "ok " << value;
    return out.str();
}

/* An error by the name that the standard has for it. */
string name_of(const std::error_code &code) {
    static const std::map<std::errc, const char *> names = {
        {std::errc::owner_dead, "owner_dead"},
        {std::errc::file_exists, "file_exists"},
        {std::errc::state_not_recoverable, "state_not_recoverable"},
        {std::errc::resource_deadlock_would_occur, "resource_deadlock_would_occur"},
        {std::errc::device_or_resource_busy, "device_or_resource_busy"},
        {std::errc::timed_out, "timed_out"},
        {std::errc::resource_unavailable_try_again, "resource_unavailable_try_again"},
        {std::errc::broken_pipe, "broken_pipe"},
        {std::errc::connection_reset, "connection_reset"},
        {std::errc::connection_aborted, "connection_aborted"},
        {std::errc::not_connected, "not_connected"},
        {std::errc::operation_canceled, "operation_canceled"},
        {std::errc::message_size, "message_size"},
        {std::errc::no_space_on_device, "no_space_on_device"},
        {std::errc::operation_not_permitted, "operation_not_permitted"},
        {std::errc::permission_denied, "permission_denied"},
        {std::errc::no_such_file_or_directory, "no_such_file_or_directory"},
        {std::errc::directory_not_empty, "directory_not_empty"},
        {std::errc::invalid_argument, "invalid_argument"},
        {std::errc::value_too_large, "value_too_large"},
    };
    for (auto [errc, name] : names)
        if (code == errc) return name;
    switch (code.value()) {
    /* C++23 has taken its name away. */
    case ETIME: return "stream_timeout";
    /* The standard has none for it. */
    case ESTALE: return "ESTALE";
    case OUTLIVE_DAMAGED: return "OUTLIVE_DAMAGED";
    case OUTLIVE_OTHER_KIND: return "OUTLIVE_OTHER_KIND";
    case OUTLIVE_OTHER_TYPE: return "OUTLIVE_OTHER_TYPE";
    case OUTLIVE_BROKEN: return "OUTLIVE_BROKEN";
    case OUTLIVE_FAILED: return "OUTLIVE_FAILED";
    default: return std::to_string(code.value());
    }
}

using Lock = outlive::Mutex<uint64_t>;
using RwLock = outlive::RwLock<uint64_t>;
using PiMutex = outlive::PiMutex<uint64_t>;
using ReentrantMutex = outlive::ReentrantMutex<uint64_t>;
using CeilingMutex = outlive::CeilingMutex<uint64_t>;

/* A queue, and the ends that were needed so far. */
struct Queue {
    outlive::Queue queue;
    bool ends_with_senders;
    std::optional<outlive::Sender> out{};
    std::optional<outlive::Receiver> in{};
    uint64_t sent = 0, received = 0;

    outlive::Sender &sender() {
        if (!out) out.emplace(queue.sender().value());
        return *out;
    }
    outlive::Receiver &receiver() {
        if (!in) {
            in.emplace(queue.receiver().value());
            in->end_when_senders_gone(ends_with_senders).value();
        }
        return *in;
    }
    void drain(outlive::Deadline deadline) {
        auto got = receiver().recv(deadline).value();
        if (!is_pattern(got.bytes().data(), got.bytes().size(), ++received))
            throw Wrong{"OutOfOrder", "message " + std::to_string(received) + " is " + show(got.bytes())};
    }
};

/* A job queue, and the job that was taken last. */
struct Jobs {
    outlive::JobQueue queue;
    std::optional<outlive::Job> job{};

    outlive::Job taken() {
        outlive::Job taken = std::move(job.value());
        job.reset();
        return taken;
    }
};

struct Topic {
    outlive::Topic topic;
    std::optional<outlive::Publisher> out{};
    std::optional<outlive::Subscriber> in{};
    uint64_t sent = 0;

    void publish_pattern(size_t size) {
        auto loan = out->loan(size).value();
        ::pattern(reinterpret_cast<unsigned char *>(loan.bytes().data()), size, sent);
        out->publish(std::move(loan)).value();
        sent++;
    }
};

void check(const outlive::Sample &sample) {
    if (!is_pattern(sample.bytes().data(), sample.bytes().size(), sample.sequence()))
        throw Wrong{"Torn", "message " + std::to_string(sample.sequence()) + " is " + show(sample.bytes())};
}

struct State {
    outlive::State<uint64_t> state;
    std::optional<outlive::StateWriter<uint64_t>> writer{};
};

struct Bytes {
    outlive::StateBytes state;
    std::optional<outlive::BytesWriter> writer{};

    uint64_t set(const std::vector<std::byte> &value) {
        if (!writer) writer.emplace(state.writer().value());
        return writer->set(value).value();
    }
};

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

/* An object of a pool, or a share of one. */
struct Object {
    outlive::Pool *pool;
    std::optional<outlive::Memory> memory{};
    std::optional<outlive::SharedObject> shared{};

    string shown() { return shared ? show(shared->bytes()) : show(memory.value().bytes()); }
};

struct WaitSet {
    outlive::WaitSet set;
    std::map<uint64_t, string> names{};
};

class Driver {
public:
    explicit Driver(outlive::Domain domain) : domain_(std::move(domain)) {}

    /* Answers until the input ends, or until that line. */
    void serve(const string &last = "") {
        string line;
        while (std::getline(std::cin, line)) {
            if (line == last) return;
            std::istringstream in(line);
            Words words{std::istream_iterator<string>(in), {}};
            std::cout << answer(words) << std::endl;
        }
    }

private:
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

    string act(const string &command, const Words &args) {
        auto dot = command.find('.');
        string family = command.substr(0, dot), verb = dot == string::npos ? "" : command.substr(dot + 1);
        if (family == "lock") return lock(verb, args);
        if (family == "rw") return rw(verb, args);
        if (family == "sem") return semaphore(verb, args);
        if (family == "event") return event(verb, args);
        if (family == "cond") return condition(verb, args);
        if (family == "queue") return queue(verb, args);
        if (family == "jobs") return jobs(verb, args);
        if (family == "topic") return topic(verb, args);
        if (family == "sample") return sample(verb);
        if (family == "state") return state(verb, args);
        if (family == "bytes") return bytes(verb, args);
        if (family == "client") return client(verb, args);
        if (family == "server") return server(verb, args);
        if (family == "set") return wait_set(verb, args);
        if (family == "misuse") return misuse(verb);
        if (family == "barrier") return barrier(verb, args);
        if (family == "latch") return latch(verb, args);
        if (family == "once") return once(verb, args);
        if (family == "record") return record(verb, args);
        if (family == "pool") return pool(verb, args);
        if (family == "open") return opening(verb, args);
        if (family == "pi") {
            auto open = [&](const string &name, uint64_t value) { return PiMutex::open_or_create(domain_, name, value); };
            return real_time(pi_, pi_held_, open, verb, args);
        }
        if (family == "ceiling") {
            auto open = [&](const string &name, uint64_t value) { return CeilingMutex::open_or_create(domain_, name, 2, value); };
            return real_time(ceilings_, ceilings_held_, open, verb, args);
        }
        if (family == "reentrant") {
            auto open = [&](const string &name, uint64_t value) { return ReentrantMutex::open_or_create(domain_, name, value); };
            return real_time(reentrant_, reentrant_held_, open, verb, args);
        }
        if (command == "token") return ok(domain_.token().value());
        if (command == "process_token") return ok(domain_.process_token().value());
        auto token = [&] { return static_cast<uint32_t>(number(args.at(0))); };
        if (command == "peer.alive") return ok(domain_.is_alive(token()) ? "yes" : "no");
        if (command == "peer.wait_dead") return domain_.wait_dead(token(), until(args.at(1))).value(), ok();
        if (command == "domain.find") {
            outlive::Domain::open_at(args.at(0)).value();
            return ok();
        }
        if (command == "domain.create") {
            outlive::Domain::create_new_at(domain_.path() + "/" + args.at(0)).value();
            return ok();
        }
        if (command == "exit") _exit(0);
        if (command == "crash") std::abort();
        if (command == "hang") return sleep(60), ok();
        throw Wrong{"Usage", "no command " + command};
    }

    /* A lock in hand, its value, and what became of its last owner. */
    template <class Held> static string got(Held &lock) {
        return (lock.owner_died() ? "owner-died " : "ok ") + std::to_string(lock.value());
    }

    string lock(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            locks_.insert_or_assign(name, Lock::open_or_create(domain_, name, number(args.at(1))).value());
            return ok();
        }
        if (Line *line = line_of(name)) return line_lock(*line, verb, args);
        Lock &lock = find(locks_, name);
        if (verb == "lock") {
            held_.insert_or_assign(name, lock.acquire(until(args.at(1))).value());
            return got(lock);
        }
        if (verb == "set") return lock.value() = number(args.at(1)), ok();
        if (verb == "consistent") return lock.mark_consistent(), ok();
        if (verb == "mark_not_recoverable") return find(held_, name).mark_not_recoverable(), held_.erase(name), ok();
        if (verb == "unlock") return held_.erase(name), ok();
        if (verb == "reset") {
            lock.lock_to_reset(until(args.at(2))).value();
            std::lock_guard held(lock, std::adopt_lock);
            lock.value() = number(args.at(1));
            lock.mark_consistent();
            return ok();
        }
        if (verb == "holder") {
            auto holder = lock.holder();
            if (holder.code() == ESRCH) return ok("nobody");
            return ok(holder.value().pid);
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
        throw Wrong{"Usage", verb};
    }

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

    string semaphore(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto permits = static_cast<uint32_t>(number(args.at(1)));
            semaphores_.insert_or_assign(name, outlive::Semaphore::open_or_create(domain_, name, permits).value());
            return ok();
        }
        if (Line *line = line_of(name)) {
            return name.ends_with("slots") ? with_semaphore(line->slots, verb, args) : with_semaphore(line->parts, verb, args);
        }
        return with_semaphore(find(semaphores_, name), verb, args);
    }

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

    string event(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            uint32_t reset = args.at(1) == "automatic" ? OUTLIVE_RESET_AUTOMATIC : OUTLIVE_RESET_MANUAL;
            events_.insert_or_assign(name, outlive::Event::open_or_create(domain_, name, reset).value());
            return ok();
        }
        if (Line *line = line_of(name)) return with_event(line->moved, verb, args);
        return with_event(find(events_, name), verb, args);
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

    string condition(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            condvars_.insert_or_assign(name, outlive::Condvar::open_or_create(domain_, name).value());
            return ok();
        }
        if (Line *line = line_of(name)) {
            if (verb == "await") {
                std::unique_lock held(line->lock, std::adopt_lock);
                auto is_so = [&] { return line->value == number(args.at(2)); };
                bool was_so = line->changed.wait_until(held, until(args.at(3)), is_so);
                held.release();
                if (!was_so) throw outlive::Error(outlive::Failure(ETIMEDOUT, ""));
                return line_got(*line);
            }
            return line->changed.notify_one(), ok();
        }
        outlive::Condvar &condvar = find(condvars_, name);
        if (verb == "await") {
            Lock &lock = find(locks_, args.at(1));
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
        if (Line *line = line_of(name)) return with_barrier(name.ends_with("step") ? line->step : line->tour, verb, args);
        return with_barrier(find(barriers_, name), verb, args);
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

    string latch(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto arrivals = static_cast<uint32_t>(number(args.at(1)));
            latches_.insert_or_assign(name, outlive::Latch::open_or_create(domain_, name, arrivals).value());
            return ok();
        }
        if (Line *line = line_of(name)) return with_latch(line->ready, verb, args);
        return with_latch(find(latches_, name), verb, args);
    }

    template <class Latch> string with_latch(Latch &latch, const string &verb, const Words &args) {
        if (verb == "arrive") return ok(latch.arrive(static_cast<uint32_t>(number(args.at(1)))).value());
        if (verb == "wait") return latch.wait(until(args.at(1))).value(), ok();
        throw Wrong{"Usage", verb};
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

    /* Mutexes for real-time threads, and those that their holder locks again: all have the same calls. */
    template <class Mutex, class Open>
    string real_time(Named<Mutex> &locks, Named<std::vector<outlive::Guard<Mutex, uint64_t>>> &held, Open open, const string &verb,
                     const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") return locks.insert_or_assign(name, open(name, number(args.at(1))).value()), ok();
        Mutex &lock = find(locks, name);
        if (verb == "lock") {
            auto taken = lock.acquire(until(args.at(1)));
            if (taken.code() == EPERM) throw Unsupported{"right to run at a real-time priority"};
            held[name].push_back(std::move(taken).value());
            return got(lock);
        }
        if (verb == "set") return lock.value() = number(args.at(1)), ok();
        if (verb == "consistent") return lock.mark_consistent(), ok();
        if (verb == "mark_not_recoverable") return held[name].back().mark_not_recoverable(), held[name].pop_back(), ok();
        if (verb == "unlock") return held[name].pop_back(), ok();
        if (verb == "await") {
            auto is_so = [&] { return lock.value() == number(args.at(2)); };
            if (!find(condvars_, args.at(1)).wait_until(held[name].back(), until(args.at(3)), is_so))
                throw outlive::Error(outlive::Failure(ETIMEDOUT, ""));
            return got(lock);
        }
        if (verb == "reset") {
            /* Marked not recoverable, no process holds it: it is made whole first. */
            lock.value() = number(args.at(1));
            return lock.reset(until(args.at(2))).value(), ok();
        }
        if (verb == "holder") {
            auto holder = lock.holder();
            if (holder.code() == ESRCH) return ok("nobody");
            return ok(holder.value().pid);
        }
        throw Wrong{"Usage", verb};
    }

    string pool(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            return pools_.insert_or_assign(name, outlive::Pool::open_or_create(domain_, name, options).value()), ok();
        }
        auto keep = [&](Object object) {
            return ok(objects_.insert_or_assign(args.at(1), std::move(object)).first->second.shown());
        };
        if (verb == "alloc") {
            outlive::Pool &pool = find(pools_, name);
            auto bytes = message(args.at(2));
            auto memory = pool.alloc(bytes.size()).value();
            std::ranges::copy(bytes, memory.bytes().begin());
            objects_.insert_or_assign(args.at(1), Object{&pool, std::move(memory)});
            return ok();
        }
        if (verb == "claim") {
            outlive::Pool &pool = find(pools_, name);
            return keep({&pool, pool.claim(number(args.at(2))).value()});
        }
        if (verb == "join") {
            outlive::Pool &pool = find(pools_, name);
            return keep({&pool, std::nullopt, pool.join(number(args.at(2))).value()});
        }
        if (verb == "gc") return find(pools_, name).gc().value(), ok();
        if (verb == "count") {
            auto usage = find(pools_, name).usage().value();
            return ok(args.at(1) == "used" ? usage.used : args.at(1) == "offered" ? usage.offered : usage.shared);
        }
        Object &object = find(objects_, name);
        if (verb == "show") return ok(object.shown());
        if (verb == "free") return objects_.erase(name), ok();
        if (verb == "share") {
            object.shared.emplace(object.pool->share(std::move(object.memory.value())).value());
            return ok(object.shared->offset());
        }
        uint64_t offset = 0;
        if (verb == "offer") offset = object.pool->offer(std::move(object.memory.value())).value();
        else if (verb == "offer_to") {
            auto token = static_cast<uint32_t>(number(args.at(1)));
            offset = object.pool->offer(std::move(object.memory.value()), domain_, token).value();
        } else throw Wrong{"Usage", verb};
        objects_.erase(name);
        return ok(offset);
    }

    string jobs(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_job_queue_options_t options = OUTLIVE_JOB_QUEUE_OPTIONS_INIT;
            options.max_jobs = static_cast<uint32_t>(option(args, "max", 0));
            options.max_attempts = static_cast<uint32_t>(option(args, "attempts", 0));
            jobs_.insert_or_assign(name, Jobs{outlive::JobQueue::open_or_create(domain_, name, options).value()});
            return ok();
        }
        Jobs &jobs = find(jobs_, name);
        if (verb == "put") return ok(jobs.queue.put(message(args.at(1)), until(args.at(2))).value());
        if (verb == "take") {
            jobs.job.emplace(jobs.queue.take(until(args.at(1))).value());
            return ok(show(jobs.job->bytes()) + " " + std::to_string(jobs.job->attempts()));
        }
        if (verb == "done") return jobs.taken().done().value(), ok();
        if (verb == "aside") return jobs.taken().set_aside().value(), ok();
        if (verb == "release") return jobs.taken().release(), ok();
        if (verb == "join") return jobs.queue.join(until(args.at(1))).value(), ok();
        if (verb == "retry") {
            auto retried = jobs.queue.retry(number(args.at(1)));
            if (retried.code() == ENOENT) return ok(0);
            return retried.value(), ok(1);
        }
        if (verb == "count") {
            auto counts = jobs.queue.counts().value();
            if (args.at(1) == "waiting") return ok(counts.waiting);
            if (args.at(1) == "taken") return ok(counts.taken);
            if (args.at(1) == "set_aside") return ok(counts.set_aside);
            if (args.at(1) == "put") return ok(counts.put);
        }
        throw Wrong{"Usage", "jobs." + verb};
    }

    string queue(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            options.max_messages = static_cast<uint32_t>(option(args, "messages", 0));
            options.need_receiver = flag(args, "refuse");
            if (flag(args, "keep")) options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
            auto open = flag(args, "existing") ? outlive::Queue::open : outlive::Queue::open_or_create;
            Queue opened{open(domain_, name, options).value(), flag(args, "ending")};
            queues_.insert_or_assign(name, std::move(opened));
            return ok();
        }
        if (verb == "typed") throw Unsupported{};
        Queue &queue = find(queues_, name);
        if (verb == "join") return queue.queue.join(until(args.at(1))).value(), ok();
        if (verb == "send") return queue.sender().send(message(args.at(1)), until(args.at(2))).value(), ok();
        if (verb == "recv") return ok(show(queue.receiver().recv(until(args.at(1))).value().bytes()));
        if (verb == "peek") {
            auto peeked = queue.receiver().peek(until(args.at(1))).value();
            return ok(show(peeked.bytes()) + (peeked.redelivered() ? " again" : " fresh"));
        }
        if (verb == "commit") return queue.receiver().commit().value(), ok();
        if (verb == "batch") {
            std::vector<std::vector<std::byte>> messages;
            for (size_t at = 1; at + 1 < args.size(); at++) messages.push_back(message(args[at]));
            std::vector<std::span<const std::byte>> spans(messages.begin(), messages.end());
            return queue.sender().send_batch(spans, until(args.back())).value(), ok();
        }
        if (verb == "count") {
            auto counters = queue.queue.counters().value();
            if (args.at(1) == "sent") return ok(counters.sent);
            if (args.at(1) == "received") return ok(counters.received);
            if (args.at(1) == "pending") return ok(counters.pending);
            if (args.at(1) == "redelivered") return ok(counters.redelivered);
        }
        if (verb == "fill") {
            for (;; queue.sent++) {
                auto sent = queue.sender().send(pattern(number(args.at(1)), queue.sent + 1), outlive::at_once);
                if (sent.code() == EAGAIN) return ok(queue.sent);
                sent.value();
            }
        }
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)); now_ms() < end;)
                queue.sender().send(pattern(number(args.at(1)), ++queue.sent), until(args.at(2))).value();
            return ok();
        }
        if (verb == "drain") {
            outlive::Deadline deadline = until(args.at(2));
            for (uint64_t count = number(args.at(1)); count > 0; count--) queue.drain(deadline);
            return ok();
        }
        if (verb == "drain_all") {
            for (auto received : queue.receiver().until(until(args.at(1)))) {
                if (!is_pattern(received.bytes().data(), received.bytes().size(), ++queue.received))
                    throw Wrong{"OutOfOrder", show(received.bytes())};
            }
            return ok(queue.received);
        }
        if (verb == "close") return queue.out.reset(), queue.in.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    string take(outlive::Sample sample) {
        sample_.emplace(std::move(sample));
        return ok(show(sample_->bytes()));
    }

    string topic(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open" || verb == "find") {
            outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            options.depth = static_cast<uint32_t>(option(args, "depth", 0));
            options.reliable = flag(args, "reliable");
            auto open = verb == "find" ? outlive::Topic::open : outlive::Topic::open_or_create;
            topics_.insert_or_assign(name, Topic{open(domain_, name, options).value()});
            return ok();
        }
        Topic &topic = find(topics_, name);
        if (verb == "publisher") {
            outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT;
            options.max_blocking = option(args, "blocking", 0) * 1000000;
            return topic.out.emplace(topic.topic.publisher(options).value()), ok();
        }
        if (verb == "subscriber") {
            outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
            options.reliable = flag(args, "reliable");
            options.history = static_cast<uint32_t>(option(args, "history", 0));
            options.keep_last = static_cast<uint32_t>(option(args, "keep", 0));
            options.period = option(args, "period", 0) * 1000000;
            std::vector<uint64_t> keys;
            for (const string &word : args)
                if (word.starts_with("key=")) keys.push_back(number(word.substr(4)));
            options.keys = keys.data();
            options.key_count = keys.size();
            return topic.in.emplace(topic.topic.subscriber(options).value()), ok();
        }
        if (verb == "unsubscribe") return topic.in.reset(), ok();
        if (verb == "publish") {
            outlive::Header header{};
            header.key = option(args, "key", 0);
            header.frame = option(args, "frame", 0);
            header.stamp = option(args, "stamp", 0);
            return ok(topic.out->publish(message(args.at(1)), header, until(args.at(2))).value());
        }
        if (verb == "publish_many") {
            for (uint64_t count = number(args.at(1)); count > 0; count--) topic.publish_pattern(number(args.at(2)));
            return ok();
        }
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)); now_ms() < end;) topic.publish_pattern(number(args.at(1)));
            return ok();
        }
        if (verb == "loan") {
            auto bytes = message(args.at(1));
            loan_.emplace(topic.out->loan(bytes.size()).value());
            std::ranges::copy(bytes, loan_->bytes().begin());
            return ok();
        }
        if (verb == "publish_loan") return ok(topic.out->publish(std::move(loan_.value())).value());
        if (verb == "publish_msgpack" || verb == "recv_msgpack") throw Unsupported{};
        if (verb == "publishers") return ok(topic.in->publisher_count());
        if (verb == "subscribers") return ok(topic.out->subscriber_count());
        outlive::Subscriber &subscriber = topic.in.value();
        if (verb == "recv") return take(subscriber.recv(until(args.at(1))).value());
        if (verb == "latest") return take(subscriber.latest().value());
        if (verb == "recv_hex") {
            auto sample = subscriber.recv(until(args.at(1))).value();
            string hex;
            for (std::byte byte : sample.bytes()) {
                char digits[3];
                snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
                hex += digits;
            }
            return ok(hex);
        }
        if (verb == "drain") {
            outlive::Deadline deadline = until(args.at(2));
            for (uint64_t count = number(args.at(1)); count > 0; count--) check(subscriber.recv(deadline).value());
            return ok();
        }
        if (verb == "drain_all") {
            uint64_t count = 0;
            for (auto &&sample : subscriber.until(outlive::at_once)) check(sample), count++;
            return ok(count);
        }
        if (verb == "consume") {
            for (auto &&sample : subscriber.until(until(args.at(1)))) (void)sample;
            return ok();
        }
        if (verb == "lost") return ok(subscriber.lost());
        if (verb == "lag") return ok(subscriber.lag());
        throw Wrong{"Usage", verb};
    }

    string sample(const string &verb) {
        outlive::Sample &sample = sample_.value();
        if (verb == "show") return ok(show(sample.bytes()));
        if (verb == "sequence") return ok(sample.sequence());
        if (verb == "order") return ok(sample.order());
        if (verb == "key") return ok(sample.header().key);
        if (verb == "frame") return ok(sample.header().frame);
        if (verb == "stamp") return ok(sample.header().stamp);
        if (verb == "publisher") return ok(sample.publisher());
        if (verb == "drop") return sample_.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    string state(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            states_.insert_or_assign(name, State{outlive::State<uint64_t>::open_or_create(domain_, name, number(args.at(1))).value()});
            return ok();
        }
        if (verb == "find") return outlive::StateBytes::open(domain_, name).value(), ok();
        State &state = find(states_, name);
        if (verb == "get") {
            auto got = state.state.get_versioned().value();
            return ok(std::to_string(got.value) + " " + std::to_string(got.version));
        }
        if (verb == "set") {
            if (!state.writer) state.writer.emplace(state.state.writer().value());
            return ok(state.writer->set(number(args.at(1))).value());
        }
        if (verb == "wait") return ok(state.state.wait_changed(number(args.at(1)), until(args.at(2))).value());
        if (verb == "close") return state.writer.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    string bytes(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto opened = outlive::StateBytes::open_or_create(domain_, name, number(args.at(1)), message(args.at(2))).value();
            return bytes_.insert_or_assign(name, Bytes{std::move(opened)}), ok();
        }
        Bytes &bytes = find(bytes_, name);
        if (verb == "get") {
            auto [value, version] = bytes.state.get_versioned().value();
            return ok(show(value) + " " + std::to_string(version));
        }
        if (verb == "set") return ok(bytes.set(message(args.at(1))));
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)), count = 1; now_ms() < end; count++)
                bytes.set(pattern(number(args.at(1)), count));
            return ok();
        }
        if (verb == "watch") {
            outlive::Deadline deadline = until(args.at(2));
            uint64_t seen = 1;
            for (uint64_t count = number(args.at(1)); count > 0; count--) {
                bytes.state.wait_changed(seen, deadline).value();
                auto [value, version] = bytes.state.get_versioned().value();
                seen = version;
                if (!is_pattern(value.data(), value.size(), seen - 1)) throw Wrong{"Torn", "version " + std::to_string(seen)};
            }
            return ok();
        }
        throw Wrong{"Usage", verb};
    }

    string client(const string &verb, const Words &args) {
        try {
            return asking(verb, args);
        } catch (const outlive::ServiceError &error) {
            failure_ = error.text();
            throw;
        }
    }

    string asking(const string &verb, const Words &args) {
        if (verb == "failure") return ok(failure_);
        if (verb == "next") {
            auto reply = call_.value().recv(until(args.at(0)));
            return reply.code() == ENODATA ? ok("end") : ok(show(reply.value().bytes()));
        }
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
            options.wait_for_server = flag(args, "wait");
            clients_.insert_or_assign(name, outlive::Client::open_or_create(domain_, name, options).value());
            return ok();
        }
        outlive::Client &client = find(clients_, name);
        if (verb == "call") return ok(show(client.call(message(args.at(1)), until(args.at(2))).value().bytes()));
        if (verb == "begin") return call_.emplace(client.begin(message(args.at(1)), until(args.at(2))).value()), ok();
        throw Wrong{"Usage", verb};
    }

    outlive::Request request() {
        auto request = std::move(request_.value());
        request_.reset();
        return request;
    }

    string server(const string &verb, const Words &args) {
        if (verb == "open") {
            servers_.insert_or_assign(args.at(0), outlive::Server::open_or_create(domain_, args.at(0)).value());
            return ok();
        }
        if (verb == "next") {
            request_.emplace(find(servers_, args.at(0)).recv(until(args.at(1))).value());
            return ok(show(request_->bytes()));
        }
        if (verb == "client") return ok(request_.value().client().value().pid);
        if (verb == "cancelled") return ok(request_.value().is_cancelled() ? "yes" : "no");
        if (verb == "reply") return request().reply(message(args.at(0))).value(), ok();
        if (verb == "fail") return request().fail(args.at(0)).value(), ok();
        if (verb == "fail_stream") return std::move(stream_.value()).fail(args.at(0)).value(), ok();
        if (verb == "drop") return request_.reset(), ok();
        if (verb == "stream") return stream_.emplace(request().stream().value()), ok();
        if (verb == "send") return stream_.value().send(message(args.at(0)), until(args.at(1))).value(), ok();
        if (verb == "finish") return std::move(stream_.value()).finish().value(), ok();
        throw Wrong{"Usage", verb};
    }

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
        uint64_t key;
        if (verb == "add_queue") key = set.add(find(queues_, args.at(1)).receiver()).value();
        else if (verb == "add_topic") key = set.add(find(topics_, args.at(1)).in.value()).value();
        else if (verb == "add_event") key = set.add(find(events_, args.at(1)), static_cast<uint32_t>(number(args.at(2)))).value();
        else if (verb == "add_peer") key = set.add_peer(domain_, static_cast<uint32_t>(number(args.at(2)))).value();
        else throw Wrong{"Usage", verb};
        names[key] = args.at(1);
        return ok();
    }

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

    string misuse(const string &verb) {
        if (verb == "number") return outlive::Event::open_or_create(domain_, "misused-event", 7).value(), ok();
        if (verb == "unlock") {
            /* Unlocking never throws; saying that all is whole does. */
            auto lock = Lock::open_or_create(domain_, "misused-lock").value();
            return lock.mark_consistent(), ok();
        }
        /* The types keep the others out. */
        return "impossible";
    }

    outlive::Domain domain_;
    /* Guards and permits below what they are of: they go first. */
    Named<Lock> locks_;
    Named<outlive::Guard<Lock, uint64_t>> held_;
    Named<RwLock> rw_locks_;
    Named<outlive::Guard<RwLock, const uint64_t>> readers_;
    Named<outlive::Guard<RwLock, uint64_t>> writers_;
    Named<PiMutex> pi_;
    Named<std::vector<outlive::Guard<PiMutex, uint64_t>>> pi_held_;
    Named<ReentrantMutex> reentrant_;
    Named<std::vector<outlive::Guard<ReentrantMutex, uint64_t>>> reentrant_held_;
    Named<CeilingMutex> ceilings_;
    Named<std::vector<outlive::Guard<CeilingMutex, uint64_t>>> ceilings_held_;
    Named<outlive::Record<Line>> records_;
    Named<outlive::Guard<outlive::mutex, void>> line_held_;
    std::vector<outlive::Guard<outlive::pi_mutex, void>> spinning_;
    Named<outlive::Once> onces_;
    Named<outlive::Pool> pools_;
    Named<Object> objects_;
    Named<outlive::Semaphore> semaphores_;
    Named<std::vector<outlive::Permit>> permits_;
    Named<outlive::Event> events_;
    Named<outlive::Condvar> condvars_;
    Named<outlive::Barrier> barriers_;
    Named<outlive::Seat> seats_;
    Named<outlive::Latch> latches_;
    Named<Queue> queues_;
    Named<Jobs> jobs_;
    Named<Topic> topics_;
    std::optional<outlive::Loan> loan_;
    std::optional<outlive::Sample> sample_;
    Named<State> states_;
    Named<Bytes> bytes_;
    Named<outlive::Client> clients_;
    std::optional<outlive::Call> call_;
    Named<outlive::Server> servers_;
    std::optional<outlive::Request> request_;
    std::optional<outlive::Stream> stream_;
    string failure_;
    Named<WaitSet> sets_;
};

} // namespace

int main(int count, char **arguments) {
    auto domain = outlive::Domain::open_or_create_at(count == 2 ? arguments[1] : "");
    if (!domain) {
        std::cerr << "usage: driver FOLDER; " << domain.error().message() << "\n";
        return 2;
    }
    std::cout << "ready" << std::endl;
    Driver(std::move(domain).value()).serve();
}
