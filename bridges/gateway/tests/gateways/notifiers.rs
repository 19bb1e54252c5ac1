//! Notices elsewhere, as listeners here count them: none is lost, and which may come twice is told.

use std::time::{Duration, Instant};

use outlive::notify::{Listener, Notifier};
use outlive_testnet::{Relay, free_port};
use zenoh::Wait;

use crate::support::{
    LONG, Machine, SHORT_LEASE, example, pair, random, ring, router, session, settle,
};

fn notifier(machine: &Machine, name: &str) -> Notifier {
    Notifier::open_or_create(&machine.domain, name).expect("made")
}

fn listener(machine: &Machine, name: &str) -> Listener {
    Listener::open_or_create(&machine.domain, name).expect("made")
}

/// A notifier of the first machine that the second one follows, and a listener there.
fn through(a: &Machine, b: &Machine) -> (Notifier, Listener) {
    let (here, there) = (notifier(a, "n"), listener(b, "n"));
    b.expect("receives", 1);
    (here, there)
}

/// Takes notices until there are so many of that number; returns how many there are.
fn count(listener: &mut Listener, id: u32, wanted: u64) -> u64 {
    let begun = Instant::now();
    let mut count = 0;
    while count < wanted && begun.elapsed() < LONG {
        if let Some(notices) = listener.wait_timeout(LONG / 10).expect("listens") {
            count += notices.count(id);
        }
    }
    count
}

/// Returns how many more come.
fn more(listener: &mut Listener, id: u32) -> u64 {
    std::thread::sleep(Duration::from_millis(1500));
    listener.try_wait().expect("looks").map_or(0, |notices| notices.count(id))
}

#[test]
fn notices_are_counted_on_both_machines_and_none_comes_back() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (here, mut there) = through(&a, &b);
    let mut own = listener(&a, "n");
    a.expect("receives", 1);
    for number in 0..1000 {
        here.notify(number % 3).expect("told");
    }
    assert_eq!(count(&mut there, 0, 334), 334);
    // Numbers of their own; and those of the other machine.
    let back = notifier(&b, "n");
    for _ in 0..5 {
        back.notify(63).expect("told");
    }
    assert_eq!(count(&mut own, 63, 5), 5);
    assert_eq!(more(&mut own, 63) + more(&mut own, 0), 0);
    assert_eq!(more(&mut there, 0), 0);
}

#[test]
fn a_notifier_is_made_with_its_numbers_and_deaths_are_told() {
    let (a, b) = pair(&["--allow-out", "doors/**"], &["--allow-in", "doors/**"]);
    let options = Notifier::options().on_created(61).on_left(62).on_died(63);
    let _first = options.create_new(&a.domain, "doors.front").expect("made");
    b.expect("receives", 1);
    let mut there = Listener::open(&b.domain, "doors.front").expect("made");
    let config = there.config();
    assert_eq!((config.on_created, config.on_left, config.on_died), (Some(61), Some(62), Some(63)));
    drop(Notifier::open(&a.domain, "doors.front").expect("there"));
    assert_eq!(count(&mut there, 62, 1), 1);
    let mut program = example("notices", &a.path(), &["doors.front", "7", "5"]);
    assert_eq!(count(&mut there, 7, 5), 5);
    program.kill();
    assert_eq!(count(&mut there, 63, 1), 1);
}

