//! Messages from device memory to device memory by way of a topic: bytes, order, growth. On any
//! driver: the fake one, or the one that `OUTLIVE_GPU_DRIVER` names.

mod fake;

use std::time::Duration;

use fake::{Fake, SOON, What, bytes_of, on_device, pattern};
use outlive::topic::{Subscriber, Topic};
use outlive_gpu::{DeviceMemory, GpuError, PinnedTopic, Stream};

#[test]
fn bytes_go_from_device_to_device() {
    let fake = Fake::new("bytes");
    {
        let gpu = fake.gpu();
        let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
        let (publisher, mut subscriber) =
            (topic.publisher().expect("one"), topic.subscriber().expect("one"));
        for (number, len) in
            [1, 64, 4000, 64 << 10, 1 << 20, (3 << 20) + 5, 9 << 20].into_iter().enumerate()
        {
            let bytes = pattern(number as u64, len);
            let from = on_device(&gpu, &stream, &bytes);
            let mut loan = publisher.loan(len).expect("room");
            // SAFETY: as long as the loan, and stays until it is published.
            unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
            publisher.publish_on(loan, &stream).expect("due");
            let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
            assert!(**sample == *bytes, "{len} bytes, as the processor sees them");
            let to = DeviceMemory::new(&gpu, len).expect("memory");
            // SAFETY: as long as the sample, and read below.
            unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
            assert!(bytes_of(&to, &stream) == bytes, "{len} bytes, as the device sees them");
        }
        topic.wait_over_timeout(SOON).expect("over");
        assert!(topic.registered_bytes() > 2 * (12 << 20), "both mappings of the large ones");
    }
    fake.expect_clean();
}

#[test]
fn parts_and_values() {
    let fake = Fake::new("parts");
    let gpu = fake.gpu();
    let stream = Stream::new(&gpu).expect("a stream");
    let topic = PinnedTopic::<u32>::open_or_create(&gpu, &fake.domain, "values").expect("a topic");
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    let bytes: Vec<u8> = (0..1000_u32).flat_map(u32::to_ne_bytes).collect();
    let from = on_device(&gpu, &stream, &bytes);
    let mut loan = publisher.loan(1000).expect("room");
    // SAFETY: inside the memory, which stays.
    unsafe {
        loan.copy_part_from_device(0..400, from.address() + 600 * 4, &stream).expect("enqueued");
        loan.copy_part_from_device(400..1000, from.address(), &stream).expect("enqueued");
        let beyond = loan.copy_part_from_device(999..1001, from.address(), &stream);
        assert_eq!(beyond, Err(GpuError::OutOfBounds { len: 1000 }));
    }
    publisher.publish_on(loan, &stream).expect("due");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    assert!(sample.iter().copied().eq((600..1000).chain(0..600)));
    let to = DeviceMemory::new(&gpu, 40).expect("memory");
    // SAFETY: ten values, and read below.
    unsafe { sample.copy_part_to_device(395..405, to.address(), &stream) }.expect("enqueued");
    let expected: Vec<u8> = (995..1000_u32).chain(0..5).flat_map(u32::to_ne_bytes).collect();
    assert_eq!(bytes_of(&to, &stream), expected);
}

#[test]
fn messages_of_each_stream_come_in_order() {
    const STREAMS: u64 = 4;
    const MESSAGES: u64 = 40;
    let fake = Fake::new("order");
    let gpu = fake.gpu();
    let core = Topic::<[u64]>::options()
        .depth(256)
        .open_or_create(&fake.domain, "order")
        .expect("a topic");
    let topic = PinnedTopic::new(&gpu, core);
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    let streams: Vec<_> = (0..STREAMS).map(|_| Stream::new(&gpu).expect("a stream")).collect();
    let sources: Vec<_> = (0..STREAMS * MESSAGES)
        .map(|number| {
            on_device(
                &gpu,
                &streams[0],
                &number.to_ne_bytes().repeat(1 + number as usize * 7 % 3000),
            )
        })
        .collect();
    std::thread::scope(|scope| {
        for (index, stream) in streams.iter().enumerate() {
            let (publisher, sources) = (&publisher, &sources);
            scope.spawn(move || {
                for message in 0..MESSAGES {
                    let source = &sources[(index as u64 * MESSAGES + message) as usize];
                    let mut loan = publisher.loan(source.len() / 8).expect("room");
                    // SAFETY: as long as the loan, and stays.
                    unsafe { loan.copy_from_device(source.address(), stream) }.expect("enqueued");
                    publisher.publish_on(loan, stream).expect("due");
                }
            });
        }
    });
    let mut next = [0; STREAMS as usize];
    for sequence in 0..STREAMS * MESSAGES {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        let number = sample[0];
        assert!(sample.iter().all(|&value| value == number), "of one message");
        assert_eq!((sample.len() as u64, sample.sequence()), (1 + number * 7 % 3000, sequence));
        let stream = (number / MESSAGES) as usize;
        assert_eq!(number % MESSAGES, next[stream], "stream {stream}");
        next[stream] += 1;
    }
    assert_eq!((subscriber.lost(), fake.count(What::Violations)), (0, 0));
}

#[test]
fn a_loan_written_on_several_streams_is_published_after_all_of_them() {
    let fake = Fake::new("several");
    let gpu = fake.gpu();
    let (topic, slow) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
    let quick = Stream::new(&gpu).expect("a stream");
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    let bytes = pattern(3, 1 << 20);
    let from = on_device(&gpu, &slow, &bytes);
    fake.delay(Duration::from_millis(3));
    let mut loan = publisher.loan(bytes.len()).expect("room");
    // SAFETY: as long as the parts, and stays.
    unsafe {
        loan.copy_part_from_device(1..1 << 20, from.address() + 1, &slow).expect("enqueued");
        loan.copy_part_from_device(0..1, from.address(), &quick).expect("enqueued");
    }
    publisher.publish_on(loan, &quick).expect("due");
    assert!(**subscriber.recv_timeout(SOON).expect("no error").expect("comes") == *bytes);
}

