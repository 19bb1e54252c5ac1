/* Domains, states, semaphores, events, deadlines, results. */
#include "testing.hpp"

#include <sys/resource.h>
#include <thread>

static void domains() {
    auto domain = open_domain();
    CHECK(domain.path() == folder);
    auto token = domain.token().value();
    CHECK(domain.is_alive(token) && domain.info(token)->pid == static_cast<uint32_t>(getpid()));
    CHECK(domain.wait_dead(token, 5ms).code() == ETIMEDOUT);
    Child child([](outlive::Domain &domain, auto tell) {
        auto state = outlive::State<uint32_t>::open_or_create(domain, "token").value();
        state.writer().value().set(domain.process_token().value()).value();
        tell();
        for_ever();
    });
    child.hear();
    auto peer = outlive::State<uint32_t>::open_or_create(domain, "token").value().get().value();
    CHECK(domain.is_alive(peer));
    child.kill();
    domain.wait_dead(peer, soon).value();
    CHECK(!domain.is_alive(peer));
    CHECK(domain.sweep().has_value() && domain.remove("token").has_value());
    CHECK(domain.remove("token").code() == ENOENT);
    THROWS(EINVAL, (void)outlive::Domain::open_or_create("a/b").value());
    THROWS(ENOTDIR, (void)outlive::Domain::open_or_create_at("/dev/null/there").value());
}

struct Reading {
    double value;
    uint64_t at;
};

static void states() {
    auto domain = open_domain();
    auto state = outlive::State<Reading>::open_or_create(domain, "reading", {1, 1}).value();
    CHECK(state.get()->value == 1 && state.version() == 1);
    CHECK(state.wait_changed(1, 5ms).code() == ETIMEDOUT);
    Child child([](outlive::Domain &domain, auto tell) {
        auto writer = outlive::State<Reading>::open_or_create(domain, "reading").value().writer().value();
        writer.set({2, 2}).value();
        tell();
        for_ever();
    });
    child.hear();
    CHECK(state.writer().code() == EBUSY);
    auto got = state.get_versioned().value();
    CHECK(got.version == 2 && got.value.at == 2);
    child.kill();
    CHECK(state.wait_changed(2, soon).code() == EPIPE);
    auto writer = state.writer(soon).value();
    CHECK(writer.set({3, 3}).value() == 3 && state.get()->at == 3);
    THROWS(OUTLIVE_OTHER_TYPE, (void)outlive::State<char>::open_or_create(domain, "reading").value());
}

static void semaphores_and_events() {
    auto domain = open_domain();
    auto seats = outlive::Semaphore::open_or_create(domain, "seats", 2).value();
    Child child([](outlive::Domain &domain, auto tell) {
        auto seats = outlive::Semaphore::open_or_create(domain, "seats", 2).value();
        auto permit = seats.acquire().value();
        tell();
        for_ever();
    });
    child.hear();
    auto one = seats.acquire(soon).value();
    CHECK(seats.available_permits() == 0 && seats.acquire(outlive::at_once).code() == EAGAIN);
    child.kill();
    {
        auto two = seats.acquire(soon).value();
        CHECK(two.index() != one.index());
        THROWS(EDEADLK, (void)seats.acquire().value());
    }
    CHECK(seats.available_permits() == 1);
    {
        auto all = seats.acquire_many(2, soon);
        CHECK(all.code() == EDEADLK && seats.acquire_many(3).code() == EOVERFLOW);
        auto last = seats.acquire_many(1, outlive::at_once).value();
        CHECK(last.size() == 1 && last[0].index() != one.index() && seats.available_permits() == 0);
    }
    CHECK(seats.available_permits() == 1);
    auto bell = outlive::Event::open_or_create(domain, "bell").value();
    CHECK(bell.wait_any(3, 5ms).code() == ETIMEDOUT);
    std::jthread ringer([&] { bell.set(1).value(), bell.set(2).value(); });
    CHECK(bell.wait_all(3, soon).value() == 3 && bell.bits() == 3);
    CHECK(bell.clear(1).value() == 3 && bell.bits() == 2);
}

