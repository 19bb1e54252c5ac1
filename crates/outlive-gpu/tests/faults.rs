//! What the driver refuses, and a context that breaks: told, nothing half done, and no memory used
//! that a device might still write.

mod fake;

use std::ffi::CStr;
use std::ptr;

use fake::{Fake, SOON, What, on_device, pattern};
use outlive_gpu::{DeviceMemory, Gpu, GpuError, PinnedPublisher, PinnedTopic, Stream};

const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;
const LEN: usize = 200_000;

struct Scene {
    fake: Fake,
    gpu: Gpu,
    stream: Stream,
    topic: PinnedTopic,
    from: DeviceMemory,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let fake = Fake::new(name);
        let gpu = fake.gpu();
        let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
        let from = on_device(&gpu, &stream, &pattern(0, LEN));
        Scene { fake, gpu, stream, topic, from }
    }

    /// Publishes the pattern. Where it lies, and what came of it.
    fn publish(&self, publisher: &PinnedPublisher) -> (*const u8, Result<(), GpuError>) {
        let mut loan = publisher.loan(LEN).expect("room");
        let at = loan.as_ptr();
        // SAFETY: as long as the loan, and stays.
        let copied = unsafe { loan.copy_from_device(self.from.address(), &self.stream) };
        (at, copied.and_then(|()| publisher.publish_on(loan, &self.stream)))
    }
}

fn code_of(result: &Result<(), GpuError>) -> Option<i32> {
    match result {
        Err(GpuError::Driver { code, .. }) => Some(*code),
        _ => None,
    }
}

#[test]
fn what_is_refused_before_a_copy_leaves_all_as_it_was() {
    let scene = Scene::new("before");
    let publisher = scene.topic.publisher().expect("one");
    let mut subscriber = scene.topic.subscriber().expect("one");
    let functions: [&CStr; 4] =
        [c"cuCtxPushCurrent", c"cuStreamIsCapturing", c"cuMemHostRegister", c"cuMemcpyDtoHAsync"];
    let mut places = Vec::new();
    for function in functions {
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        let (at, result) = scene.publish(&publisher);
        assert_eq!(code_of(&result), Some(OUT_OF_MEMORY), "{function:?}: {result:?}");
        assert!(
            result
                .is_err_and(|error| error.to_string().contains(function.to_str().expect("ASCII")))
        );
        assert_eq!((publisher.due(), scene.topic.outstanding()), (0, 0), "{function:?}");
        places.push(at);
    }
    assert!(places.iter().all(|&at| ptr::eq(at, places[0])), "each one took the same memory");
    scene.publish(&publisher).1.expect("due");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    assert!(**sample == *pattern(0, LEN));
    // The message is seen a moment before the host function that published it is over.
    scene.topic.wait_over_timeout(SOON).expect("over");
    let to = DeviceMemory::new(&scene.gpu, LEN).expect("memory");
    for function in [c"cuMemHostRegister", c"cuMemcpyHtoDAsync"] {
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        // SAFETY: as long as the sample.
        let result = unsafe { sample.copy_to_device(to.address(), &scene.stream) };
        assert_eq!(code_of(&result), Some(OUT_OF_MEMORY), "{function:?}");
        assert_eq!(scene.topic.outstanding(), 0);
    }
}

#[test]
fn what_is_refused_after_a_copy_keeps_the_memory_out_of_use() {
    let scene = Scene::new("after");
    let publisher = scene.topic.publisher().expect("one");
    let mut subscriber = scene.topic.subscriber().expect("one");
    let mut kept = Vec::new();
    for function in [c"cuEventRecord", c"cuStreamWaitEvent", c"cuLaunchHostFunc"] {
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        let (at, result) = scene.publish(&publisher);
        assert_eq!(code_of(&result), Some(OUT_OF_MEMORY), "{function:?}");
        assert_eq!(publisher.due(), 0, "{function:?}");
        kept.push(at);
        // A loan that is dropped after the copy, too.
        let mut loan = publisher.loan(LEN).expect("room");
        kept.push(loan.as_ptr());
        // SAFETY: as long as the loan, and stays.
        unsafe { loan.copy_from_device(scene.from.address(), &scene.stream) }.expect("enqueued");
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        drop(loan);
    }
    for _ in 0..100 {
        let (at, result) = scene.publish(&publisher);
        result.expect("due");
        assert!(!kept.contains(&at), "a device may be writing there");
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        assert!(**sample == *pattern(0, LEN));
    }
    // What the kept memory keeps: the publisher's ring, so that no other publisher uses it either,
    // and the registrations.
    assert_eq!(scene.topic.topic().publishers().len(), 1);
    drop(publisher);
    assert_eq!(scene.topic.topic().publishers().len(), 1);
}

