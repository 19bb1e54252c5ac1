/* With -fno-exceptions: everything works, and asking for a value that is not there aborts. */
#include <outlive.hpp>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

int main() {
    std::string folder = "/dev/shm/outlive-cpp-plain-" + std::to_string(getpid());
    auto domain = outlive::Domain::open_or_create_at(folder);
    if (!domain) return std::fprintf(stderr, "%s\n", domain.error().message().c_str()), 1;
    pid_t child = fork();
    if (child == 0) {
        (void)outlive::Mutex<int>::open_or_create(*domain, "no/name").value();
        _exit(0);
    }
    int status = 0;
    bool aborted = waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    auto total = outlive::Mutex<int>::open_or_create(*domain, "total", 4);
    bool works = total && *total->acquire().value() == 4 && !outlive::Mutex<char>::open_or_create(*domain, "total");
    if (std::system(("rm -rf '" + folder + "'").c_str()) != 0) return 1;
    return aborted && works ? 0 : 1;
}
