/* Outlive for GPUs: topics whose payloads a GPU reads and writes in place. It is part of the same
 * library as outlive.h, whose rules hold here.
 *
 * cbindgen writes this file from the sources, which have the same comments: edit those.
 * doc/protocols/gpu.md has the argument.
 *
 * - The library is not linked with CUDA, and needs no header of CUDA's: outlive_gpu_open loads the
 *   driver, and returns ENODEV where there is none. A CUcontext and a CUstream are `void *` here, a
 *   CUdeviceptr is `uint64_t`. What the driver refuses is OUTLIVE_DRIVER.
 * - outlive_pinned_topic_open makes an ordinary topic, opened by outlive_topic_open, one for a GPU.
 *   Its subscribers are ordinary ones: outlive_pinned_topic_sample makes a sample that they have
 *   received one for the GPU.
 * - A device topic, outlive_device_topic_open, leaves its messages in the memory of one GPU, which
 *   all its processes use.
 * - A message becomes visible when the stream that writes it has got there; a sample stays held
 *   until the copies that read it have completed. No thread waits for either. If a process dies
 *   before, no process sees half a message.
 */

#ifndef OUTLIVE_GPU_H
#define OUTLIVE_GPU_H

#include "outlive.h"

/**
 * GPU memory for one message. One thread at a time may use it.
 */
typedef struct outlive_device_loan_t outlive_device_loan_t;

/**
 * A publisher whose loans are GPU memory. All threads may use it at once.
 */
typedef struct outlive_device_publisher_t outlive_device_publisher_t;

/**
 * A message in GPU memory. All threads may use it at once.
 */
typedef struct outlive_device_sample_t outlive_device_sample_t;

/**
 * A subscriber whose samples are GPU memory. One thread at a time may use it.
 */
typedef struct outlive_device_subscriber_t outlive_device_subscriber_t;

/**
 * A topic whose payloads stay in the memory of one GPU: only a descriptor that says where goes
 * from process to process. All threads may use it at once.
 */
typedef struct outlive_device_topic_t outlive_device_topic_t;

/**
 * A stream of a GPU's work, and what Outlive needs for it. All threads may use it at once.
 */
typedef struct outlive_gpu_stream_t outlive_gpu_stream_t;

/**
 * A GPU, by one context of the CUDA driver, which is loaded on demand: the library is not linked
 * with it. All threads may use it at once. A forked child needs a GPU handle of its own, and CUDA
 * gives it none if its parent had one before: start such programs by `exec`.
 */
typedef struct outlive_gpu_t outlive_gpu_t;

/**
 * Memory for one message, to be written by a GPU. One thread at a time may use it.
 */
typedef struct outlive_pinned_loan_t outlive_pinned_loan_t;

/**
 * A publisher whose loans a GPU writes. All threads may use it at once.
 */
typedef struct outlive_pinned_publisher_t outlive_pinned_publisher_t;

/**
 * A sample that a GPU reads. All threads may use it at once.
 */
typedef struct outlive_pinned_sample_t outlive_pinned_sample_t;

/**
 * A topic whose payload memory one GPU reads and writes in place. All threads may use it at once.
 */
typedef struct outlive_pinned_topic_t outlive_pinned_topic_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens the GPU of that number, by its primary context: the one that the CUDA runtime
 * (`cudaSetDevice`), PyTorch and CuPy use. `library`: the driver's shared library; NULL: the
 * machine's own, libcuda.so.1.
 *
 * Owner: `*gpu` is the caller's, until `outlive_gpu_close`. What is made with it may outlive it.
 *
 * Errors: ENODEV: there is no driver here, none that can be used, or no such GPU; the rest of the
 * library works without. OUTLIVE_DRIVER, EINVAL.
 *
 * If the process dies, the kernel takes back what its driver had.
 */
int outlive_gpu_open(const char *library, uint32_t number, struct outlive_gpu_t **gpu);

/**
 * Opens the GPU of a context of the caller's, a `CUcontext`, which the caller keeps as long as
 * anything exists that was made with it. `library`: as in `outlive_gpu_open`.
 *
 * Owner: as `outlive_gpu_open`.
 *
 * Errors: as `outlive_gpu_open`.
 */
