/* Domains, and the tokens of their threads and processes. */
#ifndef OUTLIVE_DOMAIN_HPP
#define OUTLIVE_DOMAIN_HPP

#include <climits>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "payload.hpp"
#include "result.hpp"

namespace outlive {

using PeerInfo = outlive_peer_info_t;

namespace detail {

/* Asks for one pair after the other, until there is none of that number. */
template <class At> expected<std::map<std::string, std::string>> all_attributes(At at) {
    std::map<std::string, std::string> all;
    std::string key(4096, '\0'), value(4096, '\0');
    for (size_t number = 0;; number += 1) {
        int code = at(number, &key[0], &value[0], key.size());
        if (code == ERANGE) return all;
        if (code != 0) return Failure::last(code);
        all.emplace(key.c_str(), value.c_str());
    }
}

} // namespace detail

/** A folder on a memory file system in which processes find each other. All threads may use it at
 * once. */
class Domain {
public:
    /** Opens the domain that OUTLIVE_DOMAIN names, else the configuration file, else `default`; makes it when
     * missing. */
    static expected<Domain> open_default() { return opened(outlive_domain_open, nullptr, OUTLIVE_OPEN_OR_CREATE); }
    /** Opens the domain of that name, or makes it. */
    static expected<Domain> open_or_create(const std::string &name) {
        return opened(outlive_domain_open, name.c_str(), OUTLIVE_OPEN_OR_CREATE);
    }
    /** Opens the existing domain of that name; ENOENT: there is none. */
    static expected<Domain> open(const std::string &name) { return opened(outlive_domain_open, name.c_str(), OUTLIVE_OPEN); }
    /** Makes a new domain of that name; EEXIST: there is one. */
    static expected<Domain> create_new(const std::string &name) {
        return opened(outlive_domain_open, name.c_str(), OUTLIVE_CREATE_NEW);
    }
    /** Opens a domain in any folder, made when missing; its parent must exist. */
    static expected<Domain> open_or_create_at(const std::string &path) {
        return opened(outlive_domain_open_at, path.c_str(), OUTLIVE_OPEN_OR_CREATE);
    }
    /** Opens the existing domain in any folder; ENOENT: there is none. */
    static expected<Domain> open_at(const std::string &path) {
        return opened(outlive_domain_open_at, path.c_str(), OUTLIVE_OPEN);
    }
    /** Makes a new domain in a folder that does not exist yet; EEXIST: there is something. */
    static expected<Domain> create_new_at(const std::string &path) {
        return opened(outlive_domain_open_at, path.c_str(), OUTLIVE_CREATE_NEW);
    }
    /** Opens the domain that the options name, or makes it. Begin `options` with
     * OUTLIVE_DOMAIN_OPTIONS_INIT. */
    static expected<Domain> open_or_create_with(const outlive_domain_options_t &options) {
        return opened(outlive_domain_open_with, &options, OUTLIVE_OPEN_OR_CREATE);
    }
    /** Opens the existing domain that the options name; ENOENT: there is none. */
    static expected<Domain> open_with(const outlive_domain_options_t &options) {
        return opened(outlive_domain_open_with, &options, OUTLIVE_OPEN);
    }
    /** Makes the domain that the options name; EEXIST: there is one. */
    static expected<Domain> create_new_with(const outlive_domain_options_t &options) {
        return opened(outlive_domain_open_with, &options, OUTLIVE_CREATE_NEW);
    }

