/* A camera to three viewers: the camera writes frames in place, and all three viewers read them in
 * place at once. One viewer is killed while it holds a frame; no other process notices, and the
 * frame's memory is free again. */
#include <outlive.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

constexpr size_t bytes = 640 * 480 * 3;
constexpr int frames = 60;

static outlive::Topic open_camera() {
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    options.reliable = 1; /* Viewers may ask the camera to wait for them. */
    return outlive::Topic::open_or_create(outlive::Domain::open_default().value(), "camera", options).value();
}

static void view(int viewer) {
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    options.reliable = 1; /* The camera waits for this one, but not for the dead. */
    auto camera = open_camera().subscriber(options).value();
    int seen = 0;
    for (auto frame : camera.until(std::chrono::seconds(60))) {
        auto pixels = frame.bytes();
        if (pixels.size() != bytes || std::ranges::count(pixels, std::byte(seen)) != ptrdiff_t(bytes)) _exit(1);
        if (viewer == 2 && seen == 20) kill(getpid(), SIGKILL);
        if (++seen == frames) break;
    }
    std::cout << "viewer " << viewer << " saw " << seen << " frames" << std::endl;
    _exit(seen == frames ? 0 : 1);
}

int main() {
    for (int viewer = 0; viewer < 3; viewer++) {
        if (fork() == 0) view(viewer);
    }
    auto topic = open_camera();
    auto camera = topic.publisher().value();
    while (topic.subscriber_count() < 3) usleep(1000);
    for (int at = 0; at < frames; at++) {
        auto frame = camera.loan(bytes).value();
        std::ranges::fill(frame.bytes(), std::byte(at));
        camera.publish(std::move(frame), std::chrono::seconds(60)).value();
    }
    int well = 0, status;
    while (wait(&status) > 0) well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::cout << well << " viewers saw all, one was killed\n";
    return well == 2 ? 0 : 1;
}
