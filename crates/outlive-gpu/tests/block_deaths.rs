//! Blocks of other processes', which are stopped and killed: a program with a main of its own,
//! which is also what it starts. With the fake driver, or the one that `OUTLIVE_GPU_DRIVER` names.

mod fake;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fake::member::{Member, moment, run_all};
use fake::scene::{BLOCK, OUT_OF_MEMORY, Scene, code_of};
use fake::{Fake, SOON, What, bytes_of, open_files, pattern, wait_for};
use outlive::topic::{Durability, Subscriber};
use outlive_gpu::{DeviceMemory, DeviceSubscriber, DeviceTopic, GpuError};

const LEN: usize = 300_000;
const ROUNDS: u64 = 12;

/// Returns bytes of which each tells the number.
fn numbered(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = pattern(number, len.max(8));
    bytes[..8].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Returns the number of a sample's bytes, all of which tell it.
fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_ne_bytes(bytes[..8].try_into().expect("eight"));
    assert!(bytes == numbered(number, bytes.len()), "one message, whole");
    number
}

fn publish(scene: &Scene, publisher: &outlive_gpu::DevicePublisher, number: u64, len: usize) {
    let mut from = DeviceMemory::new(&scene.gpu, len).expect("memory");
    from.write(&numbered(number, len), &scene.stream).expect("written");
    let mut loan = publisher.loan(len).expect("room");
    // SAFETY: as long as the loan; freeing it waits for the copy.
    unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
    publisher.publish_on(loan, &scene.stream).expect("due");
}

fn with_history(scene: &Scene) -> DeviceSubscriber {
    scene.topic.subscriber_with(Subscriber::options().history(16)).expect("one")
}

fn wait_until_published(scene: &Scene, count: usize) {
    let history = Subscriber::options().history(16);
    let mut cards = scene.topic.topic().subscriber_with(history).expect("one");
    (0..count).for_each(|_| drop(cards.recv_timeout(SOON).expect("no error").expect("comes")));
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

// What members do.

fn publishes_until_it_is_killed() {
    let scene = Scene::with(Fake::member());
    let publisher = scene.topic.publisher().expect("one");
    scene.fake.delay(Duration::from_micros(100));
    for number in u64::from(std::process::id()) << 20.. {
        // Blocks of several sizes, so that new ones are asked for all the time.
        publish(&scene, &publisher, number, [LEN, 3 << 20, 7 << 20][number as usize % 3]);
    }
}

/// So many messages, of number and length as they come; then it waits to be killed.
fn publishes(count: u64, then: impl FnOnce(&Scene)) {
    let scene = Scene::with(Fake::member());
    let publisher = scene.topic.publisher().expect("one");
    (0..count).for_each(|number| publish(&scene, &publisher, number, LEN));
    publisher.wait_published_timeout(SOON).expect("published");
    then(&scene);
    sleep_for_ever();
}

/// Gives its cards other blocks, larger ones: the device is full, so free blocks go.
fn exchanges_blocks() {
    let scene = Scene::with(Fake::member());
    let publisher = scene.topic.publisher().expect("one");
    for number in 0..30 {
        // Larger than whatever there is.
        if number % 5 == 0 {
            scene.fake.fail(c"cuMemCreate", 0, OUT_OF_MEMORY);
        }
        publish(&scene, &publisher, number, LEN + (number as usize / 5) * (2 << 20));
        publisher.wait_published_timeout(SOON).expect("published");
    }
    sleep_for_ever();
}

/// The process that still has the socket is not the one that could answer.
fn leaves_a_child(_: &Scene) {
    // SAFETY: the child calls nothing but what may be called there.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: the same. It ends by itself, or with the test.
        unsafe {
            libc::sleep(10);
            libc::_exit(0);
        }
    }
}

fn subscribes_until_it_is_killed() {
    let scene = Scene::with(Fake::member());
    let mut subscriber = scene.topic.subscriber().expect("one");
    let to = DeviceMemory::new(&scene.gpu, LEN).expect("memory");
    scene.fake.delay(Duration::from_micros(500));
    loop {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        // SAFETY: as long, and stays.
        unsafe { sample.copy_to_device(to.address(), &scene.stream) }.expect("enqueued");
    }
}

