/* The configuration file: its profiles for topics. */
#ifndef OUTLIVE_CONFIG_HPP
#define OUTLIVE_CONFIG_HPP

#include "topic.hpp"

namespace outlive {

/** What the configuration files say. All threads may use it at once.
 *
 *     auto config = outlive::Config::load().value();
 *     auto topic = outlive::Topic::open_or_create(domain, "camera.front", config.topic("camera.front"));
 *     auto subscriber = topic.value().subscriber(config.subscriber("camera.front")); */
class Config {
public:
    /** Reads the files of `$OUTLIVE_CONFIG`, of the user and of the system, as far as they exist; EINVAL: one has
     * a fault. */
    static expected<Config> load() { return loaded(nullptr); }
    /** Reads that file alone; ENOENT: it is not there. */
    static expected<Config> load_file(const std::string &path) { return loaded(path.c_str()); }

    /** Returns the name of the profile that holds for the topic of that name; ENOENT: none does. */
    expected<std::string> profile(const std::string &topic) const {
        std::string name(256, '\0');
        for (;;) {
            int code = outlive_config_profile(raw(), topic.c_str(), &name[0], name.size());
            if (code == EMSGSIZE) {
                name.resize(name.size() * 4);
                continue;
            }
            if (code != 0) return Failure::last(code);
            name.resize(name.find('\0'));
            return name;
        }
    }
    /** Returns how handles wait that no profile says anything else of: one of the OUTLIVE_WAIT numbers. */
    uint32_t wait() const noexcept { return outlive_config_wait(raw()); }

    /** Returns these options with what the profile of that topic says of topics; as they are, if there is none. */
    outlive_topic_options_t topic(const std::string &name, outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT) const {
        detail::done(outlive_config_topic(raw(), name.c_str(), &options)).value();
        return options;
    }
    /** Returns these options with what the profile of that topic says of publishers. */
    outlive_publisher_options_t publisher(const std::string &name,
                                          outlive_publisher_options_t options = OUTLIVE_PUBLISHER_OPTIONS_INIT) const {
        detail::done(outlive_config_publisher(raw(), name.c_str(), &options)).value();
        return options;
    }
    /** Returns these options with what the profile of that topic says of subscribers. */
    outlive_subscriber_options_t subscriber(const std::string &name,
                                            outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT) const {
        detail::done(outlive_config_subscriber(raw(), name.c_str(), &options)).value();
        return options;
    }

    /** The handle, for functions of outlive.h. */
    outlive_config_t *raw() const noexcept { return handle_.get(); }

private:
    static expected<Config> loaded(const char *path) {
        outlive_config_t *handle = nullptr;
        if (int code = outlive_config_load(path, &handle)) return Failure::last(code);
        return Config(handle);
    }
    explicit Config(outlive_config_t *handle) : handle_(handle) {}
    detail::Handle<outlive_config_t, outlive_config_close> handle_;
};

} // namespace outlive

#endif
