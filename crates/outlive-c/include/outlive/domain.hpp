/* Domains, and the tokens of their threads and processes. */
#ifndef OUTLIVE_DOMAIN_HPP
#define OUTLIVE_DOMAIN_HPP

#include <climits>
#include <cstdint>
#include <string>

#include "deadline.hpp"
#include "payload.hpp"
#include "result.hpp"

namespace outlive {

using PeerInfo = outlive_peer_info_t;

/** A folder on a memory file system in which processes find each other. All threads may use it at
 * once. */
class Domain {
public:
    /** Opens the domain that OUTLIVE_DOMAIN names, else `default`. */
    static expected<Domain> open() { return made(outlive_domain_open, nullptr); }
    static expected<Domain> open(const std::string &name) { return made(outlive_domain_open, name.c_str()); }
    /** Opens a domain in any folder, made when missing; its parent must exist. */
    static expected<Domain> open_at(const std::string &path) { return made(outlive_domain_open_at, path.c_str()); }
    static expected<Domain> open_with(const outlive_domain_options_t &options) {
        return made(outlive_domain_open_with, &options);
    }

    std::string path() const {
        char path[PATH_MAX];
        detail::done(outlive_domain_path(raw(), path, sizeof path)).value();
        return path;
    }
    /** Removes a name: processes that have the object open go on with it. */
    expected<void> remove(const std::string &name) { return detail::done(outlive_domain_remove(raw(), name.c_str())); }
    /** Frees what dead processes have left; returns how many claims there were. */
    expected<uint64_t> sweep() { return number<uint64_t>(outlive_domain_sweep); }

    /** Returns the calling thread's token, by which other threads check whether it is alive. */
    expected<uint32_t> token() const { return number<uint32_t>(outlive_domain_token); }
    expected<uint32_t> process_token() const { return number<uint32_t>(outlive_domain_process_token); }
    bool is_alive(uint32_t token) const noexcept { return outlive_peer_is_alive(raw(), token); }
    /** Sleeps until the token's owner has ended; ETIMEDOUT: it is alive. */
    expected<void> wait_dead(uint32_t token, Deadline deadline = never) const {
        return detail::done(outlive_peer_wait_dead(raw(), token, deadline.raw()));
    }
    expected<PeerInfo> info(uint32_t token) const {
        PeerInfo info{};
        if (int code = outlive_peer_info(raw(), token, &info)) return Failure::last(code);
        return info;
    }

    /** The handle, for functions of outlive.h. */
    outlive_domain_t *raw() const noexcept { return handle_.get(); }

private:
    using Handle = detail::Handle<outlive_domain_t, outlive_domain_close>;
    explicit Domain(outlive_domain_t *handle) : handle_(handle) {}

    template <class Open, class From> static expected<Domain> made(Open open, From from) {
        outlive_domain_t *handle = nullptr;
        if (int code = open(from, &handle)) return Failure::last(code);
        return Domain(handle);
    }
    template <class N, class Get> expected<N> number(Get get) const {
        N number = 0;
        if (int code = get(raw(), &number)) return Failure::last(code);
        return number;
    }

    Handle handle_;
};

} // namespace outlive

#endif
