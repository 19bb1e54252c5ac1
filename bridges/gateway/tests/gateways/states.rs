//! States elsewhere, as readers here see them: the last value always comes, and none goes back.

use std::time::{Duration, Instant};

use outlive::state::{Change, State, Watch, Writer};
use outlive_testnet::{Child, Net, Relay, eventually, free_port, skip};
use outlive_zenoh::states::wire::{StateMeta, Turn, Word, WriterIs};
use outlive_zenoh::wire::{self, Origin};
use zenoh::Wait;

use crate::support::{
    LONG, Machine, SHORT_LEASE, example, pair, random, ring, router, session, settle,
};

/// Opens a state of numbers in that machine's domain, or makes it.
fn state(machine: &Machine, name: &str) -> State<u64> {
    State::<u64>::options().described().open_or_create(&machine.domain, name).expect("made")
}

/// The example that sets a state to the numbers up to that one, and stays.
fn values(machine: &Machine, name: &str, count: u64, pause: Duration) -> Child {
    let pause = pause.as_micros().to_string();
    example("values", &machine.path(), &[name, &count.to_string(), &pause])
}

fn expect<M: outlive::Payload + ?Sized>(state: &State<M>, machine: &Machine, wanted: &M::Owned)
where
    M::Owned: PartialEq + std::fmt::Debug,
{
    let has_it = || state.get().is_ok_and(|value| value == *wanted);
    assert!(eventually(LONG, has_it), "{:?}\n{}", state.get(), machine.log());
}

/// Opens the state that a gateway makes there.
fn made(machine: &Machine, name: &str) -> State<u64> {
    let mut found = None;
    assert!(
        eventually(LONG, || {
            found = State::<u64>::open(&machine.domain, name).ok();
            found.is_some()
        }),
        "{}",
        machine.log()
    );
    found.expect("there")
}