int outlive_gpu_open_context(const char *library, void *context, struct outlive_gpu_t **gpu);

/**
 * Closes a GPU. Passing NULL has no effect.
 */
void outlive_gpu_close(struct outlive_gpu_t *gpu);

/**
 * Returns the device's name. Empty for NULL.
 *
 * Owner: the GPU.
 */
const char *outlive_gpu_name(const struct outlive_gpu_t *gpu);

/**
 * Returns its context, a `CUcontext`, for other libraries. NULL for NULL.
 */
void *outlive_gpu_context(const struct outlive_gpu_t *gpu);

/**
 * Returns whether this process's copies from (`reads`) and to (`writes`) a topic's memory are
 * direct: 1; or go through the driver's own buffers: 0. Each place may be NULL.
 *
 * Errors: EINVAL.
 */
int outlive_gpu_pins(const struct outlive_gpu_t *gpu, uint32_t *reads, uint32_t *writes);

/**
 * Checks that the context has no error: 0. After an error, no work that was enqueued in it is done
 * any more.
 *
 * Errors: OUTLIVE_DRIVER, with that error in the message. EINVAL.
 */
int outlive_gpu_check(const struct outlive_gpu_t *gpu);

/**
 * Opens a stream of the caller's, a `CUstream` or `cudaStream_t` of that GPU's context: NULL and 1
 * are the legacy default stream, 2 is the thread's own.
 *
 * The caller keeps the stream until this handle is closed and all work enqueued through it has
 * completed. Outlive adds a stream of its own, on which it publishes messages and releases
 * samples: so make one handle and keep it.
 *
 * Owner: `*made` is the caller's, until `outlive_gpu_stream_close`.
 *
 * Errors: OUTLIVE_DRIVER, EINVAL.
 */
int outlive_gpu_stream_open(const struct outlive_gpu_t *gpu, void *stream, struct outlive_gpu_stream_t **made);

/**
 * Makes a new stream, which does not wait for the default one.
 *
 * Owner, errors: as `outlive_gpu_stream_open`.
 */
int outlive_gpu_stream_new(const struct outlive_gpu_t *gpu, struct outlive_gpu_stream_t **made);

/**
 * Closes a stream; one of the caller's stays. Work that was enqueued is done all the same. Passing
 * NULL has no effect.
 */
void outlive_gpu_stream_close(struct outlive_gpu_stream_t *stream);

/**
 * Returns the stream itself, a `CUstream`. NULL for NULL.
 */
void *outlive_gpu_stream_raw(const struct outlive_gpu_stream_t *stream);

/**
 * Waits until all work enqueued on the stream has completed. What it publishes and releases may
 * take effect a moment later.
 *
 * Errors: OUTLIVE_DRIVER, also for failures of work that was enqueued before. EINVAL.
 */
int outlive_gpu_stream_synchronize(const struct outlive_gpu_stream_t *stream);

/**
 * Makes a topic one for that GPU. Its memory is registered with the driver when a copy first goes
 * there, and stays registered until this handle, its publishers and samples are closed and all
 * copies have completed.
 *
 * Call it once for each open topic, which may be closed before it. Other processes may publish and
 * subscribe without a GPU.
 *
 * Owner: `*pinned` is the caller's, until `outlive_pinned_topic_close`.
 *
 * Errors: EINVAL.
 *
 * If the process dies, what its device was about to write is never published; the next publisher
 * gets its memory once the kernel has closed the driver's files.
 */
int outlive_pinned_topic_open(const struct outlive_gpu_t *gpu,
                              const outlive_topic_t *topic,
                              struct outlive_pinned_topic_t **pinned);

/**
 * Closes a topic; does not wait for copies. Its memory stays registered until the last of its ends
 * and copies is gone. Passing NULL has no effect.
 */
void outlive_pinned_topic_close(struct outlive_pinned_topic_t *topic);

/**
 * Waits until the deadline for all of this process's copies to complete, their samples to be
 * released, and what was due to be published. A program that ends before leaves what was due
 * unpublished.
 *
 * Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some copies never complete.
 * EINVAL.
 */
int outlive_pinned_topic_wait_over(const struct outlive_pinned_topic_t *topic, outlive_deadline_t deadline);

