// Boost.Interprocess's message_queue and sharable mutex behind C functions. Compiled when a row is asked for, by whatever
// C++ compiler there is.

#include <boost/interprocess/ipc/message_queue.hpp>
#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <cstddef>
#include <exception>
#include <new>

using boost::interprocess::message_queue;
using Mutex = boost::interprocess::interprocess_sharable_mutex;

extern "C" {
int outlive_mq_make(const char *name, std::size_t messages, std::size_t bytes) noexcept {
    try {
        message_queue made(boost::interprocess::create_only, name, messages, bytes);
        return 0;
    } catch (const std::exception &) {
        return -1;
    }
}
void outlive_mq_remove(const char *name) noexcept { message_queue::remove(name); }
void *outlive_mq_open(const char *name) noexcept {
    try {
        return new message_queue(boost::interprocess::open_only, name);
    } catch (const std::exception &) {
        return nullptr;
    }
}
void outlive_mq_close(void *queue) noexcept { delete static_cast<message_queue *>(queue); }
// 1: done, 0: full or empty, -1: failed.
int outlive_mq_send(void *queue, const void *message, std::size_t bytes, int wait) noexcept {
    try {
        if (!wait) return static_cast<message_queue *>(queue)->try_send(message, bytes, 0);
        static_cast<message_queue *>(queue)->send(message, bytes, 0);
        return 1;
    } catch (const std::exception &) {
        return -1;
    }
}
int outlive_mq_receive(void *queue, void *message, std::size_t room, std::size_t *bytes, int wait) noexcept {
    try {
        unsigned priority = 0;
        if (!wait) return static_cast<message_queue *>(queue)->try_receive(message, room, *bytes, priority);
        static_cast<message_queue *>(queue)->receive(message, room, *bytes, priority);
        return 1;
    } catch (const std::exception &) {
        return -1;
    }
}
std::size_t outlive_mutex_size() noexcept { return sizeof(Mutex); }
void outlive_mutex_make(void *place) noexcept { new (place) Mutex; }
void outlive_mutex_lock(void *mutex) noexcept { static_cast<Mutex *>(mutex)->lock(); }
}