/* What is there of the calls beside those that each program makes. */
static void holders_and_ends() {
    auto domain = open_domain();
    uint32_t me = domain.token().value();
    auto seats = outlive::Semaphore::open_or_create(domain, "seats", 3).value();
    seats.release_many(seats.acquire_many(2, soon).value()).value();
    CHECK(seats.available_permits() == 3);
    auto permit = seats.acquire(soon).value();
    auto holders = seats.holders().value();
    CHECK(holders.size() == 1 && holders[0].token == me && holders[0].alive);
    permit.consume().value();
    CHECK(seats.available_permits() == 2 && seats.holders().value().empty());
    auto map = outlive::RwLock<uint64_t>::open_or_create(domain, "map").value();
    auto reading = map.read(soon).value();
    CHECK(map.holders().value().at(0).token == me);
    auto mode = outlive::State<uint64_t>::open_or_create(domain, "mode").value();
    CHECK(mode.writer_now().code() == ESRCH);
    auto writer = mode.writer().value();
    CHECK(mode.writer_now().value().pid == static_cast<uint32_t>(getpid()));
    /* A wait for what only that process can do ends with it. */
    auto queue = outlive::Mutex<uint64_t>::open_or_create(domain, "queue").value();
    auto changed = outlive::Condvar::open_or_create(domain, "changed").value();
    auto token = outlive::State<uint64_t>::open_or_create(domain, "token").value();
    Child child([](outlive::Domain &own, auto tell) {
        auto theirs = outlive::State<uint64_t>::open_or_create(own, "token").value();
        theirs.writer().value().set(own.process_token().value()).value();
        tell();
        for_ever();
    });
    child.hear();
    auto its = static_cast<uint32_t>(token.get().value());
    {
        auto held = queue.acquire(soon).value();
        CHECK(changed.wait_or_end(held, domain, its, 5ms).code() == ETIMEDOUT);
        child.kill();
        CHECK(changed.wait_or_end(held, domain, its, soon).code() == ESRCH && queue.holder().value().token == me);
    }
    std::array<uint32_t, 2> both{me, its};
    CHECK(domain.wait_any_dead(both, soon).value() == its);
    CHECK(domain.wait_any_dead(std::span(both).first(1), 5ms).code() == ETIMEDOUT);
    CHECK(outlive::abi_version() == OUTLIVE_ABI_VERSION && std::string(outlive::version()).starts_with("0."));
}

static void sets_of_latches_and_topics() {
    auto domain = open_domain();
    auto set = outlive::WaitSet::open(domain).value();
    auto latch = outlive::Latch::open_or_create(domain, "latch", 1).value();
    auto topic = outlive::Topic::open_or_create(domain, "topic").value();
    auto opened = set.add(latch).value(), changed = set.add(topic).value();
    latch.arrive().value();
    auto ready = set.wait(soon).value();
    CHECK(ready.size() >= 1);
    outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    options.max_blocking = OUTLIVE_BLOCK_NEVER;
    auto publisher = topic.publisher(options).value();
    CHECK(publisher.stopped_waiting() == 0 && publisher.slowest().code() == ESRCH);
    bool is_open = false, has_changed = false;
    while (!(is_open && has_changed))
        for (const auto &one : set.wait(soon).value()) {
            is_open |= one.key == opened && one.what == OUTLIVE_SET;
            if (one.key == changed && one.what == OUTLIVE_CHANGED) has_changed = set.take_topic(changed).value().publishers == 1;
        }
    CHECK(set.take_topic(changed).code() == EAGAIN && set.take_topic(opened).code() == EINVAL);
}

