/* Topics that a GPU reads and writes, by a driver that needs no GPU. The tests call it as a program of CUDA's calls the real one. */
#include "testing.h"

#include <dlfcn.h>
#include <outlive_gpu.h>

static outlive_gpu_t *gpu;
static outlive_gpu_stream_t *stream;
static outlive_topic_t *topic;
static outlive_pinned_topic_t *pinned;
static outlive_pinned_publisher_t *publisher;
static outlive_subscriber_t *subscriber;

static void *driver;

/* As cuda.h has them, and what the fake has besides. */
static int (*cuCtxPushCurrent)(void *);
static int (*cuMemAlloc)(uint64_t *, size_t);
static int (*cuMemFree)(uint64_t);
static int (*cuMemcpyHtoDAsync)(uint64_t, const void *, size_t, void *);
static int (*cuMemcpyDtoHAsync)(void *, uint64_t, size_t, void *);
static void (*fake_shut)(int);
static void (*fake_fail)(const char *, uint32_t, int);
static void (*fake_set_attribute)(int, int);
static uint64_t (*fake_count)(int);

#define FIND(function, name) CHECK((*(void **)&(function) = dlsym(driver, name)) != NULL)

static void open_gpu(void) {
    driver = dlopen(OUTLIVE_GPU_FAKE, RTLD_NOW | RTLD_LOCAL);
    CHECK(driver != NULL);
    FIND(cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    FIND(cuMemAlloc, "cuMemAlloc_v2");
    FIND(cuMemFree, "cuMemFree_v2");
    FIND(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    FIND(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    FIND(fake_shut, "outlive_fake_shut");
    FIND(fake_fail, "outlive_fake_fail");
    FIND(fake_set_attribute, "outlive_fake_set_attribute");
    FIND(fake_count, "outlive_fake_count");
    OK(outlive_gpu_open(OUTLIVE_GPU_FAKE, 0, &gpu));
    OK(cuCtxPushCurrent(outlive_gpu_context(gpu)));
    OK(outlive_gpu_stream_new(gpu, &stream));
    OK(outlive_topic_open(domain, "frames", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
    OK(outlive_pinned_topic_open(gpu, topic, &pinned));
    OK(outlive_pinned_topic_publisher(pinned, NULL, &publisher));
    OK(outlive_topic_subscriber(topic, NULL, &subscriber));
}

/* All is given back, and nothing was done that the driver forbids. */
static void close_all(void) {
    OK(outlive_pinned_topic_wait_over(pinned, SOON));
    outlive_pinned_publisher_close(publisher);
    outlive_subscriber_close(subscriber);
    outlive_pinned_topic_close(pinned);
    outlive_topic_close(topic);
    outlive_gpu_stream_close(stream);
    outlive_gpu_close(gpu);
    for (int what = 0; what < 9; what++) {
        /* 1 and 7: what there ever was. */
        if (what != 1 && what != 7 && fake_count(what) != 0) {
            fprintf(stderr, "%d of kind %d are left\n", (int)fake_count(what), what);
            abort();
        }
    }
}

static void fill(unsigned char *bytes, size_t size, unsigned number) {
    for (size_t at = 0; at < size; at++) bytes[at] = (unsigned char)(at * 7 + at / 256 + number);
}

static uint64_t on_device(const unsigned char *bytes, size_t size) {
    uint64_t memory = 0;
    OK(cuMemAlloc(&memory, size));
    OK(cuMemcpyHtoDAsync(memory, bytes, size, outlive_gpu_stream_raw(stream)));
    OK(outlive_gpu_stream_synchronize(stream));
    return memory;
}

/* One message of that device memory, due. */
static void publish(uint64_t memory, size_t size) {
    outlive_pinned_loan_t *loan = NULL;
    outlive_header_t header = {0, 5, 42, {7}};
    OK(outlive_pinned_publisher_loan(publisher, size, &loan));
    OK(outlive_pinned_loan_set_header(loan, &header));
    OK(outlive_pinned_loan_copy_from_device(loan, 0, size, memory, stream));
    OK(outlive_pinned_publisher_publish_on(publisher, loan, stream, SOON));
}

static void without_a_driver(void) {
    IS(ENODEV, outlive_gpu_open("/nonexistent/libcuda.so.1", 0, &gpu));
    CHECK(gpu == NULL && strstr(outlive_last_error(), "no GPU can be used here: /nonexistent/libcuda.so.1") != NULL);
    IS(ENODEV, outlive_gpu_open(OUTLIVE_GPU_FAKE, 7, &gpu));
    int machines_own = outlive_gpu_open(NULL, 0, &gpu);
    CHECK(machines_own == 0 || machines_own == ENODEV);
    outlive_gpu_close(gpu);
    IS(EINVAL, outlive_gpu_open(NULL, 0, NULL));
    IS(EINVAL, outlive_gpu_open_context(OUTLIVE_GPU_FAKE, NULL, &gpu));
}

static void from_device_to_device(void) {
    open_gpu();
    uint32_t reads = 0, writes = 0;
    OK(outlive_gpu_pins(gpu, &reads, &writes));
    CHECK(reads == 1 && writes == 1 && strcmp(outlive_gpu_name(gpu), "no GPU, a fake driver") == 0);
    OK(outlive_gpu_check(gpu));
    enum { LARGEST = 2000000 };
    unsigned char *bytes = malloc(LARGEST), *seen = malloc(LARGEST);
    for (size_t size = 1; size < LARGEST; size = size * 11 + 3) {
        fill(bytes, size, (unsigned)size);
        uint64_t from = on_device(bytes, size), to = 0;
        OK(cuMemAlloc(&to, size));
        publish(from, size);
        outlive_sample_t *sample = NULL;
        outlive_pinned_sample_t *read = NULL;
        OK(outlive_subscriber_recv(subscriber, &sample, SOON));
        OK(outlive_pinned_topic_sample(pinned, sample, &read));
        const outlive_sample_t *looked_at = outlive_pinned_sample_get(read);
        outlive_header_t header;
        OK(outlive_sample_header(looked_at, &header));
        CHECK(header.frame == 5 && header.key == 42 && header.own[0] == 7 && header.stamp != 0);
        CHECK(outlive_sample_size(looked_at) == size && memcmp(outlive_sample_data(looked_at), bytes, size) == 0);
        /* In two parts. It is held until both are over. */
        OK(outlive_pinned_sample_copy_to_device(read, 0, size / 2, to, stream));
        OK(outlive_pinned_sample_copy_to_device(read, size / 2, size - size / 2, to + size / 2, stream));
        IS(EINVAL, outlive_pinned_sample_copy_to_device(read, 1, size, to, stream));
        IS(EINVAL, outlive_pinned_sample_copy_to_device(read, SIZE_MAX, 2, to, stream));
        outlive_pinned_sample_release(read);
        OK(cuMemcpyDtoHAsync(seen, to, size, outlive_gpu_stream_raw(stream)));
        OK(outlive_gpu_stream_synchronize(stream));
        CHECK(memcmp(seen, bytes, size) == 0);
        OK(cuMemFree(from));
        OK(cuMemFree(to));
    }
    free(bytes);
    free(seen);
    close_all();
}

static void seen_when_the_stream_is_there(void) {
    open_gpu();
    unsigned char bytes[5000];
    fill(bytes, sizeof bytes, 1);
    uint64_t from = on_device(bytes, sizeof bytes);
    fake_shut(1);
    publish(from, sizeof bytes);
    outlive_pinned_loan_t *dropped = NULL;
    OK(outlive_pinned_publisher_loan(publisher, 5000, &dropped));
    OK(outlive_pinned_loan_copy_from_device(dropped, 0, 5000, from, stream));
    outlive_pinned_loan_release(dropped);
    CHECK(outlive_pinned_publisher_due(publisher) == 1);
    outlive_sample_t *sample = NULL;
    IS(EAGAIN, outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_pinned_publisher_wait_published(publisher, outlive_after_ms(5)));
    IS(ETIMEDOUT, outlive_pinned_topic_wait_over(pinned, outlive_after_ms(5)));
    fake_shut(0);
    OK(outlive_pinned_publisher_wait_published(publisher, SOON));
    OK(outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    CHECK(memcmp(outlive_sample_data(sample), bytes, sizeof bytes) == 0);
    outlive_sample_release(sample);
    IS(EAGAIN, outlive_subscriber_recv(subscriber, &sample, OUTLIVE_TRY));
    OK(cuMemFree(from));
    close_all();
}

static void what_cannot_be(void) {
    open_gpu();
    uint64_t from = 0;
    outlive_pinned_loan_t *loan = NULL;
    outlive_pinned_sample_t *read = NULL;
    OK(cuMemAlloc(&from, 1000));
    OK(outlive_pinned_publisher_loan(publisher, 1000, &loan));
    IS(EINVAL, outlive_pinned_loan_copy_from_device(loan, 1, 1000, from, stream));
    IS(EINVAL, outlive_pinned_loan_copy_from_device(loan, 0, 1000, from, NULL));
    IS(EINVAL, outlive_pinned_loan_copy_from_device(NULL, 0, 1000, from, stream));
    fake_fail("cuMemcpyDtoHAsync", 0, 2);
    IS(OUTLIVE_DRIVER, outlive_pinned_loan_copy_from_device(loan, 0, 1000, from, stream));
    CHECK(strstr(outlive_last_error(), "CUDA_ERROR_OUT_OF_MEMORY, 2") != NULL);
    /* -1: what cuStreamIsCapturing says. */
    fake_set_attribute(-1, 1);
    IS(EBUSY, outlive_pinned_loan_copy_from_device(loan, 0, 1000, from, stream));
    IS(EBUSY, outlive_pinned_publisher_publish_on(publisher, loan, stream, SOON));
    fake_set_attribute(-1, 0);
    IS(EINVAL, outlive_pinned_topic_sample(pinned, NULL, &read));
    outlive_pinned_topic_t *none = pinned;
    IS(EINVAL, outlive_pinned_topic_open(gpu, NULL, &none));
    CHECK(none == NULL);
    IS(EMSGSIZE, outlive_pinned_publisher_loan(publisher, ((size_t)1 << 30) + 1, &loan));
    CHECK(outlive_pinned_sample_get(NULL) == NULL && outlive_gpu_context(NULL) == NULL);
    CHECK(outlive_gpu_stream_raw(NULL) == NULL && *outlive_gpu_name(NULL) == 0 && outlive_pinned_publisher_due(NULL) == 0);
    outlive_pinned_publisher_close(NULL);
    outlive_pinned_loan_release(NULL);
    outlive_pinned_sample_release(NULL);
    outlive_gpu_stream_close(NULL);
    outlive_pinned_topic_close(NULL);
    OK(cuMemFree(from));
    close_all();
}

static void be_due_and_hold(void) {
    unsigned char bytes[5000];
    open_gpu();
    fill(bytes, sizeof bytes, 9);
    uint64_t from = on_device(bytes, sizeof bytes);
    /* One that is held by a copy under way, and one that is due. */
    publish(from, sizeof bytes);
    outlive_sample_t *sample = NULL;
    outlive_pinned_sample_t *read = NULL;
    OK(outlive_subscriber_recv(subscriber, &sample, SOON));
    OK(outlive_pinned_topic_sample(pinned, sample, &read));
    fake_shut(1);
    OK(outlive_pinned_sample_copy_to_device(read, 0, sizeof bytes, from, stream));
    outlive_pinned_sample_release(read);
    publish(from, sizeof bytes);
    tell();
    for_ever();
}

/* What was due is never seen; what was held is free again; others go on. */
static void killed_with_all_under_way(void) {
    pid_t doomed = start(be_due_and_hold);
    hear();
    open_gpu();
    kill_it(doomed);
    unsigned char bytes[5000];
    fill(bytes, sizeof bytes, 3);
    uint64_t from = on_device(bytes, sizeof bytes);
    for (int at = 0; at < 100; at++) {
        publish(from, sizeof bytes);
        outlive_sample_t *sample = NULL;
        OK(outlive_subscriber_recv(subscriber, &sample, SOON));
        CHECK(memcmp(outlive_sample_data(sample), bytes, sizeof bytes) == 0);
        outlive_sample_release(sample);
    }
    uint32_t publishers = 0, subscribers = 0;
    OK(outlive_topic_counts(topic, &publishers, &subscribers));
    CHECK(publishers == 1 && subscribers == 1);
    OK(cuMemFree(from));
    close_all();
}

/* Device topics. */

static outlive_device_topic_t *blocks;
static outlive_device_publisher_t *block_publisher;
static outlive_device_subscriber_t *block_subscriber;

static void open_blocks(void) {
    open_gpu();
    OK(outlive_device_topic_open(gpu, domain, "blocks", OUTLIVE_OPEN_OR_CREATE, NULL, &blocks));
    OK(outlive_device_topic_publisher(blocks, NULL, &block_publisher));
    OK(outlive_device_topic_subscriber(blocks, NULL, &block_subscriber));
}

static void close_blocks(void) {
    OK(outlive_device_topic_wait_over(blocks, SOON));
    outlive_device_publisher_close(block_publisher);
    outlive_device_subscriber_close(block_subscriber);
    outlive_device_topic_close(blocks);
    close_all();
}

/* One message of those bytes, written where it lies. */
static void publish_block(const unsigned char *bytes, size_t size) {
    outlive_device_loan_t *loan = NULL;
    outlive_header_t header = {0, 5, 42, {7}};
    uint64_t address = 0;
    OK(outlive_device_publisher_loan(block_publisher, size, &loan, &address));
    OK(outlive_device_loan_set_header(loan, &header));
    OK(cuMemcpyHtoDAsync(address, bytes, size, outlive_gpu_stream_raw(stream)));
    OK(outlive_device_publisher_publish_on(block_publisher, loan, stream, SOON));
}

static void take_block(const unsigned char *wanted, size_t size) {
    static unsigned char seen[100000];
    outlive_device_sample_t *sample = NULL;
    outlive_header_t header;
    OK(outlive_device_subscriber_recv(block_subscriber, &sample, SOON));
    CHECK(outlive_device_sample_size(sample) == size && size <= sizeof seen);
    OK(outlive_device_sample_header(sample, &header));
    CHECK(header.frame == 5 && header.key == 42 && header.own[0] == 7);
    OK(cuMemcpyDtoHAsync(seen, outlive_device_sample_address(sample), size, outlive_gpu_stream_raw(stream)));
    OK(outlive_device_sample_hold_on(sample, stream));
    outlive_device_sample_release(sample);
    OK(outlive_gpu_stream_synchronize(stream));
    CHECK(memcmp(seen, wanted, size) == 0);
}

static void blocks_stay_on_the_device(void) {
    open_blocks();
    unsigned char bytes[50000];
    for (unsigned at = 1; at < 30; at++) {
        fill(bytes, sizeof bytes, at);
        publish_block(bytes, sizeof bytes - at);
        take_block(bytes, sizeof bytes - at);
    }
    outlive_device_sample_t *sample = NULL;
    IS(EAGAIN, outlive_device_subscriber_recv(block_subscriber, &sample, OUTLIVE_TRY));
    IS(ETIMEDOUT, outlive_device_subscriber_recv(block_subscriber, &sample, outlive_after_ms(5)));
    CHECK(outlive_device_subscriber_lost(block_subscriber) == 0);
    /* A loan that is written on another stream, and given back. */
    outlive_device_loan_t *loan = NULL;
    uint64_t address = 0;
    OK(outlive_device_publisher_loan(block_publisher, 100, &loan, &address));
    OK(outlive_device_loan_written_on(loan, stream));
    outlive_device_loan_release(loan);
    OK(outlive_device_publisher_wait_published(block_publisher, SOON));
    outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
    outlive_device_topic_t *none = blocks;
    options.depth = 1024;
    IS(EINVAL, outlive_device_topic_open(gpu, domain, "blocks", OUTLIVE_OPEN_OR_CREATE, &options, &none));
    IS(EEXIST, outlive_device_topic_open(gpu, domain, "blocks", OUTLIVE_CREATE_NEW, NULL, &none));
    IS(ENOENT, outlive_device_topic_open(gpu, domain, "no blocks", OUTLIVE_OPEN, NULL, &none));
    IS(EINVAL, outlive_device_topic_open(gpu, domain, "blocks", (enum outlive_opening_t)3, NULL, &none));
    OK(outlive_device_topic_open(gpu, domain, "blocks", OUTLIVE_OPEN, NULL, &none));
    outlive_device_topic_close(none);
    IS(EINVAL, outlive_device_topic_open(NULL, domain, "blocks", OUTLIVE_OPEN_OR_CREATE, NULL, &none));
    CHECK(none == NULL);
    IS(EINVAL, outlive_device_publisher_publish_on(block_publisher, NULL, stream, SOON));
    CHECK(outlive_device_sample_address(NULL) == 0 && outlive_device_sample_size(NULL) == 0);
    close_blocks();
}

static void publish_blocks(void) {
    unsigned char bytes[5000];
    open_blocks();
    fill(bytes, sizeof bytes, 9);
    publish_block(bytes, sizeof bytes);
    OK(outlive_device_publisher_wait_published(block_publisher, SOON));
    fake_shut(1);
    outlive_device_loan_t *loan = NULL;
    uint64_t address = 0;
    OK(outlive_device_publisher_loan(block_publisher, 5000, &loan, &address));
    OK(outlive_device_publisher_publish_on(block_publisher, loan, stream, SOON));
    tell();
    for_ever();
}

/* What was not mapped is lost, and that is told; what was due is never seen; others go on. */
static void killed_with_blocks(void) {
    pid_t doomed = start(publish_blocks);
    hear();
    open_gpu();
    outlive_subscriber_options_t options = OUTLIVE_SUBSCRIBER_OPTIONS_INIT;
    options.history = 16;
    OK(outlive_device_topic_open(gpu, domain, "blocks", OUTLIVE_OPEN_OR_CREATE, NULL, &blocks));
    OK(outlive_device_topic_subscriber(blocks, &options, &block_subscriber));
    kill_it(doomed);
    outlive_device_sample_t *sample = NULL;
    IS(EPIPE, outlive_device_subscriber_recv(block_subscriber, &sample, SOON));
    CHECK(sample == NULL && strstr(outlive_last_error(), "has died") != NULL);
    IS(EAGAIN, outlive_device_subscriber_recv(block_subscriber, &sample, OUTLIVE_TRY));
    OK(outlive_device_topic_publisher(blocks, NULL, &block_publisher));
    unsigned char bytes[5000];
    fill(bytes, sizeof bytes, 3);
    publish_block(bytes, sizeof bytes);
    take_block(bytes, sizeof bytes);
    close_blocks();
}

TESTS(TEST(without_a_driver), TEST(from_device_to_device), TEST(seen_when_the_stream_is_there), TEST(what_cannot_be),
      TEST(killed_with_all_under_way), TEST(blocks_stay_on_the_device), TEST(killed_with_blocks))
