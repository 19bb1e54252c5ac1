/* Memory that one process hands over to another. */
#ifndef OUTLIVE_POOL_HPP
#define OUTLIVE_POOL_HPP

#include "domain.hpp"

namespace outlive {

/** Memory of a pool that belongs to this process: freed by the destructor. The pool must live
 * longer. */
class Memory {
public:
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    Memory(Memory &&other) noexcept : pool_(other.pool_), bytes_(std::exchange(other.bytes_, {})) {}
    Memory &operator=(Memory &&other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Memory() {
        if (bytes_.data() != nullptr) outlive_pool_free(pool_, bytes_.data());
    }

    std::span<std::byte> bytes() const noexcept { return bytes_; }

private:
    friend class Pool;
    Memory(outlive_pool_t *pool, std::span<std::byte> bytes) noexcept : pool_(pool), bytes_(bytes) {}
    outlive_pool_t *pool_;
    std::span<std::byte> bytes_;
};

/** Memory that several processes hold, each by name, for reading: the last holder to release it, or
 * to die, frees it. The pool must live longer. */
class SharedObject {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_shared_data(handle_.get())), outlive_shared_size(handle_.get())};
    }
    /** Returns the offset by which other processes join: valid as long as any process holds it. */
    uint64_t offset() const noexcept { return outlive_shared_offset(handle_.get()); }

private:
    friend class Pool;
    explicit SharedObject(outlive_shared_t *handle) : handle_(handle) {}
    detail::Handle<outlive_shared_t, outlive_shared_release> handle_;
};

/** What `Pool::gc` has freed and given back: objects of dead processes, and bytes that the system
 * has back. */
struct Trimmed {
    uint64_t objects, bytes;
};

/** A pool: memory objects of 0 bytes to 1 GiB. All threads may use it at once. */
class Pool : public detail::WithOptions<Pool, detail::NoCalls, outlive_pool_t, outlive_pool_options_t, outlive_pool_open,
                                        outlive_pool_close> {
public:
    /** Allocates memory; its contents are arbitrary. ENOSPC: the pool is at its largest. */
    expected<Memory> alloc(size_t size, size_t align = 16) {
        void *data = nullptr;
        if (int code = outlive_pool_alloc(raw(), size, align, &data)) return Failure::last(code);
        return Memory(raw(), {static_cast<std::byte *>(data), size});
    }
    /** Makes so many objects of so many bytes, and brings them in, for the calling thread. */
    expected<void> prefault(size_t objects, size_t size) {
        return detail::done(outlive_pool_prefault(raw(), objects, size));
    }
    /** Hands memory over, in one atomic step, to the process that claims the offset. After a
     * failure it is still `memory`'s. */
    expected<uint64_t> offer(Memory &&memory) {
        uint64_t offset = 0;
        if (int code = outlive_pool_offer(raw(), memory.bytes_.data(), nullptr, 0, &offset)) return Failure::last(code);
        memory.bytes_ = {};
        return offset;
    }
    /** Hands memory over to the owner of a process's token; if that dies, it is free. */
    expected<uint64_t> offer(Memory &&memory, const Domain &domain, uint32_t token) {
        uint64_t offset = 0;
        int code = outlive_pool_offer(raw(), memory.bytes_.data(), domain.raw(), token, &offset);
        if (code != 0) return Failure::last(code);
        memory.bytes_ = {};
        return offset;
    }
    /** Takes over memory that was handed over. ESTALE: it was claimed before, or is gone. EACCES:
     * it is offered to another process. */
    expected<Memory> claim(uint64_t offset) {
        void *data = nullptr;
        size_t size = 0;
        if (int code = outlive_pool_claim(raw(), offset, &data, &size)) return Failure::last(code);
        return Memory(raw(), {static_cast<std::byte *>(data), size});
    }
    /** Turns memory into an object that several processes hold; no process may write to it from
     * then on. After a failure it is still `memory`'s. */
    expected<SharedObject> share(Memory &&memory) {
        outlive_shared_t *shared = nullptr;
        if (int code = outlive_pool_share(raw(), memory.bytes_.data(), &shared)) return Failure::last(code);
        memory.bytes_ = {};
        return SharedObject(shared);
    }
    /** Makes this process a holder. ESTALE: no process holds it any more. */
    expected<SharedObject> join(uint64_t offset) {
        outlive_shared_t *shared = nullptr;
        if (int code = outlive_pool_join(raw(), offset, &shared)) return Failure::last(code);
        return SharedObject(shared);
    }
    /** Looks at all objects, and returns how many are in which state. */
    expected<outlive_pool_usage_t> usage() const {
        outlive_pool_usage_t usage{};
        if (int code = outlive_pool_usage(raw(), &usage)) return Failure::last(code);
        return usage;
    }
    /** Frees what dead processes had, and gives memory back to the system. */
    expected<Trimmed> gc() {
        Trimmed trimmed{};
        if (int code = outlive_pool_gc(raw(), &trimmed.objects, &trimmed.bytes)) return Failure::last(code);
        return trimmed;
    }

private:
    using WithOptions::WithOptions;
};

} // namespace outlive

#endif
