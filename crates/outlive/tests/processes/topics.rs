//! Topics between processes: sizes and kinds of messages, what late and slow subscribers get, and
//! in which order.

use std::time::Duration;

use outlive::topic::{
    Durability, Header, LARGEST_PAYLOAD, Outgoing, Publisher, Subscriber, SubscriberOptions, Topic,
    TopicOptions, TopicUsage,
};
use outlive::{Detail, Domain, RecvError, SendError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::counted::{counted, sleeps_of};
use crate::large::free_bytes;
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    every_size_arrives_whole: 60,
    a_gibibyte_goes_in_place: 120,
    values_and_slices,
    values_as_msgpack,
    late_joiners_get_the_history_of_the_dead,
    slow_subscribers_lose_the_oldest,
    of_one_message_the_newest_is_had,
    chosen_by_keys,
    a_period_without_a_message_is_told,
    answers_come_after_what_they_answer: 60,
    what_was_published_first_comes_first,
    publishers_come_in_any_order_and_all_arrives: 60,
    only_the_slowest_wakes_its_publisher,
);

/// A topic of bytes.
pub fn open(domain: &Domain, depth: u32) -> Topic<[u8]> {
    options(depth).open_or_create(domain, "topic").expect("opens")
}

/// Small, so that whatever leaks is soon seen; it offers all that a topic can.
pub fn options(depth: u32) -> TopicOptions<[u8]> {
    Topic::options()
        .depth(depth)
        .max_bytes(256 << 20)
        .reliable(true)
        .durability(Durability::Persistent)
}

/// The name of the control file of the domain's only topic.
pub fn control_of(domain: &Domain) -> String {
    let names = std::fs::read_dir(domain.path()).expect("there").flatten();
    let mut names = names.map(|entry| entry.file_name().into_string().expect("plain"));
    names.find(|name| name.starts_with(".control-")).expect("there")
}

/// Options of a subscriber that publishers wait for.
pub fn reliable() -> SubscriberOptions {
    Subscriber::options().reliable(true)
}

/// What is in it.
pub fn usage(domain: &Domain) -> TopicUsage {
    match domain.entry("topic").expect("there").detail {
        Detail::Topic(usage) => usage,
        other => panic!("{other:?}"),
    }
}

/// How many samples with objects all processes together hold.
pub fn held(domain: &Domain) -> u32 {
    usage(domain).subscribers.iter().map(|subscriber| subscriber.held).sum()
}

/// The numbers of all messages that are there to be taken, each of which must be whole and of that
/// publisher.
pub fn drain(subscriber: &mut Subscriber, who: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(sample) = subscriber.try_recv().expect("ours") {
        let (of, number) = read_message(&sample);
        assert_eq!(of, who);
        numbers.push(number);
    }
    numbers
}

fn byte(len: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ len.wrapping_mul(7) ^ at >> 8) as u8
}

fn every_size_arrives_whole(world: &World) {
    const LENS: [usize; 16] = [
        0,
        1,
        7,
        8,
        15,
        16,
        100,
        167,
        168,
        169,
        4096,
        65_535,
        65_536,
        1 << 20,
        5_000_001,
        16 << 20,
    ];
    let domain = world.domain();
    let topic = open(&domain, 4);
    let mut subscribers: Vec<Subscriber> =
        (0..2).map(|_| topic.subscriber_with(reliable()).expect("a line")).collect();
    let child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for round in 0..2 {
            for len in LENS {
                let bytes: Vec<u8> = (0..len).map(|at| byte(len, at)).collect();
                let header = Header { frame: round, own: [len as u8; 32], ..Header::default() };
                if round == 0 {
                    publisher.publish(Outgoing::new(&bytes).header(header)).expect("waited for");
                } else {
                    let mut loan = publisher.loan(len).expect("room");
                    loan.set_header(header);
                    loan.copy_from_slice(&bytes);
                    let published = publisher.publish(loan).expect("waited for");
                    assert_eq!(published.subscribers(), 2);
                }
            }
        }
    });
    for number in 0..2 * LENS.len() {
        let len = LENS[number % LENS.len()];
        for subscriber in &mut subscribers {
            let sample = subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
            assert_eq!((sample.len(), sample.sequence()), (len, number as u64));
            let wrong = sample.iter().enumerate().find(|&(at, got)| *got != byte(len, at));
            assert_eq!(wrong, None, "of {len} bytes");
            let header = sample.header();
            assert_eq!((header.frame, header.own), ((number / LENS.len()) as u64, [len as u8; 32]));
            assert!(header.time().is_some() && sample.publisher().is_some());
        }
    }
    child.finish();
    for subscriber in &mut subscribers {
        assert!(subscriber.try_recv().expect("ours").is_none());
        assert_eq!(subscriber.lost(), 0);
    }
}

