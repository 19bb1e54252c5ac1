/* Queues, topics and calls: ranges, values, deaths. */
#include "testing.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>
#include <thread>

#include <fcntl.h>

static_assert(std::input_iterator<outlive::Incoming<outlive::Receiver>>);
static_assert(std::input_iterator<outlive::Incoming<outlive::Subscriber>>);
static_assert(std::sentinel_for<std::default_sentinel_t, outlive::Incoming<outlive::Receiver>>);
static_assert(std::ranges::input_range<outlive::Receiver> && std::ranges::input_range<outlive::Subscriber>);
static_assert(std::ranges::input_range<outlive::Until<outlive::Server>>);

struct Pose {
    double x, y, angle;
};

static void jobs_are_done_or_come_back() {
    auto jobs = outlive::JobQueue::open_or_create(open_domain(), "jobs").value();
    CHECK(jobs.put(Pose{1, 2, 3}).value() == 0 && jobs.put("second").value() == 1);
    {
        auto job = jobs.take(soon).value();
        CHECK(job.as<Pose>().angle == 3 && job.attempts() == 1);
        /* Not done. */
    }
    auto job = jobs.take(soon).value();
    CHECK(job.id() == 0 && job.attempts() == 2);
    std::move(job).done().value();
    auto second = jobs.take(soon).value();
    CHECK(second.text() == "second" && second.size() == 6);
    CHECK(jobs.join(outlive::at_once).code() == ETIMEDOUT);
    std::move(second).set_aside().value();
    CHECK(jobs.join(soon).code() == 0);
    auto aside = jobs.set_aside().value();
    CHECK(aside.size() == 1 && aside[0].id == 1 && aside[0].attempts == 1 && outlive::text_of(aside[0].bytes) == "second");
    CHECK(jobs.retry(7).code() == ENOENT && jobs.retry(1).code() == 0 && jobs.counts()->waiting == 1);
    auto domain = open_domain();
    auto set = outlive::WaitSet::open(domain).value();
    auto key = set.add(jobs).value();
    CHECK(set.wait(soon).value().at(0).key == key);
    CHECK(jobs.discard(1).code() == ENOENT);
    std::move(jobs.take(soon).value()).release();
}

/* A stray write hits the number of a job that is set aside: doc/memory-layout.md has its place. */
static void a_stray_number_ends_the_list() {
    auto jobs = outlive::JobQueue::open_or_create(open_domain(), "jobs").value();
    CHECK(jobs.put("one").value() == 0 && jobs.put("two").value() == 1);
    std::move(jobs.take(soon).value()).set_aside().value();
    std::move(jobs.take(soon).value()).set_aside().value();
    uint64_t number = UINT64_MAX;
    int file = ::open((folder + "/jobs").c_str(), O_RDWR | O_CLOEXEC);
    CHECK(file >= 0 && ::pwrite(file, &number, sizeof number, 12288 + 512 + 1024 * 8) == sizeof number);
    ::close(file);
    auto aside = jobs.set_aside().value();
    CHECK(aside.size() == 2 && aside[0].id == 1 && aside[1].id == number);
    CHECK(jobs.discard(number).code() == 0);
}

/* A stray write hits the length of the first job. */
static void a_damaged_job_is_shown() {
    auto jobs = outlive::JobQueue::open_or_create(open_domain(), "jobs").value();
    CHECK(jobs.put("one").value() == 0 && jobs.put("two").value() == 1);
    uint64_t length = 5000;
    int file = ::open((folder + "/jobs").c_str(), O_RDWR | O_CLOEXEC);
    off_t slots = (12288 + 512 + 1024 * 16 + 4095) / 4096 * 4096;
    CHECK(file >= 0 && ::pwrite(file, &length, sizeof length, slots) == sizeof length);
    ::close(file);
    CHECK(jobs.take(soon).code() == OUTLIVE_DAMAGED);
    std::move(jobs.take(soon).value()).set_aside().value();
    auto aside = jobs.set_aside().value();
    CHECK(aside.size() == 2 && aside[0].is_damaged && outlive::text_of(aside[0].bytes).starts_with("one"));
    CHECK(!aside[1].is_damaged && outlive::text_of(aside[1].bytes) == "two");
    CHECK(jobs.discard(aside[0].id).code() == 0 && jobs.set_aside()->size() == 1);
}

