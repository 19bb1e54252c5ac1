/* `queue.` */
#pragma once
#include "driver.hpp"

/* A queue, and the ends that were needed so far. */
struct Queue {
    outlive::Queue queue;
    bool ends_with_senders;
    std::optional<outlive::Sender> out{};
    std::optional<outlive::Receiver> in{};
    uint64_t sent = 0, received = 0;

    outlive::Sender &sender() {
        if (!out) out.emplace(queue.sender().value());
        return *out;
    }
    outlive::Receiver &receiver() {
        if (!in) {
            in.emplace(queue.receiver().value());
            in->end_when_senders_gone(ends_with_senders).value();
        }
        return *in;
    }
    void drain(outlive::Deadline deadline) {
        auto got = receiver().recv(deadline).value();
        if (!is_pattern(got.bytes().data(), got.bytes().size(), ++received))
            throw Wrong{"OutOfOrder", "message " + std::to_string(received) + " is " + show(got.bytes())};
    }
};

class Queues {
public:
    explicit Queues(outlive::Domain &domain) : domain_(domain) {}

    string queue(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            options.max_messages = static_cast<uint32_t>(option(args, "messages", 0));
            options.need_receiver = flag(args, "refuse");
            if (flag(args, "keep")) options.on_receiver_death = OUTLIVE_RECEIVER_DEATH_KEEPS;
            auto open = flag(args, "existing") ? outlive::Queue::open : outlive::Queue::open_or_create;
            Queue opened{open(domain_, name, options).value(), flag(args, "ending")};
            queues_.insert_or_assign(name, std::move(opened));
            return ok();
        }
        if (verb == "typed") throw Unsupported{};
        Queue &queue = find(queues_, name);
        if (verb == "prefault") return queue.queue.prefault(number(args.at(1)), number(args.at(2))).value(), ok();
        if (verb == "join") return queue.queue.join(until(args.at(1))).value(), ok();
        if (verb == "send") return queue.sender().send(message(args.at(1)), until(args.at(2))).value(), ok();
        if (verb == "recv") return ok(show(queue.receiver().recv(until(args.at(1))).value().bytes()));
        if (verb == "peek") {
            auto peeked = queue.receiver().peek(until(args.at(1))).value();
            return ok(show(peeked.bytes()) + (peeked.redelivered() ? " again" : " fresh"));
        }
        if (verb == "commit") return queue.receiver().commit().value(), ok();
        if (verb == "batch") {
            std::vector<std::vector<std::byte>> messages;
            for (size_t at = 1; at + 1 < args.size(); at++) messages.push_back(message(args[at]));
            std::vector<std::span<const std::byte>> spans(messages.begin(), messages.end());
            return queue.sender().send_batch(spans, until(args.back())).value(), ok();
        }
        if (verb == "count") {
            auto counters = queue.queue.counters().value();
            if (args.at(1) == "sent") return ok(counters.sent);
            if (args.at(1) == "received") return ok(counters.received);
            if (args.at(1) == "pending") return ok(counters.pending);
            if (args.at(1) == "redelivered") return ok(counters.redelivered);
        }
        if (verb == "fill") {
            for (;; queue.sent++) {
                auto sent = queue.sender().send(pattern(number(args.at(1)), queue.sent + 1), outlive::at_once);
                if (sent.code() == EAGAIN) return ok(queue.sent);
                sent.value();
            }
        }
        if (verb == "flood") {
            for (uint64_t end = now_ms() + number(args.at(2)); now_ms() < end;)
                queue.sender().send(pattern(number(args.at(1)), ++queue.sent), until(args.at(2))).value();
            return ok();
        }
        if (verb == "drain") {
            outlive::Deadline deadline = until(args.at(2));
            for (uint64_t count = number(args.at(1)); count > 0; count--) queue.drain(deadline);
            return ok();
        }
        if (verb == "drain_all") {
            for (auto received : queue.receiver().until(until(args.at(1)))) {
                if (!is_pattern(received.bytes().data(), received.bytes().size(), ++queue.received))
                    throw Wrong{"OutOfOrder", show(received.bytes())};
            }
            return ok(queue.received);
        }
        if (verb == "close") return queue.out.reset(), queue.in.reset(), ok();
        throw Wrong{"Usage", verb};
    }

    Queue &of(const string &name) { return find(queues_, name); }

private:
    outlive::Domain &domain_;
    Named<Queue> queues_;
};