static void the_slowest_is_named() {
    auto domain = open_domain();
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.reliable = 1;
    options.depth = 1;
    auto topic = outlive::Topic::create_new(domain, "slow", options).value();
    outlive_subscriber_options_t reliable = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    reliable.reliable = 1;
    auto slow = topic.subscriber(reliable).value();
    auto publisher = topic.publisher().value();
    publisher.publish(std::string_view("one")).value();
    auto set = outlive::WaitSet::open(domain).value();
    auto room = set.add(publisher).value();
    CHECK(set.wait(1ms).code() == ETIMEDOUT);
    auto slowest = set.slowest(room).value();
    CHECK(slowest.who.pid == uint32_t(getpid()) && slowest.lag == 1 && slowest.is_in_the_way);
    CHECK(publisher.slowest().value().who.token == slowest.who.token);
    auto late = publisher.publish(std::string_view("two"), outlive::at_once);
    CHECK(late.code() == EAGAIN && late.error().pid() == uint32_t(getpid()));
    try {
        publisher.publish(std::string_view("two"), 1ms).value();
        CHECK(false);
    } catch (const outlive::Error &error) {
        CHECK(error.code().value() == ETIMEDOUT && error.pid() == uint32_t(getpid()));
    }
    outlive_publisher_options_t hasty = OUTLIVE_PUBLISHER_OPTIONS_INIT;
    hasty.max_blocking = OUTLIVE_BLOCK_NEVER;
    auto other = topic.publisher(hasty).value();
    for (int count = 0; count < 3; count++) other.publish(std::string_view("x")).value();
    CHECK(slow.lagged() == 0);
    CHECK(slow.recv(soon).code() == OUTLIVE_LAGGED && slow.lagged() == 2);

    auto server = outlive::Server::open_or_create(domain, "watched").value();
    CHECK(outlive::ClientWatch::open(domain, "nothing", 1ms).code() == ENOENT);
    auto watch = outlive::ClientWatch::open(domain, "watched", 1ms).value();
    auto client = outlive::Client::open(domain, "watched").value();
    CHECK(watch.next(soon).value().what == OUTLIVE_CLIENT_NOT_LIVELY);
    auto call = client.begin(std::string_view("go")).value();
    auto stream = server.recv(soon).value().stream().value();
    auto replies = set.add(stream).value();
    { auto over = std::move(call); }
    set.remove(room).value();
    auto ready = set.wait(soon).value();
    CHECK(ready.size() == 1 && ready[0].key == replies && ready[0].what == OUTLIVE_ENDED);
}

static void pools() {
    auto domain = open_domain();
    auto pool = outlive::Pool::open_or_create(domain, "pool").value();
    auto memory = pool.alloc(5000, 64).value();
    CHECK(memory.bytes().size() == 5000 && reinterpret_cast<uintptr_t>(memory.bytes().data()) % 64 == 0);
    std::memset(memory.bytes().data(), 7, 5000);
    auto moved = std::move(memory);
    auto offset = pool.offer(std::move(moved)).value();
    CHECK(moved.bytes().empty());
    /* A process that claims it and dies gives it back. */
    Child child([offset](outlive::Domain &domain, auto tell) {
        auto pool = outlive::Pool::open_or_create(domain, "pool").value();
        auto memory = pool.claim(offset).value();
        CHECK(memory.bytes().size() == 5000 && memory.bytes()[4999] == std::byte{7});
        tell();
        for_ever();
    });
    child.hear();
    CHECK(pool.claim(offset).code() == ESTALE);
    child.kill();
    CHECK(pool.alloc(1, 3).code() == EINVAL);
    CHECK(pool.alloc(size_t(2) << 30).code() == EMSGSIZE);
}

