//! `metrics`: the values are right after known operations, and no counter falls when processes
//! are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outlive::Domain;
use outlive::notify::Notifier;
use outlive::pool::Pool;
use outlive::sync::Barrier;
use outlive::topic::Topic;

use crate::stage::{LIMIT, Running, Stage, until};

/// The samples of a page: each name with its labels, and its value.
pub struct Samples(pub BTreeMap<String, f64>);

impl Samples {
    pub fn of(page: &str) -> Samples {
        let mut all = BTreeMap::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(all.insert(name.to_owned(), value).is_none(), "twice: {line}");
        }
        Samples(all)
    }

    /// Returns the value of a metric whose labels contain all of these, if it is there.
    pub fn find(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let mut found = self.0.iter().filter(|(key, _)| {
            key.split_once('{').is_some_and(|(of, _)| of == name)
                && labels.iter().all(|label| key.contains(label))
        });
        let first = found.next().map(|(_, value)| *value);
        assert!(found.next().is_none(), "{name} {labels:?} is there more than once");
        first
    }

    #[track_caller]
    pub fn get(&self, name: &str, labels: &[&str]) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}: {:#?}", self.0))
    }

    /// Returns the counters.
    fn counters(&self) -> impl Iterator<Item = (&String, f64)> {
        let of_counter = |key: &str| key.split('{').next().is_some_and(|of| of.ends_with("_total"));
        self.0.iter().filter(move |(key, _)| of_counter(key)).map(|(key, value)| (key, *value))
    }
}

fn once(stage: &Stage) -> Samples {
    Samples::of(&stage.run(&["metrics", "--once", "--endpoints"]).expect(0).text())
}

/// `outlive metrics`, and where it listens. Killed if it is dropped.
pub struct Exporter {
    child: Child,
    pub address: SocketAddr,
}

impl Exporter {
    pub fn start(stage: &Stage, more: &[&str]) -> Exporter {
        let args = [&["metrics", "--listen", "127.0.0.1:0"][..], more].concat();
        let mut command = stage.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut told = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("read");
        // What it says later is thrown away.
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in: {line}"));
        Exporter { child, address: address.parse().expect("an address") }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        stream.set_write_timeout(Some(LIMIT)).expect("set");
        stream
    }