    std::string path() const {
        char path[PATH_MAX];
        detail::done(outlive_domain_path(raw(), path, sizeof path)).value();
        return path;
    }
    /** Returns a domain by which things are made that carry those attributes (a map, or pairs of
     * texts). */
    template <class Pairs> expected<Domain> with_attributes(const Pairs &attributes) const {
        std::vector<outlive_attribute_t> pairs;
        for (const auto &pair : attributes) pairs.push_back({pair.first.c_str(), pair.second.c_str()});
        outlive_domain_t *handle = nullptr;
        if (int code = outlive_domain_with_attributes(raw(), pairs.data(), pairs.size(), &handle)) return Failure::last(code);
        return Domain(handle);
    }
    /** Returns an attribute with which a thing was made; ENOENT: it has no such. */
    expected<std::string> attribute(const std::string &name, const std::string &key) const {
        std::string value(4096, '\0');
        int code = outlive_domain_attribute(raw(), name.c_str(), key.c_str(), &value[0], value.size());
        if (code != 0) return Failure::last(code);
        value.resize(value.find('\0'));
        return value;
    }
    /** Returns all attributes with which a thing was made. */
    expected<std::map<std::string, std::string>> attributes(const std::string &name) const {
        return detail::all_attributes([&](size_t number, char *key, char *value, size_t room) {
            return outlive_domain_attribute_at(raw(), name.c_str(), number, key, room, value, room);
        });
    }
    /** Returns what the payloads of a thing are, as its maker has described them: `Pose { x: f64 }`;
     * ENOENT: it has no description. */
    expected<std::string> payload(const std::string &name) const {
        std::string text(4096, '\0');
        for (;;) {
            int code = outlive_domain_payload(raw(), name.c_str(), &text[0], text.size());
            if (code == EMSGSIZE && text.size() < size_t{1} << 20) {
                text.resize(text.size() * 4);
                continue;
            }
            if (code != 0) return Failure::last(code);
            text.resize(text.find('\0'));
            return text;
        }
    }
    /** Brings into memory what this process has open in the domain, so many bytes of the calling
     * thread's stack, and this library's code: the thread's later operations are no page faults. */
    expected<void> prefault(size_t stack_bytes) { return detail::done(outlive_domain_prefault(raw(), stack_bytes)); }
    /** Does the same, and locks the memory, all but the code; ENOMEM, EPERM: see RLIMIT_MEMLOCK. */
    expected<void> lock_memory(size_t stack_bytes) {
        return detail::done(outlive_domain_lock_memory(raw(), stack_bytes));
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
    /** Sleeps until one of these tokens' owners has ended, and returns its token; ETIMEDOUT: all are alive. */
    expected<uint32_t> wait_any_dead(std::span<const uint32_t> tokens, Deadline deadline = never) const {
        uint32_t dead = 0;
        if (int code = outlive_peer_wait_any_dead(raw(), tokens.data(), tokens.size(), deadline.raw(), &dead))
            return Failure::last(code);
        return dead;
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

    template <class Open, class From> static expected<Domain> opened(Open open, From from, outlive_opening_t how) {
        outlive_domain_t *handle = nullptr;
        if (int code = open(from, how, &handle)) return Failure::last(code);
        return Domain(handle);
    }
    template <class N, class Get> expected<N> number(Get get) const {
        N number = 0;
        if (int code = get(raw(), &number)) return Failure::last(code);
        return number;
    }

    Handle handle_;
};

namespace detail {

/** Returns all holders, of which `list` writes as many as fit. */
template <class H, class List> expected<std::vector<PeerInfo>> holders_by(List list, H *handle) {
    std::vector<PeerInfo> infos(16);
    for (;;) {
        size_t count = 0;
        if (int code = list(handle, infos.data(), infos.size(), &count)) return Failure::last(code);
        bool all = count <= infos.size();
        infos.resize(count);
        if (all) return infos;
    }
}

/** The calls of what has none of its own here. */
struct NoCalls {};

/** What has a name: `Self` has the `Calls`, and C's handle, an `H`, which closes itself. */
template <class Self, class Calls, class H, auto opens, auto closes> class Named : public Calls {
public:
    /** The handle, for functions of outlive.h. */
    H *raw() const noexcept { return handle_.get(); }

protected:
    explicit Named(H *handle) noexcept : handle_(handle) {}

    /** Opens it; `args` are what C's function takes behind `how`. */
    template <class... Args>
    static expected<Self> opened(outlive_opening_t how, const Domain &domain, const std::string &name, Args... args) {
        H *handle = nullptr;
        if (int code = opens(domain.raw(), name.c_str(), how, args..., &handle)) return Failure::told(code);
        return Self(handle);
    }

private:
    Handle<H, closes> handle_;
};

/** What has a name and a struct of options. An option that is not set takes what is there; one that
 * contradicts what is there is EINVAL. */
template <class Self, class Calls, class H, class Options, auto opens, auto closes>
class WithOptions : public Named<Self, Calls, H, opens, closes> {
    using Base = Named<Self, Calls, H, opens, closes>;

public:
    /** Opens what has that name, or makes it. Begin `options` with its INIT macro. */
    static expected<Self> open_or_create(const Domain &domain, const std::string &name, const Options &options = unset()) {
        return Base::opened(OUTLIVE_OPEN_OR_CREATE, domain, name, &options);
    }
    /** Opens what has that name; ENOENT: nothing has. */
    static expected<Self> open(const Domain &domain, const std::string &name, const Options &options = unset()) {
        return Base::opened(OUTLIVE_OPEN, domain, name, &options);
    }
    /** Makes something new of that name; EEXIST: something has it. */
    static expected<Self> create_new(const Domain &domain, const std::string &name, const Options &options = unset()) {
        return Base::opened(OUTLIVE_CREATE_NEW, domain, name, &options);
    }

protected:
    using Base::Base;

private:
    static Options unset() noexcept {
        Options options{};
        options.size = sizeof options;
        return options;
    }
};

} // namespace detail

} // namespace outlive

#endif
