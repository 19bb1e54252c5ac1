/* Barriers, latches, onces, real-time mutexes: by name and in a record, and at deaths. */
#include "testing.hpp"

#include <mutex>
#include <thread>

struct Line {
    outlive::pi_mutex lock;
    uint64_t count;
    outlive::latch ready;
    outlive::once made;
};

static outlive::Record<Line> open_line(const outlive::Domain &domain) {
    return outlive::Record<Line>::open_or_create(domain, "line", {&Line::lock, &Line::ready, &Line::made},
                                       [](Line &line) { line.ready.expect(2).value(); })
        .value();
}

static void barrier() {
    auto domain = open_domain();
    auto both = outlive::Barrier::open_or_create(domain, "both", 2).value();
    auto seat = both.join().value();
    CHECK(seat.wait(5ms).code() == ETIMEDOUT);
    std::thread other([&] {
        auto second = both.join().value();
        CHECK(both.join().code() == EUSERS || both.join().code() == EDEADLK);
        CHECK(second.wait(soon).has_value());
    });
    auto turn = seat.wait(soon);
    CHECK(turn.has_value() && turn.value().index == 0 && both.parties() == 2);
    other.join();
}

static void aborted_and_reset() {
    auto domain = open_domain();
    auto both = outlive::Barrier::open_or_create(domain, "both", 2).value();
    for (bool abort : {true, false}) {
        std::thread other([&] {
            auto seat = both.join().value();
            CHECK(seat.wait(soon).code() == OUTLIVE_BROKEN);
        });
        while (both.waiting() == 0) std::this_thread::sleep_for(1ms);
        if (abort) CHECK(both.abort().has_value() && both.is_broken());
        CHECK(both.reset(soon).has_value());
        other.join();
        CHECK(!both.is_broken() && both.waiting() == 0);
    }
    auto late = outlive::Barrier::open_or_create(domain, "late", 2).value();
    auto seat = late.join().value();
    CHECK(seat.wait(5ms).code() == ETIMEDOUT && late.waiting() == 1);
    CHECK(seat.abort().code() == OUTLIVE_BROKEN && late.is_broken());
}

static void killed_in_a_barrier() {
    auto domain = open_domain();
    auto both = outlive::Barrier::open_or_create(domain, "both", 2).value();
    Child child([](outlive::Domain &domain, auto tell) {
        auto both = outlive::Barrier::open_or_create(domain, "both", 2).value();
        auto seat = both.join().value();
        tell();
        for_ever();
    });
    child.hear();
    auto seat = both.join().value();
    std::thread killer([&] {
        std::this_thread::sleep_for(50ms);
        child.kill();
    });
    CHECK(seat.wait(soon).code() == OUTLIVE_BROKEN);
    killer.join();
    CHECK(both.repair(soon).has_value());
    auto counted_out = outlive::Barrier::open_or_create(domain, "counted", 2, outlive::Barrier::WhenOneDies::count_out).value();
    auto alone = counted_out.join().value();
    CHECK(!alone.wait(outlive::at_once).has_value());
}

static void latch() {
    auto domain = open_domain();
    auto line = open_line(domain);
    CHECK(!line->ready.is_open() && line->ready.wait(5ms).code() == ETIMEDOUT);
    CHECK(line->ready.arrive().value() == 1);
    std::thread other([&] { CHECK(open_line(domain)->ready.arrive().value() == 0); });
    CHECK(line->ready.wait(soon).has_value() && line->ready.is_open());
    other.join();
    auto named = outlive::Latch::open_or_create(domain, "named", 3).value();
    CHECK(named.wait(outlive::at_once).code() == EAGAIN);
    CHECK(named.open_now().has_value() && named.is_open());
}

