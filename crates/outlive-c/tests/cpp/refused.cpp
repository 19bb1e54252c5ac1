/* What the compiler refuses: -DCASE=1 and so on. Case 0 is what it accepts. */
#include <outlive.hpp>

#include <map>

struct Pose {
    double x, y, angle;
};
struct Named {
    std::string name;
};
struct Deep {
    uint8_t cells[2][2][2][2];
    uint8_t deeper[2][2][2][2][2];
};

static_assert(outlive::Payload<Pose> && outlive::Message<Pose> && outlive::Message<std::vector<Pose>>);
static_assert(outlive::Message<std::string> && outlive::Message<const char *> && outlive::Message<std::span<const std::byte>>);
static_assert(!outlive::Payload<Named> && !outlive::Message<Named> && !outlive::Message<std::vector<Named>>);
static_assert(!outlive::Payload<int *> && !outlive::Message<int *> && !outlive::Message<std::map<int, int>>);
static_assert(!std::is_copy_constructible_v<outlive::Sample> && std::is_move_constructible_v<outlive::Sample>);
static_assert(std::is_move_constructible_v<outlive::Mutex<Pose>> && !std::is_copy_constructible_v<outlive::Mutex<Pose>>);

void use(outlive::Domain &domain, outlive::Sender &sender, outlive::Sample &sample) {
#if CASE == 0
    (void)outlive::Mutex<Pose>::open_or_create(domain, "pose");
    (void)sender.send(Pose{});
    (void)sample.as<Pose>();
    (void)outlive::detail::field<decltype(Deep::cells)>("cells", 0);
#elif CASE == 1
    (void)outlive::Mutex<Named>::open_or_create(domain, "named");
#elif CASE == 2
    (void)sender.send(Named{});
#elif CASE == 3
    (void)sample.as<Named>();
#elif CASE == 4
    /* The range would hold a receiver that is gone. */
    for (auto message : outlive::Queue::open_or_create(domain, "log").value().receiver().value().until(outlive::at_once)) (void)message;
#elif CASE == 5
    (void)outlive::detail::field<decltype(Deep::deeper)>("deeper", 0);
#endif
    (void)domain, (void)sender, (void)sample;
}
