//! Gateways and routers killed at random: nothing that was acknowledged is lost, and order is kept.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use outlive::SendError;
use outlive::topic::{Subscriber, Topic};
use outlive_testnet::free_port;

use crate::support::{LONG, Machine};

/// As many messages, and kills.
const MESSAGES: u64 = 20_000;
const KILLS: u32 = 30;

/// A number that looks random.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn nothing_is_lost_through_kills_of_gateways_and_routers() {
    through_kills(MESSAGES, KILLS);
}

/// The whole of what is promised: some minutes.
#[test]
#[ignore = "takes minutes: cargo xtask bridges runs the shorter one"]
fn nothing_is_lost_through_a_hundred_kills() {
    through_kills(100_000, 100);
}

fn through_kills(messages: u64, kills: u32) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut router =
        Machine::started("router", &["--mode", "router", "--listen", &endpoint, "--allow", "none"]);
    let client = ["--mode", "client", "--connect", &endpoint, "--allow", "n"];
    let mut a = Machine::started("a", &client);
    let mut b = Machine::started("b", &client);
    let options = || Topic::<u64>::options().depth(1024).reliable(true).described();
    let topic = options().open_or_create(&a.domain, "n").expect("made");
    let there = options().open_or_create(&b.domain, "n").expect("made");
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = topic.publisher().expect("publishes");
    b.expect("came", 1);
    let begun = Instant::now();
    let (published, received) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let is_over = move || received.load(Relaxed) == messages;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..messages {
                // While no gateway acts, no process waits but this one: a ring holds so many.
                while number >= received.load(Relaxed) + 1000 {
                    std::thread::sleep(Duration::from_millis(1));
                    if begun.elapsed() > LONG * 10 {
                        return;
                    }
                }
                match publisher.publish_timeout(&number, LONG * 5) {
                    Ok(_) => published.store(number + 1, Relaxed),
                    Err(SendError::TimedOut { .. }) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        scope.spawn(|| {
            let mut state = 7;
            for _ in 0..kills {
                let machine = match random(&mut state) % 3 {
                    0 => &mut router,
                    1 => &mut a,
                    _ => &mut b,
                };
                machine.kill();
                std::thread::sleep(Duration::from_millis(random(&mut state) % 200));
                machine.start();
                std::thread::sleep(Duration::from_millis(random(&mut state) % 300));
                if is_over() {
                    break;
                }
            }
        });
        for number in 0..messages {
            let sample = subscriber.recv_timeout(LONG * 2).expect("received");
            let Some(sample) = sample else {
                panic!("{number} of {} did not come", published.load(Relaxed));
            };
            assert_eq!(*sample, number);
            received.store(number + 1, Relaxed);
            // Slow enough that the kills come in between.
            if number % 32 == 0 {
                std::thread::sleep(Duration::from_micros(
                    u64::from(kills) * 10_000_000 / (messages / 32 * 32),
                ));
            }
        }
    });
    assert_eq!(b.events("lost").len(), 0, "{}", b.log());
    assert_eq!(b.events("uncertain").len(), 0, "{}", b.log());
    println!("{messages} messages through {kills} kills in {:?}", begun.elapsed());
}