/// Takes numbers from 0 on, each once, and maps each block once.
fn takes_all() {
    let scene = Scene::with(Fake::member());
    let reliable = Subscriber::options().reliable(true);
    let mut subscriber = scene.topic.subscriber_with(reliable).expect("one");
    let mut next = 0;
    let mut places = HashMap::new();
    loop {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        if sample.is_empty() {
            break;
        }
        assert_eq!(number_of(&scene.bytes(&sample)), next);
        places.insert(sample.address(), sample.len());
        next += 1;
    }
    assert_eq!((next, scene.fake.count(What::Violations)), (60, 0));
    // With the last one, of no bytes, which has a block, too.
    let bytes: u64 = places.values().map(|&len: &usize| (len as u64).next_multiple_of(BLOCK)).sum();
    assert!(scene.topic.mapped_bytes() <= bytes + BLOCK, "each block is mapped once");
    drop(subscriber);
    scene.topic.close_timeout(SOON).expect("closed");
    drop((scene.stream, scene.gpu));
    scene.fake.expect_clean();
}

// What is tested.

fn publishers_killed_at_any_time_leave_whole_messages_or_none() {
    let scene = Scene::new("publishers");
    let mut subscriber = scene.topic.subscriber().expect("one");
    let (mut files, mut told) = (0, 0);
    for round in 0..ROUNDS {
        let mut member = Member(scene.fake.start("publishes-on"));
        let pid = u64::from(member.0.id());
        let begun = Instant::now();
        let held = loop {
            assert!(begun.elapsed() < SOON, "round {round}: its messages do not come");
            match subscriber.recv_timeout(SOON) {
                Ok(Some(sample)) if number_of(&scene.bytes(&sample)) >> 20 == pid => break sample,
                Ok(_) => {}
                // Of the one before: there was no time to map it.
                Err(GpuError::OwnerDied { .. }) => told += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        };
        let number = number_of(&scene.bytes(&held));
        std::thread::sleep(moment(round));
        member.kill();
        // Mapped, it stays.
        assert_eq!(number_of(&scene.bytes(&held)), number);
        drop(held);
        // The ring keeps 16: none that is not whole.
        loop {
            match subscriber.try_recv() {
                Ok(Some(sample)) => drop(number_of(&scene.bytes(&sample))),
                Ok(None) => break,
                Err(GpuError::OwnerDied { .. }) => told += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        scene.topic.wait_over_timeout(SOON).expect("over");
        if round == 2 {
            files = open_files();
        }
    }
    assert!(told > 0, "some blocks were not mapped in time");
    assert!(open_files() <= files, "descriptors are left");
    // By card, whichever of its blocks was last: nothing of those before is left.
    assert!(scene.topic.mapped_bytes() < 40 * (8 << 20), "{}", scene.topic.mapped_bytes());
    drop(subscriber);
    scene.topic.close_timeout(SOON).expect("closed");
    drop((scene.stream, scene.gpu));
    scene.fake.expect_clean();
}

fn an_exporter_that_died_is_told_of_once_for_each_message() {
    let scene = Scene::new("died");
    let mut member = Member(scene.fake.start("publishes-three"));
    let mut subscriber = with_history(&scene);
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    assert_eq!((number_of(&scene.bytes(&sample)), scene.topic.mapped_bytes()), (0, BLOCK));
    wait_until_published(&scene, 3);
    let owner = sample.publisher().expect("said");
    member.kill();
    for _ in 0..2 {
        assert_eq!(subscriber.recv_timeout(SOON).err(), Some(GpuError::OwnerDied { owner }));
    }
    assert!(subscriber.try_recv().expect("nothing is wrong").is_none());
    assert_eq!(scene.fake.sockets(), 0, "the dead one's was removed");
    // What is mapped is there, also for later subscribers of this process.
    assert_eq!(number_of(&scene.bytes(&sample)), 0);
    drop(sample);
    let mut late = with_history(&scene);
    assert_eq!(
        number_of(&scene.bytes(&late.recv_timeout(SOON).expect("no error").expect("mapped"))),
        0
    );
    // Unmapped, no process has it any more.
    assert_eq!((scene.topic.unmap_unheld(), scene.topic.mapped_bytes()), (BLOCK, 0));
    assert_eq!(with_history(&scene).recv_timeout(SOON).err(), Some(GpuError::OwnerDied { owner }));
}

fn an_exporter_that_is_stopped_is_waited_for_until_the_deadline() {
    let scene = Scene::new("stopped");
    let mut member = Member(scene.fake.start("publishes-three"));
    let mut subscriber = with_history(&scene);
    assert_eq!(
        number_of(&scene.bytes(&subscriber.recv_timeout(SOON).expect("no error").expect("comes"))),
        0
    );
    wait_until_published(&scene, 3);
    member.stop();
    // Its message is the next one, as often as one asks.
    for _ in 0..2 {
        assert_eq!(
            subscriber.recv_timeout(Duration::from_millis(20)).err(),
            Some(GpuError::TimedOut)
        );
        assert_eq!(subscriber.try_recv().err(), Some(GpuError::TimedOut));
    }
    member.signal(libc::SIGCONT);
    assert_eq!(
        number_of(&scene.bytes(&subscriber.recv_timeout(SOON).expect("no error").expect("comes"))),
        1
    );
    member.stop();
    // A process that waits for its answer learns of its death.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || subscriber.recv_timeout(SOON).err());
        std::thread::sleep(Duration::from_millis(30));
        member.kill();
        let told = waiting.join().expect("no panic");
        assert!(matches!(told, Some(GpuError::OwnerDied { .. })), "{told:?}");
    });
}

fn a_card_that_has_another_block_is_mapped_anew() {
    let fake = Fake::new("exchange");
    drop(
        DeviceTopic::<u8>::options()
            .depth(2)
            .reliable(true)
            .durability(Durability::Persistent)
            .open_or_create(&fake.domain, "images")
            .expect("a topic"),
    );
    let scene = Scene::with(fake);
    let reliable = Subscriber::options().reliable(true);
    let mut subscriber = scene.topic.subscriber_with(reliable).expect("one");
    let _member = Member(scene.fake.start("exchanges"));
    for number in 0..30 {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        assert_eq!(number_of(&scene.bytes(&sample)), number);
        drop(sample);
        scene.topic.wait_over_timeout(SOON).expect("over");
    }
    // One block for each card, whatever those had before. A GPU that is not full keeps the free
    // blocks as well: at most one of each size for each card.
    let blocks = if scene.fake.is_fake() == 1 { 14 << 20 } else { (2 + 4 + 6 + 8 + 10 + 12) << 20 };
    assert!(scene.topic.mapped_bytes() <= 8 * blocks, "{}", scene.topic.mapped_bytes());
    assert_eq!(scene.fake.count(What::Violations), 0);
}

fn a_sweep_removes_the_sockets_of_the_dead() {
    let scene = Scene::new("sweep");
    let mut member = Member(scene.fake.start("publishes-three"));
    wait_until_published(&scene, 3);
    assert_eq!(scene.fake.sockets(), 1);
    scene.fake.domain.sweep(false).expect("swept");
    assert_eq!(scene.fake.sockets(), 1, "it lives");
    member.kill();
    scene.fake.domain.sweep(true).expect("looked at");
    assert_eq!(scene.fake.sockets(), 1, "nothing but a look");
    scene.fake.domain.sweep(false).expect("swept");
    assert_eq!(scene.fake.sockets(), 0);
}

fn many_who_ask_one_that_is_stopped() {
    let scene = Scene::new("many");
    let mut member = Member(scene.fake.start("publishes-three"));
    let mut subscriber = with_history(&scene);
    drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    wait_until_published(&scene, 3);
    scene.topic.wait_over_timeout(SOON).expect("over");
    let all: Vec<_> = (0..40).map(|_| with_history(&scene)).collect();
    scene.topic.unmap_unheld();
    member.stop();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = all
            .into_iter()
            .map(|mut one| scope.spawn(move || one.recv_timeout(SOON).err()))
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        member.kill();
        for one in waiting {
            let told = one.join().expect("no panic");
            assert!(matches!(told, Some(GpuError::OwnerDied { .. })), "{told:?}");
        }
    });
}