static void prefaulted() {
    auto domain = open_domain();
    auto topic = outlive::Topic::open_or_create(domain, "topic").value();
    auto queue = outlive::Queue::open_or_create(domain, "queue").value();
    auto pool = outlive::Pool::open_or_create(domain, "pool").value();
    auto server = outlive::Server::open_or_create(domain, "service").value();
    auto client = outlive::Client::open(domain, "service").value();
    auto subscriber = topic.subscriber().value();
    auto publisher = topic.publisher().value();
    publisher.prefault(2, 5000).value();
    queue.prefault(16, 5000).value();
    pool.prefault(16, 5000).value();
    client.prefault(2, 5000).value();
    server.prefault(2, 5000).value();
    auto jobs = outlive::JobQueue::open_or_create(domain, "jobs").value();
    jobs.prefault(16).value();
    CHECK(jobs.prefault(size_t(1) << 30).code() == ENOSPC);
    auto state = outlive::State<uint64_t>::open_or_create(domain, "state", 1).value();
    auto writer = state.writer().value();
    writer.prefault(4).value();
    CHECK(writer.prefault(65).code() == ENOSPC);
    domain.prefault(64 << 10).value();
    const std::string message(5000, 'x');
    auto turn = [&] {
        publisher.publish(message).value();
        CHECK(subscriber.recv(outlive::at_once).value().bytes().size() == 5000);
        writer.set(7).value();
        CHECK(state.get().value() == 7);
        jobs.put("part", outlive::at_once).value();
        jobs.take(outlive::at_once).value().done().value();
    };
    turn();
    rusage before{}, after{};
    CHECK(getrusage(RUSAGE_THREAD, &before) == 0);
    for (int count = 0; count < 1000; count++) turn();
    CHECK(getrusage(RUSAGE_THREAD, &after) == 0);
#ifndef __SANITIZE_ADDRESS__
    /* The sanitizer has memory of its own. */
    CHECK(after.ru_minflt == before.ru_minflt && after.ru_majflt == before.ru_majflt);
#endif
    CHECK(publisher.prefault(1, size_t(2) << 30).code() == EMSGSIZE);
    CHECK(domain.prefault(size_t(1) << 40).code() == EINVAL);
    domain.lock_memory(4096).value();
}

static void deadlines() {
    using namespace std::chrono;
    CHECK(outlive::Deadline(hours::max()).raw() == OUTLIVE_NEVER);
    CHECK(outlive::Deadline(steady_clock::time_point::max()).raw() != OUTLIVE_TRY);
    /* What has passed is not `at_once`: it is ETIMEDOUT. */
    auto bell = outlive::Event::open_or_create(open_domain(), "bell").value();
    for (outlive::Deadline passed : {outlive::Deadline(-5s), outlive::Deadline(0s),
                                     outlive::Deadline(steady_clock::time_point::min()),
                                     outlive::Deadline(system_clock::now() - 1h)})
        CHECK(bell.wait_any(1, passed).code() == ETIMEDOUT);
    CHECK(bell.wait_any(1, outlive::at_once).code() == EAGAIN);
}

static void results() {
    outlive::expected<int> yes = 5, no = outlive::Failure(EPIPE, "they are gone");
    CHECK(yes && *yes == 5 && yes.value() == 5 && yes.code() == 0 && !no && no.code() == EPIPE);
    CHECK(std::move(yes).value_or(7) == 5 && std::move(no).value_or(7) == 7);
    outlive::expected<void> done, failed = outlive::Failure(OUTLIVE_DAMAGED, "");
    CHECK(done.has_value() && failed.error().message() == outlive_strerror(OUTLIVE_DAMAGED));
    THROWS(OUTLIVE_DAMAGED, failed.value());
    CHECK(outlive::Failure(EPIPE, "").error_code() == std::errc::broken_pipe);
    CHECK(outlive::Failure(OUTLIVE_DAMAGED, "").error_code().default_error_condition().category() == outlive::category());
}

TESTS(TEST(domains), TEST(states), TEST(semaphores_and_events), TEST(holders_and_ends),
      TEST(sets_of_latches_and_topics), TEST(the_slowest_is_named), TEST(pools), TEST(prefaulted), TEST(deadlines), TEST(results))