/**
 * Makes a new publisher: up to `max_publishers` at a time. `options` NULL: none is set.
 *
 * Owner: `*publisher` is the caller's, until `outlive_pinned_publisher_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_pinned_topic_publisher(const struct outlive_pinned_topic_t *topic,
                                   const outlive_publisher_options_t *options,
                                   struct outlive_pinned_publisher_t **publisher);

/**
 * Closes a publisher. What is due is published all the same, its loans may still be used, and its
 * place in the topic is given up with the last of them. Passing NULL has no effect.
 */
void outlive_pinned_publisher_close(struct outlive_pinned_publisher_t *publisher);

/**
 * Lends memory for a message of `size` bytes, from 0 to 1 GiB. Its contents are arbitrary.
 *
 * Owner: `*loan` is the caller's, until `outlive_pinned_publisher_publish_on` or
 * `outlive_pinned_loan_release`.
 *
 * Errors: as `outlive_publisher_loan`.
 *
 * If the process dies, its loans are free again once no device can be writing there.
 */
int outlive_pinned_publisher_loan(const struct outlive_pinned_publisher_t *publisher,
                                  size_t size,
                                  struct outlive_pinned_loan_t **loan);

/**
 * Sets the header that is published with a loan.
 *
 * Errors: EINVAL.
 */
int outlive_pinned_loan_set_header(struct outlive_pinned_loan_t *loan, const outlive_header_t *header);

/**
 * Copies `size` bytes from the device, `from` being a `CUdeviceptr`, into the loan at `offset`:
 * one asynchronous copy, after the work on the stream. The caller leaves what is at `from`
 * unchanged until the copy has completed.
 *
 * Errors: EINVAL: also a part that is not inside the loan. EBUSY: the stream is captured into a
 * graph. OUTLIVE_DRIVER.
 *
 * If the process dies, the memory is reused once no device can be writing there.
 */
int outlive_pinned_loan_copy_from_device(struct outlive_pinned_loan_t *loan,
                                         size_t offset,
                                         size_t size,
                                         uint64_t from,
                                         const struct outlive_gpu_stream_t *stream);

/**
 * Gives a loan back unpublished; it is reused once all copies into it have completed. Passing NULL
 * has no effect.
 */
void outlive_pinned_loan_release(struct outlive_pinned_loan_t *loan);

/**
 * Publishes a loan when the stream has completed all work enqueued so far; returns at once. The
 * publishing also waits for copies into the loan on other streams. Messages that are due on one
 * stream are published in order. It waits, until the deadline, only for reliable subscribers that
 * have not taken messages which those that are due would overwrite.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: EBUSY: the stream is captured into a graph. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a
 * subscriber is alive and has not taken its message. OUTLIVE_DRIVER; those of
 * `outlive_publisher_publish` for a message that was due before. After an error the loan is not
 * published.
 *
 * If the process dies before the stream has got there, the message is never seen.
 */
int outlive_pinned_publisher_publish_on(const struct outlive_pinned_publisher_t *publisher,
                                        struct outlive_pinned_loan_t *loan,
                                        const struct outlive_gpu_stream_t *stream,
                                        outlive_deadline_t deadline);

/**
 * Waits until the deadline for all messages that are due to be published.
 *
 * Errors: ETIMEDOUT, OUTLIVE_DRIVER, EINVAL; those of `outlive_publisher_publish` for a message
 * that was due.
 */
int outlive_pinned_publisher_wait_published(const struct outlive_pinned_publisher_t *publisher,
                                            outlive_deadline_t deadline);

/**
 * Returns how many messages are due. 0 for NULL.
 */
uint64_t outlive_pinned_publisher_due(const struct outlive_pinned_publisher_t *publisher);

/**
 * Makes a sample one that the GPU reads. A subscriber of the topic that `topic` was made from has
 * taken it; a sample of the same topic opened once more lies elsewhere, and its copies go through
 * the driver's own buffers.
 *
 * Owner: `sample` is consumed, also by a call that fails. `*pinned` is the caller's, until
 * `outlive_pinned_sample_release`.
 *
 * Errors: EINVAL.
 */
int outlive_pinned_topic_sample(const struct outlive_pinned_topic_t *topic,
                                outlive_sample_t *sample,
                                struct outlive_pinned_sample_t **pinned);