#[test]
fn what_is_notified_while_a_gateway_is_dead_or_stopped_comes_when_it_is_back() {
    let rules = [&SHORT_LEASE, &["--allow", "**"][..]].concat();
    let (mut a, mut b) = pair(&rules, &rules);
    let (here, mut there) = through(&a, &b);
    let notify = |times: u64| (0..times).for_each(|_| assert!(here.notify(3).is_ok()));
    let mut got = 0;
    let mut come = |sum: u64| {
        got += count(&mut there, 3, sum.saturating_sub(got));
        assert!(got >= sum, "{got} of {sum}");
        got
    };
    notify(10);
    come(10);
    a.kill();
    b.expect("unreachable", 1);
    notify(20);
    a.start();
    come(30);
    b.kill();
    notify(30);
    b.start();
    come(60);
    let mut sum = 60;
    for machine in [&mut a, &mut b] {
        let gateway = machine.gateway.as_mut().expect("started");
        gateway.stop();
        std::thread::sleep(Duration::from_millis(1500));
        notify(40);
        gateway.go_on();
        sum += 40;
        come(sum);
    }
    // Ended, and started again later.
    drop(a.gateway.take());
    notify(50);
    a.start();
    let got = come(sum + 50) + more(&mut there, 3);
    // Where the receiver's gateway was killed just as it told some, these may come twice, and it says so.
    let uncertain = uncertain(&b);
    assert!(got - (sum + 50) <= uncertain, "{got}, {uncertain} uncertain");
}

/// As many notices may have come twice, as told.
fn uncertain(machine: &Machine) -> u64 {
    let events = machine.events("uncertain");
    events.iter().map(|event| event["messages"].as_u64().expect("a number")).sum()
}

#[test]
fn no_notice_is_lost_through_kills_of_gateways_and_routers() {
    const NOTICES: u64 = 10_000;
    const KILLS: u32 = 20;
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut router =
        Machine::started("router", &["--mode", "router", "--listen", &endpoint, "--allow", "none"]);
    let client = ["--mode", "client", "--connect", &endpoint, "--allow", "n"];
    let (mut a, mut b) = (Machine::started("a", &client), Machine::started("b", &client));
    let (here, mut there) = through(&a, &b);
    let got = std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..NOTICES {
                here.notify((number % 64) as u32).expect("told");
                std::thread::sleep(Duration::from_micros(600));
            }
        });
        let counting = scope.spawn(move || {
            let begun = Instant::now();
            let mut got = 0;
            while begun.elapsed() < LONG * 3 && got < NOTICES {
                if let Some(notices) = there.wait_timeout(LONG / 60).expect("listens") {
                    got += notices.iter().map(|(_, count)| count).sum::<u64>();
                }
            }
            std::thread::sleep(Duration::from_secs(2));
            let rest = there.try_wait().expect("looks");
            got + rest.iter().flatten().map(|(_, count)| count).sum::<u64>()
        });
        let mut chance = u64::from(std::process::id());
        for _ in 0..KILLS {
            let victim = match random(&mut chance) % 5 {
                0 | 1 => &mut a,
                2 | 3 => &mut b,
                _ => &mut router,
            };
            victim.kill();
            victim.start();
            std::thread::sleep(Duration::from_millis(random(&mut chance) % 300));
        }
        counting.join().expect("counted")
    });
    let uncertain = uncertain(&b);
    println!("{got} notices of {NOTICES}, {uncertain} uncertain");
    assert!(got >= NOTICES && got - NOTICES <= uncertain, "{got}, {uncertain}\n{}", b.log());
}

#[test]
fn a_link_that_is_cut_loses_no_notice() {
    let listens = format!("127.0.0.1:{}", free_port());
    let relay = Relay::to(listens.parse().expect("an address"));
    let a = Machine::started("a", &["--listen", &format!("tcp/{listens}"), "--allow", "n"]);
    let to = format!("tcp/{}", relay.address());
    let b = Machine::started("b", &["--connect", &to, "--allow", "n"]);
    let (here, mut there) = through(&a, &b);
    for round in 1..=3 {
        relay.refuse();
        relay.cut();
        b.expect("unreachable", round);
        for _ in 0..100 {
            here.notify(1).expect("told");
        }
        relay.accept();
        assert_eq!(count(&mut there, 1, 100), 100);
    }
    assert_eq!(more(&mut there, 1), 0);
}

