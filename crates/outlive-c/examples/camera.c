/* A camera to three viewers: frames are written in place and read in place, by all three at once.
 * One viewer is killed while it holds a frame; the others go on, and its frame's memory is reused. */
#include <errno.h>
#include <outlive.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH = 640, HEIGHT = 480, BYTES = WIDTH * HEIGHT * 3, FRAMES = 60 };

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", outlive_strerror(code), outlive_last_error());
        exit(1);
    }
}

static outlive_topic_t *open_camera(void) {
    outlive_domain_t *domain;
    outlive_topic_t *topic;
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    /* Viewers may ask the camera to wait for them. */
    options.reliable = 1;
    must(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &domain));
    must(outlive_topic_open(domain, "camera", OUTLIVE_OPEN_OR_CREATE, &options, &topic));
    outlive_domain_close(domain);
    return topic;
}

static void view(int viewer) {
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    outlive_subscriber_t *camera;
    /* The camera waits for this one, but not for the dead. */
    options.reliable = 1;
    must(outlive_topic_subscriber(open_camera(), &options, &camera));
    for (int seen = 0; seen < FRAMES; seen++) {
        outlive_sample_t *frame;
        must(outlive_subscriber_recv(camera, &frame, outlive_after_ms(60000)));
        const unsigned char *pixels = outlive_sample_data(frame);
        if (outlive_sample_size(frame) != BYTES || pixels[0] != seen % 256 || pixels[BYTES - 1] != seen % 256) exit(1);
        if (viewer == 2 && seen == 20) kill(getpid(), SIGKILL);
        outlive_sample_release(frame);
    }
    outlive_subscriber_close(camera);
    printf("viewer %d saw %d frames\n", viewer, FRAMES);
}

int main(void) {
    for (int viewer = 0; viewer < 3; viewer++) {
        if (fork() == 0) {
            view(viewer);
            fflush(stdout);
            _exit(0);
        }
    }
    outlive_topic_t *topic = open_camera();
    outlive_publisher_t *camera;
    must(outlive_topic_publisher(topic, NULL, &camera));
    for (uint32_t viewers = 0; viewers < 3;) must(outlive_topic_counts(topic, NULL, &viewers));
    for (int at = 0; at < FRAMES; at++) {
        outlive_loan_t *loan;
        void *pixels;
        must(outlive_publisher_loan(camera, BYTES, &loan, &pixels));
        memset(pixels, at % 256, BYTES);
        must(outlive_publisher_publish(camera, loan, outlive_after_ms(60000), NULL));
    }
    int well = 0, status;
    while (wait(&status) > 0) well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%d viewers saw all, one was killed\n", well);
    outlive_publisher_close(camera);
    outlive_topic_close(topic);
    return well == 2 ? 0 : 1;
}