fn a_gibibyte_goes_in_place(world: &World) {
    if free_bytes(world) < 4 << 30 {
        world.skip("less than 4 GiB of memory is free");
    }
    let domain = world.domain();
    let topic: Topic<[u64]> = Topic::options()
        .depth(2)
        .max_bytes(3 << 29)
        .open_or_create(&domain, "topic")
        .expect("opens");
    let word = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut subscriber = topic.subscriber().expect("a line");
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        let mut loan = publisher.loan(LARGEST_PAYLOAD / 8).expect("room");
        loan.iter_mut().enumerate().for_each(|(at, place)| *place = word(at));
        publisher.publish(loan).expect("published");
        publisher.publish(&[7]).expect("published");
        let too_large = publisher.loan(LARGEST_PAYLOAD / 8 + 1).map(drop);
        assert!(matches!(too_large, Err(SendError::TooLarge { .. })), "{too_large:?}");
        std::thread::sleep(PATIENCE * 4);
    });
    let sample = subscriber.recv_timeout(PATIENCE * 4).expect("no error").expect("published");
    assert_eq!(sample.len(), LARGEST_PAYLOAD / 8);
    assert_eq!(*subscriber.recv_timeout(PATIENCE).expect("no error").expect("published"), [7]);
    child.kill();
    let wrong = sample.iter().enumerate().find(|&(at, got)| *got != word(at));
    assert_eq!(wrong, None, "every word as it was written, though its publisher is dead");
    drop((sample, subscriber));
    // The next one has room for as much.
    let publisher = topic.publisher().expect("a ring");
    drop(
        publisher
            .loan(LARGEST_PAYLOAD / 8)
            .expect("what the dead had is free, but for what is in place"),
    );
}

fn values_and_slices(world: &World) {
    let domain = world.domain();
    let position = Topic::<[f64; 3]>::open_or_create(&domain, "position").expect("opens");
    let large = Topic::<[u32; 1000]>::open_or_create(&domain, "large").expect("opens");
    let ranges = Topic::<[u16]>::open_or_create(&domain, "ranges").expect("opens");
    let nothing = Topic::<()>::open_or_create(&domain, "nothing").expect("opens");
    let mut positions = position.subscriber().expect("a line");
    let mut larges = large.subscriber().expect("a line");
    let mut slices = ranges.subscriber().expect("a line");
    let mut nothings = nothing.subscriber().expect("a line");
    Child::start(|| {
        position.publisher().expect("a ring").publish(&[1.0, -2.0, 0.5]).expect("published");
        let publisher = large.publisher().expect("a ring");
        let mut loan = publisher.loan_value().expect("room");
        *loan = core::array::from_fn(|at| at as u32 * 3);
        publisher.publish(loan).expect("published");
        let publisher = ranges.publisher().expect("a ring");
        for len in [0, 3, 84, 85, 100_000] {
            publisher
                .publish(&(0..len).map(|at| at as u16).collect::<Vec<_>>())
                .expect("published");
        }
        nothing.publisher().expect("a ring").publish(&()).expect("published");
    })
    .finish();
    assert_eq!(
        *positions.recv_timeout(PATIENCE).expect("no error").expect("published"),
        [1.0, -2.0, 0.5]
    );
    let sample = larges.recv_timeout(PATIENCE).expect("no error").expect("published");
    assert!(sample.iter().enumerate().all(|(at, value)| *value == at as u32 * 3));
    for len in [0, 3, 84, 85, 100_000] {
        let sample = slices.recv_timeout(PATIENCE).expect("no error").expect("published");
        assert!(
            sample.len() == len && sample.iter().enumerate().all(|(at, value)| *value == at as u16)
        );
    }
    assert_eq!(nothings.recv_timeout(PATIENCE).expect("no error").expect("published").bytes(), b"");
    assert!(matches!(
        Topic::<[f32; 3]>::open_or_create(&domain, "position"),
        Err(outlive::Error::OtherType { .. })
    ));
    assert!(matches!(
        Topic::<[u8]>::open_or_create(&domain, "ranges"),
        Err(outlive::Error::OtherType { .. })
    ));
    assert!(matches!(
        outlive::queue::Queue::<[u8]>::open_or_create(&domain, "large"),
        Err(outlive::Error::OtherKind { .. })
    ));
}