fn a_child_that_has_the_socket_still_is_nobody_to_ask() {
    let scene = Scene::new("child");
    let mut member = Member(scene.fake.start("leaves-a-child"));
    let mut subscriber = with_history(&scene);
    drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    wait_until_published(&scene, 2);
    // It has forked, a moment later.
    std::thread::sleep(Duration::from_millis(100));
    member.kill();
    let begun = Instant::now();
    let told = subscriber.recv_timeout(SOON).err();
    assert!(
        matches!(told, Some(GpuError::OwnerDied { .. })),
        "{told:?} after {:?}",
        begun.elapsed()
    );
}

fn what_the_driver_refuses_of_anothers_block_leaves_it_the_next_message() {
    let scene = Scene::new("refused");
    if scene.fake.is_fake() == 0 {
        println!("(another driver refuses nothing because we say so)");
        return;
    }
    let _member = Member(scene.fake.start("publishes-three"));
    let mut subscriber = with_history(&scene);
    // Once for the registry's files.
    drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    let (blocks, files) = (scene.fake.count(What::Blocks), open_files());
    let functions = [
        c"cuMemImportFromShareableHandle",
        c"cuMemAddressReserve",
        c"cuMemMap",
        c"cuMemSetAccess",
        c"cuCtxPushCurrent",
    ];
    for function in functions {
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        let refused = subscriber.recv_timeout(SOON);
        assert_eq!(code_of(&refused), Some(OUT_OF_MEMORY), "{function:?}");
        assert_eq!((scene.fake.count(What::Blocks), open_files()), (blocks, files), "{function:?}");
    }
    // A driver that has no memory which may only be read.
    scene.fake.set_attribute(-3, 1);
    assert_eq!(
        number_of(&scene.bytes(&subscriber.recv_timeout(SOON).expect("no error").expect("comes"))),
        1
    );
    assert_eq!(open_files(), files);
    scene.fake.fail(c"cuMemMap", 0, OUT_OF_MEMORY);
    assert!(subscriber.recv_timeout(SOON).is_err());
    assert!(subscriber.pass_over() && !subscriber.pass_over());
    assert!(subscriber.try_recv().expect("nothing is wrong").is_none());
    assert_eq!(scene.fake.count(What::Violations), 0);
}