static void queue_ranges() {
    auto queue = outlive::Queue::open_or_create(open_domain(), "log").value();
    auto receiver = queue.receiver().value();
    {
        auto sender = queue.sender().value();
        sender.send("first").value();
        sender.send(Pose{1, 2, 3}).value();
        sender.send(std::vector<uint16_t>(500, 7)).value();
        std::array<std::span<const std::byte>, 2> two{outlive::bytes_of("four"), outlive::bytes_of("five")};
        sender.send_batch(two).value();
    }
    auto first = receiver.recv(soon).value();
    CHECK(first.text() == "first" && first.size() == 5);
    THROWS(OUTLIVE_OTHER_TYPE, (void)first.as<Pose>());
    CHECK(receiver.recv(soon).value().as<Pose>().angle == 3);
    size_t bytes = 0;
    for (auto message : receiver.until(outlive::at_once)) bytes += message.bytes().size();
    CHECK(bytes == 1000 + 4 + 4);
    CHECK(receiver.recv(outlive::at_once).code() == EAGAIN && receiver.recv(5ms).code() == ETIMEDOUT);
    CHECK(queue.counters()->received == 5);
    /* Without a deadline: to the end of the last sender. */
    receiver.end_when_senders_gone().value();
    std::jthread other([sender = queue.sender().value()]() mutable {
        auto last = std::move(sender);
        for (int at = 1; at <= 100; at++) last.send(at).value();
    });
    int sum = 0;
    for (auto message : receiver) sum += message.as<int>();
    CHECK(sum == 5050 && receiver.recv(soon).code() == EPIPE);
    /* Over an end that only the loop has. */
    auto other_queue = outlive::Queue::open_or_create(open_domain(), "other").value();
    auto sender = other_queue.sender().value();
    sender.send(7).value();
    for (auto message : other_queue.receiver().value()) {
        CHECK(message.as<int>() == 7);
        break;
    }
}

static void receiver_killed() {
    auto domain = open_domain();
    auto queue = outlive::Queue::open_or_create(domain, "log").value();
    auto sender = queue.sender().value();
    sender.send("kept").value();
    Child child([](outlive::Domain &domain, auto tell) {
        auto receiver = outlive::Queue::open_or_create(domain, "log").value().receiver().value();
        CHECK(receiver.peek(soon).value().text() == "kept");
        tell();
        for_ever();
    });
    child.hear();
    CHECK(queue.receiver().code() == EBUSY);
    child.kill();
    /* The next send is told, or the first after the death has been seen. */
    outlive::expected<void> told;
    for (auto end = std::chrono::steady_clock::now() + soon; told && std::chrono::steady_clock::now() < end;)
        told = sender.send("more", soon);
    CHECK(told.code() == EPIPE && told.error().message().size() > 0);
    auto receiver = queue.receiver().value();
    auto again = receiver.peek(soon).value();
    CHECK(again.text() == "kept" && again.size() == 4 && again.redelivered());
    receiver.commit().value();
    CHECK(receiver.commit().code() == EINVAL);
}

static void topic_ranges() {
    auto domain = open_domain();
    auto topic = outlive::Topic::open_or_create(domain, "poses").value();
    auto publisher = topic.publisher().value();
    auto subscriber = topic.subscriber().value();
    CHECK(topic.publisher_count() == 1 && publisher.subscriber_count() == 1);
    for (int at = 0; at < 5; at++) publisher.publish(Pose{double(at), 0, 0}, outlive::Header{0, 9, 0, {}}).value();
    double x = 0;
    for (auto sample : subscriber.until(outlive::at_once)) {
        CHECK(sample.as<Pose>().x == x++ && sample.header().frame == 9 && sample.header().stamp != 0);
        CHECK(sample.publisher() == domain.process_token().value());
    }
    CHECK(x == 5 && subscriber.lost() == 0 && subscriber.recv(outlive::at_once).code() == EAGAIN);
    auto loan = publisher.loan(sizeof(Pose)).value();
    loan.as<Pose>() = {7, 8, 9};
    CHECK(publisher.publish(std::move(loan)).value() == subscriber.latest()->sequence());
    { auto unused = publisher.loan(1000).value(); }
    /* As a range of the standard's, taken from an endless one. */
    for (int at = 0; at < 3; at++) publisher.publish(at).value();
    auto numbers = std::views::transform(subscriber, [](auto &&sample) { return sample.template as<int>(); });
    int sum = 0;
    for (int number : numbers | std::views::take_while([](int number) { return number < 2; })) sum += number;
    CHECK(sum == 1);
}

