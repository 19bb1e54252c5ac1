//! Topics whose payloads GPUs read and write in place, in memory that several processes share.
//!
//! ```text
//! process A                          process B
//! GPU ── one copy ──► shared memory ── one copy ──► GPU
//! ```
//! The payload memory of a topic is registered with the CUDA driver, in each process as the topic
//! grows, so that each leg is a single asynchronous copy at the bus's full speed. A message becomes
//! visible when the stream that writes it has got there, and no thread waits for that; a sample
//! stays held until the copies that read it have completed, even if it is dropped before.
//!
//! ```no_run
//! use outlive::Domain;
//! use outlive_gpu::{Driver, PinnedTopic, Stream};
//!
//! let gpu = Driver::open()?.gpu(0)?;              // GpuError::NoGpu where there is none
//! let stream = Stream::new(&gpu)?;                // or the stream of another library: Stream::from_raw
//! let domain = Domain::open_default()?;
//! let topic = PinnedTopic::<f32>::open_or_create(&gpu, &domain, "frames")?;
//!
//! // One process. `image` is device memory of 640 × 480 floats, written by kernels on `stream`.
//! # let image = 0;
//! let publisher = topic.publisher()?;
//! let mut loan = publisher.loan(640 * 480)?;
//! // SAFETY: `image` has as many floats, and stays until the stream has got there.
//! unsafe { loan.copy_from_device(image, &stream)? };
//! publisher.publish_on(loan, &stream)?;           // returns at once
//!
//! // The other.
//! let mut subscriber = topic.subscriber()?;
//! let sample = subscriber.recv()?;
//! // SAFETY: `image` has as many floats, and no other work writes there until the copy is over.
//! unsafe { sample.copy_to_device(image, &stream)? };
//! drop(sample);                                   // held until the copy is over
//! # Ok::<(), outlive_gpu::GpuError>(())
//! ```
//!
//! Where publisher and subscriber use the same GPU, a [`DeviceTopic`] leaves the payload in its
//! memory, and sends only its address:
//!
//! ```no_run
//! # use outlive::Domain;
//! # use outlive_gpu::{DeviceTopic, Driver, Stream};
//! # let gpu = Driver::open()?.gpu(0)?;
//! # let stream = Stream::new(&gpu)?;
//! # let domain = Domain::open_default()?;
//! let topic = DeviceTopic::<f32>::open_or_create(&gpu, &domain, "frames-on-gpu")?;
//!
//! // One process.
//! let publisher = topic.publisher()?;
//! let loan = publisher.loan(640 * 480)?;          // GPU memory that other processes can map
//! // … kernels on `stream` write to loan.address() …
//! publisher.publish_on(loan, &stream)?;           // seen when the stream has got there
//!
//! // The other.
//! let mut subscriber = topic.subscriber()?;
//! let sample = subscriber.recv()?;
//! // … kernels on `stream` read from sample.address() …
//! sample.release_on(&stream)?;                    // held until they have
//! # Ok::<(), outlive_gpu::GpuError>(())
//! ```
//!
//! The driver, libcuda.so.1, is loaded on demand; neither building nor testing needs it.
//! doc/protocols/gpu.md has the argument, and what holds when a process dies. The tests use a fake
//! driver that keeps "device" memory in ordinary memory and is as strict as the documentation;
//! those that need no fake have also run on an H100 and an H200.

mod api;
mod device;
mod driver;
mod error;
mod forms;
mod gpu;
mod host_function;
mod kernel;
mod lender;
mod memory;
mod pins;
mod publisher;
mod stream;
mod subscriber;
mod topic;
mod under_way;

pub use device::{Card, DeviceLoan, DevicePublisher, DeviceSample, DeviceSubscriber, DeviceTopic};
pub use driver::Driver;
pub use error::GpuError;
pub use gpu::Gpu;
pub use kernel::{Argument, Kernel, Module};
pub use memory::{DeviceMemory, HostMemory};
pub use publisher::{PinnedLoan, PinnedPublisher};
pub use stream::Stream;
pub use subscriber::{PinnedSample, PinnedSubscriber};
pub use topic::PinnedTopic;

/// An address in a GPU's memory: the driver's `CUdeviceptr`.
pub type DevicePointer = u64;