fn values_as_msgpack(world: &World) {
    type Value = (u64, String, Vec<f32>);
    let domain = world.domain();
    let topic = open(&domain, 8);
    let mut subscriber = topic.subscriber().expect("a line");
    let value = |len: usize| -> Value { (len as u64, "x".repeat(len), vec![0.5; len]) };
    Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for len in [0, 3, 30_000] {
            publisher.publish(outlive::Msgpack(&value(len))).expect("published");
        }
        publisher.publish(b"\xc1").expect("published");
    })
    .finish();
    for len in [0, 3, 30_000] {
        let sample = subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
        assert_eq!(sample.msgpack::<Value>().expect("well-formed"), value(len));
    }
    subscriber
        .recv_timeout(PATIENCE)
        .expect("no error")
        .expect("published")
        .msgpack::<Value>()
        .expect_err("no msgpack");
}

fn late_joiners_get_the_history_of_the_dead(world: &World) {
    let domain = world.domain();
    for len in [40, 9_000] {
        let name = format!("topic{len}");
        let topic = options(8).open_or_create(&domain, &name).expect("opens");
        assert!(topic.subscriber().expect("a line").latest().expect("ours").is_none());
        let board = Board::new();
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            for number in 0..20 {
                publisher.publish(&message(3, number, len)).expect("published");
            }
            board.set(0, 1);
            std::thread::sleep(PATIENCE);
        });
        board.reach(0, 1);
        child.kill();
        // Before any process has taken the ring over, and after.
        for next in 20..23 {
            let with = |history: u32| {
                let options = Subscriber::options().history(history);
                topic.subscriber_with(options).expect("a line")
            };
            assert_eq!(drain(&mut with(0), 3), []);
            assert_eq!(drain(&mut with(3), 3), [next - 3, next - 2, next - 1]);
            let mut late = with(100);
            assert_eq!(drain(&mut late, 3), (next - 8..next).collect::<Vec<_>>());
            assert_eq!((late.lost(), late.lag(), late.publisher_count()), (0, 0, 0));
            for _ in 0..2 {
                let sample = late.latest().expect("ours").expect("the last one stays");
                assert_eq!((read_message(&sample), sample.sequence()), ((3, next - 1), next - 1));
            }
            assert_eq!(drain(&mut late, 3), []);
            let publisher = topic.publisher().expect("the dead one's ring");
            let published = publisher.publish(&message(3, next, len)).expect("published");
            assert_eq!(published.sequence(), next, "it goes on counting");
            let sample = late.recv_timeout(PATIENCE).expect("no error").expect("published");
            assert_eq!(read_message(&sample), (3, next));
        }
    }
}

fn slow_subscribers_lose_the_oldest(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let mut all = topic.subscriber().expect("a line");
    let mut two = topic.subscriber_with(Subscriber::options().keep_last(2)).expect("one");
    let mut newest = topic.subscriber().expect("a line");
    Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..10 {
            publisher
                .publish(&message(1, number, if number % 2 == 0 { 20 } else { 2000 }))
                .expect("published");
        }
    })
    .finish();
    assert_eq!(all.lag(), 4, "in a ring that it has not met");
    assert_eq!(drain(&mut all, 1), [6, 7, 8, 9]);
    assert_eq!((all.lost(), all.lag()), (6, 0));
    assert_eq!(drain(&mut two, 1), [8, 9]);
    assert_eq!(two.lost(), 8);
    assert_eq!(read_message(&newest.latest().expect("ours").expect("there")), (1, 9));
    assert_eq!((newest.lost(), newest.lag()), (0, 0));
    let told: Vec<(u64, u64)> =
        usage(&domain).subscribers.iter().map(|one| (one.lost, one.lag)).collect();
    assert_eq!(told, [(6, 0), (8, 0), (0, 0)]);
}