#[test]
fn registrations_grow_with_the_topic_and_are_made_once() {
    let fake = Fake::new("growth");
    {
        let gpu = fake.gpu();
        let (topic, stream) = (fake.topic(&gpu), Stream::new(&gpu).expect("a stream"));
        let publisher = topic.publisher().expect("one");
        let mut keeper = topic.subscriber().expect("one");
        let (from, to) = (
            on_device(&gpu, &stream, &pattern(0, 5 << 20)),
            DeviceMemory::new(&gpu, 5 << 20).expect("room"),
        );
        let mut kept = Vec::new();
        let mut bytes = 0;
        // Held, so that each one needs new memory; of all sizes, so that runs and spans come and
        // grow.
        for number in 0..60 {
            let len = [200, 5000, 70_000, 900_000, 2_500_000, 5 << 20][number % 6];
            let mut loan = publisher.loan(len).expect("room");
            // SAFETY: at least as long as the loan, and stays.
            unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
            publisher.publish_on(loan, &stream).expect("due");
            let sample = keeper.recv_timeout(SOON).expect("no error").expect("comes");
            // SAFETY: the same.
            unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
            kept.push(sample);
            let registered = topic.registered_bytes();
            assert!(registered >= bytes, "message {number}");
            bytes = registered;
        }
        assert!(bytes > 2 * 10 * ((5 << 20) + 2_500_000 + 900_000));
        let ever = fake.count(What::EverRegistered);
        for sample in &kept {
            // SAFETY: the same.
            unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
        }
        topic.wait_over_timeout(SOON).expect("over");
        assert_eq!(
            fake.count(What::EverRegistered),
            ever,
            "what is registered is not registered again"
        );
        drop((kept, keeper, publisher, from, to, stream));
        topic.close_timeout(SOON).expect("closed");
        assert_eq!(fake.count(What::Registered), 0);
    }
    fake.expect_clean();
}

#[test]
fn a_span_that_was_taken_apart_is_registered_anew() {
    let fake = Fake::new("lives");
    let gpu = fake.gpu();
    let stream = Stream::new(&gpu).expect("a stream");
    let core = Topic::<[u8]>::options()
        .depth(1)
        .max_bytes(8 << 20)
        .open_or_create(&fake.domain, "small")
        .expect("a topic");
    let topic = PinnedTopic::new(&gpu, core);
    let publisher = topic.publisher().expect("one");
    let mut from = DeviceMemory::new(&gpu, 7 << 20).expect("memory");
    let mut last = None;
    for round in 0..6 {
        let ever = fake.count(What::EverRegistered);
        let mut loan = publisher.loan(7 << 20).expect("room");
        let memory = topic.topic().memory_of(loan.as_ptr()).expect("in the file");
        from.fill(round, &stream).expect("enqueued");
        // SAFETY: as long as the loan, and stays.
        unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
        stream.synchronize().expect("done");
        // SAFETY: no stream writes there any more.
        let bytes = unsafe { std::slice::from_raw_parts(loan.as_ptr(), loan.len()) };
        assert!(
            bytes.iter().all(|&byte| byte == round),
            "round {round}: the device has written elsewhere"
        );
        drop(loan);
        topic.wait_over_timeout(SOON).expect("over");
        let before = last.replace(memory.generation);
        assert_ne!(before, last, "it was taken apart");
        assert_eq!(
            fake.count(What::EverRegistered),
            ever + fake.is_fake(),
            "round {round}: these are other pages, and nobody has told the driver"
        );
        // There is room for one of these. No device writes to this one.
        drop(publisher.loan(3 << 20).expect("room"));
    }
    assert_eq!((fake.count(What::Violations), fake.count(What::Registered)), (0, fake.is_fake()));
}

#[test]
fn reliable_subscribers_are_waited_for_before_a_message_is_due() {
    let fake = Fake::new("reliable");
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
    let publish = |number: u8, until| {
        publisher.publish_on_timeout(loan(&publisher, &gpu, &stream, number), &stream, until)
    };
    std::thread::scope(|scope| {
        publish(0, SOON).expect("due");
        publish(1, SOON).expect("due");
        assert_eq!(publish(2, Duration::from_millis(10)), Err(GpuError::TimedOut));
        publisher.wait_published_timeout(SOON).expect("published");
        assert_eq!(publish(2, Duration::from_millis(10)), Err(GpuError::TimedOut));
        let waiting = scope.spawn(|| publish(2, SOON));
        assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes")[0], 0);
        waiting.join().expect("no panic").expect("due");
    });
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes")[0], 1);
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes")[0], 2);
    assert_eq!(subscriber.lost(), 0);
}

/// Returns a loan with 1,000 bytes of that number.
fn loan(
    publisher: &outlive_gpu::PinnedPublisher,
    gpu: &outlive_gpu::Gpu,
    stream: &Stream,
    number: u8,
) -> outlive_gpu::PinnedLoan {
    let from = on_device(gpu, stream, &[number; 1000]);
    let mut loan = publisher.loan(1000).expect("room");
    // SAFETY: as long as the loan; freeing it waits for the copy.
    unsafe { loan.copy_from_device(from.address(), stream) }.expect("enqueued");
    loan
}