static void killed_in_a_once() {
    auto domain = open_domain();
    auto line = open_line(domain);
    Child child([](outlive::Domain &domain, auto tell) {
        auto line = open_line(domain);
        line->made.call([&](bool) {
            line->count = 1;
            tell();
            for_ever();
        }).value();
    });
    child.hear();
    CHECK(line->made.call([](bool) {}, outlive::at_once).code() == EBUSY && !line->made.is_done());
    child.kill();
    bool died = false;
    CHECK(line->made.call([&](bool previous_died) { died = previous_died, line->count = 2; }, soon).has_value());
    CHECK(died && line->count == 2 && line->made.is_done());
    CHECK(line->made.call([&](bool) { line->count = 3; }, soon).has_value() && line->count == 2);
    auto named = outlive::Once::open_or_create(domain, "named").value();
    CHECK(!named.is_done() && named.call([](bool previous_died) { CHECK(!previous_died); }).has_value());
    CHECK(named.is_done());
}

static void killed_with_a_pi_mutex() {
    auto domain = open_domain();
    auto line = open_line(domain);
    auto total = outlive::PiMutex<uint64_t>::open_or_create(domain, "total", 5).value();
    {
        std::scoped_lock held(line->lock);
        total.acquire(soon).value().unlock();
        CHECK(!line->lock.owner_died() && !total.owner_died());
        std::thread([&] { CHECK(!line->lock.try_lock() && line->lock.acquire(5ms).code() == ETIMEDOUT); }).join();
    }
    Child child([](outlive::Domain &domain, auto tell) {
        auto line = open_line(domain);
        auto total = outlive::PiMutex<uint64_t>::open_or_create(domain, "total").value();
        std::scoped_lock held(line->lock, total);
        total.value() = line->count = 1;
        tell();
        for_ever();
    });
    child.hear();
    child.kill();
    {
        std::scoped_lock held(line->lock);
        CHECK(line->lock.owner_died() && line->count == 1);
        line->lock.mark_consistent();
        CHECK(!line->lock.owner_died());
    }
    /* A locker that does not look leaves it unrepaired; the next marks it not recoverable; then it is reset. */
    { std::scoped_lock held(total); }
    {
        auto told = total.acquire(soon).value();
        CHECK(told.owner_died());
        told.mark_not_recoverable();
    }
    THROWS(ENOTRECOVERABLE, total.lock());
    total.value() = 0;
    CHECK(total.reset(soon).has_value() && *total.acquire(soon).value() == 0);
}

static void ceiling_mutex() {
    auto domain = open_domain();
    auto motor = outlive::CeilingMutex<void>::open_or_create(domain, "motor", 30).value();
    CHECK(outlive::CeilingMutex<void>::open_or_create(domain, "motor", 31).code() == EINVAL);
    CHECK(outlive::CeilingMutex<void>::open_or_create(domain, "other", 100).code() == EINVAL);
    CHECK(motor.holder().code() == ESRCH && !motor.owner_died());
    THROWS(EPERM, motor.mark_consistent());
    auto guard = motor.acquire(soon);
    /* Without the right to run at the ceiling there is nothing more to see. */
    if (guard.code() == EPERM) return;
    guard.value().unlock();
    Child child([](outlive::Domain &domain, auto tell) {
        auto motor = outlive::CeilingMutex<void>::open_or_create(domain, "motor", 30).value();
        std::scoped_lock held(motor);
        tell();
        for_ever();
    });
    child.hear();
    CHECK(!motor.try_lock());
    child.kill();
    auto taken = motor.acquire(soon).value();
    CHECK(taken.owner_died());
    taken.mark_consistent();
    CHECK(!motor.owner_died());
}

static void a_permit_is_handed_over() {
    auto domain = open_domain();
    auto seats = outlive::Semaphore::open_or_create(domain, "seats", 1).value();
    auto permit = seats.acquire(soon).value();
    CHECK(seats.take_up(outlive::at_once).code() == EAGAIN);
    std::thread([&] {
        CHECK(seats.acquire(outlive::at_once).code() == EAGAIN);
    }).join();
    CHECK(permit.hand_to(domain.process_token().value()).has_value());
    std::thread([&] {
        auto mine = seats.take_up(soon).value();
        CHECK(mine.index() == 0 && seats.available_permits() == 0);
    }).join();
    CHECK(seats.available_permits() == 1);
}

