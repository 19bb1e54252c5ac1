//! Topics whose payloads stay in GPU memory: doc/protocols/gpu.md, "Device topics".

mod asker;
mod blocks;
mod card;
mod exporter;
mod mapping;
mod publisher;
mod subscriber;
mod topic;

pub use card::Card;
pub use publisher::{DeviceLoan, DevicePublisher};
pub use subscriber::{DeviceSample, DeviceSubscriber};
pub use topic::DeviceTopic;
