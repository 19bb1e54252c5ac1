/* Mutexes that their holder locks again, and condition variables under mutexes of all kinds. */
#include "testing.hpp"

#include <mutex>
#include <thread>

struct Tree {
    outlive::recursive_mutex lock;
    outlive::pi_mutex pi;
    outlive::ceiling_mutex<10> ceiling;
    outlive::condition_variable changed;
    uint64_t count;
};

static outlive::Record<Tree> open_tree(const outlive::Domain &domain) {
    return outlive::Record<Tree>::open_or_create(domain, "tree", {&Tree::lock, &Tree::pi, &Tree::ceiling, &Tree::changed}).value();
}

static void recursive() {
    auto domain = open_domain();
    auto tree = open_tree(domain);
    auto is_free = [&] {
        bool got = false;
        std::thread([&] {
            got = tree->lock.try_lock();
            if (got) tree->lock.unlock();
        }).join();
        return got;
    };
    {
        std::scoped_lock outer(tree->lock);
        {
            std::scoped_lock inner(tree->lock);
            CHECK(!is_free());
        }
        CHECK(!is_free());
    }
    CHECK(is_free());
    Child child([](outlive::Domain &domain, auto tell) {
        auto tree = open_tree(domain);
        std::unique_lock outer(tree->lock), inner(tree->lock);
        tell();
        for_ever();
    });
    child.hear();
    CHECK(tree->lock.acquire(5ms).code() == ETIMEDOUT);
    child.kill();
    {
        std::scoped_lock outer(tree->lock);
        CHECK(tree->lock.owner_died());
        tree->lock.mark_consistent();
    }
    CHECK(is_free());
    auto total = outlive::ReentrantMutex<uint64_t>::open_or_create(domain, "total", 5).value();
    auto outer = total.acquire(soon).value();
    {
        auto inner = total.try_acquire().value();
        ++*inner;
    }
    CHECK(*outer == 6);
}

/* Waits under the mutex of a tree for a change that a child makes under it. */
template <class M> static void waits(M Tree::*lock) {
    auto domain = open_domain();
    auto tree = open_tree(domain);
    std::unique_lock held((*tree).*lock);
    CHECK(!tree->changed.wait_for(held, 5ms));
    Child child([&](outlive::Domain &domain, auto) {
        auto tree = open_tree(domain);
        std::scoped_lock held((*tree).*lock);
        tree->count = 1;
        tree->changed.notify_one();
    });
    CHECK(tree->changed.wait_for(held, soon, [&] { return tree->count == 1; }) && !held.mutex()->owner_died());
    held.unlock();
    child.join();
}

static void condvar_under_pi() { waits(&Tree::pi); }

static void condvar_under_recursive() {
    auto domain = open_domain();
    auto tree = open_tree(domain);
    /* All of it is given up. */
    std::scoped_lock outer(tree->lock);
    waits(&Tree::lock);
    std::thread([&] { CHECK(!tree->lock.try_lock()); }).join();
}

static void condvar_under_ceiling() {
    auto domain = open_domain();
    auto tree = open_tree(domain);
    auto first = tree->ceiling.acquire(soon);
    if (!first.has_value() && first.code() == EPERM) {
        std::fprintf(stderr, "not here: this user may not run at a real-time priority\n");
        return;
    }
    first.value().unlock();
    waits(&Tree::ceiling);
}

TESTS(TEST(recursive), TEST(condvar_under_pi), TEST(condvar_under_recursive), TEST(condvar_under_ceiling))
