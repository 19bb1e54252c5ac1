/* Locks: by name and in a record, with the standard's guards, and at deaths. */
#include "testing.hpp"

#include <mutex>
#include <shared_mutex>
#include <thread>

struct Line {
    outlive::mutex lock;
    uint64_t count, doubled;
    outlive::shared_mutex limits;
    outlive::event full;
};

static outlive::Record<Line> open_line(const outlive::Domain &domain) {
    return outlive::Record<Line>::open_or_create(domain, "line", {&Line::lock, &Line::limits, &Line::full},
                                       [](Line &line) { line.count = 7; })
        .value();
}

static void ordinary() {
    auto domain = open_domain();
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total", 5).value();
    {
        std::scoped_lock held(total);
        total.value() += 1;
        /* This thread's: another's try finds it busy, its own is told of the deadlock. */
        THROWS(EDEADLK, total.lock());
        std::thread([&] {
            CHECK(!total.try_lock());
            CHECK(!total.try_lock_for(5ms));
            CHECK(!total.try_lock_until(std::chrono::steady_clock::now() + 5ms));
            CHECK(!total.try_lock_until(std::chrono::system_clock::now() + 5ms));
            CHECK(total.acquire(5ms).code() == ETIMEDOUT);
            CHECK(total.try_acquire().code() == EBUSY);
        }).join();
        CHECK(total.holder()->pid == static_cast<uint32_t>(getpid()));
    }
    std::unique_lock held(total, soon);
    CHECK(held.owns_lock() && total.value() == 6 && !total.owner_died());
    held.unlock();
    {
        auto guard = total.acquire(soon).value();
        CHECK(*guard == 6 && !guard.owner_died());
        *guard = 7;
        auto moved = std::move(guard);
        CHECK(*moved == 7);
    }
    CHECK(total.try_lock());
    total.unlock();
    CHECK(total.holder().code() == ESRCH);
    THROWS(EPERM, total.mark_consistent());
}

/* Two locks at once, by two threads, in opposite orders: std::scoped_lock's own algorithm over try_lock. */
static void two_at_once() {
    auto domain = open_domain();
    auto one = outlive::Mutex<uint64_t>::open_or_create(domain, "one").value();
    auto line = open_line(domain);
    auto add = [&](bool turned) {
        for (int at = 0; at < 2000; at++) {
            auto both = [&] { one.value()++, line->count++; };
            if (turned) {
                std::scoped_lock held(one, line->lock);
                both();
            } else {
                std::scoped_lock held(line->lock, one);
                both();
            }
        }
    };
    std::thread other(add, true);
    add(false);
    other.join();
    CHECK(one.value() == 4000 && line->count == 4007);
}

static void killed_in_scoped_lock() {
    auto domain = open_domain();
    auto line = open_line(domain);
    Child child([](outlive::Domain &domain, auto tell) {
        auto line = open_line(domain);
        std::scoped_lock held(line->lock);
        line->count++;
        tell();
        for_ever();
    });
    child.hear();
    CHECK(!line->lock.try_lock());
    child.kill();
    {
        std::scoped_lock held(line->lock);
        CHECK(line->lock.owner_died() && line->count == 8);
        line->doubled = 2 * line->count;
        line->lock.mark_consistent();
        CHECK(!line->lock.owner_died());
    }
    std::scoped_lock held(line->lock);
    CHECK(!line->lock.owner_died());
}

/* It waits in lock() already when the holder dies. */
static void killed_before_a_waiter() {
    auto domain = open_domain();
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
    Child child([](outlive::Domain &domain, auto tell) {
        auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
        auto guard = total.acquire().value();
        tell();
        for_ever();
    });
    child.hear();
    std::thread killer([&] {
        std::this_thread::sleep_for(50ms);
        child.kill();
    });
    auto guard = total.acquire(soon).value();
    CHECK(guard.owner_died());
    guard.mark_consistent();
    CHECK(!guard.owner_died());
    killer.join();
}

