//! Publishers that come, publish little and go, many of them: each ends once, behind its messages.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlive::RecvError;
use outlive::topic::{Subscriber, Topic};
use outlive_testnet::{Folder, eventually};

use crate::support::{LONG, Machine, all, pair, topic};

fn brief(machine: &Machine, name: &str, count: u64) {
    let gateway = Path::new(env!("CARGO_BIN_EXE_outlive-gateway"));
    let mut command = Command::new(gateway.with_file_name("examples").join("brief"));
    command.arg(machine.path()).args([name, &count.to_string()]);
    assert!(command.status().expect("starts").success());
}

/// Publishers that left in order while the gateway was stopped have "died".
#[test]
fn who_left_in_order_has_not_died() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _own = topic(&a, "n", 64);
    b.expect("receives", 1);
    brief(&a, "n", 1);
    b.expect("left", 1);
    a.gateway.as_mut().expect("started").stop();
    for _ in 0..100 {
        brief(&a, "n", 1);
    }
    a.gateway.as_mut().expect("started").go_on();
    eventually(LONG, || a.events("left").len() + a.events("died").len() >= 101);
    let there = (b.events("left").len(), b.events("died").len());
    assert_eq!((a.events("left").len(), a.events("died").len()), (101, 0), "there: {there:?}");
}

/// Without any stop: `outlive pub` in a loop.
#[test]
fn publishers_in_a_loop_all_leave() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _own = topic(&a, "n", 64);
    b.expect("receives", 1);
    for _ in 0..300 {
        brief(&a, "n", 2);
    }
    eventually(LONG, || b.events("left").len() + b.events("died").len() >= 300);
    std::thread::sleep(Duration::from_secs(1));
    let all = |is: &str| b.events(is).len();
    assert_eq!(
        (all("left"), all("died"), all("came"), all("lost")),
        (300, 0, 300, 0),
        "left, died, came, lost; there {:?}",
        a.events("left").len()
    );
}

/// Publishers that come and go at once, several at a time: each ends once, behind its messages, and none
/// stays.
fn brief_publishers(threads: u64, rounds: u64) {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let own = topic(&a, "n", 64);
    let there = topic(&b, "n", 64);
    b.expect("receives", 1);
    let mut subscriber =
        there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let mut got = HashMap::<u64, Vec<u64>>::new();
    let over = &AtomicBool::new(false);
    let mut errors = Vec::<RecvError>::new();
    let mut late = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let own = &own;
                    scope.spawn(move || {
                        for round in 0..rounds {
                            let publisher = own.publisher().expect("publishes");
                            for number in 0..5 {
                                let value = (thread * rounds + round) * 5 + number;
                                if publisher.publish_timeout(&value, LONG).is_err() {
                                    eprintln!("publisher {thread} of round {round} is held");
                                    return;
                                }
                            }
                        }
                    });
                }
            });
            over.store(true, Ordering::Release);
        });
        // All that was published comes, however slow the machine is.
        let (mut came, mut quiet) = (0, Instant::now());
        while came < threads * rounds * 5 || !over.load(Ordering::Acquire) {
            match subscriber.recv_timeout(Duration::from_secs(2)) {
                Ok(Some(value)) => {
                    got.entry(*value / 5).or_default().push(*value % 5);
                    (came, quiet) = (came + 1, Instant::now());
                }
                Ok(None) if quiet.elapsed() > LONG * 2 => break,
                Ok(None) => late += 1,
                Err(error) => errors.push(error),
            }
        }
    });
    eventually(LONG, || {
        b.events("left").len() as u64 >= threads * rounds && there.publishers().is_empty()
    });
    let whole = got.values().filter(|numbers| **numbers == [0, 1, 2, 3, 4]).count() as u64;
    let stay = there.publishers().len();
    let came = b.events("came").len();
    let ended = b.events("left").len() as u64;
    assert_eq!(
        (
            whole,
            stay,
            ended,
            b.events("died").len(),
            b.events("lost").len(),
            b.events("refused").len()
        ),
        (threads * rounds, 0, threads * rounds, 0, 0, 0),
        "whole, stay, left, died, lost, refused; came {came}, errors {errors:?}, quiet {late}; left told by A {}",
        a.events("left").len()
    );
}

#[test]
fn brief_publishers_one_after_the_other() {
    brief_publishers(1, 200);
}

#[test]
fn brief_publishers_eight_at_a_time() {
    brief_publishers(8, 100);
}

#[test]
fn brief_publishers_four_at_a_time() {
    brief_publishers(4, 50);
}

/// F13: `Topic::sessions` reads a session's number and another one's first message.
#[test]
fn a_session_s_first_message_is_its_own() {
    let folder = Folder::new("sessions");
    let domain = outlive::Domain::open_or_create_at(folder.join("domain")).expect("opens");
    let options = Topic::<u64>::options().depth(8).described();
    let topic = options.open_or_create(&domain, "n").expect("made");
    let over = std::sync::atomic::AtomicBool::new(false);
    let (truth, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                seen.extend(topic.sessions().0.into_iter().map(|is| (is.session, is.from)));
                seen.dedup();
            }
            seen
        });
        let mut truth = HashMap::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            let publisher = topic.publisher().expect("publishes");
            truth.insert(publisher.session(), publisher.next_sequence());
            publisher.publish(&1).expect("room");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        (truth, looking.join().expect("whole"))
    });
    let wrong: Vec<_> =
        seen.iter().filter(|(session, from)| truth.get(session) != Some(from)).take(5).collect();
    assert!(wrong.is_empty(), "of {} sessions seen {}: {wrong:?}", truth.len(), seen.len());
}

/// A slow subscriber elsewhere, and publishers that come and go: each needs a stand-in there. A message
/// that waits for one comes again meanwhile, as `at` makes the receiver ask: it was dropped with that.
#[test]
fn nothing_is_dropped_where_stand_ins_run_out() {
    let (a, b) = pair(&["--allow-out", "n"], &["--allow-in", "n"]);
    let (own, there) = (topic(&a, "n", 8), topic(&b, "n", 8));
    b.expect("receives", 1);
    let mut slow = there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let mut published = 0;
    for number in 0..1500_u64 {
        let publisher = own.publisher().expect("publishes");
        if publisher.publish_timeout(&number, Duration::from_secs(3)).is_err() {
            break;
        }
        published += 1;
    }
    let got = all(&mut slow, published).len();
    let told = (b.events("refused").len(), b.events("lost").len());
    assert_eq!(got, published, "received of those published; refused, lost: {told:?}");
}
