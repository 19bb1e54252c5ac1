//! Topics under random kills: nothing is lost for a reliable subscriber that lives, no sample
//! changes while it is held, no memory is left behind.

use std::collections::BTreeMap;

use outlive::topic::{Sample, Subscriber};
use outlive::{Domain, WaitStrategy};

use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;
use crate::topics::{open, options, reliable, usage};

crate::checks!(
    nothing_is_lost_for_the_living: 120,
    held_samples_never_change: 120,
    memory_does_not_grow: 120,
);

/// Of a publisher's life, how many messages it was told are published.
const PUBLISHED: usize = 1000;
/// Of a keeper, by life: how many it has received. Keeper k's begin at k * LIVES.
const RECEIVED: usize = 10_000;
const LIVES: usize = 10_000;
/// Tells all to come to an end.
const ENOUGH: usize = 0;

fn some_len(random: &mut Random) -> usize {
    let most = match random.below(100) {
        0 => 1 << 20,
        1..10 => 60_000,
        10..50 => 5_000,
        _ => 160,
    };
    16 + random.below(most) as usize
}

/// Publishes, numbered by its life, until it is killed or all is enough; by copies and in place.
fn publisher(domain: &Domain, board: Board, life: u64, depth: u32) -> Child {
    Child::start(move || {
        let topic = open(domain, depth);
        let mut random = Random::from_seed(life);
        let publisher = topic.publisher().expect("a ring");
        for number in 0.. {
            if board.get(ENOUGH) != 0 {
                break;
            }
            let bytes = message(life, number, some_len(&mut random));
            if number % 3 == 0 {
                let mut loan = publisher.loan(bytes.len()).expect("room");
                loan.copy_from_slice(&bytes);
                // Now and then one is not published after all.
                if random.below(10) == 0 {
                    drop(loan);
                    publisher.publish_timeout(&bytes, PATIENCE * 3).expect("taken");
                } else {
                    publisher.publish_timeout(loan, PATIENCE * 3).expect("taken");
                }
            } else {
                publisher.publish_timeout(&bytes, PATIENCE * 3).expect("taken");
            }
            board.set(PUBLISHED + life as usize, number + 1);
        }
        drop(publisher);
        std::thread::sleep(PATIENCE);
    })
}

/// Takes all there is, in each publisher's order, and holds some of it for a while; never killed.
fn keeper(domain: &Domain, board: Board, which: usize, depth: u32) -> Child {
    Child::start(move || {
        let topic = open(domain, depth);
        let mut random = Random::from_seed(which as u64);
        let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
        board.add(1, 1);
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        let mut samples: Vec<Sample> = Vec::new();
        loop {
            let last = board.get(ENOUGH) == 2;
            let sample = match subscriber.try_recv().expect("ours") {
                Some(sample) => sample,
                None if last => break,
                None => match subscriber.recv_timeout(std::time::Duration::from_millis(50)) {
                    Ok(Some(sample)) => sample,
                    Ok(None) | Err(_) => continue,
                },
            };
            let (life, number) = read_message(&sample);
            let next = next.entry(life).or_default();
            assert_eq!(number, *next, "of life {life}");
            *next += 1;
            board.set(RECEIVED + which * LIVES + life as usize, *next);
            if random.below(4) == 0 {
                samples.push(sample);
            }
            if samples.len() > 20 {
                read_message(&samples.swap_remove(random.below(20) as usize));
            }
        }
        assert_eq!(subscriber.lost(), 0);
    })
}

/// Kills one that must not have ended by itself.
fn end(child: &mut Child) {
    assert!(!child.has_ended(), "it has failed");
    child.kill();
}

/// Takes what it can get until it is killed, and holds some of it.
fn passer_by(domain: &Domain, life: u64, depth: u32) -> Child {
    Child::start(move || {
        let topic = open(domain, depth);
        topic.set_wait_strategy(WaitStrategy::Block);
        let mut random = Random::from_seed(life);
        let history = [0, 0, 3, 8][random.below(4) as usize];
        let reliable = random.below(2) == 0;
        let with = Subscriber::options().reliable(reliable).history(history);
        let mut subscriber = topic.subscriber_with(with).expect("a line");
        let mut samples: Vec<Sample> = Vec::new();
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        let mut lost = None;
        loop {
            let sample = subscriber.recv().expect("ours");
            let (life, number) = read_message(&sample);
            let next = next.entry(life).or_default();
            assert!(number >= *next, "twice, or backwards");
            *next = number + 1;
            // What was published just before the joining may be.
            let before = *lost.get_or_insert(subscriber.lost());
            assert!(
                !reliable || history > 0 || subscriber.lost() == before,
                "lost after the first one"
            );
            if random.below(3) == 0 {
                samples.push(sample);
            }
            if samples.len() > 10 {
                read_message(&samples.swap_remove(random.below(10) as usize));
            }
        }
    })
}

