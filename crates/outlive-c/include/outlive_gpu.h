/* Outlive for GPUs: topics whose payloads a GPU reads and writes where they lie. In the same library as outlive.h, whose rules hold here.
 *
 * Written by cbindgen from the sources, which have the same comments: edit those. doc/protocols/gpu.md has the argument.
 *
 * - Nothing is linked with CUDA, and no header of CUDA's is needed: the driver is loaded by outlive_gpu_open, which gives ENODEV where there is
 *   none. A CUcontext and a CUstream are `void *` here, a CUdeviceptr is `uint64_t`. What the driver refuses is OUTLIVE_DRIVER.
 * - An ordinary topic, opened by outlive_topic_open, is made one for a GPU by outlive_pinned_topic_open. Its subscribers are the ordinary
 *   ones: a sample that they have taken is made one for the GPU by outlive_pinned_topic_sample.
 * - A message becomes visible when the stream that writes it has got there; a sample stays held until the copies that read it are over. Nobody
 *   waits for either. Whoever dies before, nobody sees half a message.
 */

#ifndef OUTLIVE_GPU_H
#define OUTLIVE_GPU_H

#include "outlive.h"

/**
 * A stream of a GPU's work, and what Outlive needs beside it. May be used by all threads at once.
 */
typedef struct outlive_gpu_stream_t outlive_gpu_stream_t;

/**
 * A GPU, by one context of the CUDA driver, which is loaded when it is asked for: nothing is linked with it. May be used by all threads
 * at once. A forked child needs a GPU of its own, and CUDA gives it none if its parent had one before: start such programs by `exec`.
 */
typedef struct outlive_gpu_t outlive_gpu_t;

/**
 * Memory for one message, to be written by a GPU. Used by one thread at a time.
 */
typedef struct outlive_pinned_loan_t outlive_pinned_loan_t;

/**
 * A publisher whose loans a GPU writes. May be used by all threads at once.
 */
typedef struct outlive_pinned_publisher_t outlive_pinned_publisher_t;

/**
 * A sample that a GPU reads. May be used by all threads at once.
 */
typedef struct outlive_pinned_sample_t outlive_pinned_sample_t;

/**
 * A topic whose payload memory one GPU reads and writes where it lies. May be used by all threads at once.
 */
typedef struct outlive_pinned_topic_t outlive_pinned_topic_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The GPU of that number, by its primary context: the one that the CUDA runtime (`cudaSetDevice`), PyTorch and CuPy use. `library`:
 * the driver's shared library; NULL: the machine's own, libcuda.so.1.
 *
 * Owner: `*gpu` is the caller's, until `outlive_gpu_close`. What is made with it may be used longer.
 *
 * Errors: ENODEV: there is no driver here, none that can be used, or no such GPU; all else works without. OUTLIVE_DRIVER, EINVAL.
 *
 * If a process dies: the kernel takes back what its driver had.
 */
int outlive_gpu_open(const char *library,
                     uint32_t number,
                     struct outlive_gpu_t **gpu);

/**
 * The GPU of a context of the caller's, a `CUcontext`, which stays as long as there is anything that was made with it. `library`: as
 * above.
 *
 * Owner: as `outlive_gpu_open`.
 *
 * Errors: as `outlive_gpu_open`.
 */
int outlive_gpu_open_context(const char *library,
                             void *context,
                             struct outlive_gpu_t **gpu);

/**
 * Lets go of a GPU. NULL is nothing.
 */
void outlive_gpu_close(struct outlive_gpu_t *gpu);

/**
 * The device's name. Empty for NULL.
 *
 * Owner: the GPU.
 */
const char *outlive_gpu_name(const struct outlive_gpu_t *gpu);

/**
 * Its context, a `CUcontext`, for other libraries. NULL for NULL.
 */
void *outlive_gpu_context(const struct outlive_gpu_t *gpu);

/**
 * Whether this process's copies from (`reads`) and to (`writes`) a topic's memory are direct: 1; or go by the driver's own buffers:
 * 0. Each place may be NULL.
 *
 * Errors: EINVAL.
 */
int outlive_gpu_pins(const struct outlive_gpu_t *gpu,
                     uint32_t *reads,
                     uint32_t *writes);

