//! Topics whose payloads stay in GPU memory: doc/protocols/gpu.md, "Device topics".

mod card;
mod publisher;
mod subscriber;
mod topic;

pub use card::Card;
pub use publisher::{DeviceLoan, DevicePublisher};
pub use subscriber::{DeviceSample, DeviceSubscriber};
pub use topic::DeviceTopic;