static void not_recoverable() {
    auto domain = open_domain();
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
    Child child([](outlive::Domain &domain, auto tell) {
        auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
        std::scoped_lock held(total);
        tell();
        for_ever();
    });
    child.hear();
    child.kill();
    {
        std::scoped_lock held(total); /* Does not look, and the next one is told again. */
    }
    THROWS(EPERM, total.mark_not_recoverable());
    {
        auto told = total.acquire().value();
        CHECK(told.owner_died());
        told.mark_not_recoverable();
        CHECK(!told.owner_died());
    }
    THROWS(ENOTRECOVERABLE, total.lock());
    THROWS(ENOTRECOVERABLE, (void)total.try_lock());
    auto guard = total.acquire();
    CHECK(!guard && guard.error().error_code() == std::errc::state_not_recoverable);
    CHECK(total.lock_to_reset(soon).has_value() && total.owner_died());
    total.value() = 1;
    total.mark_consistent();
    total.unlock();
    std::scoped_lock held(total);
    CHECK(total.value() == 1 && !total.owner_died());
}

/* An exception is no death: the guard unlocks, and no locker is told. */
static void an_exception_unlocks() {
    auto domain = open_domain();
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
    auto limits = outlive::RwLock<int>::open_or_create(domain, "limits", 3).value();
    for (int n = 0; n < 2; n++) {
        try {
            auto guard = total.acquire().value();
            std::scoped_lock writes(limits);
            *guard += 1;
            throw std::runtime_error("in the middle");
        } catch (const std::runtime_error &) {
        }
        std::scoped_lock held(total);
        std::shared_lock reads(limits);
        CHECK(!total.owner_died() && !limits.owner_died() && total.value() == static_cast<uint64_t>(n) + 1);
    }
}

static void shared() {
    auto domain = open_domain();
    auto limits = outlive::RwLock<int>::open_or_create(domain, "limits", 3).value();
    {
        std::shared_lock reads(limits);
        std::thread([&] {
            std::shared_lock reads_too(limits, soon);
            CHECK(reads_too.owns_lock() && limits.value() == 3);
            CHECK(!limits.try_lock() && !limits.try_lock_for(5ms));
            CHECK(*limits.read(outlive::at_once).value() == 3);
            CHECK(limits.write(5ms).code() == ETIMEDOUT);
        }).join();
    }
    {
        std::unique_lock writes(limits);
        limits.value() = 4;
        std::thread([&] { CHECK(!limits.try_lock_shared() && !limits.try_lock_shared_for(5ms)); }).join();
    }
    *limits.write().value() += 1;
    CHECK(*limits.read().value() == 5);
}

static void upgradable() {
    auto domain = open_domain();
    auto limits = outlive::RwLock<int>::open_or_create(domain, "limits", 3).value();
    auto reading = limits.upgradable_read().value();
    std::thread([&] {
        CHECK(limits.upgradable_read(5ms).code() == ETIMEDOUT && !limits.try_lock());
        auto beside = limits.read().value();
        CHECK(*beside == 3 && limits.upgrade(beside, soon).code() == EBUSY && *beside == 3);
    }).join();
    auto writing = limits.upgrade(reading).value();
    *writing = 4;
    auto again = limits.downgrade_to_upgradable(writing).value();
    std::thread([&] { CHECK(*limits.read(soon).value() == 4); }).join();
    auto last = limits.downgrade(again).value();
    std::thread([&] { CHECK(*limits.upgradable_read(soon).value() == 4); }).join();
    CHECK(limits.upgrade(last, soon).has_value());
    /* Its guard has been destroyed at once. */
    CHECK(limits.try_lock());
    limits.unlock();
    auto writes = limits.write().value();
    auto reads = limits.downgrade(writes).value();
    CHECK(*reads == 4);
}

static void writer_killed() {
    auto domain = open_domain();
    auto line = open_line(domain);
    Child child([](outlive::Domain &domain, auto tell) {
        auto line = open_line(domain);
        std::scoped_lock held(line->limits);
        tell();
        for_ever();
    });
    child.hear();
    CHECK(!line->limits.try_lock_shared());
    child.kill();
    {
        /* The first reader to come repairs. */
        std::shared_lock reads(line->limits, soon);
        CHECK(reads.owns_lock() && line->limits.owner_died());
        line->limits.mark_consistent();
        CHECK(!line->limits.owner_died());
    }
    std::shared_lock reads(line->limits);
    CHECK(!line->limits.owner_died());
}