/**
 * Whether the context is without error: 0. After one, nothing that was enqueued in it is done any more.
 *
 * Errors: OUTLIVE_DRIVER, with that error in the message. EINVAL.
 */
int outlive_gpu_check(const struct outlive_gpu_t *gpu);

/**
 * A stream of the caller's, a `CUstream` or `cudaStream_t` of that GPU's context: NULL and 1 the legacy default stream, 2 the thread's own.
 * It stays until this is closed and all that was enqueued by it is over. Outlive puts a stream of its own beside it, on which messages
 * are published and samples let go of: so make one and keep it.
 *
 * Owner: `*made` is the caller's, until `outlive_gpu_stream_close`.
 *
 * Errors: OUTLIVE_DRIVER, EINVAL.
 */
int outlive_gpu_stream_open(const struct outlive_gpu_t *gpu,
                            void *stream,
                            struct outlive_gpu_stream_t **made);

/**
 * A new stream, which does not wait for the default one.
 *
 * Owner, errors: as `outlive_gpu_stream_open`.
 */
int outlive_gpu_stream_new(const struct outlive_gpu_t *gpu, struct outlive_gpu_stream_t **made);

/**
 * Lets go of a stream; one of the caller's stays. What was enqueued is done all the same. NULL is nothing.
 */
void outlive_gpu_stream_close(struct outlive_gpu_stream_t *stream);

/**
 * The stream itself, a `CUstream`. NULL for NULL.
 */
void *outlive_gpu_stream_raw(const struct outlive_gpu_stream_t *stream);

/**
 * Waits until all that was enqueued on the stream is done. What is published and let go by then may be so a moment later.
 *
 * Errors: OUTLIVE_DRIVER, also for what went wrong in work that was enqueued before. EINVAL.
 */
int outlive_gpu_stream_synchronize(const struct outlive_gpu_stream_t *stream);

/**
 * Makes a topic one for that GPU: memory of it is registered with the driver when a copy first goes there, and stays so until this, its
 * publishers and samples are closed and all copies over. Once for each topic that is open, which may be closed before it. Others may publish and
 * subscribe without a GPU.
 *
 * Owner: `*pinned` is the caller's, until `outlive_pinned_topic_close`.
 *
 * Errors: EINVAL.
 *
 * If a process dies: what its device was about to write is never published; its memory is the next publisher's once the kernel has closed the
 * driver's files.
 */
int outlive_pinned_topic_open(const struct outlive_gpu_t *gpu,
                              const outlive_topic_t *topic,
                              struct outlive_pinned_topic_t **pinned);

/**
 * Lets go of a topic; does not wait for copies. What is registered goes with the last of its ends and copies. NULL is nothing.
 */
void outlive_pinned_topic_close(struct outlive_pinned_topic_t *topic);

/**
 * Waits, until the deadline, until all of this process's copies are over, their samples let go of, and what was due published. A program that
 * ends before leaves what was due unpublished.
 *
 * Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some are never over. EINVAL.
 */
int outlive_pinned_topic_wait_over(const struct outlive_pinned_topic_t *topic,
                                   outlive_deadline_t deadline);

/**
 * A new publisher: one of the topic's 62.
 *
 * Owner: `*publisher` is the caller's, until `outlive_pinned_publisher_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_pinned_topic_publisher(const struct outlive_pinned_topic_t *topic,
                                   struct outlive_pinned_publisher_t **publisher);

/**
 * Drops a publisher. What is due is published all the same, its loans may be used still, and its place in the topic is given up with the last of them. NULL is nothing.
 */
void outlive_pinned_publisher_close(struct outlive_pinned_publisher_t *publisher);

/**
 * Lends memory for a message of `size` bytes, from 0 to 1 GiB. Its bytes are not defined.
 *
 * Owner: `*loan` is the caller's, until `outlive_pinned_publisher_publish_on` or `outlive_pinned_loan_drop`.
 *
 * Errors: as `outlive_publisher_loan`.
 *
 * If a process dies: its loans are free again, once no device can be writing there.
 */
int outlive_pinned_publisher_loan(const struct outlive_pinned_publisher_t *publisher,
                                  size_t size,
                                  struct outlive_pinned_loan_t **loan);