/// Waits for the news that the writer has died.
fn expect_death(watch: &mut Watch) {
    loop {
        match watch.changed_timeout(LONG).expect("looks").expect("in time") {
            Change::WriterDied { .. } => return,
            Change::Value { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_latest_value_is_there_also_for_readers_that_come_late() {
    let (a, mut b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let own = state(&a, "level.front");
    let mut writer = own.writer().expect("none");
    writer.set(&7).expect("set");
    let there = made(&b, "level.front");
    expect(&there, &b, &7);
    for number in 8..100 {
        writer.set(&number).expect("set");
    }
    expect(&there, &b, &99);
    // The other way, at the same time.
    let mut back = state(&b, "mode").writer().expect("none");
    back.set(&3).expect("set");
    expect(&made(&a, "mode"), &a, &3);
    // A machine that comes later has it without another set.
    b.kill();
    writer.set(&100).expect("set");
    b.start();
    expect(&there, &b, &100);
    assert!(there.writer().is_err(), "the gateway writes it");
    // What a reader has opened, and no writer has had, stays where it is.
    let _blank = state(&b, "blank");
    std::thread::sleep(Duration::from_millis(300));
    assert!(State::<u64>::open(&a.domain, "blank").is_err());
}

#[test]
fn values_of_no_bytes_and_of_many_arrive() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let options = State::<[u8]>::options().capacity(33_000_000);
    let own = options.open_or_create(&a.domain, "map").expect("made");
    let mut writer = own.writer().expect("none");
    let big: Vec<u8> =
        (0..33_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    writer.set(&big).expect("set");
    b.expect("receives", 1);
    let there = State::<[u8]>::open(&b.domain, "map").expect("made");
    expect(&there, &b, &big);
    writer.set(b"").expect("set");
    expect(&there, &b, &Vec::new());
    writer.set(&big[..1_000_001]).expect("set");
    expect(&there, &b, &big[..1_000_001].to_vec());
}

#[test]
fn a_writer_s_death_is_told_behind_its_last_value_and_a_leaving_is_not() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let there = state(&b, "n");
    let mut watch = there.watch();
    let mut writer = values(&a, "n", 20, Duration::ZERO);
    expect(&there, &b, &20);
    b.expect("came", 1);
    writer.kill();
    let killed = Instant::now();
    expect_death(&mut watch);
    println!("told {:?} after the kill", killed.elapsed());
    assert_eq!(there.get(), Ok(20));
    b.expect("died", 1);
    assert_eq!(b.events("unreachable").len(), 0);
    let own = state(&a, "n");
    let mut next = own.writer().expect("dead");
    next.set(&21).expect("set");
    expect(&there, &b, &21);
    drop(next);
    b.expect("left", 1);
    std::thread::sleep(Duration::from_millis(100));
    while let Some(change) = watch.try_changed().expect("looks") {
        assert!(matches!(change, Change::Value { .. }), "{change:?}");
    }
}

#[test]
fn a_sender_that_is_killed_or_stopped_is_unreachable_and_the_last_value_comes_when_it_is_back() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let there = state(&b, "n");
    let mut watch = there.watch();
    let mut writer = state(&a, "n").writer().expect("none");
    writer.set(&1).expect("set");
    expect(&there, &b, &1);
    b.expect("came", 1);
    a.kill();
    expect_death(&mut watch);
    b.expect("unreachable", 1);
    writer.set(&2).expect("set");
    a.start();
    expect(&there, &b, &2);
    a.gateway.as_mut().expect("started").stop();
    b.expect("unreachable", 2);
    writer.set(&3).expect("set");
    a.gateway.as_mut().expect("started").go_on();
    expect(&there, &b, &3);
    assert_eq!(b.events("died").len(), 0);
    // Its writer lives again here.
    assert!(eventually(LONG, || there.writer().is_err()));
}

#[test]
fn no_value_goes_back_and_the_last_one_comes_through_kills_of_gateways_and_routers() {
    const VALUES: u64 = 10_000;
    const KILLS: u32 = 20;
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut router =
        Machine::started("router", &["--mode", "router", "--listen", &endpoint, "--allow", "none"]);
    let client = ["--mode", "client", "--connect", &endpoint, "--allow", "n"];
    let (mut a, mut b) = (Machine::started("a", &client), Machine::started("b", &client));
    let there = state(&b, "n");
    let mut writer = state(&a, "n").writer().expect("none");
    writer.set(&1).expect("set");
    expect(&there, &b, &1);
    let is_over = &std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let reader = there.clone();
    let seen = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let (mut last, mut seen) = (0, 0);
            while last < VALUES && !is_over.load(relaxed) {
                let value = reader.get().expect("whole");
                assert!(value >= last, "{value} after {last}");
                seen += u64::from(value > last);
                last = value;
                std::thread::sleep(Duration::from_micros(100));
            }
            seen
        });
        scope.spawn(move || {
            for number in 2..=VALUES {
                writer.set(&number).expect("set");
                std::thread::sleep(Duration::from_micros(700));
            }
            // It stays the writer to the end.
            while !is_over.load(relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
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
        let came = eventually(LONG, || there.get() == Ok(VALUES));
        is_over.store(true, relaxed);
        assert!(came, "{:?}\n{}\n{}", there.get(), a.log(), b.log());
        reading.join().expect("monotonous")
    });
    println!("{seen} values were seen there");
    assert!(seen > 10, "{seen} values were seen there");
}

#[test]
fn a_link_that_is_cut_and_healed_brings_the_last_value() {
    let listens = format!("127.0.0.1:{}", free_port());
    let relay = Relay::to(listens.parse().expect("an address"));
    let a = Machine::started("a", &["--listen", &format!("tcp/{listens}"), "--allow", "n"]);
    let to = format!("tcp/{}", relay.address());
    let b = Machine::started("b", &["--connect", &to, "--allow", "n"]);
    let there = state(&b, "n");
    let mut writer = state(&a, "n").writer().expect("none");
    for round in 1..=3 {
        writer.set(&(round * 10)).expect("set");
        expect(&there, &b, &(round * 10));
        relay.refuse();
        relay.cut();
        b.expect("unreachable", round as usize);
        writer.set(&(round * 10 + 1)).expect("set");
        relay.accept();
        expect(&there, &b, &(round * 10 + 1));
    }
    assert_eq!(b.events("died").len(), 0);
}

#[test]
fn a_pulled_cable_is_told_within_the_lease_and_the_last_value_comes_when_it_is_back() {
    let test = "a_pulled_cable_is_told_within_the_lease_and_the_last_value_comes_when_it_is_back";
    let net = match Net::new() {
        Ok(net) => net,
        Err(why) => return skip(test, &why),
    };
    let (here, away) = (net.host("a"), net.host("b"));
    let endpoint = format!("tcp/{}", here.address(7447));
    let mut a = Machine::new("a", &["--listen", &endpoint, "--allow", "n"]);
    let mut b = Machine::new("b", &["--connect", &endpoint, "--allow", "n"]);
    for (machine, host) in [(&mut a, &here), (&mut b, &away)] {
        let mut command = host.command(env!("CARGO_BIN_EXE_outlive-gateway"));
        machine.arguments(&mut command);
        machine.gateway = Some(Child::start(command).expect("starts"));
        machine.expect("acts", 1);
    }
    let there = state(&b, "n");
    let mut watch = there.watch();
    let mut writer = state(&a, "n").writer().expect("none");
    writer.set(&1).expect("set");
    expect(&there, &b, &1);
    away.down();
    expect_death(&mut watch);
    for number in 2..=50 {
        writer.set(&number).expect("set");
    }
    away.up();
    expect(&there, &b, &50);
}

#[test]
fn a_rule_thins_values_out_and_the_last_one_comes() {
    let folder = outlive_testnet::Folder::new("thinned");
    let file = |name: &str, rule: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("[[rule]]\nallow = 'n'\n{rule}\n")).expect("written");
        path.to_str().expect("text").to_owned()
    };
    for rule in ["rate = 5", "keep_every = 1000", "rate = 5\nkeep_every = 7"] {
        let config = file("out.toml", rule);
        let (a, b) = pair(&["--config", &config], &["--allow-in", "n"]);
        let there = state(&b, "n");
        let first = there.version();
        let mut writer = state(&a, "n").writer().expect("none");
        let begun = Instant::now();
        for number in 1..=1001 {
            writer.set(&number).expect("set");
            std::thread::sleep(Duration::from_micros(300));
        }
        expect(&there, &b, &1001);
        let sets = there.version() - first;
        // Five a second: a slow machine takes many seconds for them.
        let most = 50 + 5 * begun.elapsed().as_secs();
        assert!(sets < most, "{sets} of 1001 values with {rule}, at most {most}");
    }
}

