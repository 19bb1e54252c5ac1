//! When messages are seen and memory is used again, to the step: by a driver that stops and fails
//! when it is told to.

mod fake;

use std::ptr;
use std::time::Duration;

use fake::{Fake, SOON, What, bytes_of, on_device, pattern, wait_for};
use outlive::topic::{Subscriber, Topic};
use outlive_gpu::{DeviceMemory, Driver, GpuError, PinnedTopic, Stream};

#[test]
fn without_a_driver_it_is_said_so() {
    let error = Driver::load(std::path::Path::new("/nonexistent/libcuda.so.1"))
        .err()
        .expect("there is none");
    assert!(matches!(&error, GpuError::NoGpu { why } if why.contains("nonexistent")), "{error}");
    // Another library is no driver.
    let error = Driver::load(std::path::Path::new("libc.so.6")).err().expect("none");
    assert_eq!(error, GpuError::NoGpu { why: "the driver has no cuInit".to_owned() });
    let fake = Fake::new("none");
    let driver = Driver::load(&fake::library()).expect("a driver");
    assert!(matches!(driver.gpu(1).err(), Some(GpuError::NoGpu { .. })));
    fake.fail(c"cuInit", 0, 100);
    assert_eq!(
        Driver::load(&fake::library()).err(),
        Some(GpuError::NoGpu { why: "the driver finds none".to_owned() })
    );
}

#[test]
fn a_message_is_seen_when_its_stream_has_got_there() {
    let fake = Fake::new("seen");
    let gpu = fake.gpu();
    let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    let from = on_device(&gpu, &stream, &pattern(1, 100_000));
    let shut = fake.shut();
    let mut loan = publisher.loan(100_000).expect("room");
    // SAFETY: as long as the loan, and stays.
    unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
    publisher.publish_on(loan, &stream).expect("due");
    assert_eq!((publisher.due(), topic.outstanding()), (1, 1), "nobody has waited");
    assert!(subscriber.try_recv().expect("nothing is wrong").is_none());
    assert_eq!(publisher.wait_published_timeout(Duration::from_millis(5)), Err(GpuError::TimedOut));
    drop(shut);
    assert!(
        **subscriber.recv_timeout(SOON).expect("no error").expect("comes") == *pattern(1, 100_000)
    );
    publisher.wait_published_timeout(SOON).expect("published");
    assert_eq!(fake.count(What::Violations), 0);
}

#[test]
fn a_sample_that_was_dropped_is_held_until_its_copy_is_over() {
    let fake = Fake::new("held");
    let gpu = fake.gpu();
    let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
    let (publisher, mut subscriber) =
        (topic.topic().publisher().expect("one"), topic.subscriber().expect("one"));
    let to = DeviceMemory::new(&gpu, 200_000).expect("memory");
    publisher.publish(&pattern(7, 200_000)).expect("published");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    let at = sample.as_ptr();
    let shut = fake.shut();
    // SAFETY: as long as the sample, and read below.
    unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
    drop(sample);
    // All else is used again and again.
    for number in 100..300 {
        publisher.publish(&pattern(number, 200_000)).expect("published");
        if let Some(sample) = subscriber.try_recv().expect("nothing is wrong") {
            assert!(
                !ptr::eq(sample.as_ptr(), at),
                "message {number} lies where the copy is to read"
            );
        }
    }
    drop(shut);
    assert!(bytes_of(&to, &stream) == pattern(7, 200_000));
    topic.wait_over_timeout(SOON).expect("over");
    // And let go of.
    let lies_there = |number| {
        publisher.publish(&pattern(number, 200_000)).expect("published");
        ptr::eq(subscriber.recv_timeout(SOON).expect("no error").expect("comes").as_ptr(), at)
    };
    assert!((300..600).any(lies_there), "its memory is used again");
}