    /// Sends that, and returns all that comes back.
    pub fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8(answer).expect("text")
    }

    pub fn scrape(&self, accept: &str) -> (String, String) {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
        let answer = self.ask(request.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        (head.to_owned(), body.to_owned())
    }

    pub fn samples(&self) -> Samples {
        Samples::of(&self.scrape("text/plain").1)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_kind_says_what_was_done() {
    let stage = Stage::new();
    stage.feed(&["topic", "pub", "t"], b"a\nb\nc\n").expect(0);
    stage.feed(&["topic", "pub", "t"], b"d\n").expect(0);
    stage.feed(&["queue", "send", "q"], b"a\nb\nc\n").expect(0);
    stage.run(&["queue", "recv", "q", "--count", "2"]).expect(0);
    for value in ["x", "y"] {
        stage.run(&["state", "set", "s", value]).expect(0);
        stage.run(&["job", "put", "j", value]).expect(0);
    }
    stage.run(&["semaphore", "run", "--permits", "3", "sem", "true"]).expect(0);
    stage.run(&["lock", "run", "l", "true"]).expect(0);
    stage.run(&["notifier", "notify", "n", "1"]).expect(0);
    let server = stage.start(&["serve", "svc", "cat"]);
    until("it serves", || stage.entry("svc").is_some_and(|one| one["receiver"]["alive"] == true));
    for _ in 0..3 {
        stage.run(&["call", "svc", "x"]).expect(0);
    }
    let domain = Domain::open_at(stage.domain()).expect("opens");
    let pool = Pool::options().open_or_create(&domain, "p").expect("made");
    let object = pool.alloc(100).expect("room");
    let barrier = Barrier::options(4).open_or_create(&domain, "b").expect("made");
    fs::write(stage.domain().join("letter"), "no thing of Outlive").expect("written");

    let all = once(&stage);
    let thing = |kind: &str, name: &str| format!("kind=\"{kind}\",name=\"{name}\"");
    let get = |name: &str, kind: &str, thing_name: &str, more: &[&str]| {
        all.get(name, &[&[thing(kind, thing_name).as_str()], more].concat())
    };
    assert_eq!(all.get("outlive_domain_up", &[]), 1.0);
    assert_eq!(all.get("outlive_unreadable_things", &["reason=\"not_of_outlive\""]), 1.0);
    assert_eq!(all.get("outlive_things", &["kind=\"topic\""]), 1.0);
    assert_eq!(all.get("outlive_deadlocks", &[]), 0.0);
    assert!(all.get("outlive_filesystem_avail_bytes", &[]) > 0.0);
    let sent = "messaging_client_sent_messages_total";
    let otel =
        |name: &str| format!("messaging_system=\"outlive\",messaging_destination_name=\"{name}\"");
    assert_eq!(get(sent, "topic", "t", &[&otel("t"), "operation_name=\"publish\""]), 4.0);
    assert_eq!(get(sent, "queue", "q", &[&otel("q"), "operation_name=\"send\""]), 3.0);
    assert_eq!(get("messaging_client_consumed_messages_total", "queue", "q", &[]), 2.0);
    assert_eq!(get("outlive_queue_pending_messages", "queue", "q", &[]), 1.0);
    assert_eq!(get("outlive_topic_publishers", "topic", "t", &[]), 0.0);
    assert_eq!(get("outlive_state_sets_total", "state", "s", &[]), 2.0);
    assert_eq!(get("outlive_job_queue_put_jobs_total", "job queue", "j", &[]), 2.0);
    assert_eq!(get("outlive_job_queue_jobs", "job queue", "j", &["state=\"waiting\""]), 2.0);
    assert_eq!(get("outlive_semaphore_permits", "semaphore", "sem", &["state=\"free\""]), 3.0);
    assert_eq!(get("outlive_holders", "rwlock", "l", &[]), 0.0);
    assert_eq!(get("outlive_notifier_deaths_total", "notifier", "n", &[]), 0.0);
    assert_eq!(get("outlive_service_requests_total", "service", "svc", &[]), 3.0);
    assert_eq!(get("outlive_service_servers", "service", "svc", &[]), 1.0);
    assert_eq!(get("outlive_users", "service", "svc", &[]), 1.0);
    assert_eq!(get("outlive_pool_objects", "pool", "p", &["state=\"used\""]), 1.0);
    assert_eq!(get("outlive_barrier_seats", "barrier", "b", &[]), 4.0);
    // What is removed has no values any more, and what was never there has none.
    drop((object, barrier));
    server.kill();
    server.end();
    stage.run(&["rm", "q"]).expect(0);
    let all = once(&stage);
    assert_eq!(all.find("outlive_queue_pending_messages", &[]), None);
    assert_eq!(all.find("outlive_memory_bytes", &["name=\"q\""]), None);
    assert_eq!(all.get("outlive_service_servers", &[]), 0.0);
}

#[test]
fn subscribers_lags_and_losses_are_told() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("made");
    let topic = Topic::<u64>::options().depth(4).open_or_create(&domain, "t").expect("made");
    let (slow, mut fast) = (topic.subscriber().expect("room"), topic.subscriber().expect("room"));
    let publisher = topic.publisher().expect("room");
    for number in 0..10_u64 {
        publisher.publish(&number).expect("published");
        assert_eq!(*fast.try_recv().expect("received").expect("there"), number);
    }
    let all = once(&stage);
    assert_eq!(all.get("outlive_topic_subscribers", &[]), 2.0);
    // As many as are kept can be waiting for it.
    assert_eq!(all.get("outlive_topic_lag_messages", &[]), 4.0);
    let me = format!("process_pid=\"{}\"", std::process::id());
    assert_eq!(all.get("outlive_topic_process_subscribers", &[&me]), 2.0);
    assert_eq!(all.get("outlive_topic_process_lag_messages", &[&me]), 4.0);
    assert_eq!(all.get("outlive_topic_ring_messages_total", &["ring=\"0\""]), 10.0);
    assert_eq!(all.get("outlive_topic_publisher_info", &["ring=\"0\",session=", &me]), 1.0);
    // It learns of its loss when it looks.
    let mut slow = slow;
    assert_eq!(*slow.try_recv().expect("received").expect("there"), 6);
    assert_eq!(once(&stage).get("outlive_topic_lost_messages", &[]), 6.0);
    // A subscriber that has left takes its losses along: that is why they are no counter.
    drop(slow);
    assert_eq!(once(&stage).get("outlive_topic_lost_messages", &[]), 0.0);
    assert!(once(&stage).find("outlive_topic_ring_messages_total", &[]).is_some());
    let plain = Samples::of(&stage.run(&["metrics", "--once"]).expect(0).text());
    assert!(plain.0.keys().all(|key| !key.contains("process_pid") && !key.contains("ring=")));
}

/// This test program again, as a process that has a notifier until it is killed.
fn notifier(stage: &Stage) -> Running {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "metrics::has_a_notifier", "--ignored", "--nocapture"]);
    command.env("OUTLIVE_DOMAIN", stage.domain());
    Running::new(command)
}

#[test]
#[ignore = "a part of the next, which starts it as a process"]
fn has_a_notifier() {
    if std::env::var_os("OUTLIVE_DOMAIN").is_none() {
        return;
    }
    let domain = Domain::open_default().expect("opens");
    let _notifier = Notifier::open_or_create(&domain, "n").expect("made");
    std::thread::sleep(LIMIT);
}

