//! What tests of device topics begin with.

use outlive_gpu::{
    DevicePublisher, DeviceSample, DeviceSubscriber, DeviceTopic, Gpu, GpuError, Stream,
};

use super::{Fake, bytes_at, on_device, pattern};

/// As drivers have it, this one among them.
pub const BLOCK: u64 = 2 << 20;
pub const OUT_OF_MEMORY: i32 = 2;

/// A device topic, "images", and what is needed to use it.
pub struct Scene {
    pub gpu: Gpu,
    pub stream: Stream,
    pub topic: DeviceTopic,
    pub fake: Fake,
}

impl Scene {
    pub fn new(name: &str) -> Scene {
        Scene::with(Fake::new(name))
    }

    pub fn with(fake: Fake) -> Scene {
        let gpu = fake.gpu();
        Scene {
            stream: Stream::new(&gpu).expect("a stream"),
            topic: fake.device_topic(&gpu),
            gpu,
            fake,
        }
    }

    pub fn ends(&self) -> (DevicePublisher, DeviceSubscriber) {
        (self.topic.publisher().expect("one"), self.topic.subscriber().expect("one"))
    }

    /// Publishes a pattern. Where it lies, and what came of it.
    pub fn publish(
        &self,
        publisher: &DevicePublisher,
        number: u64,
        len: usize,
    ) -> (u64, Result<(), GpuError>) {
        let from = on_device(&self.gpu, &self.stream, &pattern(number, len));
        let mut loan = publisher.loan(len).expect("room");
        let at = loan.address();
        // SAFETY: as long as the loan; freeing it waits for the copy.
        let copied = unsafe { loan.copy_from_device(from.address(), &self.stream) };
        (at, copied.and_then(|()| publisher.publish_on(loan, &self.stream)))
    }

    pub fn bytes(&self, sample: &DeviceSample) -> Vec<u8> {
        // SAFETY: as long, and read at once.
        let copy = |to| unsafe { sample.copy_to_device(to, &self.stream) }.expect("enqueued");
        bytes_at(&self.gpu, sample.address(), sample.len(), &self.stream, copy)
    }
}

pub fn code_of<T>(result: &Result<T, GpuError>) -> Option<i32> {
    match result {
        Err(GpuError::Driver { code, .. }) => Some(*code),
        _ => None,
    }
}
