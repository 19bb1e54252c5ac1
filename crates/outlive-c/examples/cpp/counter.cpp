/* A counter that survives the processes that count: they add to it under one lock, one of them is
 * killed inside, and the next owner is told, repairs what it left, and goes on. */
#include <outlive.hpp>

#include <csignal>
#include <iostream>
#include <mutex>
#include <sys/wait.h>
#include <unistd.h>

struct Counter {
    outlive::mutex lock;
    uint64_t count, doubled; /* Twice the count: what a death in the middle breaks. */
};

static outlive::Record<Counter> open_counter() {
    auto domain = outlive::Domain::open_default().value();
    return outlive::Record<Counter>::open_or_create(domain, "counter", {&Counter::lock}).value();
}

static void add(Counter &counter, bool die) {
    std::scoped_lock held(counter.lock);
    if (counter.lock.owner_died()) {
        std::cout << "process " << getpid() << " repairs" << std::endl;
        counter.doubled = 2 * counter.count;
        counter.lock.mark_consistent();
    }
    counter.count++;
    if (die) kill(getpid(), SIGKILL);
    counter.doubled += 2;
}

int main() {
    for (int child = 0; child < 4; child++) {
        if (fork() == 0) {
            auto counter = open_counter();
            for (int at = 0; at < 1000; at++) add(*counter, child == 2 && at == 500);
            _exit(0);
        }
    }
    while (wait(nullptr) > 0) {}
    auto counter = open_counter();
    add(*counter, false);
    std::cout << "counted " << counter->count << ", of 4001 but for those of the dead one\n";
    return counter->doubled == 2 * counter->count && counter->count == 3 * 1000 + 501 + 1 ? 0 : 1;
}