/**
 * Returns the sample for `outlive_sample_data`, `outlive_sample_size`, `outlive_sample_header` and
 * the like; it must not be released. NULL for NULL.
 *
 * Owner: the pinned sample.
 */
const outlive_sample_t *outlive_pinned_sample_get(const struct outlive_pinned_sample_t *sample);

/**
 * Copies `size` bytes of the message from `offset` on to the device, `to` being a `CUdeviceptr`:
 * one asynchronous copy, after the work on the stream. The message is held until the copy has
 * completed, also if it is released before.
 *
 * Errors: EINVAL: also a part that is not inside the message. EBUSY: the stream is captured into a
 * graph. OUTLIVE_DRIVER.
 *
 * If the process dies, what it held is released once it has ended.
 */
int outlive_pinned_sample_copy_to_device(const struct outlive_pinned_sample_t *sample,
                                         size_t offset,
                                         size_t size,
                                         uint64_t to,
                                         const struct outlive_gpu_stream_t *stream);

/**
 * Releases a sample: its memory can be reused once all copies of it have completed. Passing NULL
 * has no effect.
 */
void outlive_pinned_sample_release(struct outlive_pinned_sample_t *sample);

/**
 * Opens the topic of that name, or makes it. `options` NULL: none is set; their `max_bytes` counts
 * descriptors of 256 bytes, not payloads. All users of the topic use the same GPU.
 *
 * Owner: `*topic` is the caller's, until `outlive_device_topic_close`.
 *
 * Errors: see `outlive_opening_t`; EOPNOTSUPP: this GPU's memory cannot be shared with other
 * processes. OUTLIVE_DRIVER.
 *
 * If a publisher's process dies, what it published stays for the processes that have its memory
 * mapped; others get EPIPE from `outlive_device_subscriber_recv`. If a subscriber's process dies,
 * its samples are released once it has ended.
 */
int outlive_device_topic_open(const struct outlive_gpu_t *gpu,
                              const outlive_domain_t *domain,
                              const char *name,
                              outlive_opening_t how,
                              const outlive_topic_options_t *options,
                              struct outlive_device_topic_t **topic);

/**
 * Closes a topic; its memory is freed with the last of its ends and samples. Passing NULL has no
 * effect.
 */
void outlive_device_topic_close(struct outlive_device_topic_t *topic);

/**
 * Waits until the deadline for all that this process has enqueued on streams to be published and
 * released. A program that ends before leaves what was due unpublished.
 *
 * Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some work never completes.
 * EINVAL.
 */
int outlive_device_topic_wait_over(const struct outlive_device_topic_t *topic, outlive_deadline_t deadline);

/**
 * Makes a new publisher: up to `max_publishers` at a time. `options` NULL: none is set.
 *
 * Owner: `*publisher` is the caller's, until `outlive_device_publisher_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_device_topic_publisher(const struct outlive_device_topic_t *topic,
                                   const outlive_publisher_options_t *options,
                                   struct outlive_device_publisher_t **publisher);

/**
 * Makes a new subscriber: up to 64 at a time. `options` NULL: it receives what is published from
 * now on.
 *
 * Owner: `*subscriber` is the caller's, until `outlive_device_subscriber_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_device_topic_subscriber(const struct outlive_device_topic_t *topic,
                                    const outlive_subscriber_options_t *options,
                                    struct outlive_device_subscriber_t **subscriber);

/**
 * Closes a publisher. What is due is published all the same, and its loans may still be used.
 * Passing NULL has no effect.
 */
void outlive_device_publisher_close(struct outlive_device_publisher_t *publisher);

/**
 * Lends GPU memory for a message of `size` bytes, from 0 to 1 GiB: `*address`, a `CUdeviceptr`,
 * for kernels and copies to write to. Its contents are arbitrary.
 *
 * Owner: `*loan` and `*address` are the caller's, until `outlive_device_publisher_publish_on` or
 * `outlive_device_loan_release`.
 *
 * Errors: as `outlive_publisher_loan`. OUTLIVE_DRIVER: usually the GPU has no memory left.
 *
 * If the process dies, its memory is freed with it.
 */
int outlive_device_publisher_loan(const struct outlive_device_publisher_t *publisher,
                                  size_t size,
                                  struct outlive_device_loan_t **loan,
                                  uint64_t *address);

