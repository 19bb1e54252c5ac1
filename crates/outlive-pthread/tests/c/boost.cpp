// Boost.Interprocess, which knows nothing of the shim: boost FILE init | hold | take | share | write
#include <boost/interprocess/sync/interprocess_mutex.hpp>
#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

struct shared {
	boost::interprocess::interprocess_mutex mutex;
	boost::interprocess::interprocess_sharable_mutex sharable;
};

int main(int count, char **args)
{
	if (count != 3) return 2;
	int file = open(args[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 4096)) return 2;
	void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED) return 2;
	auto is = [&](const char *verb) { return std::strcmp(args[2], verb) == 0; };
	auto *locks = is("init") ? new (memory) shared : static_cast<shared *>(memory);
	if (is("hold") || is("take")) locks->mutex.lock();
	if (is("share")) locks->sharable.lock_sharable();
	if (is("write")) locks->sharable.lock();
	std::puts(args[2]);
	std::fflush(stdout);
	if (is("hold") || is("share")) for (;;) pause();
	if (is("take")) locks->mutex.unlock();
	if (is("write")) locks->sharable.unlock();
}
