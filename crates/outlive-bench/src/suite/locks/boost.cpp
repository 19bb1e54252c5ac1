// Boost.Interprocess's sharable mutex behind five C functions. Compiled when the benchmark runs, by whatever C++ compiler
// there is: the program itself needs neither Boost nor C++.

#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <cstddef>
#include <new>

using Mutex = boost::interprocess::interprocess_sharable_mutex;

extern "C" {
std::size_t outlive_bench_size() noexcept { return sizeof(Mutex); }
void outlive_bench_make(void *place) noexcept { new (place) Mutex; }
void outlive_bench_lock(void *mutex) noexcept { static_cast<Mutex *>(mutex)->lock(); }
void outlive_bench_unlock(void *mutex) noexcept { static_cast<Mutex *>(mutex)->unlock(); }
void outlive_bench_lock_sharable(void *mutex) noexcept { static_cast<Mutex *>(mutex)->lock_sharable(); }
void outlive_bench_unlock_sharable(void *mutex) noexcept { static_cast<Mutex *>(mutex)->unlock_sharable(); }
}
