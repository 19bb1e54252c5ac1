/* `node.`, `watch.` and `config.` */
#pragma once
#include "driver.hpp"

#include <cstdio>
#include <fstream>
#include <set>

class Nodes {
public:
    explicit Nodes(outlive::Domain &domain) : domain_(domain) {}

    string node(const string &verb, const Words &args) {
        if (verb == "open") {
            node_ = outlive::Node::open(domain_, args.at(0), args.at(1), {{args.at(2), args.at(3)}}).value();
            return ok();
        }
        if (verb == "close") return node_.reset(), ok();
        if (verb == "list") {
            std::set<string> all;
            for (uint32_t token : outlive::Node::all(domain_).value())
                all.insert(outlive::Node::name_of(domain_, token).value() + "/" + outlive::Node::version_of(domain_, token).value());
            return said(all);
        }
        if (verb == "attribute")
            return attribute(outlive::Node::attribute_of(domain_, static_cast<uint32_t>(number(args.at(0))), args.at(1)));
        if (verb == "all" || verb == "all_of") {
            auto found = verb == "all" ? outlive::Node::attributes_of(domain_, static_cast<uint32_t>(number(args.at(0))))
                                       : domain_.attributes(args.at(0));
            std::set<string> all;
            for (const auto &[key, value] : found.value()) all.insert(key + "=" + value);
            return said(all);
        }
        if (verb == "prefault") return domain_.prefault(number(args.at(0))).value(), ok();
        if (verb == "lock_memory") return domain_.lock_memory(number(args.at(0))).value(), ok();
        if (verb == "make") {
            auto with = domain_.with_attributes(outlive::Attributes{{args.at(1), args.at(2)}}).value();
            return outlive::Event::open_or_create(with, args.at(0)).value(), ok();
        }
        if (verb == "of") return attribute(domain_.attribute(args.at(0), args.at(1)));
        throw Wrong{"Usage", "node." + verb};
    }

    string watch(const string &verb, const Words &args) {
        if (verb == "open") {
            watch_ = outlive::DomainWatch::open(domain_).value();
            return ok();
        }
        if (verb == "changed") {
            std::set<string> all;
            for (const auto &change : watch_->changed(until(args.at(0))).value().changes)
                all.insert((change.appeared ? "+" : "-") + change.name + ":" + change.kind);
            return said(all);
        }
        throw Wrong{"Usage", "watch." + verb};
    }

    string config(const string &verb, const Words &args) {
        if (verb == "load") return load(args), ok();
        const string &name = args.at(0);
        if (verb == "profile") {
            auto profile = config_->profile(name);
            return ok(profile.code() == ENOENT ? "none" : profile.value());
        }
        auto topic = outlive::Topic::open_or_create(domain_, name, config_->topic(name)).value();
        if (verb == "topic") {
            auto made = topic.config();
            const char *kept = made.durability == OUTLIVE_PERSISTENT ? "persistent"
                : made.durability == OUTLIVE_VOLATILE                ? "volatile"
                                                                     : "transient_local";
            return ok(std::to_string(made.depth) + " " + kept + (made.reliable ? " yes" : " no"));
        }
        if (verb == "flow") {
            auto subscriber = topic.subscriber(config_->subscriber(name)).value();
            auto publisher = topic.publisher(config_->publisher(name)).value();
            for (uint8_t at = 0; at < number(args.at(1)); at++) publisher.publish(at).value();
            return ok(+subscriber.recv(outlive::at_once).value().as<uint8_t>());
        }
        throw Wrong{"Usage", "config." + verb};
    }

private:
    static string said(const std::set<string> &all) {
        string answer = "ok";
        for (const string &one : all) answer += " " + one;
        return all.empty() ? "ok nothing" : answer;
    }

    /* An attribute, or that there is none. */
    static string attribute(outlive::expected<string> value) {
        if (value.code() == ENOENT && value.error().message().find("no attribute") != string::npos) return "ok none";
        return ok(value.value());
    }

    /* Reads a file with a profile that has those keys. */
    void load(const Words &keys) {
        string path = "/tmp/outlive-conformance-" + std::to_string(getpid()) + ".toml";
        std::ofstream file(path);
        file << "[[profile]]\nname = \"p\"\ntopics = [\"c.*\"]\n";
        for (const string &key : keys) file << key << "\n";
        file.close();
        auto config = outlive::Config::load_file(path);
        std::remove(path.c_str());
        config_ = std::move(config).value();
    }

    outlive::Domain &domain_;
    std::optional<outlive::Node> node_;
    std::optional<outlive::DomainWatch> watch_;
    std::optional<outlive::Config> config_;
};
