#include "testing.hpp"

/* Walks one kind through the three openings. `made` are the arguments that it is made with. */
template <class T, class... Made> static void walk(outlive::Domain &domain, const std::string &name, const Made &...made) {
    CHECK(T::open(domain, name).code() == ENOENT);
    CHECK(T::create_new(domain, name, made...).has_value());
    CHECK(T::create_new(domain, name, made...).code() == EEXIST);
    CHECK(T::create_new(domain, name, made...).error().error_code() == std::errc::file_exists);
    CHECK(T::open(domain, name).has_value());
    CHECK(T::open_or_create(domain, name, made...).has_value());
    CHECK(domain.remove(name).has_value());
    CHECK(T::open_or_create(domain, name, made...).has_value());
    CHECK(T::open(domain, name).has_value());
}

struct Line {
    outlive::mutex lock;
    uint64_t number;
};

static void every_kind() {
    auto domain = open_domain();
    walk<outlive::Mutex<uint64_t>>(domain, "mutex", 7u);
    CHECK(outlive::Mutex<uint64_t>::open(domain, "mutex").value().value() == 7);
    CHECK(outlive::Mutex<char>::open(domain, "mutex").code() == OUTLIVE_OTHER_TYPE);
    walk<outlive::RwLock<uint64_t>>(domain, "rwlock", 7u);
    walk<outlive::PiMutex<uint64_t>>(domain, "pi mutex", 7u);
    walk<outlive::ReentrantMutex<uint64_t>>(domain, "reentrant mutex", 7u);
    walk<outlive::CeilingMutex<uint64_t>>(domain, "ceiling mutex", 3u, 7u);
    CHECK(outlive::CeilingMutex<uint64_t>::open_or_create(domain, "ceiling mutex", 4).code() == EINVAL);
    walk<outlive::CeilingMutex<void>>(domain, "ceiling", 3u);
    walk<outlive::Condvar>(domain, "condvar");
    walk<outlive::Once>(domain, "once");
    walk<outlive::Event>(domain, "event", static_cast<uint32_t>(OUTLIVE_RESET_AUTOMATIC));
    CHECK(outlive::Event::open_or_create(domain, "event").has_value());
    CHECK(outlive::Event::open_or_create(domain, "event", OUTLIVE_RESET_MANUAL).code() == EINVAL);
    walk<outlive::Latch>(domain, "latch", 3u);
    CHECK(outlive::Latch::open_or_create(domain, "latch", 2).code() == EINVAL);
    walk<outlive::Semaphore>(domain, "semaphore", 3u, 5u);
    CHECK(outlive::Semaphore::open_or_create(domain, "semaphore", 3, 4).code() == EINVAL);
    walk<outlive::Barrier>(domain, "barrier", 3u, outlive::WhenOneDies::count_out);
    CHECK(outlive::Barrier::open_or_create(domain, "barrier", 3).has_value());
    CHECK(outlive::Barrier::open_or_create(domain, "barrier", 3, outlive::WhenOneDies::breaks).code() == EINVAL);
    walk<outlive::State<uint64_t>>(domain, "state", 7u);
    CHECK(outlive::State<uint64_t>::open(domain, "state").value().get().value() == 7);
    walk<outlive::StateBytes>(domain, "bytes", 64u, std::string("idle"));
    CHECK(outlive::StateBytes::open_or_create(domain, "bytes", 65, "").code() == EINVAL);
}

/* Walks a kind with a struct of options. */
template <class T, class Options> static void walk_with(outlive::Domain &domain, const std::string &name, Options options) {
    options.max_bytes = 1 << 20;
    walk<T>(domain, name, options);
    CHECK(T::open(domain, name, options).has_value());
    CHECK(T::open_or_create(domain, name).has_value());
    options.max_bytes = 2 << 20;
    CHECK(T::open(domain, name, options).code() == EINVAL);
    CHECK(T::open_or_create(domain, name, options).code() == EINVAL);
    CHECK(T::create_new(domain, name, options).code() == EEXIST);
}

static void every_kind_with_options() {
    auto domain = open_domain();
    walk_with<outlive::Queue>(domain, "queue", outlive_queue_options_t OUTLIVE_QUEUE_OPTIONS_INIT);
    walk_with<outlive::Topic>(domain, "topic", outlive_topic_options_t OUTLIVE_TOPIC_OPTIONS_INIT);
    walk_with<outlive::Pool>(domain, "pool", outlive_pool_options_t OUTLIVE_POOL_OPTIONS_INIT);
    walk_with<outlive::Client>(domain, "client", outlive_service_options_t OUTLIVE_SERVICE_OPTIONS_INIT);
    walk_with<outlive::Server>(domain, "server", outlive_service_options_t OUTLIVE_SERVICE_OPTIONS_INIT);
    auto server = outlive::Server::open(domain, "server").value();
    CHECK(outlive::Server::open(domain, "server").code() == EBUSY);
}

