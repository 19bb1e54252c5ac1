/* `pool.` */
#pragma once
#include "driver.hpp"

/* An object of a pool, or a share of one. */
struct Object {
    outlive::Pool *pool;
    std::optional<outlive::Memory> memory{};
    std::optional<outlive::SharedObject> shared{};

    string shown() { return shared ? show(shared->bytes()) : show(memory.value().bytes()); }
};

class Pools {
public:
    explicit Pools(outlive::Domain &domain) : domain_(domain) {}

    string pool(const string &verb, const Words &args) {
        const string &name = args.at(0);
        if (verb == "open") {
            outlive_pool_options_t options = OUTLIVE_POOL_OPTIONS_INIT;
            options.max_bytes = option(args, "max", 0);
            return pools_.insert_or_assign(name, outlive::Pool::open_or_create(domain_, name, options).value()), ok();
        }
        auto keep = [&](Object object) {
            return ok(objects_.insert_or_assign(args.at(1), std::move(object)).first->second.shown());
        };
        if (verb == "alloc") {
            outlive::Pool &pool = find(pools_, name);
            auto bytes = message(args.at(2));
            auto memory = pool.alloc(bytes.size()).value();
            std::ranges::copy(bytes, memory.bytes().begin());
            objects_.insert_or_assign(args.at(1), Object{&pool, std::move(memory)});
            return ok();
        }
        if (verb == "claim") {
            outlive::Pool &pool = find(pools_, name);
            return keep({&pool, pool.claim(number(args.at(2))).value()});
        }
        if (verb == "join") {
            outlive::Pool &pool = find(pools_, name);
            return keep({&pool, std::nullopt, pool.join(number(args.at(2))).value()});
        }
        if (verb == "prefault")
            return find(pools_, name).prefault(number(args.at(1)), number(args.at(2))).value(), ok();
        if (verb == "gc") return find(pools_, name).gc().value(), ok();
        if (verb == "count") {
            auto usage = find(pools_, name).usage().value();
            return ok(args.at(1) == "used" ? usage.used : args.at(1) == "offered" ? usage.offered : usage.shared);
        }
        Object &object = find(objects_, name);
        if (verb == "show") return ok(object.shown());
        if (verb == "free") return objects_.erase(name), ok();
        if (verb == "share") {
            object.shared.emplace(object.pool->share(std::move(object.memory.value())).value());
            return ok(object.shared->offset());
        }
        uint64_t offset = 0;
        if (verb == "offer") offset = object.pool->offer(std::move(object.memory.value())).value();
        else if (verb == "offer_to") {
            auto token = static_cast<uint32_t>(number(args.at(1)));
            offset = object.pool->offer(std::move(object.memory.value()), domain_, token).value();
        } else throw Wrong{"Usage", verb};
        objects_.erase(name);
        return ok(offset);
    }

private:
    outlive::Domain &domain_;
    Named<outlive::Pool> pools_;
    Named<Object> objects_;
};
