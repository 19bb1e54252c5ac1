//! Device topics within one process: what is seen when, and which memory is used again.

mod fake;

use std::collections::BTreeSet;
use std::time::Duration;

use fake::scene::{BLOCK, OUT_OF_MEMORY, Scene, code_of};
use fake::{Fake, SOON, What, on_device, open_files, pattern, wait_for};
use outlive::RecvError;
use outlive::topic::{Publisher, Subscriber};
use outlive_gpu::{DeviceMemory, DeviceTopic, GpuError, PinnedTopic, Stream};

#[test]
fn bytes_stay_on_the_device() {
    let mut fake = Fake::new("stay");
    let mut files = Vec::new();
    for _ in 0..3 {
        let scene = Scene::with(fake);
        let (publisher, mut subscriber) = scene.ends();
        for (number, len) in
            [0, 1, 64, 4000, 2 << 20, (2 << 20) + 1, 9 << 20].into_iter().enumerate()
        {
            let (at, result) = scene.publish(&publisher, number as u64, len);
            result.expect("due");
            let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
            assert_eq!((sample.len(), sample.address()), (len, at));
            assert!(sample.header().stamp > 0 && sample.publisher().is_some());
            assert!(scene.bytes(&sample) == pattern(number as u64, len), "{len} bytes");
        }
        assert!(scene.topic.exported_bytes() >= 12 << 20);
        assert_eq!(
            (scene.topic.mapped_bytes(), scene.fake.sockets()),
            (0, 1),
            "its own are not mapped again"
        );
        drop((publisher, subscriber));
        scene.topic.close_timeout(SOON).expect("closed");
        assert_eq!(scene.fake.sockets(), 0);
        drop((scene.stream, scene.gpu));
        scene.fake.expect_clean();
        files.push(open_files());
        fake = scene.fake;
    }
    // The first time opens what stays: the domain's registry.
    assert_eq!(files[1], files[2], "descriptors are left");
}

#[test]
fn values_and_their_types() {
    let fake = Fake::new("values");
    let gpu = fake.gpu();
    let stream = Stream::new(&gpu).expect("a stream");
    let topic = DeviceTopic::<f32>::open_or_create(&gpu, &fake.domain, "values").expect("a topic");
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    publisher.publish_on(publisher.loan(1000).expect("room"), &stream).expect("due");
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes").len(), 1000);
    let other = DeviceTopic::<u64>::open_or_create(&gpu, &fake.domain, "values").err();
    assert!(matches!(other, Some(GpuError::Topic(outlive::Error::OtherType { .. }))), "{other:?}");
    let pinned = PinnedTopic::<f32>::open_or_create(&gpu, &fake.domain, "values").err();
    assert!(
        matches!(pinned, Some(GpuError::Topic(outlive::Error::OtherType { .. }))),
        "{pinned:?}"
    );
    let huge = publisher.loan(usize::MAX / 2).err();
    assert!(matches!(huge, Some(GpuError::Publish(_))), "{huge:?}");
}