static void records() {
    auto domain = open_domain();
    using Record = outlive::Record<Line>;
    auto seven = [](Line &line) { line.number = 7; };
    CHECK(Record::open(domain, "line", {&Line::lock}).code() == ENOENT);
    CHECK(Record::create_new(domain, "line", {&Line::lock}, seven).value()->number == 7);
    CHECK(Record::create_new(domain, "line", {&Line::lock}, seven).code() == EEXIST);
    CHECK(Record::open(domain, "line", {&Line::lock}).value()->number == 7);
    CHECK(Record::open_or_create(domain, "line", {&Line::lock}).value()->number == 7);
    CHECK(Record::open(domain, "line", {}).code() == OUTLIVE_OTHER_TYPE);
}

static void domains() {
    CHECK(outlive::Domain::open_at(folder).code() == ENOENT);
    auto domain = open_domain();
    CHECK(outlive::Domain::open_at(folder + "-that-is-not-there").code() == ENOENT);
    CHECK(outlive::Domain::open("not-there-at-all").code() == ENOENT);
    CHECK(outlive::Domain::open_at(folder).has_value());
    outlive_domain_options_t options = OUTLIVE_DOMAIN_OPTIONS_INIT;
    options.path = folder.c_str();
    CHECK(outlive::Domain::open_with(options).has_value() && outlive::Domain::open_or_create_with(options).has_value());
}

static void names_in_a_domain() {
    auto domain = open_domain();
    auto node = outlive::Node::open(domain, "planner", "1.4", {{"host", "arm"}}).value();
    uint32_t me = domain.process_token().value();
    CHECK(outlive::Node::version_of(domain, me).value() == "1.4");
    CHECK(outlive::Node::attribute_of(domain, me, "host").value() == "arm");
    CHECK(outlive::Node::attribute_of(domain, me, "none").code() == ENOENT);
    CHECK(outlive::Node::attributes_of(domain, me).value().at("host") == "arm");
    auto watch = outlive::DomainWatch::open(domain).value();
    auto now = watch.changed(soon).value();
    CHECK(now.things == 0 && now.nodes == 1 && now.changes.size() == 1);
    CHECK(now.changes[0].appeared && now.changes[0].name == "planner" && now.changes[0].kind == "node" && now.changes[0].token == me);
    outlive::Event::create_new(domain, "stop").value();
    now = watch.changed(soon).value();
    CHECK(now.changes.size() == 1 && now.changes[0].name == "stop" && now.changes[0].kind == "event");
    CHECK(domain.attributes("stop").value().empty() && domain.attributes("none").code() == ENOENT);
    auto with = domain.with_attributes(outlive::Attributes{{"b", "2"}, {"a", "1"}}).value();
    outlive::Latch::create_new(with, "latch", 1).value();
    CHECK((domain.attributes("latch").value() == outlive::Attributes{{"a", "1"}, {"b", "2"}}));
    domain.remove("latch").value();
    domain.remove("stop").value();
    now = watch.changed(soon).value();
    CHECK(now.changes.size() == 1 && !now.changes[0].appeared && now.changes[0].kind == "event");
}

static void configured() {
    auto domain = open_domain();
    std::string path = folder + "/../outlive-cpp-" + std::to_string(getpid()) + ".toml";
    std::FILE *file = std::fopen(path.c_str(), "w");
    std::fputs("[wait]\nstrategy = \"spin\"\n[[profile]]\nname = \"camera\"\ntopics = [\"camera.*\"]\ndepth = 4\n"
               "lifespan = \"1us\"\nkeep_last = 2\n", file);
    std::fclose(file);
    auto config = outlive::Config::load_file(path).value();
    std::remove(path.c_str());
    const std::string name = "camera.front";
    CHECK(config.profile(name).value() == "camera" && config.profile("lidar").code() == ENOENT);
    CHECK(config.wait() == OUTLIVE_WAIT_SPIN);
    auto topic = outlive::Topic::open_or_create(domain, name, config.topic(name)).value();
    CHECK(topic.config().depth == 4);
    CHECK(config.publisher(name).lifespan == 1000 && config.subscriber(name).keep_last == 2);
    CHECK(topic.publisher(config.publisher(name)).has_value() && topic.subscriber(config.subscriber(name)).has_value());
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    options.history = 3;
    CHECK(config.subscriber(name, options).history == 3 && config.subscriber("lidar", options).keep_last == 0);
    CHECK(outlive::Config::load_file(path).code() == ENOENT);
}

TESTS(TEST(names_in_a_domain), TEST(configured), TEST(every_kind), TEST(every_kind_with_options), TEST(records), TEST(domains))
