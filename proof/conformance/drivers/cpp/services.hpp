/* `client.` and `server.` */
#pragma once
#include "driver.hpp"

class Services {
public:
    explicit Services(outlive::Domain &domain) : domain_(domain) {}

    string client(const string &verb, const Words &args) {
        try {
            return asking(verb, args);
        } catch (const outlive::ServiceError &error) {
            failure_ = error.text();
            throw;
        }
    }

    string server(const string &verb, const Words &args) {
        if (verb == "open") {
            outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
            options.max_servers = option(args, "servers", 0);
            if (uint64_t within = option(args, "within", 0)) options.serve_by = outlive_after_ms(within);
            servers_.insert_or_assign(args.at(0), outlive::Server::open_or_create(domain_, args.at(0), options).value());
            return ok();
        }
        if (verb == "next") {
            request_.emplace(find(servers_, args.at(0)).recv(until(args.at(1))).value());
            return ok(show(request_->bytes()));
        }
        if (verb == "watch") {
            auto lease = std::chrono::milliseconds(number(args.at(1)));
            watch_.emplace(find(servers_, args.at(0)).watch_clients(lease).value());
            return ok();
        }
        if (verb == "watch_outside") {
            auto lease = std::chrono::milliseconds(number(args.at(1)));
            return watch_.emplace(outlive::ClientWatch::open(domain_, args.at(0), lease).value()), ok();
        }
        if (verb == "prefault")
            return find(servers_, args.at(0)).prefault(number(args.at(1)), number(args.at(2))).value(), ok();
        if (verb == "event") {
            auto event = watch_.value().next(until(args.at(0))).value();
            const char *what = event.what == OUTLIVE_CLIENT_DIED     ? "died "
                               : event.what == OUTLIVE_CLIENT_LIVELY ? "lively "
                                                                     : "not-lively ";
            return ok(what + std::to_string(event.client.pid));
        }
        if (verb == "client") return ok(request_.value().client().value().pid);
        if (verb == "cancelled") return ok(request_.value().is_cancelled() ? "yes" : "no");
        if (verb == "wait_cancelled") return request_.value().wait_cancelled(until(args.at(0))).value(), ok();
        if (verb == "reply") return request().reply(message(args.at(0))).value(), ok();
        if (verb == "next_part") {
            auto part = stream_ ? stream_->next_part(until(args.at(0))) : request_.value().next_part(until(args.at(0)));
            return part.code() == ENODATA ? ok("end") : ok(show(part.value().bytes()));
        }
        if (verb == "reply_loan") {
            auto bytes = message(args.at(0));
            auto loan = request().loan(bytes.size()).value();
            std::ranges::copy(bytes, loan.bytes().begin());
            return std::move(loan).send().value(), ok();
        }
        if (verb == "fail_loan") {
            return request().loan(std::stoul(args.at(0))).value().fail(args.at(1)).value(), ok();
        }
        if (verb == "fail") return request().fail(args.at(0)).value(), ok();
        if (verb == "fail_stream") return std::move(stream_.value()).fail(args.at(0)).value(), ok();
        if (verb == "drop") return request_.reset(), ok();
        if (verb == "stream") return stream_.emplace(request().stream().value()), ok();
        if (verb == "send") return stream_.value().send(message(args.at(0)), until(args.at(1))).value(), ok();
        if (verb == "finish") return std::move(stream_.value()).finish().value(), ok();
        throw Wrong{"Usage", verb};
    }

private:
    string asking(const string &verb, const Words &args) {
        if (verb == "failure") return ok(failure_);
        if (verb == "next") {
            auto reply = call_.value().recv(until(args.at(0)));
            return reply.code() == ENODATA ? ok("end") : ok(show(reply.value().bytes()));
        }
        if (verb == "send") return parts_.value().send(message(args.at(0)), until(args.at(1))).value(), ok();
        if (verb == "finish") {
            call_.emplace(std::move(parts_.value()).finish().value());
            return parts_.reset(), ok();
        }
        if (verb == "let_go") return parts_.reset(), ok();
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_service_options_t options = OUTLIVE_SERVICE_OPTIONS_INIT;
            options.wait_for_server = flag(args, "wait");
            clients_.insert_or_assign(name, outlive::Client::open_or_create(domain_, name, options).value());
            return ok();
        }
        outlive::Client &client = find(clients_, name);
        if (verb == "alive") return client.assert_liveliness(), ok();
        if (verb == "prefault") return client.prefault(number(args.at(1)), number(args.at(2))).value(), ok();
        if (verb == "call") return ok(show(client.call(message(args.at(1)), until(args.at(2))).value().bytes()));
        if (verb == "begin") return call_.emplace(client.begin(message(args.at(1)), until(args.at(2))).value()), ok();
        if (verb == "stream")
            return parts_.emplace(client.stream(message(args.at(1)), until(args.at(2))).value()), ok();
        if (verb == "loan") {
            auto bytes = message(args.at(1));
            auto loan = client.loan(bytes.size(), until(args.at(2))).value();
            std::ranges::copy(bytes, loan.bytes().begin());
            return call_.emplace(std::move(loan).begin(until(args.at(2))).value()), ok();
        }
        throw Wrong{"Usage", verb};
    }

    outlive::Request request() {
        auto request = std::move(request_.value());
        request_.reset();
        return request;
    }

    outlive::Domain &domain_;
    Named<outlive::Client> clients_;
    std::optional<outlive::Call> call_;
    std::optional<outlive::ClientWatch> watch_;
    std::optional<outlive::RequestStream> parts_;
    Named<outlive::Server> servers_;
    std::optional<outlive::Request> request_;
    std::optional<outlive::Stream> stream_;
    string failure_;
};
