/* What the C++ tests have in common: the C tests' folder, processes to kill and bounds. */
#ifndef TESTING_HPP
#define TESTING_HPP

#include <outlive.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

/* A thread's cache of a pool hangs on a page that a fork wipes and the leak sanitizer does not look at. */
extern "C" const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() { return "leak:outlive::pool"; }
/* Frames of the library are seen whatever it was compiled with. */
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() { return "fast_unwind_on_malloc=0"; }

using namespace std::chrono_literals;

/* A wait that is longer has hung: far below the alarm, which kills the test. */
inline constexpr auto soon = 60s;

inline std::string folder;

#define CHECK(...)                                                                                            \
    do {                                                                                                      \
        if (!(__VA_ARGS__)) {                                                                                 \
            std::fprintf(stderr, "%s:%d: not so: %s; last error: %s\n", __FILE__, __LINE__, #__VA_ARGS__,           \
                         outlive_last_error());                                                               \
            std::abort();                                                                                     \
        }                                                                                                     \
    } while (0)

/* The call throws an `Error` with that code. */
#define THROWS(wanted, ...)                                                                                   \
    do {                                                                                                      \
        int got_ = 0;                                                                                         \
        try {                                                                                                 \
            __VA_ARGS__;                                                                                      \
        } catch (const outlive::Error &error) {                                                               \
            got_ = error.code().value();                                                                      \
            CHECK(std::strlen(error.what()) > 0 && error.code().category() == outlive::category());                \
        }                                                                                                     \
        CHECK(got_ == (wanted));                                                                              \
    } while (0)

inline outlive::Domain open_domain() { return outlive::Domain::open_or_create_at(folder).value(); }

/* A process of its own, with a domain of its own; it says `tell()` when it has come to where it is to be killed. */
class Child {
public:
    using Tell = std::function<void()>;

    explicit Child(const std::function<void(outlive::Domain &, Tell)> &act) : pid_(-1), news_(-1) {
        int news[2];
        CHECK(pipe(news) == 0);
        pid_ = fork();
        CHECK(pid_ >= 0);
        if (pid_ == 0) {
            alarm(300);
            auto domain = open_domain();
            act(domain, [&] {
                char yes = 'y';
                CHECK(write(news[1], &yes, 1) == 1);
            });
            _exit(0);
        }
        close(news[1]);
        news_ = news[0];
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;
    ~Child() { close(news_); }

    pid_t pid() const { return pid_; }
    /* Waits until it has told. */
    void hear() {
        char yes = 'n';
        CHECK(read(news_, &yes, 1) == 1 && yes == 'y');
    }
    void kill() {
        int status = 0;
        CHECK(::kill(pid_, SIGKILL) == 0);
        CHECK(waitpid(pid_, &status, 0) == pid_ && WIFSIGNALED(status));
    }
    /* It ended by itself, and well. */
    void join() {
        int status = 0;
        CHECK(waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }

private:
    pid_t pid_;
    int news_;
};

[[noreturn]] inline void for_ever() {
    for (;;) pause();
}

struct Test {
    const char *name;
    void (*run)();
};

inline int run_tests(std::initializer_list<Test> tests, int argc, char **argv) {
    for (const Test &test : tests) {
        if (argc < 2) {
            std::puts(test.name);
        } else if (std::strcmp(argv[1], test.name) == 0) {
            const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
            folder = std::string(parent) + "/outlive-cpp-" + std::to_string(getpid());
            alarm(300);
            test.run();
            CHECK(std::system(("rm -rf '" + folder + "'").c_str()) == 0);
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}

/* `PROGRAM NAME` runs one test, `PROGRAM` says which there are. */
#define TESTS(...)                                                                                            \
    int main(int argc, char **argv) { return run_tests({__VA_ARGS__}, argc, argv); }
#define TEST(name) Test{#name, name}

#endif