static void samples_outlive_all_else() {
    auto keep = [] {
        auto topic = outlive::Topic::open_or_create(open_domain(), "frames").value();
        auto subscriber = topic.subscriber().value();
        Child child([](outlive::Domain &domain, auto tell) {
            auto publisher = outlive::Topic::open_or_create(domain, "frames").value().publisher().value();
            publisher.publish(std::vector<unsigned char>(100'000, 42)).value();
            tell();
            for_ever();
        });
        child.hear();
        auto sample = subscriber.recv(soon).value();
        child.kill();
        /* Others publish on; this one stays. */
        auto publisher = topic.publisher().value();
        for (int at = 0; at < 100; at++) publisher.publish(std::vector<unsigned char>(100'000, 1)).value();
        return sample;
    };
    outlive::Sample sample = keep();
    CHECK(sample.bytes().size() == 100'000);
    CHECK(std::ranges::all_of(sample.bytes(), [](std::byte byte) { return byte == std::byte{42}; }));
}

static void calls() {
    auto domain = open_domain();
    CHECK(outlive::Client::open_or_create(domain, "add").value().call(1, soon).code() == ENOTCONN);
    Child child([](outlive::Domain &domain, auto tell) {
        auto server = outlive::Server::open_or_create(domain, "add").value();
        tell();
        for (auto request : server) {
            if (request.text() == "die") for_ever();
            if (request.text() == "count") {
                auto stream = std::move(request).stream().value();
                for (int at = 0; at < 20; at++) stream.send(at, soon).value();
                std::move(stream).finish().value();
                continue;
            }
            if (request.bytes().size() > 1000) {
                auto loan = std::move(request).loan(request.bytes().size() / 2).value();
                CHECK(loan.request()[1] == std::byte{1});
                std::ranges::fill(loan.bytes(), loan.request()[0]);
                std::move(loan).send().value();
                continue;
            }
            if (request.text() == "cut") {
                auto stream = std::move(request).stream().value();
                stream.send(1, soon).value();
                std::move(stream).fail("no more").value();
                continue;
            }
            try {
                auto [one, two, three] = request.template as<Pose>();
                std::move(request).reply(one + two + three).value();
            } catch (const std::exception &error) {
                std::move(request).fail(error.what()).value();
            }
        }
    });
    child.hear();
    CHECK(outlive::Server::open_or_create(domain, "add").code() == EBUSY);
    auto client = outlive::Client::open_or_create(domain, "add").value();
    CHECK(client.call(Pose{1, 2, 3}, soon).value().as<double>() == 6);
    auto call = client.begin("count", soon).value();
    int sum = 0, next = 0;
    for (auto reply : call) {
        CHECK(reply.as<int>() == next++);
        sum += reply.as<int>();
    }
    CHECK(sum == 190);
    try {
        client.call("odd", soon).value();
        CHECK(!"reached");
    } catch (const outlive::ServiceError &error) {
        CHECK(error.code().value() == OUTLIVE_FAILED && error.text().find("3 bytes") != std::string::npos);
    }
    auto loan = client.loan(1 << 20, soon).value();
    std::ranges::fill(loan.bytes(), std::byte{1});
    loan.bytes()[0] = std::byte{9};
    auto halved = std::move(loan).call(soon).value();
    CHECK(halved.bytes().size() == 1 << 19 && halved.bytes().back() == std::byte{9});
    CHECK(client.loan(10).value().bytes().size() == 10);
    auto cut = client.begin("cut", soon).value();
    CHECK(cut.recv(soon)->as<int>() == 1);
    auto failed = cut.recv(soon);
    CHECK(failed.code() == OUTLIVE_FAILED && failed.error().message() == "no more");
    auto lost = client.begin("die", soon).value();
    CHECK(lost.recv(20ms).code() == ETIMEDOUT);
    child.kill();
    THROWS(ECONNRESET, for (auto reply : lost)(void) reply);
}

static void notices() {
    auto domain = open_domain();
    outlive_notifier_options_t options = OUTLIVE_NOTIFIER_OPTIONS_INIT;
    options.on_left = 1ull << 62;
    auto listener = outlive::Listener::open_or_create(domain, "doors", options).value();
    auto set = outlive::WaitSet::open(domain).value();
    auto key = set.add(listener).value();
    CHECK(outlive::Notifier::create_new(domain, "doors").code() == EEXIST);
    {
        auto notifier = outlive::Notifier::open(domain, "doors").value();
        CHECK(notifier.notify(3).value() == 1 && notifier.notify(3).value() == 1 && notifier.notify(64).code() == EINVAL);
    }
    auto ready = set.wait(soon).value();
    CHECK(ready.size() == 1 && ready[0].key == key && ready[0].what == OUTLIVE_READABLE);
    auto told = listener.wait().value();
    CHECK(told.count(3) == 2 && told.count(4) == 0 && told.bits() == (1ull << 3 | 1ull << 62));
    auto all = told.all();
    CHECK(all.size() == 2 && all[0].first == 3 && all[0].second == 2 && all[1].first == 62 && all[1].second == 1);
    CHECK(listener.wait(outlive::at_once).code() == EAGAIN && listener.wait(1ms).code() == ETIMEDOUT);
}

static void wait_sets() {
    auto domain = open_domain();
    auto queue = outlive::Queue::open_or_create(domain, "log").value();
    auto receiver = queue.receiver().value();
    auto bell = outlive::Event::open_or_create(domain, "bell").value();
    auto set = outlive::WaitSet::open(domain).value();
    auto letters = set.add(receiver).value(), rings = set.add(bell, 1).value();
    auto topic = outlive::Topic::open_or_create(domain, "frames").value();
    auto publisher = topic.publisher().value();
    auto subscriber = topic.subscriber().value();
    auto due = set.add_due(publisher).value();
    publisher.assert_liveliness();
    CHECK(subscriber.lapses() == 0 && subscriber.told().first == 0);
    CHECK(publisher.missed() == 0 && subscriber.missed() == 0 && set.take_missed(due).value() == 0);
    auto tick = set.add_timer_every(1h).value();
    CHECK(set.wait(outlive::at_once).code() == EAGAIN && set.fd().value() >= 0 && set.take_timer(tick).value() == 0);
    queue.sender().value().send("a").value();
    auto ready = set.wait(soon).value();
    CHECK(ready.size() == 1 && ready[0].key == letters && ready[0].what == OUTLIVE_READABLE);
    CHECK(receiver.recv(outlive::at_once)->text() == "a");
    bell.set(1).value();
    ready = set.wait(soon).value();
    CHECK(std::ranges::any_of(ready, [&](auto &one) { return one.key == rings && one.what == OUTLIVE_SET; }));
}

/* One set tells of three roles that are free, and of none while another end has them. */
static void roles_stood_by_for() {
    auto domain = open_domain();
    auto queue = outlive::Queue::open_or_create(domain, "letters").value();
    auto state = outlive::State<int>::open_or_create(domain, "speed", 1).value();
    std::optional receiver = queue.receiver().value();
    std::optional writer = state.writer().value();
    std::optional server = outlive::Server::open_or_create(domain, "work").value();
    auto set = outlive::WaitSet::open(domain).value();
    auto by_queue = set.add_stand_by(queue).value(), by_state = set.add_stand_by(state).value();
    auto by_service = set.add_server_stand_by(domain, "work").value();
    CHECK(set.wait(outlive::at_once).code() == EAGAIN);
    auto only = [&](uint64_t key) {
        auto ready = set.wait(soon).value();
        return ready.size() == 1 && ready[0].key == key && ready[0].what == OUTLIVE_ENDED;
    };
    receiver.reset();
    CHECK(only(by_queue));
    receiver.emplace(queue.receiver().value());
    writer.reset();
    CHECK(only(by_state));
    writer.emplace(state.writer().value());
    server.reset();
    CHECK(only(by_service));
    server.emplace(outlive::Server::open(domain, "work").value());
    CHECK(set.wait(outlive::at_once).code() == EAGAIN);
}

TESTS(TEST(jobs_are_done_or_come_back), TEST(a_stray_number_ends_the_list), TEST(a_damaged_job_is_shown), TEST(queue_ranges), TEST(receiver_killed), TEST(topic_ranges), TEST(samples_outlive_all_else), TEST(calls),
      TEST(notices), TEST(wait_sets), TEST(roles_stood_by_for))