struct Station {
    outlive::semaphore<3> slots;
    outlive::semaphore<2> parts;
    outlive::barrier<2> step;
    outlive::barrier<2> tour;
    outlive::ceiling_mutex<40> valve;
    uint64_t behind;
};

static outlive::Record<Station> open_station(const outlive::Domain &domain) {
    return outlive::Record<Station>::open_or_create(
               domain, "station",
               {&Station::slots, &Station::parts, &Station::step, &Station::tour, &Station::valve},
               [](Station &station) {
                   station.parts.set_permits(0).value();
                   station.tour.set_policy(outlive::WhenOneDies::count_out).value();
                   station.behind = 7;
               })
        .value();
}

static void killed_in_a_station() {
    auto domain = open_domain();
    auto station = open_station(domain);
    CHECK(station->slots.available_permits() == 3 && station->parts.available_permits() == 0 && station->behind == 7);
    CHECK(station->parts.acquire(5ms).code() == ETIMEDOUT && station->parts.add() && station->parts.available_permits() == 1);
    Child child([](outlive::Domain &domain, auto tell) {
        auto station = open_station(domain);
        auto slots = {station->slots.acquire(soon).value(), station->slots.acquire(soon).value()};
        auto step = station->step.join().value(), tour = station->tour.join().value();
        tell();
        for_ever();
    });
    auto step = station->step.join().value(), tour = station->tour.join().value();
    child.hear();
    auto slot = station->slots.acquire(soon).value();
    CHECK(station->slots.available_permits() == 0 && station->slots.acquire(outlive::at_once).code() == EAGAIN);
    CHECK(station->step.join().code() == EUSERS);
    std::thread killer([&] {
        std::this_thread::sleep_for(50ms);
        child.kill();
    });
    auto heir = station->slots.acquire(soon);
    killer.join();
    CHECK(heir.has_value() && heir.value().index() != slot.index());
    CHECK(step.wait(soon).code() == OUTLIVE_BROKEN && station->step.repair(soon).has_value());
    CHECK(tour.wait(soon).has_value());
    auto guard = station->valve.acquire(soon);
    CHECK(guard.has_value() || guard.code() == EPERM);
}

struct Narrower {
    outlive::semaphore<2> slots;
    outlive::semaphore<2> parts;
    outlive::barrier<2> step;
    outlive::barrier<2> tour;
    outlive::ceiling_mutex<40> valve;
    uint64_t behind;
};

static void another_idea_of_the_struct() {
    auto domain = open_domain();
    auto station = open_station(domain);
    static_assert(sizeof(Narrower) == sizeof(Station));
    auto other = outlive::Record<Narrower>::open_or_create(
        domain, "station", {&Narrower::slots, &Narrower::parts, &Narrower::step, &Narrower::tour, &Narrower::valve});
    CHECK(other.code() == OUTLIVE_OTHER_TYPE);
}

static void ceiling_value() {
    auto domain = open_domain();
    auto valve = outlive::CeilingMutex<uint64_t>::open_or_create(domain, "valve", 30, 5).value();
    CHECK(valve.value() == 5 && outlive::CeilingMutex<void>::open_or_create(domain, "valve", 30).code() == OUTLIVE_OTHER_TYPE);
    auto guard = valve.acquire(soon);
    CHECK(guard.code() == EPERM || *guard.value() == 5);
}

TESTS(TEST(killed_in_a_station), TEST(another_idea_of_the_struct), TEST(ceiling_value), TEST(barrier), TEST(aborted_and_reset), TEST(killed_in_a_barrier), TEST(latch), TEST(killed_in_a_once), TEST(killed_with_a_pi_mutex),
      TEST(ceiling_mutex), TEST(a_permit_is_handed_over))
