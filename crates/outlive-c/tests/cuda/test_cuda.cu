/* Messages that kernels write and read, from a program of CUDA C++: as nvcc compiles it, with the
 * runtime's streams. `cargo xtask gpu --pack` takes it along; it is compiled where nvcc is.
 *
 * The subscriber is this process. The publisher is this program once more; it is killed in the
 * middle of its work and started again, and no message is half written. */
#include <outlive_gpu.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != 0) {                                                                                               \
            std::fprintf(stderr, "%s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, outlive_last_error());        \
            std::exit(1);                                                                                               \
        }                                                                                                               \
    } while (0)
#define CUDA(call)                                                                                                      \
    do {                                                                                                                \
        cudaError_t code_ = (call);                                                                                     \
        if (code_ != cudaSuccess) {                                                                                     \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code_));              \
            std::exit(1);                                                                                               \
        }                                                                                                               \
    } while (0)

constexpr size_t COUNT = 1 << 20;
constexpr size_t SIZE = COUNT * sizeof(uint32_t);

__global__ void fill(uint32_t *values, uint32_t number) {
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < COUNT; at += gridDim.x * blockDim.x) values[at] = number;
}

/* Counts the values that differ from the first one. */
__global__ void differ(const uint32_t *values, uint32_t *count) {
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < COUNT; at += gridDim.x * blockDim.x)
        if (values[at] != values[0]) atomicAdd(count, 1);
}

struct ends {
    outlive_domain_t *domain = nullptr;
    outlive_gpu_t *gpu = nullptr;
    cudaStream_t raw = nullptr;
    outlive_gpu_stream_t *stream = nullptr;
    outlive_device_topic_t *images = nullptr;
    outlive_topic_t *topic = nullptr;
    outlive_pinned_topic_t *frames = nullptr;

    explicit ends(const char *folder) {
        OK(outlive_domain_open_at(folder, OUTLIVE_OPEN_OR_CREATE, &domain));
        CUDA(cudaSetDevice(0));
        CUDA(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        OK(outlive_gpu_open(NULL, 0, &gpu));
        OK(outlive_gpu_stream_open(gpu, raw, &stream));
        OK(outlive_device_topic_open(gpu, domain, "images", OUTLIVE_OPEN_OR_CREATE, NULL, &images));
        OK(outlive_topic_open(domain, "frames", OUTLIVE_OPEN_OR_CREATE, NULL, &topic));
        OK(outlive_pinned_topic_open(gpu, topic, &frames));
    }
};

static void publish(const char *folder) {
    ends ends(folder);
    outlive_device_publisher_t *images = nullptr;
    outlive_pinned_publisher_t *frames = nullptr;
    OK(outlive_device_topic_publisher(ends.images, &images));
    OK(outlive_pinned_topic_publisher(ends.frames, &frames));
    uint32_t *source = nullptr;
    CUDA(cudaMalloc(&source, SIZE));
    for (uint32_t number = 0;; number++) {
        outlive_device_loan_t *image = nullptr;
        uint64_t address = 0;
        OK(outlive_device_publisher_loan(images, SIZE, &image, &address));
        fill<<<256, 256, 0, ends.raw>>>(reinterpret_cast<uint32_t *>(address), number);
        OK(outlive_device_publisher_publish_on(images, image, ends.stream, OUTLIVE_NEVER));
        outlive_pinned_loan_t *frame = nullptr;
        OK(outlive_pinned_publisher_loan(frames, SIZE, &frame));
        fill<<<256, 256, 0, ends.raw>>>(source, number);
        OK(outlive_pinned_loan_copy_from_device(frame, 0, SIZE, reinterpret_cast<uint64_t>(source), ends.stream));
        OK(outlive_pinned_publisher_publish_on(frames, frame, ends.stream, OUTLIVE_NEVER));
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "publish") == 0) publish(argv[2]);
    std::string folder = "/dev/shm/outlive-cuda-XXXXXX";
    if (mkdtemp(&folder[0]) == nullptr) return 1;
    int checked = 0;
    {
        ends ends(folder.c_str());
        uint32_t *count = nullptr, *copy = nullptr;
        CUDA(cudaMalloc(&count, sizeof *count));
        CUDA(cudaMalloc(&copy, SIZE));
        CUDA(cudaMemset(count, 0, sizeof *count));
        for (int round = 0; round < 5; round++) {
            outlive_device_subscriber_t *images = nullptr;
            outlive_subscriber_t *frames = nullptr;
            OK(outlive_device_topic_subscriber(ends.images, NULL, &images));
            OK(outlive_topic_subscriber(ends.topic, NULL, &frames));
            pid_t pid = fork();
            if (pid == 0) {
                execl("/proc/self/exe", argv[0], "publish", folder.c_str(), static_cast<char *>(nullptr));
                _exit(127);
            }
            for (int number = 0; number < 40 + 13 * round; number++) {
                outlive_device_sample_t *image = nullptr;
                OK(outlive_device_subscriber_recv(images, &image, outlive_after_ms(20000)));
                const void *address = reinterpret_cast<const void *>(outlive_device_sample_address(image));
                differ<<<256, 256, 0, ends.raw>>>(static_cast<const uint32_t *>(address), count);
                OK(outlive_device_sample_hold_on(image, ends.stream));
                outlive_device_sample_release(image);
                outlive_sample_t *sample = nullptr;
                OK(outlive_subscriber_recv(frames, &sample, outlive_after_ms(20000)));
                outlive_pinned_sample_t *frame = nullptr;
                OK(outlive_pinned_topic_sample(ends.frames, sample, &frame));
                OK(outlive_pinned_sample_copy_to_device(frame, 0, SIZE, reinterpret_cast<uint64_t>(copy), ends.stream));
                outlive_pinned_sample_release(frame);
                differ<<<256, 256, 0, ends.raw>>>(copy, count);
                checked += 2;
            }
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            outlive_device_subscriber_close(images);
            outlive_subscriber_close(frames);
        }
        uint32_t wrong = 0;
        CUDA(cudaMemcpyAsync(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost, ends.raw));
        CUDA(cudaStreamSynchronize(ends.raw));
        OK(outlive_device_topic_wait_over(ends.images, outlive_after_ms(20000)));
        OK(outlive_pinned_topic_wait_over(ends.frames, outlive_after_ms(20000)));
        std::printf("%d messages of 5 publishers that were killed; %u values of another message\n", checked, wrong);
        if (wrong != 0) return 1;
    }
    return std::system(("rm -r " + folder).c_str()) == 0 ? 0 : 1;
}