/// Kills publishers, receivers, holders, workers, notifiers and the exporter, and compares each scrape with
/// the one before.
#[test]
fn no_counter_falls_through_deaths() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    stage.feed(&["queue", "send", "q"], b"first\n").expect(0);
    stage.run(&["job", "put", "j", "x", "y", "z"]).expect(0);
    let mut before = BTreeMap::<String, f64>::new();
    let mut exporter = Exporter::start(&stage, &["--endpoints"]);
    let mut compare = |exporter: &Exporter| {
        let all = exporter.samples();
        for (key, value) in all.counters() {
            let earlier = before.insert(key.clone(), value).unwrap_or(0.0);
            assert!(value >= earlier, "{key} fell from {earlier} to {value}");
        }
        all
    };
    for round in 1..=4_u32 {
        let mut publisher = stage.start(&["topic", "pub", "t"]);
        publisher.write(b"a\nb\n");
        let published = f64::from(2 * round);
        let name = "messaging_client_sent_messages_total";
        until("it has published", || {
            compare(&exporter).find(name, &["kind=\"topic\""]) == Some(published)
        });
        let mut sender = stage.start(&["queue", "send", "q"]);
        sender.write(b"a\nb\n");
        until("they are sent", || {
            compare(&exporter).get(name, &["kind=\"queue\""]) == f64::from(1 + 2 * round)
        });
        let mut holder = stage.start(&["lock", "run", "l", "sleep", "1000"]);
        let mut worker = stage.start(&["job", "work", "j", "sh", "-c", "exec sleep 1000"]);
        let mut notifier = notifier(&stage);
        until("they are there", || {
            let all = compare(&exporter);
            all.find("outlive_holders", &["name=\"l\""]) == Some(1.0)
                && all.get("outlive_job_queue_workers", &[]) == 1.0
                && all.find("outlive_notifier_notifiers", &[]) == Some(1.0)
        });
        for one in [&mut publisher, &mut sender, &mut holder, &mut worker, &mut notifier] {
            assert!(one.is_running());
            one.kill();
        }
        for one in [publisher, sender, holder, worker, notifier] {
            one.end();
        }
        stage.run(&["queue", "recv", "q", "--count", "1"]).expect(0);
        let deaths = "outlive_notifier_deaths_total";
        until("the death is counted", || compare(&exporter).get(deaths, &[]) == f64::from(round));
        if round.is_multiple_of(2) {
            // Swept up or not, a death is counted once.
            stage.run(&["gc"]).expect(0);
        }
        compare(&exporter);
        // Its successor goes on with the same counts: it keeps none itself.
        exporter = Exporter::start(&stage, &["--endpoints"]);
        compare(&exporter);
    }
    let all = compare(&exporter);
    assert_eq!(all.get("messaging_client_consumed_messages_total", &[]), 4.0);
    assert_eq!(all.get("outlive_queue_pending_messages", &[]), 5.0);
    assert!(all.get("outlive_owner_deaths_total", &[]) >= 3.0, "{:#?}", all.0);
}

/// The receiver moves on while the counts are read.
#[test]
fn the_counts_of_a_busy_queue_do_not_fall() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("made");
    let queue = outlive::queue::Queue::<u64>::open_or_create(&domain, "q").expect("made");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = queue.sender().expect("sends");
            let mut number = 0_u64;
            while !is_over() {
                // A backlog, so that a look at it takes its time.
                if queue.counters().is_ok_and(|counts| counts.pending > 2000) {
                    std::thread::yield_now();
                    continue;
                }
                for _ in 0..256 {
                    sender.send(&number).expect("sent");
                    number += 1;
                }
            }
        });
        scope.spawn(|| {
            let mut receiver = queue.receiver().expect("receives");
            while !is_over() {
                let _ = receiver.recv_timeout(Duration::from_millis(10));
            }
        });
        let looks = || {
            let exporter = Exporter::start(&stage, &[]);
            let mut last = (0.0, 0.0);
            for _ in 0..200 {
                let all = exporter.samples();
                let sent = all.get("messaging_client_sent_messages_total", &[]);
                let received = all.get("messaging_client_consumed_messages_total", &[]);
                if sent < last.0 || received < last.1 {
                    return Err(format!("from {last:?} to {:?}", (sent, received)));
                }
                last = (sent, received);
            }
            Ok(last)
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(looks));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let (sent, received) = outcome.expect("it answers").expect("no count falls");
        assert!(sent >= received && received > 0.0);
    });
}

#[test]
fn what_cannot_be_read_is_counted() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        stage.run(&["state", "set", name, "x"]).expect(0);
    }
    // Another version's, by the word behind the magic number; and one that is cut short.
    let spoil = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = stage.domain().join(name);
        let mut bytes = fs::read(&path).expect("read");
        change(&mut bytes);
        fs::write(&path, bytes).expect("written");
    };
    spoil("a", &|bytes| bytes[8] ^= 0x40);
    spoil("b", &|bytes| bytes.truncate(100));
    let all = once(&stage);
    let count: f64 = all
        .0
        .iter()
        .filter(|(key, _)| key.starts_with("outlive_unreadable_things"))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(count, 2.0, "{:#?}", all.0);
    assert_eq!(all.get("outlive_unreadable_things", &["reason=\"other_version\""]), 1.0);
    assert_eq!(all.get("outlive_things", &["kind=\"state\""]), 1.0);
    assert_eq!(all.get("outlive_state_sets_total", &["name=\"c\""]), 1.0);
}