static void reader_killed() {
    auto domain = open_domain();
    auto line = open_line(domain);
    Child child([](outlive::Domain &domain, auto tell) {
        auto line = open_line(domain);
        std::shared_lock held(line->limits);
        tell();
        for_ever();
    });
    child.hear();
    CHECK(!line->limits.try_lock());
    child.kill();
    std::unique_lock writes(line->limits, soon);
    CHECK(writes.owns_lock() && !line->limits.owner_died());
}

struct Slot {
    outlive::mutex lock;
    outlive::condition_variable changed;
    uint64_t items;
};

static void condition_variables() {
    auto domain = open_domain();
    auto open_slot = [](outlive::Domain &domain) {
        return outlive::Record<Slot>::open_or_create(domain, "slot", {&Slot::lock, &Slot::changed}).value();
    };
    auto slot = open_slot(domain);
    {
        std::unique_lock held(slot->lock);
        CHECK(!slot->changed.wait_for(held, 5ms));
        CHECK(!slot->changed.wait_for(held, 5ms, [&] { return slot->items > 0; }));
    }
    Child maker([&](outlive::Domain &domain, auto) {
        auto slot = open_slot(domain);
        std::scoped_lock held(slot->lock);
        slot->items = 3;
        slot->changed.notify_all();
    });
    {
        std::unique_lock held(slot->lock);
        CHECK(slot->changed.wait_for(held, soon, [&] { return slot->items == 3; }) && slot->items == 3);
    }
    maker.join();
    /* The maker dies with the mutex held, after it has notified: the waiter gets the mutex, and is
     * told. */
    Child killed([&](outlive::Domain &domain, auto tell) {
        auto slot = open_slot(domain);
        std::unique_lock held(slot->lock);
        while (slot->items != 4) {
            held.unlock();
            usleep(1000);
            held.lock();
        }
        slot->changed.notify_one();
        tell();
        for_ever();
    });
    std::unique_lock held(slot->lock);
    slot->items = 4;
    std::thread killer([&] {
        killed.hear();
        killed.kill();
    });
    CHECK(slot->changed.wait_for(held, soon, [] { return false; }));
    CHECK(slot->lock.owner_died());
    slot->lock.mark_consistent();
    killer.join();
    held.unlock();
    auto bell = outlive::Condvar::open_or_create(domain, "bell").value();
    auto total = outlive::Mutex<int>::open_or_create(domain, "total").value();
    auto guard = total.acquire(soon).value();
    CHECK(!bell.wait_until(guard, 5ms));
    bell.notify_one();
}

/* A forked child holds none of its parent's locks: going out of the scope in it gives nothing back. */
static void forked() {
    auto domain = open_domain();
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
    std::scoped_lock held(total);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        total.unlock();
        _exit(total.try_lock() ? 1 : 0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void bad_arguments() {
    auto domain = open_domain();
    THROWS(EINVAL, (void)outlive::Mutex<int>::open_or_create(domain, "a/b").value());
    auto total = outlive::Mutex<uint64_t>::open_or_create(domain, "total").value();
    THROWS(OUTLIVE_OTHER_TYPE, (void)outlive::Mutex<char>::open_or_create(domain, "total").value());
    THROWS(OUTLIVE_OTHER_KIND, (void)outlive::RwLock<int>::open_or_create(domain, "total").value());
    auto line = open_line(domain);
    THROWS(OUTLIVE_OTHER_TYPE, (void)outlive::Record<Line>::open_or_create(domain, "line", {&Line::lock}).value());
    /* No lock that this process has open. */
    Line here{};
    THROWS(EINVAL, here.lock.lock());
    THROWS(EINVAL, here.limits.lock_shared());
    try {
        here.lock.lock();
        CHECK(false);
    } catch (const std::system_error &error) {
        CHECK(error.code() == std::errc::invalid_argument);
    }
}

TESTS(TEST(ordinary), TEST(two_at_once), TEST(killed_in_scoped_lock), TEST(killed_before_a_waiter), TEST(not_recoverable), TEST(an_exception_unlocks),
      TEST(shared), TEST(upgradable), TEST(writer_killed), TEST(reader_killed), TEST(condition_variables), TEST(forked), TEST(bad_arguments))