fn a_reader_killed_while_its_device_reads_holds_nothing_for_long() {
    let fake = Fake::new("reader");
    let topic = DeviceTopic::<u8>::options()
        .depth(2)
        .durability(Durability::Persistent)
        .open_or_create(&fake.domain, "images")
        .expect("a topic");
    let scene = Scene::with(fake);
    drop(topic);
    let publisher = scene.topic.publisher().expect("one");
    let mut witness = scene.topic.subscriber().expect("one");
    for round in 0..ROUNDS {
        let mut member = Member(scene.fake.start("subscribes"));
        wait_for("a subscriber", || scene.topic.topic().subscribers().len() == 2);
        let begun = Instant::now();
        let mut number = 0;
        while begun.elapsed() < Duration::from_millis(10) + moment(round) {
            publish(&scene, &publisher, number, LEN);
            let sample = witness.recv_timeout(SOON).expect("no error").expect("comes");
            assert_eq!(number_of(&scene.bytes(&sample)), number);
            number += 1;
        }
        member.kill();
        publish(&scene, &publisher, 7, LEN);
        drop(witness.recv_timeout(SOON).expect("no error").expect("comes"));
        scene.topic.wait_over_timeout(SOON).expect("over");
    }
    // Twelve readers held some each: used again, they are not many.
    assert!(scene.topic.exported_bytes() < 80 * BLOCK, "{}", scene.topic.exported_bytes());
    assert_eq!(scene.fake.count(What::Violations), 0);
}