#[test]
fn a_zenoh_program_reads_asks_for_and_puts_values() {
    let (a, endpoint) = router(&["--allow", "**"]);
    let client = session(&endpoint);
    let samples = client.declare_subscriber("param/speed").wait().expect("declared");
    settle(&client, &endpoint);
    let own = state(&a, "param.speed");
    let mut writer = own.writer().expect("none");
    writer.set(&5).expect("set");
    let number = |bytes: &zenoh::bytes::ZBytes| {
        u64::from_le_bytes(bytes.to_bytes()[..].try_into().expect("eight bytes"))
    };
    let next = || samples.recv_timeout(LONG).expect("received").expect("in time");
    let mut sample = next();
    if number(sample.payload()) == 0 {
        // The gateway has come in between the writer and its first value.
        sample = next();
    }
    assert_eq!(number(sample.payload()), 5);
    let word = Word::from_bytes(&sample.attachment().expect("a word").to_bytes()).expect("a word");
    assert_eq!((word.version, word.writer), (2, WriterIs::Living));
    for key in ["param/speed", "param/**"] {
        let replies = client.get(key).timeout(LONG).wait().expect("asked");
        let values: Vec<u64> = replies
            .iter()
            .filter_map(|reply| reply.result().ok().map(|sample| number(sample.payload())))
            .collect();
        assert_eq!(values, [5], "{key}");
    }
    // While a process here writes it, no other does.
    client.put("param/speed", 6_u64.to_le_bytes()).wait().expect("put");
    a.expect("refused", 1);
    assert_eq!(own.get(), Ok(5));
    drop(writer);
    client.put("param/speed", 7_u64.to_le_bytes()).wait().expect("put");
    expect(&own, &a, &7);
    client.put("param/speed", vec![1; 3]).wait().expect("put");
    a.expect("refused", 2);
    assert_eq!(own.get(), Ok(7));
    // One that no writer has had.
    let blank = state(&a, "param.blank");
    client.put("param/blank", 8_u64.to_le_bytes()).wait().expect("put");
    expect(&blank, &a, &8);
    // None of the rules of this one.
    let (closed, endpoint) = router(&["--allow-out", "**"]);
    let own = state(&closed, "n");
    let client = session(&endpoint);
    client.put("n", 8_u64.to_le_bytes()).wait().expect("put");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(own.get(), Ok(0));
}