#[test]
fn a_copy_that_fails_in_the_middle_is_held_until_it_is_over() {
    let scene = Scene::new("middle");
    let publisher = scene.topic.publisher().expect("one");
    // Objects of 7,168 bytes lie across pages, and the span comes to have pages by and by: some lie
    // in two pieces.
    let mut lost = 0;
    let mut loans = Vec::new();
    for _ in 0..40 {
        let mut loan = publisher.loan(7000).expect("room");
        let at = loan.as_ptr();
        scene.fake.fail(c"cuMemcpyDtoHAsync", 1, OUT_OF_MEMORY);
        // SAFETY: as long as the loan, and stays.
        let result = unsafe { loan.copy_from_device(scene.from.address(), &scene.stream) };
        if result.is_err() {
            lost += 1;
            let shut = scene.fake.shut();
            drop(loan);
            assert_eq!(scene.topic.outstanding(), 1);
            let other = publisher.loan(7000).expect("room");
            assert!(!ptr::eq(other.as_ptr(), at));
            loans.push(other);
            drop(shut);
            scene.topic.wait_over_timeout(SOON).expect("over");
        } else {
            // The fault is waiting still.
            // SAFETY: the same.
            let again =
                unsafe { loan.copy_part_from_device(0..1, scene.from.address(), &scene.stream) };
            assert_eq!(code_of(&again), Some(OUT_OF_MEMORY));
            loans.push(loan);
        }
    }
    assert!(lost > 0, "no copy was cut");
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn a_context_that_breaks_is_told_and_nothing_of_what_was_due_is_seen() {
    let scene = Scene::new("broken");
    let publisher = scene.topic.publisher().expect("one");
    let mut subscriber = scene.topic.subscriber().expect("one");
    scene.publish(&publisher).1.expect("due");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    scene.topic.wait_over_timeout(SOON).expect("published, and its host function over");
    let shut = scene.fake.shut();
    let to = DeviceMemory::new(&scene.gpu, LEN).expect("memory");
    // SAFETY: as long as the sample.
    unsafe { sample.copy_to_device(to.address(), &scene.stream) }.expect("enqueued");
    drop(sample);
    scene.publish(&publisher).1.expect("due");
    assert_eq!((publisher.due(), scene.topic.outstanding()), (1, 2));
    scene.fake.break_context(ILLEGAL_ADDRESS);
    drop(shut);
    assert_eq!(code_of(&publisher.wait_published_timeout(SOON)), Some(ILLEGAL_ADDRESS));
    assert_eq!(code_of(&scene.topic.wait_over_timeout(SOON)), Some(ILLEGAL_ADDRESS));
    assert_eq!(code_of(&scene.publish(&publisher).1), Some(ILLEGAL_ADDRESS));
    assert_eq!(code_of(&scene.gpu.check()), Some(ILLEGAL_ADDRESS));
    assert!(subscriber.try_recv().expect("nothing is wrong with the topic").is_none());
    // Others, and this process without the device, go on.
    let another = scene.topic.topic().publisher().expect("one");
    another.publish(b"still here").expect("published");
    assert!(**subscriber.recv_timeout(SOON).expect("no error").expect("comes") == *b"still here");
}

#[test]
fn streams_that_are_captured_are_refused() {
    let scene = Scene::new("capture");
    let publisher = scene.topic.publisher().expect("one");
    scene.fake.set_attribute(-1, 1);
    assert_eq!(scene.publish(&publisher).1, Err(GpuError::Capturing));
    scene.fake.set_attribute(-1, 0);
    scene.publish(&publisher).1.expect("due");
    publisher.wait_published_timeout(SOON).expect("published");
}