#[test]
fn a_loan_that_was_dropped_is_kept_until_its_copy_is_over() {
    let fake = Fake::new("dropped");
    let gpu = fake.gpu();
    let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
    let publisher = topic.publisher().expect("one");
    let from = on_device(&gpu, &stream, &pattern(1, 200_000));
    let place = |loan: &outlive_gpu::PinnedLoan| {
        topic.topic().memory_of(loan.as_ptr()).expect("in the file")
    };
    let mut loan = publisher.loan(200_000).expect("room");
    let at = loan.as_ptr();
    let shut = fake.shut();
    // SAFETY: as long as the loan, and stays.
    unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
    assert!(place(&loan).is_writable);
    drop(loan);
    let others: Vec<_> = (0..40).map(|_| publisher.loan(200_000).expect("room")).collect();
    assert!(others.iter().all(|other| !ptr::eq(other.as_ptr(), at)));
    drop(shut);
    topic.wait_over_timeout(SOON).expect("over");
    assert!(
        ptr::eq(publisher.loan(200_000).expect("room").as_ptr(), at),
        "it is the publisher's again"
    );
}

#[test]
fn a_publisher_that_was_dropped_stays_until_all_is_published() {
    let fake = Fake::new("gone");
    {
        let gpu = fake.gpu();
        let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
        let mut subscriber = topic.topic().subscriber().expect("one");
        let from = on_device(&gpu, &stream, &pattern(1, 300_000));
        let publisher = topic.publisher().expect("one");
        let shut = fake.shut();
        for _ in 0..3 {
            let mut loan = publisher.loan(300_000).expect("room");
            // SAFETY: as long as the loan, and stays.
            unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
            publisher.publish_on(loan, &stream).expect("due");
        }
        drop((publisher, topic));
        assert_eq!(subscriber.publisher_count(), 1);
        drop(shut);
        for _ in 0..3 {
            assert!(
                *subscriber.recv_timeout(SOON).expect("no error").expect("comes")
                    == *pattern(1, 300_000)
            );
        }
        wait_for("the publisher's leaving", || subscriber.publisher_count() == 0);
        // The last one to go was a host function, which may not unregister.
        wait_for("the last host function", || fake.count(What::HostFunctions) >= 3);
        drop(PinnedTopic::<u8>::open_or_create(&gpu, &fake.domain, "another").expect("a topic"));
    }
    wait_for("all to be given back", || fake.count(What::Registered) == 0);
    fake.expect_clean();
}

#[test]
fn where_the_device_registers_no_read_only_memory_the_driver_has_buffers() {
    for (page_tables, pinned) in [(0, false), (1, true)] {
        let fake = Fake::new("buffers");
        fake.set_attribute(113, 0);
        fake.set_attribute(100, page_tables);
        let gpu = fake.gpu();
        assert_eq!((gpu.reads_pinned(), gpu.writes_pinned()), (pinned, true));
        let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
        let mut subscriber = topic.subscriber().expect("one");
        topic.topic().publisher().expect("one").publish(&pattern(1, 100_000)).expect("published");
        let to = DeviceMemory::new(&gpu, 100_000).expect("memory");
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        // SAFETY: as long as the sample, and read below.
        unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
        assert!(bytes_of(&to, &stream) == pattern(1, 100_000));
        assert_eq!(topic.registered_bytes() > 0, pinned);
    }
}

#[test]
fn what_is_due_counts_where_reliable_subscribers_are_waited_for() {
    let fake = Fake::new("due");
    let gpu = fake.gpu();
    let stream = Stream::new(&gpu).expect("a stream");
    let core = Topic::<[u8]>::options()
        .depth(2)
        .reliable(true)
        .open_or_create(&fake.domain, "steps")
        .expect("a topic");
    let topic = PinnedTopic::new(&gpu, core);
    let publisher = topic.publisher().expect("one");
    let reliable = Subscriber::options().reliable(true);
    let mut subscriber = topic.subscriber_with(reliable).expect("one");
    let from = on_device(&gpu, &stream, &pattern(0, 5000));
    let publish = |until| {
        let mut loan = publisher.loan(5000).expect("room");
        // SAFETY: as long as the loan, and stays.
        unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
        publisher.publish_on_timeout(loan, &stream, until)
    };
    let shut = fake.shut();
    publish(SOON).expect("due");
    publish(SOON).expect("due");
    // Nothing is published yet, and there would be no way for it when its turn came.
    assert_eq!(publish(Duration::from_millis(10)), Err(GpuError::TimedOut));
    drop(shut);
    drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    publish(SOON).expect("due");
    for _ in 0..2 {
        drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    }
    assert_eq!((subscriber.lost(), publisher.wait_published_timeout(SOON)), (0, Ok(())));
}