fn of_one_message_the_newest_is_had(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 1);
    let mut subscriber = topic.subscriber().expect("a line");
    let publisher = topic.publisher().expect("a ring");
    for number in 1..20 {
        for more in 0..number {
            publisher.publish(&message(1, number * 100 + more, 30)).expect("published");
        }
        assert_eq!(drain(&mut subscriber, 1), [number * 101 - 1]);
    }
    assert_eq!(subscriber.lost(), (1..20).map(|number| number - 1).sum::<u64>());
}

fn chosen_by_keys(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 32);
    let with = |keys: &[u64]| {
        let options = Subscriber::options().keys(keys);
        topic.subscriber_with(options).expect("a line")
    };
    let mut some = with(&[7, 1]);
    let mut none = with(&[99]);
    Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..20 {
            let header = Header { key: number % 8, ..Header::default() };
            let len = if number % 3 == 0 { 3000 } else { 30 };
            publisher
                .publish(Outgoing::new(&message(1, number, len)).header(header))
                .expect("published");
        }
        publisher.publish(&message(1, 20, 30)).expect("published");
    })
    .finish();
    assert_eq!(drain(&mut some, 1), [1, 7, 9, 15, 17]);
    assert!(matches!(none.recv_timeout(Duration::from_millis(5)), Ok(None)));
    assert_eq!((some.lost(), none.lost(), none.lag()), (0, 0, 0), "what is not wanted is not lost");
}

