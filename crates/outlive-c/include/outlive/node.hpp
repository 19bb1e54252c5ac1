/* Nodes, attributes, and following what comes and goes in a domain. */
#ifndef OUTLIVE_NODE_HPP
#define OUTLIVE_NODE_HPP

#include <map>
#include <vector>

#include "deadline.hpp"
#include "domain.hpp"

namespace outlive {

/** Free pairs of a key and a value. */
using Attributes = std::map<std::string, std::string>;

namespace detail {

inline std::vector<outlive_attribute_t> pairs(const Attributes &attributes) {
    std::vector<outlive_attribute_t> pairs;
    for (const auto &pair : attributes) pairs.push_back({pair.first.c_str(), pair.second.c_str()});
    return pairs;
}

} // namespace detail

/** The name that this process has in a domain, until it is destroyed or the process ends. */
class Node {
public:
    /** Names this process; EEXIST: it has a name in this domain. */
    static expected<Node> open(const Domain &domain, const std::string &name, const std::string &version = {},
                               const Attributes &attributes = {}) {
        auto pairs = detail::pairs(attributes);
        outlive_node_t *handle = nullptr;
        if (int code = outlive_node_open(domain.raw(), name.c_str(), version.c_str(), pairs.data(), pairs.size(), &handle))
            return Failure::last(code);
        return Node(handle);
    }
    /** Returns the tokens of the living processes that have a name. */
    static expected<std::vector<uint32_t>> all(const Domain &domain) {
        std::vector<uint32_t> tokens(16);
        for (;;) {
            size_t count = 0;
            if (int code = outlive_domain_nodes(domain.raw(), tokens.data(), tokens.size(), &count)) return Failure::last(code);
            bool all = count <= tokens.size();
            tokens.resize(count);
            if (all) return tokens;
        }
    }
    /** Returns the name of the process that a token belongs to; ESRCH: it has none. */
    static expected<std::string> name_of(const Domain &domain, uint32_t token) {
        std::string name(4096, '\0');
        if (int code = outlive_node_name(domain.raw(), token, &name[0], name.size(), nullptr, 0)) return Failure::last(code);
        name.resize(name.find('\0'));
        return name;
    }

    /** Returns the version of that process's program, as the process gave it; ESRCH: it has no name. */
    static expected<std::string> version_of(const Domain &domain, uint32_t token) {
        std::string name(4096, '\0'), version(4096, '\0');
        if (int code = outlive_node_name(domain.raw(), token, &name[0], name.size(), &version[0], version.size()))
            return Failure::last(code);
        version.resize(version.find('\0'));
        return version;
    }
    /** Returns an attribute of that process; ENOENT: it has no such, ESRCH: it has no name. */
    static expected<std::string> attribute_of(const Domain &domain, uint32_t token, const std::string &key) {
        std::string value(4096, '\0');
        if (int code = outlive_node_attribute(domain.raw(), token, key.c_str(), &value[0], value.size()))
            return Failure::last(code);
        value.resize(value.find('\0'));
        return value;
    }

    /** Returns all attributes of that process; ESRCH: it has no name. */
    static expected<Attributes> attributes_of(const Domain &domain, uint32_t token) {
        return detail::all_attributes([&](size_t number, char *key, char *value, size_t room) {
            return outlive_node_attribute_at(domain.raw(), token, number, key, room, value, room);
        });
    }

    outlive_node_t *raw() const noexcept { return handle_.get(); }

private:
    explicit Node(outlive_node_t *handle) : handle_(handle) {}
    detail::Handle<outlive_node_t, outlive_node_close> handle_;
};

/** Follows what appears in a domain and what vanishes from it. One thread at a time may use it. */
class DomainWatch {
public:
    /** What has appeared in the domain, or vanished from it. */
    struct Change {
        bool appeared;
        std::string name;
        /**
         * Of a thing, as `outlive ls` has it; empty: it cannot be told, or not to this user. Of a
         * node: `node`.
         */
        std::string kind;
        /** Of a node: its process's token. Of a thing: 0. */
        uint32_t token;
    };
    /** How many things and nodes there are, and what differs from the last report. */
    struct Contents {
        size_t things = 0;
        size_t nodes = 0;
        /** First what has vanished. In the first report all that is there has appeared. */
        std::vector<Change> changes = {};
    };
    static expected<DomainWatch> open(const Domain &domain) {
        outlive_domain_watch_t *handle = nullptr;
        if (int code = outlive_domain_watch_open(domain.raw(), &handle)) return Failure::last(code);
        return DomainWatch(handle);
    }
    /** Waits until the contents differ from those of the last call; ETIMEDOUT. The first call
     * returns at once. */
    expected<Contents> changed(Deadline deadline = never) {
        Contents now;
        if (int code = outlive_domain_watch_changed(raw(), deadline.raw(), &now.things, &now.nodes)) return Failure::last(code);
        outlive_change_t change{};
        while (outlive_domain_watch_next(raw(), &change) == 0)
            now.changes.push_back({change.what == OUTLIVE_APPEARED, change.name, change.kind, change.token});
        return now;
    }

    outlive_domain_watch_t *raw() const noexcept { return handle_.get(); }

private:
    explicit DomainWatch(outlive_domain_watch_t *handle) : handle_(handle) {}
    detail::Handle<outlive_domain_watch_t, outlive_domain_watch_close> handle_;
};

} // namespace outlive

#endif