/**
 * What is to go with a loan.
 *
 * Errors: EINVAL.
 */
int outlive_pinned_loan_set_header(struct outlive_pinned_loan_t *loan, const outlive_header_t *header);

/**
 * Copies `size` bytes from the device, `from` being a `CUdeviceptr`, into the loan at `offset`, behind what is on the stream: one asynchronous copy.
 * What is at `from` stays as it is until that is over.
 *
 * Errors: EINVAL: also a part that is not inside the loan. EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER.
 *
 * If a process dies: the memory is used again once no device can be writing there.
 */
int outlive_pinned_loan_copy_from_device(struct outlive_pinned_loan_t *loan,
                                         size_t offset,
                                         size_t size,
                                         uint64_t from,
                                         const struct outlive_gpu_stream_t *stream);

/**
 * Gives a loan back unpublished; it is used again once all copies into it are over. NULL is nothing.
 */
void outlive_pinned_loan_drop(struct outlive_pinned_loan_t *loan);

/**
 * Publishes a loan when the stream has got to where it is now; returns at once. Copies into it on other streams are waited for, too.
 * Messages that are due on one stream are published in order. It waits, until the deadline, only for reliable subscribers that
 * have not taken what lies in the way of all that are due.
 *
 * Owner: the loan is used up, whatever comes of it.
 *
 * Errors: EBUSY: the stream is captured into a graph. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber lives and has not taken it. OUTLIVE_DRIVER;
 * those of `outlive_publisher_publish` with what became of a message that was due before. Nothing will be published then.
 *
 * If a process dies: before the stream has got there, the message is never seen.
 */
int outlive_pinned_publisher_publish_on(const struct outlive_pinned_publisher_t *publisher,
                                        struct outlive_pinned_loan_t *loan,
                                        const struct outlive_gpu_stream_t *stream,
                                        outlive_deadline_t deadline);

/**
 * Waits, until the deadline, until all messages that are due have been published.
 *
 * Errors: ETIMEDOUT, OUTLIVE_DRIVER, EINVAL; those of `outlive_publisher_publish` with what became of one that was due.
 */
int outlive_pinned_publisher_wait_published(const struct outlive_pinned_publisher_t *publisher,
                                            outlive_deadline_t deadline);

/**
 * How many messages are due. 0 for NULL.
 */
uint64_t outlive_pinned_publisher_due(const struct outlive_pinned_publisher_t *publisher);

/**
 * Makes a sample one that the GPU reads. It was taken by a subscriber of the topic that `topic` was made from; one of the same topic opened once
 * more lies elsewhere, and its copies go by the driver's own buffers.
 *
 * Owner: `sample` is used up, whatever comes of it. `*pinned` is the caller's, until `outlive_pinned_sample_release`.
 *
 * Errors: EINVAL.
 */
int outlive_pinned_topic_sample(const struct outlive_pinned_topic_t *topic,
                                outlive_sample_t *sample,
                                struct outlive_pinned_sample_t **pinned);

/**
 * The sample as any: for `outlive_sample_data`, `outlive_sample_size`, `outlive_sample_header` and the like, not to be released. NULL for NULL.
 *
 * Owner: the pinned sample.
 */
const outlive_sample_t *outlive_pinned_sample_get(const struct outlive_pinned_sample_t *sample);

/**
 * Copies `size` bytes of the message from `offset` on to the device, `to` being a `CUdeviceptr`, behind what is on the stream: one asynchronous copy. The message is
 * held until that is over, also if it is released before.
 *
 * Errors: EINVAL: also a part that is not inside the message. EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER.
 *
 * If a process dies: what it held is let go of once it has ended.
 */
int outlive_pinned_sample_copy_to_device(const struct outlive_pinned_sample_t *sample,
                                         size_t offset,
                                         size_t size,
                                         uint64_t to,
                                         const struct outlive_gpu_stream_t *stream);

/**
 * Lets go of a sample: its memory can be used again once all copies of it are over. NULL is nothing.
 */
void outlive_pinned_sample_release(struct outlive_pinned_sample_t *sample);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTLIVE_GPU_H */