/**
 * Sets the header that is published with a loan.
 *
 * Errors: EINVAL.
 */
int outlive_device_loan_set_header(struct outlive_device_loan_t *loan, const outlive_header_t *header);

/**
 * Declares that work on this stream writes the loan, too, besides the stream that it is published
 * on: the publishing waits for it.
 *
 * Errors: EINVAL.
 */
int outlive_device_loan_written_on(struct outlive_device_loan_t *loan, const struct outlive_gpu_stream_t *stream);

/**
 * Gives a loan back unpublished; it is reused once the streams of `outlive_device_loan_written_on`
 * have completed their work on it. Passing NULL has no effect.
 */
void outlive_device_loan_release(struct outlive_device_loan_t *loan);

/**
 * Publishes a loan when the stream has completed all work enqueued so far; returns at once.
 * Messages that are due on one stream are published in order. It waits, until the deadline, only
 * for reliable subscribers that have not taken messages which those that are due would overwrite.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: as `outlive_pinned_publisher_publish_on`.
 *
 * If the process dies before the stream has got there, the message is never seen.
 */
int outlive_device_publisher_publish_on(const struct outlive_device_publisher_t *publisher,
                                        struct outlive_device_loan_t *loan,
                                        const struct outlive_gpu_stream_t *stream,
                                        outlive_deadline_t deadline);

/**
 * Waits until the deadline for all messages that are due to be published.
 *
 * Errors: as `outlive_pinned_publisher_wait_published`.
 */
int outlive_device_publisher_wait_published(const struct outlive_device_publisher_t *publisher,
                                            outlive_deadline_t deadline);

/**
 * Closes a subscriber. Samples that it took stay valid. Passing NULL has no effect.
 */
void outlive_device_subscriber_close(struct outlive_device_subscriber_t *subscriber);

/**
 * Receives the next message, waiting until the deadline. The first message in a piece of another
 * process's memory maps that piece here.
 *
 * Owner: `*sample` is the caller's, until `outlive_device_sample_release`.
 *
 * Errors: as `outlive_subscriber_recv`. EPIPE: the process that had the message's memory has died,
 * and the memory was not mapped here; ESTALE: that process has closed its topic; EXDEV: the memory
 * is another GPU's: in these cases the message is skipped. ETIMEDOUT also for a message whose
 * publisher has not answered yet, OUTLIVE_DRIVER for one that could not be mapped: it stays the
 * next message.
 *
 * If a publisher's process dies, messages in memory that is mapped here are received as before;
 * the others give EPIPE, at once.
 */
int outlive_device_subscriber_recv(struct outlive_device_subscriber_t *subscriber,
                                   struct outlive_device_sample_t **sample,
                                   outlive_deadline_t deadline);

/**
 * Returns how many messages were overwritten before this subscriber took them, so far. 0 for NULL.
 */
uint64_t outlive_device_subscriber_lost(const struct outlive_device_subscriber_t *subscriber);

/**
 * Returns where the message lies on this process's GPU, a `CUdeviceptr`, for reading. 0 for NULL.
 */
uint64_t outlive_device_sample_address(const struct outlive_device_sample_t *sample);

/**
 * Returns how many bytes the message has. 0 for NULL.
 */
size_t outlive_device_sample_size(const struct outlive_device_sample_t *sample);

/**
 * Writes the header that its publisher sent along to `*header`; all zero if there was none.
 *
 * Errors: EINVAL.
 */
int outlive_device_sample_header(const struct outlive_device_sample_t *sample, outlive_header_t *header);

/**
 * Holds the sample until the stream has completed all work enqueued so far, too: call it after
 * enqueuing the work that reads it.
 *
 * Errors: EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER: the sample is held as long
 * as this process lives. EINVAL.
 *
 * If the process dies, what it held is released once it has ended.
 */
int outlive_device_sample_hold_on(const struct outlive_device_sample_t *sample,
                                  const struct outlive_gpu_stream_t *stream);

/**
 * Releases a sample: its memory can be reused once the streams of `outlive_device_sample_hold_on`
 * have completed their work. Passing NULL has no effect.
 */
void outlive_device_sample_release(struct outlive_device_sample_t *sample);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTLIVE_GPU_H */