fn nothing_is_lost_for_the_living(world: &World) {
    const DEPTH: u32 = 8;
    let domain = world.domain();
    let topic = open(&domain, DEPTH);
    let mut random = Random::new();
    let board = Board::new();
    let keepers: Vec<Child> = (0..2).map(|which| keeper(&domain, board, which, DEPTH)).collect();
    board.reach(1, 2);
    let mut lives = 0;
    let mut next_life = || {
        lives += 1;
        lives
    };
    let mut publishers: Vec<Child> =
        (0..3).map(|_| publisher(&domain, board, next_life(), DEPTH)).collect();
    let mut others: Vec<Child> = (0..2).map(|_| passer_by(&domain, next_life(), DEPTH)).collect();
    for round in 0..120 {
        random.pause(10_000);
        let at = random.below(3) as usize;
        if round % 2 == 0 {
            end(&mut publishers[at]);
            publishers[at] = publisher(&domain, board, next_life(), DEPTH);
        } else {
            end(&mut others[at % 2]);
            others[at % 2] = passer_by(&domain, next_life(), DEPTH);
        }
        if round % 20 == 7 {
            domain.sweep(false).expect("sweeps");
        }
    }
    others.iter_mut().for_each(end);
    board.set(ENOUGH, 1);
    // Living ones publish to their last.
    wait_until("all publishers are gone", || topic.publishers().is_empty());
    publishers.iter_mut().for_each(end);
    board.set(ENOUGH, 2);
    keepers.into_iter().for_each(Child::finish);
    let mut all = 0;
    for life in 1..=lives as usize {
        let published = board.get(PUBLISHED + life);
        for which in 0..2 {
            let received = board.get(RECEIVED + which * LIVES + life);
            assert!(
                (published..=published + 1).contains(&received),
                "of life {life}'s {published}, keeper {which} has {received}"
            );
        }
        all += published;
    }
    assert!(all > 300, "only {all} were published");
    assert_eq!(domain.stats().rescues, 0);
}

fn held_samples_never_change(world: &World) {
    const DEPTH: u32 = 2;
    let domain = world.domain();
    let topic = open(&domain, DEPTH);
    let mut random = Random::new();
    let board = Board::new();
    let mut subscriber = topic.subscriber().expect("a line");
    let mut lives = 0;
    let mut next_life = || {
        lives += 1;
        lives
    };
    let mut publishers: Vec<Child> =
        (0..2).map(|_| publisher(&domain, board, next_life(), DEPTH)).collect();
    let mut others: Vec<Child> = (0..2).map(|_| passer_by(&domain, next_life(), DEPTH)).collect();
    let mut samples: Vec<(Sample, (u64, u64))> = Vec::new();
    for round in 0..120 {
        for _ in 0..30 {
            let Some(sample) = subscriber.try_recv().expect("ours") else {
                break;
            };
            let what = read_message(&sample);
            if samples.len() == 60 {
                drop(samples.swap_remove(random.below(60) as usize));
            }
            samples.push((sample, what));
        }
        random.pause(3_000);
        let at = random.below(2) as usize;
        match round % 4 {
            0 => {
                end(&mut publishers[at]);
                publishers[at] = publisher(&domain, board, next_life(), DEPTH);
            }
            2 => {
                end(&mut others[at]);
                others[at] = passer_by(&domain, next_life(), DEPTH);
            }
            _ => {}
        }
        assert!(samples.iter().all(|(sample, what)| read_message(sample) == *what));
    }
    publishers.iter_mut().chain(&mut others).for_each(end);
    assert!(samples.len() > 30);
    assert!(
        samples.iter().all(|(sample, what)| read_message(sample) == *what),
        "all its publishers are dead"
    );
}

/// What is left when no process holds anything: messages in place, and no object besides.
fn only_what_is_in_place(domain: &Domain, small: u64) -> u64 {
    // Of one whose token's slot has a new owner already, nothing can be asked: its things are free
    // a second later.
    wait_until("nothing is left to sweep", || domain.sweep(false).expect("sweeps").is_clean());
    let now = usage(domain);
    assert_eq!(now.subscribers, []);
    for ring in &now.rings {
        assert_eq!(ring.publisher, None);
        assert!(ring.objects <= ring.kept && ring.objects + small as u32 >= ring.kept, "{now:?}");
    }
    now.bytes
}

fn memory_does_not_grow(world: &World) {
    const DEPTH: u32 = 8;
    let domain = world.domain();
    let topic = options(DEPTH).open_or_create(&domain, "topic").expect("opens");
    let mut random = Random::new();
    let board = Board::new();
    let mut lives = 0;
    let mut bytes = Vec::new();
    for _ in 0..8 {
        board.set(ENOUGH, 0);
        let mut children: Vec<Child> = Vec::new();
        for _ in 0..12 {
            lives += 1;
            children.push(match lives % 4 {
                0 | 1 => Child::start(|| {
                    let topic = open(&domain, DEPTH);
                    let publisher = topic.publisher().expect("a ring");
                    let mut random = Random::from_seed(lives);
                    for number in 0.. {
                        // Each is an object.
                        let bytes = message(lives, number, 200 + random.below(40_000) as usize);
                        match publisher.publish_timeout(&bytes, PATIENCE) {
                            Ok(_) | Err(outlive::SendError::NoSpace { .. }) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                        if number % 7 == 0 {
                            std::mem::forget(publisher.loan(500).expect("room"));
                        }
                    }
                }),
                _ => passer_by(&domain, lives, DEPTH),
            });
            random.pause(8_000);
            if children.len() > 5 {
                let at = random.below(children.len() as u64) as usize;
                end(&mut children.swap_remove(at));
            }
        }
        random.pause(10_000);
        children.iter_mut().for_each(end);
        bytes.push(only_what_is_in_place(&domain, 0));
    }
    // Forgotten loans pile up only as long as their publisher lives.
    let (early, late) = (bytes[..4].iter().max(), bytes[4..].iter().max());
    assert!(late.expect("some") <= &(early.expect("some") * 2), "it grows: {bytes:?}");
    // Of the dead's rings, new publishers leave those alone that a living subscriber has not read:
    // those of this round's publishers (6), and those that its history is in (8 messages).
    let rings = usage(&domain).rings.len();
    assert!(rings <= 6 + 8, "{rings}: rings of the dead are taken again; 48 have published");
    drop(topic);
}