#[test]
fn two_writers_of_one_state_keep_their_own_values_and_both_gateways_say_so() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (here, there) = (state(&a, "n"), state(&b, "n"));
    let (mut one, mut two) = (here.writer().expect("none"), there.writer().expect("none"));
    one.set(&1).expect("set");
    two.set(&2).expect("set");
    a.expect("refused", 1);
    b.expect("refused", 1);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((here.get(), there.get()), (Ok(1), Ok(2)));
    let count = (a.events("refused").len(), b.events("refused").len());
    assert_eq!(count, (1, 1), "told once");
    // The one that stays counts.
    drop(two);
    expect(&there, &b, &1);
    one.set(&3).expect("set");
    expect(&there, &b, &3);
    // A third writer after the first one's death, on the other machine: now the home is there.
    drop(one);
    b.expect("left", 1);
    let mut two: Writer<u64> = there.writer().expect("none");
    two.set(&4).expect("set");
    expect(&here, &a, &4);
}

#[test]
fn nothing_goes_round_among_three() {
    let machines = ring(3);
    let states: Vec<State<u64>> = machines.iter().map(|machine| state(machine, "n")).collect();
    let mut writer = states[0].writer().expect("none");
    for number in 1..=100 {
        writer.set(&number).expect("set");
    }
    for at in 1..3 {
        expect(&states[at], &machines[at], &100);
    }
    std::thread::sleep(Duration::from_secs(2));
    let versions = || states.iter().map(State::version).collect::<Vec<_>>();
    let before = versions();
    assert_eq!(before[0], 101);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(versions(), before);
    for machine in &machines[1..] {
        assert_eq!(machine.events("sends").len(), 0, "{}", machine.log());
        assert_eq!(machine.events("refused").len(), 0, "{}", machine.log());
    }
}

#[test]
fn another_type_is_refused_and_what_is_there_stays() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let there = State::<f32>::options().described().open_or_create(&b.domain, "n").expect("made");
    there.writer().expect("none").set(&1.5).expect("set");
    let mut writer = state(&a, "n").writer().expect("none");
    writer.set(&1).expect("set");
    b.expect("refused", 1);
    let why = b.events("refused")[0]["why"].to_string();
    assert!(why.contains("another type"), "{why}");
    assert_eq!(there.get(), Ok(1.5));
}

#[test]
fn a_state_that_was_removed_comes_again() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let own = state(&a, "n");
    let mut writer = own.writer().expect("none");
    writer.set(&9).expect("set");
    let there = made(&b, "n");
    expect(&there, &b, &9);
    b.domain.remove("n").expect("removed");
    let mut again = None;
    assert!(
        eventually(LONG, || {
            again = State::<u64>::open(&b.domain, "n").ok();
            again.as_ref().is_some_and(|again| again.get() == Ok(9))
        }),
        "{}",
        b.log()
    );
    // Made anew at home: its versions begin again, and it is another one.
    a.domain.remove("n").expect("removed");
    drop(writer);
    let mut writer = state(&a, "n").writer().expect("none");
    writer.set(&1).expect("set");
    expect(&again.expect("there"), &b, &1);
}