fn many_subscribers_get_all_and_map_each_block_once() {
    let fake = Fake::new("all");
    // Publishers wait for subscribers: each of them gets all.
    let options = DeviceTopic::<u8>::options().durability(Durability::Persistent).reliable(true);
    drop(options.open_or_create(&fake.domain, "images").expect("a topic"));
    let scene = Scene::with(fake);
    let publisher = scene.topic.publisher().expect("one");
    let mut members: Vec<_> = (0..3).map(|_| Member(scene.fake.start("takes-all"))).collect();
    wait_for("three subscribers", || scene.topic.topic().subscribers().len() == 3);
    for number in 0..60 {
        publish(&scene, &publisher, number, [LEN, 3 << 20][number as usize % 2]);
    }
    publisher.publish_on(publisher.loan(0).expect("room"), &scene.stream).expect("due");
    members.iter_mut().for_each(Member::expect_success);
    let to = DeviceMemory::new(&scene.gpu, 8).expect("memory");
    assert_eq!(bytes_of(&to, &scene.stream).len(), 8);
    assert_eq!(scene.fake.count(What::Violations), 0);
}

/// The kernel then drops the descriptor that comes with the answer, and `recvmsg` succeeds.
fn a_block_for_which_no_descriptor_is_left_stays_the_next_message() {
    let scene = Scene::new("no-descriptor");
    let _member = Member(scene.fake.start("publishes-three"));
    wait_until_published(&scene, 3);
    let mut subscriber = with_history(&scene);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place of ours; a descriptor that is closed at once.
    let next = unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let next = libc::dup(1);
        assert_eq!(libc::close(next), 0);
        next as u64
    };
    let allow = |most| {
        let limit = libc::rlimit { rlim_cur: most, ..limit };
        // SAFETY: a place of ours.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    // One more, for the socket by which it asks.
    allow(next + 1);
    let told = subscriber.recv_timeout(SOON).map(drop);
    allow(limit.rlim_cur);
    assert!(matches!(told, Err(GpuError::System { errno: libc::EMFILE, .. })), "{told:?}");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("still there");
    assert_eq!(number_of(&scene.bytes(&sample)), 0);
}

/// A member, or all tests whose name contains the first argument.
fn main() {
    let role = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    if std::env::var_os(fake::MEMBER).is_some() {
        match role.as_str() {
            "publishes-on" => publishes_until_it_is_killed(),
            "exchanges" => exchanges_blocks(),
            "publishes-three" => publishes(3, |_| ()),
            "leaves-a-child" => publishes(2, leaves_a_child),
            "subscribes" => subscribes_until_it_is_killed(),
            "takes-all" => takes_all(),
            other => panic!("no member is called {other}"),
        }
        return;
    }
    let tests: [(&str, fn()); 11] = [
        (
            "a_block_for_which_no_descriptor_is_left_stays_the_next_message",
            a_block_for_which_no_descriptor_is_left_stays_the_next_message,
        ),
        (
            "a_card_that_has_another_block_is_mapped_anew",
            a_card_that_has_another_block_is_mapped_anew,
        ),
        ("a_sweep_removes_the_sockets_of_the_dead", a_sweep_removes_the_sockets_of_the_dead),
        (
            "publishers_killed_at_any_time_leave_whole_messages_or_none",
            publishers_killed_at_any_time_leave_whole_messages_or_none,
        ),
        (
            "an_exporter_that_died_is_told_of_once_for_each_message",
            an_exporter_that_died_is_told_of_once_for_each_message,
        ),
        (
            "an_exporter_that_is_stopped_is_waited_for_until_the_deadline",
            an_exporter_that_is_stopped_is_waited_for_until_the_deadline,
        ),
        ("many_who_ask_one_that_is_stopped", many_who_ask_one_that_is_stopped),
        (
            "a_child_that_has_the_socket_still_is_nobody_to_ask",
            a_child_that_has_the_socket_still_is_nobody_to_ask,
        ),
        (
            "what_the_driver_refuses_of_anothers_block_leaves_it_the_next_message",
            what_the_driver_refuses_of_anothers_block_leaves_it_the_next_message,
        ),
        (
            "a_reader_killed_while_its_device_reads_holds_nothing_for_long",
            a_reader_killed_while_its_device_reads_holds_nothing_for_long,
        ),
        (
            "many_subscribers_get_all_and_map_each_block_once",
            many_subscribers_get_all_and_map_each_block_once,
        ),
    ];
    run_all(&role, &tests);
}
