/* `state.` and `bytes.` */
#pragma once
#include "driver.hpp"

struct State {
    outlive::State<uint64_t> state;
    std::optional<outlive::StateWriter<uint64_t>> writer{};
};

struct Bytes {
    outlive::StateBytes state;
    std::optional<outlive::BytesWriter> writer{};

    uint64_t set(const std::vector<std::byte> &value) {
        if (!writer) writer.emplace(state.writer().value());
        return writer->set(value).value();
    }
};

class States {
public:
    explicit States(outlive::Domain &domain) : domain_(domain) {}

    string state(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            states_.insert_or_assign(name, State{outlive::State<uint64_t>::open_or_create(domain_, name, number(args.at(1))).value()});
            return ok();
        }
        if (verb == "find") return outlive::StateBytes::open(domain_, name).value(), ok();
        State &state = find(states_, name);
        if (verb == "get") {
            auto got = state.state.get_versioned().value();
            return ok(std::to_string(got.value) + " " + std::to_string(got.version));
        }
        if (verb == "set") {
            if (!state.writer) state.writer.emplace(state.state.writer().value());
            return ok(state.writer->set(number(args.at(1))).value());
        }
        if (verb == "prefault") {
            if (!state.writer) state.writer.emplace(state.state.writer().value());
            return state.writer->prefault(number(args.at(1))).value(), ok();
        }
        if (verb == "wait") return ok(state.state.wait_changed(number(args.at(1)), until(args.at(2))).value());
        if (verb == "close") return state.writer.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    string bytes(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            auto opened = outlive::StateBytes::open_or_create(domain_, name, number(args.at(1)), message(args.at(2))).value();
            return bytes_.insert_or_assign(name, Bytes{std::move(opened)}), ok();
        }
        Bytes &bytes = find(bytes_, name);
        if (verb == "get") {
            auto [value, version] = bytes.state.get_versioned().value();
            return ok(show(value) + " " + std::to_string(version));
        }
        if (verb == "set") return ok(bytes.set(message(args.at(1))));
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)), count = 1; now_ms() < end; count++)
                bytes.set(pattern(number(args.at(1)), count));
            return ok();
        }
        if (verb == "watch") {
            outlive::Deadline deadline = until(args.at(2));
            uint64_t seen = 1;
            for (uint64_t count = number(args.at(1)); count > 0; count--) {
                bytes.state.wait_changed(seen, deadline).value();
                auto [value, version] = bytes.state.get_versioned().value();
                seen = version;
                if (!is_pattern(value.data(), value.size(), seen - 1)) throw Wrong{"Torn", "version " + std::to_string(seen)};
            }
            return ok();
        }
        throw Wrong{"Usage", verb};
    }

private:
    outlive::Domain &domain_;
    Named<State> states_;
    Named<Bytes> bytes_;
};