/// A sender that a test plays: hostile words, lengths and keys, and an older value behind a newer one.
#[test]
fn hostile_words_are_refused_and_an_older_value_changes_nothing() {
    const ORIGIN: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
    let (a, endpoint) = router(&["--allow-in", "in/**"]);
    let client = session(&endpoint);
    let meta = |type_name: &str, capacity| StateMeta {
        type_name: type_name.to_owned(),
        description: None,
        capacity,
        is_fixed: false,
        fingerprint: wire::fingerprint(type_name, None),
    };
    let fingerprint = wire::fingerprint("", None);
    let word = |version, turn| Word {
        origin: Origin(ORIGIN),
        instance: 1,
        version,
        writer: WriterIs::Living,
        turn: Turn { start: 1, changes: turn },
        fingerprint,
        is_bare: false,
    };
    let of = |kind: &str, instance: u64| format!("@outlive/1/{kind}/{ORIGIN:032x}/{instance:016x}");
    let answers = |instance, bytes: Vec<u8>| {
        let answer = move |query: zenoh::query::Query| {
            query.reply(query.key_expr().clone(), bytes.clone()).wait().expect("replied");
        };
        client
            .declare_queryable(of("state-meta", instance))
            .callback(answer)
            .wait()
            .expect("declared")
    };
    let json = |meta: &StateMeta| serde_json::to_vec(meta).expect("JSON");
    let _metas = [
        answers(1, json(&meta("", 100))),
        answers(2, json(&meta("", u64::MAX))),
        answers(3, b"{\"type_name\":".to_vec()),
        answers(4, json(&StateMeta { fingerprint: 5, ..meta("", 100) })),
        answers(5, json(&StateMeta { description: Some(vec![9; 40]), ..meta("", 100) })),
    ];
    let first = word(10, 1);
    let _value = client
        .declare_queryable(of("state-get", 1))
        .callback(move |query| {
            let reply = query.reply(query.key_expr().clone(), b"ten");
            reply.attachment(first.to_bytes()).wait().expect("replied");
        })
        .wait()
        .expect("declared");
    let token = |rest: String| client.liveliness().declare_token(rest).wait().expect("declared");
    let _tokens: Vec<_> =
        ["in/n", "in/large", "in/torn", "in/liar", "in/odd", "in/a.b", "in/outlive-gateway"]
            .iter()
            .zip(1..)
            .map(|(key, at)| token(format!("{}/{:016x}/{key}", of("state", at), 1)))
            .chain([
                token(format!("{}/{:016x}/out/n", of("state", 8), 1)),
                token(format!("{}/zz/in/x", of("state", 9))),
            ])
            .collect();
    let mut found = None;
    assert!(eventually(LONG, || {
        found = State::<[u8]>::open(&a.domain, "in.n").ok();
        found.as_ref().is_some_and(|found| found.get() == Ok(b"ten".to_vec()))
    }));
    let there = found.expect("there");
    // Large, torn, liar, odd, and a key with a dot.
    a.expect("refused", 5);
    let put = |value: &[u8], attachment: Vec<u8>| {
        client.put("in/n", value).attachment(attachment).wait().expect("put");
    };
    let whole = word(11, 1).to_bytes();
    for len in 0..whole.len() {
        put(b"cut", whole[..len].to_vec());
    }
    for at in (0..whole.len()).filter(|at| !(32..40).contains(at)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x80;
        put(b"changed", changed);
    }
    put(b"old", word(9, 1).to_bytes());
    put(b"again", word(10, 1).to_bytes());
    put(&[0; 101], word(12, 1).to_bytes());
    put(b"highest", Word { version: u64::MAX, ..word(0, 1) }.to_bytes());
    put(b"of another type", Word { fingerprint: 4, ..word(13, 1) }.to_bytes());
    client.put(of("state-at", 1), vec![1; 63]).wait().expect("put");
    put(b"fifteen", word(15, 2).to_bytes());
    expect(&there, &a, &b"fifteen".to_vec());
    // The value is new, the word about the writer is not.
    put(b"sixteen", Word { writer: WriterIs::Dead, ..word(16, 1) }.to_bytes());
    expect(&there, &a, &b"sixteen".to_vec());
    assert!(there.writer().is_err(), "it lives by the later word");
    let entries = a.domain.entries().expect("read");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let is_allowed = |name: &&str| *name == "in.n" || name.starts_with("outlive-gateway.");
    assert!(names.iter().all(is_allowed), "{names:?}");
}