#[test]
fn nothing_goes_round_among_three() {
    let machines = ring(3);
    let notifiers: Vec<Notifier> = machines.iter().map(|machine| notifier(machine, "n")).collect();
    let mut listeners: Vec<Listener> =
        machines.iter().map(|machine| listener(machine, "n")).collect();
    for machine in &machines {
        machine.expect("receives", 2);
    }
    for (number, notifier) in (0..).zip(&notifiers) {
        (0..10).for_each(|_| assert!(notifier.notify(number).is_ok()));
    }
    for listener in &mut listeners {
        let begun = Instant::now();
        let mut counts = [0; 3];
        while counts != [10; 3] && begun.elapsed() < LONG {
            if let Some(notices) = listener.wait_timeout(LONG / 10).expect("listens") {
                (0..3).for_each(|id| counts[id] += notices.count(id as u32));
            }
        }
        assert_eq!(counts, [10; 3]);
    }
    for listener in &mut listeners {
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(listener.try_wait(), Ok(None));
    }
}

#[test]
fn a_zenoh_program_reads_totals_and_puts_numbers() {
    let (a, endpoint) = router(&["--allow", "**"]);
    let client = session(&endpoint);
    let samples = client.declare_subscriber("doors").wait().expect("declared");
    settle(&client, &endpoint);
    let own = notifier(&a, "doors");
    let mut there = listener(&a, "doors");
    a.expect("sends", 1);
    (0..3).for_each(|_| assert!(own.notify(5).is_ok()));
    let total = |bytes: &zenoh::bytes::ZBytes| {
        let bytes = bytes.to_bytes();
        assert_eq!(bytes.len(), 512);
        u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"))
    };
    loop {
        let sample = samples.recv_timeout(LONG).expect("received").expect("in time");
        if total(sample.payload()) == 3 {
            break;
        }
    }
    let replies = client.get("doors").timeout(LONG).wait().expect("asked");
    let reply = replies.recv().expect("one");
    assert_eq!(total(reply.result().expect("a value").payload()), 3);
    assert_eq!(count(&mut there, 5, 3), 3);
    client.put("doors", 9_u32.to_le_bytes()).wait().expect("put");
    assert_eq!(count(&mut there, 9, 1), 1);
    for bad in [&64_u32.to_le_bytes()[..], b"", b"12345"] {
        client.put("doors", bad).wait().expect("put");
    }
    a.expect("refused", 3);
    assert_eq!(more(&mut there, 9), 0);
}

#[test]
fn hostile_totals_change_nothing() {
    const ORIGIN: &str = "0123456789abcdef0123456789abcdef";
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let client = session(&endpoint);
    let mut there = listener(&a, "in.n");
    let word = outlive_zenoh::notices::wire::Word {
        origin: outlive_zenoh::wire::Origin(u128::from_str_radix(ORIGIN, 16).expect("hex")),
        tenure: 1,
        start: 1,
        told: [None; 3],
    };
    let bytes = |total: u64| vec![total.to_le_bytes(); 64].concat();
    let first = bytes(4);
    let _totals = client
        .declare_queryable(format!("@outlive/1/notices-get/{ORIGIN}/0000000000000001"))
        .callback(move |query| {
            let reply = query.reply(query.key_expr().clone(), first.clone());
            reply.attachment(word.to_bytes()).wait().expect("replied");
        })
        .wait()
        .expect("declared");
    let token = |rest: &str| {
        let key = format!("@outlive/1/notifier/{ORIGIN}/{rest}");
        client.liveliness().declare_token(key).wait().expect("declared")
    };
    let _tokens = [
        token("0000000000000001/0000000000000001/in/n"),
        token("0000000000000002/0000000000000001/in/a.b"),
        token("0000000000000003/0000000000000001/out"),
        token("zz/in/n"),
    ];
    a.expect("receives", 1);
    a.expect("refused", 1);
    let put = |payload: Vec<u8>, attachment: Vec<u8>| {
        client.put("in/n", payload).attachment(attachment).wait().expect("put");
    };
    let whole = word.to_bytes();
    for len in 0..bytes(5).len() {
        put(bytes(5)[..len].to_vec(), whole.clone());
    }
    put(bytes(u64::MAX), whole.clone());
    put(bytes(3), whole.clone());
    put([bytes(5), vec![0]].concat(), whole.clone());
    put(bytes(6), whole);
    assert_eq!(count(&mut there, 63, 2), 2);
    assert_eq!(more(&mut there, 63), 0);
}