#[test]
fn a_message_is_seen_when_its_streams_have_got_there() {
    let scene = Scene::new("seen");
    let (publisher, mut subscriber) = scene.ends();
    let quick = Stream::new(&scene.gpu).expect("a stream");
    let from = on_device(&scene.gpu, &scene.stream, &pattern(1, 1 << 20));
    let shut = scene.fake.shut();
    let mut loan = publisher.loan(1 << 20).expect("room");
    // SAFETY: as long as the loan, and stays.
    unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
    publisher.publish_on(loan, &quick).expect("due");
    assert_eq!((publisher.due(), scene.topic.outstanding()), (1, 1), "nobody has waited");
    assert!(subscriber.try_recv().expect("nothing is wrong").is_none());
    scene.fake.delay(Duration::from_millis(1));
    drop(shut);
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    assert!(scene.bytes(&sample) == pattern(1, 1 << 20), "the other stream was waited for");
    publisher.wait_published_timeout(SOON).expect("published");
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn a_sample_is_held_until_the_streams_it_was_told_of_have_got_there() {
    let scene = Scene::new("held");
    let (publisher, mut subscriber) = scene.ends();
    let (at, result) = scene.publish(&publisher, 7, 100_000);
    result.expect("due");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    let to = DeviceMemory::new(&scene.gpu, 100_000).expect("memory");
    // It is in no slot any more: nothing but the sample holds it.
    for number in 0..20 {
        scene.publish(&publisher, number, 100).1.expect("due");
        drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    }
    scene.topic.wait_over_timeout(SOON).expect("over");
    let mut lent = Vec::new();
    {
        let _shut = scene.fake.shut();
        // SAFETY: as long, and read below.
        unsafe { sample.clone().copy_to_device(to.address(), &scene.stream) }.expect("enqueued");
        sample.release_on(&scene.stream).expect("enqueued");
        assert_eq!(scene.topic.outstanding(), 2);
        // All else that there is.
        for _ in 0..40 {
            let loan = publisher.loan(100_000).expect("room");
            assert_ne!(loan.address(), at, "the device is to read there");
            lent.push(loan);
        }
    }
    assert!(fake::bytes_of(&to, &scene.stream) == pattern(7, 100_000));
    scene.topic.wait_over_timeout(SOON).expect("over");
    drop(lent);
    let mut again = || {
        scene.publish(&publisher, 8, 100_000).1.expect("due");
        drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
        publisher.loan(100_000).expect("room").address() == at
    };
    assert!((0..100).any(|_| again()), "its memory is used again");
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn a_loan_that_was_dropped_is_kept_until_its_streams_have_got_there() {
    let scene = Scene::new("dropped");
    let publisher = scene.topic.publisher().expect("one");
    let mut loan = publisher.loan(1000).expect("room");
    let at = loan.address();
    {
        let _shut = scene.fake.shut();
        loan.written_on(&scene.stream);
        drop(loan);
        assert_ne!(publisher.loan(1000).expect("room").address(), at);
    }
    scene.topic.wait_over_timeout(SOON).expect("over");
    let all: Vec<_> = (0..3).map(|_| publisher.loan(1000).expect("room")).collect();
    assert!(all.iter().any(|loan| loan.address() == at));
    assert_eq!(scene.topic.exported_bytes(), 3 * BLOCK);
}

#[test]
fn blocks_are_used_again_and_few_are_needed() {
    let scene = Scene::new("again");
    let topic = DeviceTopic::<u8>::options()
        .depth(4)
        .open_or_create(&scene.fake.domain, "few")
        .expect("a topic");
    let topic = DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks");
    let (publisher, mut subscriber) =
        (topic.publisher().expect("one"), topic.subscriber().expect("one"));
    let mut places = BTreeSet::new();
    for number in 0..60 {
        let (at, result) = scene.publish(&publisher, number, 5000);
        result.expect("due");
        places.insert(at);
        assert!(
            scene.bytes(&subscriber.recv_timeout(SOON).expect("no error").expect("comes"))
                == pattern(number, 5000)
        );
        topic.wait_over_timeout(SOON).expect("over");
    }
    assert!(
        places.len() <= 6,
        "four that are kept, one that is read, one that is written: {}",
        places.len()
    );
    assert_eq!(topic.exported_bytes(), places.len() as u64 * BLOCK);
    // Of two sizes in turn, each finds its own again.
    for number in 0..40 {
        let len = if number % 2 == 0 { 5000 } else { 9 << 20 };
        scene.publish(&publisher, number, len).1.expect("due");
        assert!(
            scene.bytes(&subscriber.recv_timeout(SOON).expect("no error").expect("comes"))
                == pattern(number, len)
        );
        topic.wait_over_timeout(SOON).expect("over");
    }
    let most = topic.exported_bytes();
    assert!(most <= 8 * BLOCK + 8 * (10 << 20), "{most}");
}

#[test]
fn what_fits_nothing_goes_when_there_is_too_much_of_it() {
    let scene = Scene::new("idle");
    let topic = DeviceTopic::<u8>::options()
        .depth(1)
        .open_or_create(&scene.fake.domain, "one")
        .expect("a topic");
    let topic = DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks");
    let publisher = topic.publisher().expect("one");
    // Each size once, all of them much too small or large for the next.
    for round in 0..3 {
        for megabytes in [100, 2, 210, 6, 450, 20] {
            let loan = publisher.loan(megabytes << 20).expect("room");
            publisher.publish_on(loan, &scene.stream).expect("due");
            publisher.wait_published_timeout(SOON).expect("published");
            assert!(
                topic.exported_bytes() <= (256 + 2 * 450) << 20,
                "round {round}: {}",
                topic.exported_bytes()
            );
        }
    }
    // The device is full: free blocks go first.
    let (before, free) = (topic.exported_bytes(), scene.fake.count(What::Blocks));
    scene.fake.fail(c"cuMemCreate", 0, OUT_OF_MEMORY);
    let loan = publisher.loan(900 << 20).expect("room after all");
    assert!(topic.exported_bytes() < before + (900 << 20));
    assert!(scene.fake.count(What::Blocks) < free + 2);
    drop(loan);
    scene.fake.fail(c"cuMemCreate", 0, OUT_OF_MEMORY);
    scene.fake.fail(c"cuMemCreate", 0, OUT_OF_MEMORY);
    assert_eq!(code_of(&publisher.loan(3 << 30)), Some(OUT_OF_MEMORY));
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn reliable_subscribers_are_waited_for_before_a_message_is_due() {
    let scene = Scene::new("reliable");
    let topic = DeviceTopic::<u8>::options()
        .depth(2)
        .reliable(true)
        .open_or_create(&scene.fake.domain, "steps")
        .expect("a topic");
    let topic = DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks");
    let publisher = topic.publisher().expect("one");
    let reliable = Subscriber::options().reliable(true);
    let mut subscriber = topic.subscriber_with(reliable).expect("one");
    let publish = |until: Duration| {
        publisher.publish_on_timeout(publisher.loan(10).expect("room"), &scene.stream, until)
    };
    publish(SOON).expect("due");
    publish(SOON).expect("due");
    assert_eq!(publish(Duration::from_millis(10)), Err(GpuError::TimedOut));
    drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    publish(SOON).expect("due");
    for sequence in 1..3 {
        assert_eq!(
            subscriber.recv_timeout(SOON).expect("no error").expect("comes").sequence(),
            sequence
        );
    }
    assert_eq!(subscriber.lost(), 0);
}

#[test]
fn a_subscriber_is_waited_for_no_longer_than_the_publisher_says() {
    let scene = Scene::new("max-blocking");
    let topic = DeviceTopic::<u8>::options()
        .depth(4)
        .reliable(true)
        .open_or_create(&scene.fake.domain, "steps")
        .expect("a topic");
    let topic = DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks");
    let span = Duration::from_millis(5);
    let options = Publisher::options().max_blocking(span);
    let publisher = topic.publisher_with(options).expect("one");
    let reliable = Subscriber::options().reliable(true);
    let mut subscriber = topic.subscriber_with(reliable).expect("one");
    let publish =
        || publisher.publish_on_timeout(publisher.loan(10).expect("room"), &scene.stream, SOON);
    let shut = scene.fake.shut();
    for _ in 0..4 {
        publish().expect("due");
    }
    // Four are due: these are in the way, and no subscriber is.
    let loan = publisher.loan(10).expect("room");
    let blocked = publisher.publish_on_timeout(loan, &scene.stream, 4 * span);
    assert_eq!((blocked, publisher.stopped_waiting()), (Err(GpuError::TimedOut), 0));
    drop(shut);
    publisher.wait_published_timeout(SOON).expect("published");

    // Two more than the subscriber has taken: both become due while the device does nothing.
    let shut = scene.fake.shut();
    publish().expect("due");
    assert_eq!(publisher.stopped_waiting(), 1);
    publish().expect("due");
    // Reliable again, before what is due is published: that is published all the same.
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes").sequence(), 0);
    drop(shut);
    publisher.wait_published_timeout(SOON).expect("published");
    assert_eq!(publisher.stopped_waiting(), 1);
    let lagged = subscriber.recv_timeout(SOON).err();
    assert!(matches!(lagged, Some(GpuError::Subscribe(RecvError::Lagged { .. }))), "{lagged:?}");
    for sequence in 2..6 {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        assert_eq!(sample.sequence(), sequence);
    }
}

#[test]
fn a_gpu_that_shares_nothing_says_so() {
    for which in [102, 103] {
        let fake = Fake::new("alone");
        fake.set_attribute(which, 0);
        let gpu = fake.gpu();
        assert!(!gpu.shares());
        let error = DeviceTopic::<u8>::open_or_create(&gpu, &fake.domain, "images")
            .err()
            .expect("none here");
        assert!(matches!(error, GpuError::CannotShare { .. }), "{error}");
    }
}

#[test]
fn a_card_of_another_gpu_is_passed_over() {
    let scene = Scene::new("other");
    let (publisher, _) = scene.ends();
    scene.fake.set_attribute(-2, 1);
    let other = scene.fake.gpu();
    let elsewhere =
        DeviceTopic::<u8>::open_or_create(&other, &scene.fake.domain, "images").expect("a topic");
    let (second, mut subscriber) =
        (elsewhere.publisher().expect("one"), elsewhere.subscriber().expect("one"));
    scene.publish(&publisher, 0, 10).1.expect("due");
    publisher.wait_published_timeout(SOON).expect("published");
    second
        .publish_on(second.loan(10).expect("room"), &Stream::new(&other).expect("a stream"))
        .expect("due");
    assert_eq!(subscriber.recv_timeout(SOON).err(), Some(GpuError::OtherGpu));
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes").len(), 10);
}

#[test]
fn what_is_no_card_is_passed_over() {
    let scene = Scene::new("stray");
    let (publisher, mut subscriber) = scene.ends();
    let raw = scene.topic.topic().publisher().expect("one");
    let loan = raw.loan_value().expect("room");
    raw.publish(loan).expect("published");
    scene.publish(&publisher, 0, 10).1.expect("due");
    assert_eq!(subscriber.recv_timeout(SOON).err(), Some(GpuError::NoCard));
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes").len(), 10);
}

#[test]
fn a_publisher_that_was_dropped_leaves_its_messages_and_its_blocks_to_the_next() {
    let scene = Scene::new("next");
    let (publisher, mut subscriber) = scene.ends();
    let shut = scene.fake.shut();
    let loan = publisher.loan(10).expect("room");
    let at = loan.address();
    publisher.publish_on(loan, &scene.stream).expect("due");
    drop(publisher);
    drop(shut);
    assert_eq!(subscriber.recv_timeout(SOON).expect("no error").expect("comes").address(), at);
    wait_for("its leaving", || scene.topic.topic().publishers().is_empty());
    let next = scene.topic.publisher().expect("one");
    for _ in 0..40 {
        next.publish_on(next.loan(10).expect("room"), &scene.stream).expect("due");
        drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    }
    assert!(scene.topic.exported_bytes() <= 18 * BLOCK, "{}", scene.topic.exported_bytes());
    // With the topic closed, no process answers for what is left in it.
    drop((next, subscriber));
    let again = scene.topic.topic().clone();
    scene.topic.close_timeout(SOON).expect("closed");
    let later = DeviceTopic::new(&scene.gpu, &scene.fake.domain, again).expect("blocks");
    let mut late = later.subscriber_with(Subscriber::options().history(1)).expect("one");
    assert!(matches!(late.try_recv(), Err(GpuError::BlockGone { .. })));
}