fn a_period_without_a_message_is_told(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let period = Duration::from_millis(30);
    let options = Subscriber::options().period(period);
    let mut subscriber = topic.subscriber_with(options).expect("a line");
    assert!(matches!(subscriber.recv_timeout(Duration::from_micros(10)), Ok(None)));
    for _ in 0..2 {
        assert_eq!(subscriber.recv().map(drop), Err(RecvError::Missed));
    }
    let board = Board::new();
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        loop {
            publisher.publish(b"here").expect("published");
            board.add(0, 1);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    board.reach(0, 10);
    assert_eq!(*subscriber.recv().expect("it comes"), *b"here");
    child.kill();
    while let Some(sample) = subscriber.try_recv().expect("ours") {
        drop(sample);
    }
    assert_eq!(subscriber.recv().map(drop), Err(RecvError::Missed), "its publisher is dead");
}

/// B answers each message of A's that it has received. Its ring comes before A's, so that a wrong
/// order would not come right by the rings' numbers.
fn answers_come_after_what_they_answer(world: &World) {
    const COUNT: u64 = 4_000;
    let domain = world.domain();
    let topic = open(&domain, 16);
    let board = Board::new();
    let start = |who: u64| {
        let topic = &topic;
        Child::start(move || {
            let publisher = (who != 2).then(|| topic.publisher().expect("a ring"));
            let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
            board.add(who as usize, 1);
            board.reach(3, 1);
            let (mut asked, mut next) = (0, [0; 2]);
            while next != [COUNT; 2] {
                if who == 1 && asked < COUNT && asked < next[0] + 8 {
                    let publisher = publisher.as_ref().expect("A has one");
                    publisher
                        .publish_timeout(&message(1, asked, 60), PATIENCE)
                        .expect("all take it");
                    asked += 1;
                }
                let sample =
                    subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
                let (of, number) = read_message(&sample);
                assert_eq!(number, next[of as usize], "of {of}, as received by {who}");
                next[of as usize] += 1;
                assert!(
                    next[0] <= next[1],
                    "an answer to something that {who} has not received yet"
                );
                if who == 0 && of == 1 {
                    let len = if number % 5 == 0 { 500 } else { 40 };
                    let publisher = publisher.as_ref().expect("B has one");
                    publisher
                        .publish_timeout(&message(0, number, len), PATIENCE)
                        .expect("all take it");
                }
            }
            assert_eq!(subscriber.lost(), 0);
        })
    };
    let answers = start(0);
    board.reach(0, 1);
    let asks = start(1);
    board.reach(1, 1);
    let watchers = [start(2), start(2)];
    board.reach(2, 2);
    board.set(3, 1);
    [answers, asks].into_iter().chain(watchers).for_each(Child::finish);
}

/// Whichever ring a take begins at: with the last one's messages there, or an earlier one's.
fn what_was_published_first_comes_first(world: &World) {
    const PUBLISHERS: usize = 5;
    let domain = world.domain();
    let topic = open(&domain, 64);
    let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
    let publishers: [Publisher; PUBLISHERS] =
        core::array::from_fn(|_| topic.publisher().expect("a ring"));
    let mut random = Random::new();
    let (mut published, mut taken) = (0, 0);
    for _ in 0..2_000 {
        for _ in 0..random.below(8) {
            let at = random.below(PUBLISHERS as u64);
            let publisher = &publishers[at as usize];
            publisher.publish(&message(at, published, 40)).expect("taken");
            published += 1;
        }
        for _ in 0..random.below(9) {
            let Some(sample) = subscriber.try_recv().expect("ours") else { break };
            assert_eq!(read_message(&sample).1, taken);
            taken += 1;
        }
        // No ring is ever full: nothing waits.
        if published - taken > 40 {
            while taken < published {
                let sample = subscriber.try_recv().expect("ours").expect("published");
                assert_eq!(read_message(&sample).1, taken);
                taken += 1;
            }
        }
    }
    assert_eq!(subscriber.lost(), 0);
}

fn publishers_come_in_any_order_and_all_arrives(world: &World) {
    const PUBLISHERS: u64 = 6;
    const COUNT: u64 = 300;
    let domain = world.domain();
    let topic = open(&domain, 8);
    let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
    let children: Vec<Child> = (0..PUBLISHERS)
        .map(|who| {
            let topic = &topic;
            Child::start(move || {
                let publisher = topic.publisher().expect("a ring");
                for number in 0..COUNT {
                    let len = 16 + (number * 977 % 3000) as usize;
                    publisher.publish_timeout(&message(who, number, len), PATIENCE).expect("taken");
                }
            })
        })
        .collect();
    let mut next = [0; PUBLISHERS as usize];
    for _ in 0..PUBLISHERS * COUNT {
        let sample = subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
        let (who, number) = read_message(&sample);
        assert_eq!(number, next[who as usize]);
        next[who as usize] += 1;
    }
    children.into_iter().for_each(Child::finish);
    assert!(subscriber.try_recv().expect("ours").is_none());
    assert_eq!((subscriber.lost(), subscriber.publisher_count()), (0, 0));
}

fn only_the_slowest_wakes_its_publisher(world: &World) {
    let domain = world.domain();
    let topic = options(4)
        .wait_strategy(WaitStrategy::Block)
        .open_or_create(&domain, "topic")
        .expect("opens");
    let [mut slow, mut fast] = [(); 2].map(|()| topic.subscriber_with(reliable()).expect("a line"));
    let board = Board::new();
    let child = Child::start(|| {
        let slept = sleeps_of(|| {
            let publisher = topic.publisher().expect("a ring");
            for number in 0..4 {
                publisher.publish(&message(1, number, 60)).expect("room");
            }
            board.set(0, u64::from(std::process::id()));
            counted(|| {
                publisher.publish_timeout(&message(1, 4, 60), PATIENCE).map(drop).expect("taken")
            });
        });
        // Where a process may not be traced, nothing is counted, and only that it ends is seen.
        assert!(
            matches!(slept, None | Some(1)),
            "{slept:?} sleeps, though only one of two was in the way"
        );
    });
    let publisher = board.reach(0, 1) as i32;
    for number in 0..4 {
        wait_asleep(publisher);
        assert_eq!(
            read_message(&fast.recv_timeout(PATIENCE).expect("no error").expect("published")),
            (1, number)
        );
    }
    wait_asleep(publisher);
    assert_eq!(
        read_message(&slow.recv_timeout(PATIENCE).expect("no error").expect("published")),
        (1, 0)
    );
    child.finish();
}