/// A home that is refused keeps its name busy: once it has gone, the next one that is known has to come in.
#[test]
fn a_state_that_was_refused_makes_room_for_another_machine_s_when_it_goes() {
    let (b, endpoint) = router(&["--allow", "**"]);
    let there = state(&b, "n");
    let other = ["--connect", &endpoint, "--allow-out", "**"];
    let mut a = Machine::started("a", &other);
    let strange = State::<f32>::options().described().open_or_create(&a.domain, "n").expect("made");
    let mut of_a = strange.writer().expect("none");
    of_a.set(&1.5).expect("set");
    b.expect("refused", 1);
    let c = Machine::started("c", &other);
    let mut of_c = state(&c, "n").writer().expect("none");
    of_c.set(&5).expect("set");
    c.expect("sends", 1);
    std::thread::sleep(Duration::from_millis(500));
    a.kill();
    expect(&there, &b, &5);
}

/// Each has a place in the journal, which topics need, too: those whose sender has gone for good give it back.
#[test]
fn states_that_come_and_go_under_other_names_leave_their_places() {
    const ORIGIN: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
    const AT_A_TIME: u64 = 16;
    let (a, endpoint) = router(&[&SHORT_LEASE, &["--allow-in", "in/**"][..]].concat());
    let client = session(&endpoint);
    let of = |kind: &str, rest: &str| format!("@outlive/1/{kind}/{ORIGIN:032x}/{rest}");
    let fingerprint = wire::fingerprint("", None);
    let meta = StateMeta {
        type_name: String::new(),
        description: None,
        capacity: 8,
        is_fixed: false,
        fingerprint,
    };
    let meta = serde_json::to_vec(&meta).expect("JSON");
    let answer = move |query: zenoh::query::Query| {
        query.reply(query.key_expr().clone(), meta.clone()).wait().expect("replied");
    };
    let _meta =
        client.declare_queryable(of("state-meta", "*")).callback(answer).wait().expect("declared");
    let value = move |query: zenoh::query::Query| {
        let instance = query.key_expr().as_str().rsplit('/').next().expect("a part").to_owned();
        let word = Word {
            origin: Origin(ORIGIN),
            instance: u64::from_str_radix(&instance, 16).expect("hex"),
            version: 2,
            writer: WriterIs::Nobody,
            turn: Turn { start: 1, changes: 1 },
            fingerprint,
            is_bare: false,
        };
        let reply = query.reply(query.key_expr().clone(), b"value");
        reply.attachment(word.to_bytes()).wait().expect("replied");
    };
    let _value =
        client.declare_queryable(of("state-get", "*")).callback(value).wait().expect("declared");
    // More than the journal has places.
    for from in (0..2048 + 2 * AT_A_TIME).step_by(AT_A_TIME as usize) {
        let all = from..from + AT_A_TIME;
        let _tokens: Vec<_> = all
            .clone()
            .map(|at| {
                let key = format!("{}/{:016x}/in/s{at}", of("state", &format!("{at:016x}")), 1);
                client.liveliness().declare_token(key).wait().expect("declared")
            })
            .collect();
        let has_come = |at: u64| {
            let found = State::<[u8]>::open(&a.domain, &format!("in.s{at}"));
            found.is_ok_and(|found| found.get() == Ok(b"value".to_vec()))
        };
        for at in all {
            assert!(eventually(LONG, || has_come(at)), "{at}: {:?}", a.events("refused"));
        }
    }
}

/// They come together, and none waits because others come.
#[test]
fn a_thousand_states_come() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut a = Machine::new("a", &["--listen", &endpoint, "--allow", "**"]);
    let b = Machine::started("b", &["--connect", &endpoint, "--allow", "**"]);
    let writers: Vec<_> = (0..1000_u64)
        .map(|at| {
            let mut writer = state(&a, &format!("s{at}")).writer().expect("none");
            writer.set(&at).expect("set");
            writer
        })
        .collect();
    a.start();
    for at in 0..1000 {
        let name = format!("s{at}");
        let has_come = || State::<u64>::open(&b.domain, &name).is_ok_and(|s| s.get() == Ok(at));
        assert!(eventually(LONG, has_come), "{name}: {:?}", b.events("refused"));
    }
    drop(writers);
}
