/* Memory that goes from process to process. */
#ifndef OUTLIVE_POOL_HPP
#define OUTLIVE_POOL_HPP

#include "domain.hpp"

namespace outlive {

/** Memory of a pool, this process's: freed when this goes. The pool must live longer. */
class Memory {
public:
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

/** Memory that several processes hold, each by name, to read: the last to let go of it frees it, also by its death. The pool must
 * live longer. */
class SharedObject {
public:
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(outlive_shared_data(handle_.get())), outlive_shared_size(handle_.get())};
    }
    /** By which others join: good as long as somebody holds it. */
    uint64_t offset() const noexcept { return outlive_shared_offset(handle_.get()); }

private:
    friend class Pool;
    explicit SharedObject(outlive_shared_t *handle) : handle_(handle) {}
    detail::Handle<outlive_shared_t, outlive_shared_release> handle_;
};

/** What `Pool::gc` has freed and given back: objects of the dead, and bytes that the system has back. */
struct Trimmed {
    uint64_t objects, bytes;
};

/** A pool: memory from 0 bytes to 1 GiB. May be used by all threads at once. */
class Pool {
public:
    /** Begin `options` with OUTLIVE_POOL_OPTIONS_INIT. */
    static expected<Pool> open(const Domain &domain, const std::string &name,
                               const outlive_pool_options_t &options = OUTLIVE_POOL_OPTIONS_INIT) {
        outlive_pool_t *handle = nullptr;
        if (int code = outlive_pool_open(domain.raw(), name.c_str(), &options, &handle)) return Failure::last(code);
        return Pool(handle);
    }

    /** Its bytes are not defined. ENOSPC: the pool is at its largest. */
    expected<Memory> alloc(size_t size, size_t align = 16) {
        void *data = nullptr;
        if (int code = outlive_pool_alloc(raw(), size, align, &data)) return Failure::last(code);
        return Memory(raw(), {static_cast<std::byte *>(data), size});
    }
    /** Hands memory over, in one atomic step, to whoever claims the offset. On failure it is as before, and still `memory`'s. */
    expected<uint64_t> offer(Memory &&memory) {
        uint64_t offset = 0;
        if (int code = outlive_pool_offer(raw(), memory.bytes_.data(), nullptr, 0, &offset)) return Failure::last(code);
        memory.bytes_ = {};
        return offset;
    }
    /** Hands it over to the owner of a process's token; if that dies, it is free. */
    expected<uint64_t> offer(Memory &&memory, const Domain &domain, uint32_t token) {
        uint64_t offset = 0;
        int code = outlive_pool_offer(raw(), memory.bytes_.data(), domain.raw(), token, &offset);
        if (code != 0) return Failure::last(code);
        memory.bytes_ = {};
        return offset;
    }
    /** Takes over what was handed over. ESTALE: it was claimed before, or is gone. EACCES: it is for somebody else. */
    expected<Memory> claim(uint64_t offset) {
        void *data = nullptr;
        size_t size = 0;
        if (int code = outlive_pool_claim(raw(), offset, &data, &size)) return Failure::last(code);
        return Memory(raw(), {static_cast<std::byte *>(data), size});
    }
    /** Makes memory one that several processes hold; nobody writes to it from then on. On failure it is still `memory`'s. */
    expected<SharedObject> share(Memory &&memory) {
        outlive_shared_t *shared = nullptr;
        if (int code = outlive_pool_share(raw(), memory.bytes_.data(), &shared)) return Failure::last(code);
        memory.bytes_ = {};
        return SharedObject(shared);
    }
    /** Becomes one of those who hold it. ESTALE: nobody does any more. */
    expected<SharedObject> join(uint64_t offset) {
        outlive_shared_t *shared = nullptr;
        if (int code = outlive_pool_join(raw(), offset, &shared)) return Failure::last(code);
        return SharedObject(shared);
    }
    /** Looks at all objects. */
    expected<outlive_pool_usage_t> usage() const {
        outlive_pool_usage_t usage{};
        if (int code = outlive_pool_usage(raw(), &usage)) return Failure::last(code);
        return usage;
    }
    /** Frees what the dead had, and gives memory back to the system. */
    expected<Trimmed> gc() {
        Trimmed trimmed{};
        if (int code = outlive_pool_gc(raw(), &trimmed.objects, &trimmed.bytes)) return Failure::last(code);
        return trimmed;
    }

    outlive_pool_t *raw() const noexcept { return handle_.get(); }

private:
    explicit Pool(outlive_pool_t *handle) : handle_(handle) {}
    detail::Handle<outlive_pool_t, outlive_pool_close> handle_;
};

} // namespace outlive

#endif
