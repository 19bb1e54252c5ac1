//! Calls between domains: what arrives, deaths and stops of each side in the middle of a call, and zenoh
//! programs that ask.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outlive::rpc::{CallError, Client, Service};
use outlive_testnet::{Child, eventually, free_port};
use outlive_zenoh::services::wire::{self as call_wire, Asked, CallId};
use outlive_zenoh::wire::Origin;
use zenoh::Wait;

use crate::support::{LONG, Machine, call_key, example, pair, ring, session};

/// Starts the example that serves.
pub fn serve(machine: &Machine, service: &str) -> Child {
    example("echo", &machine.path(), &[service])
}

/// A client of that machine, whose stand-in serves.
pub fn client(machine: &Machine, service: &str) -> Client {
    let is_there = || {
        Service::open_as_bytes(&machine.domain, service)
            .is_ok_and(|service| service.current_server().is_some_and(|server| server.alive))
    };
    assert!(eventually(LONG, is_there), "{}", machine.log());
    let service = Service::open_as_bytes(&machine.domain, service).expect("there");
    service.client().expect("room")
}

/// How many requests with that word the example has begun.
pub fn begun(client: &Client, word: &str) -> String {
    let mut answer = Err(CallError::NoServer);
    // The question may be asked again: on a busy machine a lease may end for a moment.
    eventually(LONG, || {
        answer = client.call_timeout(format!("begun {word}").as_bytes(), LONG);
        answer.is_ok()
    });
    String::from_utf8(answer.expect("answered").into_vec()).expect("a number")
}

fn expect_begun_death(told: Result<(), CallError>) {
    assert_eq!(told, Err(CallError::ServerDied { begun: true }));
}

#[test]
fn calls_of_all_kinds_arrive_and_their_replies_come_back() {
    let (a, b) = pair(&["--allow-out", "arm/**"], &["--allow-in", "arm/**"]);
    let _server = serve(&a, "arm.move");
    let client = client(&b, "arm.move");
    for len in [0, 1, 232, 233, 1024, 1025, 4097, 65_536, 1 << 20, 33_000_000] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at.wrapping_mul(31) >> 3) as u8).collect();
        let request = [b"echo ", &bytes[..]].concat();
        let reply = client.call_timeout(&request, LONG).expect("answered");
        assert!(*reply == bytes[..], "{len} bytes");
    }
    // More than what may be on its way at a time.
    let mut call = client.begin(b"count 100").expect("asked");
    for number in 0..100_u32 {
        if number == 50 {
            std::thread::sleep(Duration::from_millis(200));
        }
        let reply = call.next().expect("well").expect("one more");
        assert_eq!(*reply, *number.to_string().as_bytes());
    }
    assert!(call.next().expect("well").is_none());
    let told = client.call_timeout(b"fail no such arm", LONG).map(drop);
    assert_eq!(told, Err(CallError::Failed("no such arm".to_owned())));
    assert_eq!(client.call_timeout(b"drop", LONG).map(drop), Err(CallError::Dropped));
    // Many at once, each with its own answer.
    let calls: Vec<_> =
        (0..100).map(|at| client.begin(format!("echo {at}").as_bytes()).expect("asked")).collect();
    for (at, call) in calls.into_iter().enumerate() {
        assert_eq!(*call.wait_timeout(LONG).expect("answered"), *at.to_string().as_bytes());
    }
    assert_eq!(a.events("refused").len() + b.events("refused").len(), 0);
}

#[test]
fn a_service_has_its_types_there_and_only_what_a_rule_allows() {
    let (a, b) = pair(&["--allow-out", "open/**"], &["--allow-in", "open/**"]);
    for name in ["open.double", "secret.double"] {
        let service = Service::<u64, f64>::options().described();
        let service = service.open_or_create(&a.domain, name).expect("made");
        std::thread::spawn(move || {
            let mut server = service.server().expect("none");
            while let Ok(request) = server.next() {
                let answer = request.value() as f64 * 2.0;
                let _ = request.reply(&answer);
            }
        });
    }
    b.expect("serves", 1);
    let there = Service::<u64, f64>::options().described();
    let there = there.open(&b.domain, "open.double").expect("the same types");
    let client = there.client().expect("room");
    assert_eq!(client.call_timeout(&21, LONG).expect("answered").value(), 42.0);
    std::thread::sleep(Duration::from_millis(300));
    let names = b.domain.contents().expect("readable").names;
    assert!(!names.iter().any(|name| name.starts_with("secret")), "{names:?}");
}

#[test]
fn a_server_s_death_in_the_middle_of_a_call_is_told_at_once() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    let mut call = client.begin(b"hang").expect("asked");
    assert_eq!(*call.next().expect("well").expect("one"), *b"begun");
    server.kill();
    let killed = Instant::now();
    expect_begun_death(call.next().map(drop));
    println!("told {:?} after the kill", killed.elapsed());
    // As at home: no server is there any more.
    b.expect("leaves", 1);
    assert_eq!(client.call_timeout(b"echo", LONG).map(drop), Err(CallError::NoServer));
    // Its successor.
    let _server = serve(&a, "s");
    b.expect("serves", 2);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
}

#[test]
fn a_server_that_leaves_in_order_leaves_here_too() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let service = Service::<[u8]>::open_or_create(&a.domain, "s").expect("made");
    let server = service.server().expect("none");
    let client = client(&b, "s");
    drop(server);
    b.expect("leaves", 1);
    assert_eq!(client.call_timeout(b"x", LONG).map(drop), Err(CallError::NoServer));
    let _server = service.server().expect("none");
    b.expect("serves", 2);
}

#[test]
fn the_death_of_the_server_s_gateway_is_told_and_no_call_is_carried_out_twice() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    let mut call = client.begin(b"hang").expect("asked");
    assert_eq!(*call.next().expect("well").expect("one"), *b"begun");
    a.kill();
    let killed = Instant::now();
    expect_begun_death(call.next().map(drop));
    println!("told {:?} after the kill", killed.elapsed());
    b.expect("leaves", 1);
    a.start();
    b.expect("serves", 2);
    assert_eq!(begun(&client, "hang"), "1");
    // The dead gateway's call is let go of: the server was told.
    assert!(eventually(LONG, || begun(&client, "cancelled") == "1"));
}

/// Returns what a call gave. `None`: nothing was heard of the other gateway for a lease, as beside a load
/// that leaves it no time for a second: that is told as a death, and by the gateway here.
fn heard<T>(here: &Machine, leaves: usize, told: Result<T, CallError>) -> Option<T> {
    match told {
        Ok(value) => Some(value),
        Err(CallError::ServerDied { .. } | CallError::NoServer) => {
            here.expect("leaves", leaves + 1);
            println!("the lease has passed, and the test ends here:\n{}", here.log());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_death_of_the_client_s_gateway_is_a_server_s_death_there_and_a_client_s_here() {
    let (a, mut b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _server = serve(&a, "s");
    let there = client(&b, "s");
    let mut call = there.begin(b"hang").expect("asked");
    let Some(reply) = heard(&b, 0, call.next()) else { return };
    assert_eq!(*reply.expect("one"), *b"begun");
    b.kill();
    expect_begun_death(call.next().map(drop));
    let leaves = b.events("leaves").len();
    b.start();
    b.expect("serves", 2);
    let ask = |word: &str| {
        let answer = there.call_timeout(format!("begun {word}").as_bytes(), LONG);
        heard(&b, leaves, answer).map(|answer| answer.into_vec())
    };
    let Some(begun) = ask("hang") else { return };
    assert_eq!(begun, b"1");
    assert!(eventually(LONG, || ask("cancelled").is_none_or(|count| count == b"1")));
}

#[test]
fn a_stopped_gateway_is_out_of_reach_within_its_lease() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    let mut call = client.begin(b"hang").expect("asked");
    assert_eq!(*call.next().expect("well").expect("one"), *b"begun");
    let gateway = a.gateway.as_mut().expect("started");
    gateway.stop();
    let stopped = Instant::now();
    expect_begun_death(call.next_timeout(LONG).map(drop));
    println!("told {:?} after the stop", stopped.elapsed());
    gateway.go_on();
    b.expect("serves", 2);
    // It lets go of the call, for which no client waits.
    assert!(eventually(LONG, || begun(&client, "cancelled") == "1"));
    assert_eq!(begun(&client, "hang"), "1");
}

#[test]
fn a_stopped_server_is_waited_for_and_a_call_that_times_out_is_cancelled_there() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    server.stop();
    // The stand-in has taken it, and waits.
    let call = client.begin(b"echo").expect("asked");
    assert!(eventually(LONG, || call.is_begun()));
    let told = call.wait_timeout(Duration::from_millis(300)).map(drop);
    assert_eq!(told, Err(CallError::TimedOut { begun: true }));
    let call = client.begin(b"echo late").expect("asked");
    server.go_on();
    assert_eq!(*call.wait_timeout(LONG).expect("answered"), *b"late");
    // One that the server has begun.
    let call = client.begin(b"hang silently").expect("asked");
    assert!(eventually(LONG, || begun(&client, "hang") == "1"));
    let told = call.wait_timeout(Duration::from_millis(300)).map(drop);
    assert_eq!(told, Err(CallError::TimedOut { begun: true }));
    assert!(eventually(LONG, || begun(&client, "cancelled") == "1"));
    // And one that is let go of in the middle of its stream.
    let mut call = client.begin(b"count 1000000").expect("asked");
    assert_eq!(*call.next().expect("well").expect("one"), *b"0");
    drop(call);
    assert!(eventually(LONG, || begun(&client, "cancelled") == "2"));
}

#[test]
fn a_router_s_death_ends_its_calls_and_its_successor_carries_on() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let mut router =
        Machine::started("r", &["--mode", "router", "--listen", &endpoint, "--allow", "none"]);
    let rules = ["--mode", "client", "--connect", &endpoint, "--allow", "**"];
    let (a, b) = (Machine::started("a", &rules), Machine::started("b", &rules));
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    let mut call = client.begin(b"hang").expect("asked");
    assert_eq!(*call.next().expect("well").expect("one"), *b"begun");
    router.kill();
    let killed = Instant::now();
    expect_begun_death(call.next_timeout(LONG).map(drop));
    println!("told {:?} after the kill", killed.elapsed());
    b.expect("leaves", 1);
    router.start();
    b.expect("serves", 2);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    assert_eq!(begun(&client, "hang"), "1");
}

#[test]
fn among_three_gateways_no_call_goes_round() {
    let machines = ring(3);
    let mut server = serve(&machines[0], "s");
    let clients = [client(&machines[1], "s"), client(&machines[2], "s")];
    for client in &clients {
        assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    }
    assert_eq!(begun(&clients[0], "echo"), "2");
    // What is served by a stand-in is not offered on: with the server all of it goes.
    server.kill();
    for (machine, client) in machines[1..].iter().zip(&clients) {
        machine.expect("leaves", 1);
        assert_eq!(client.call_timeout(b"x", LONG).map(drop), Err(CallError::NoServer));
        assert_eq!(machine.events("offers").len(), 0);
    }
}

#[test]
fn zenoh_programs_ask_the_plain_key() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a =
        Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow-out", "**"]);
    let _server = serve(&a, "arm.move");
    a.expect("offers", 1);
    let client = session(&endpoint);
    let ask = |key: &str, request: &str| -> Vec<Result<String, String>> {
        let replies = client.get(key).payload(request).timeout(LONG).wait().expect("asked");
        let text =
            |bytes: &zenoh::bytes::ZBytes| String::from_utf8_lossy(&bytes.to_bytes()).into_owned();
        let one = |reply: zenoh::query::Reply| match reply.result() {
            Ok(sample) => Ok(text(sample.payload())),
            Err(error) => Err(text(error.payload())),
        };
        replies.into_iter().map(one).collect()
    };
    assert!(eventually(LONG, || ask("arm/move", "echo hello") == [Ok("hello".to_owned())]));
    assert_eq!(ask("arm/move", "fail no"), [Err("no".to_owned())]);
    // A pattern is no call.
    assert_eq!(ask("arm/**", "echo x"), []);
}

#[test]
fn a_request_that_is_repeated_is_refused() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "**"]);
    let _server = serve(&a, "s");
    a.expect("offers", 1);
    let client = session(&endpoint);
    let call = call_key(&client);
    let plain = outlive_zenoh::wire::fingerprint("", None);
    let ask = |number: u64, request: &str| {
        let id = CallId { origin: Origin(7), epoch: 1, number };
        let get = client.get(&call).payload(request).timeout(LONG);
        let asked = Asked { id, fingerprint: plain, has_parts: false };
        let get = get.attachment(call_wire::asked_to_bytes(asked)).wait().expect("asked");
        let one = |reply: zenoh::query::Reply| {
            reply
                .result()
                .map(|sample| sample.payload().to_bytes().into_owned())
                .unwrap_or_default()
        };
        get.into_iter().map(one).collect::<Vec<Vec<u8>>>()
    };
    assert_eq!(ask(5, "echo 1"), [b"1".to_vec()]);
    assert_eq!(ask(5, "echo 1"), [] as [Vec<u8>; 0]);
    a.expect("refused", 1);
    // A word that was faster than its request.
    let id = CallId { origin: Origin(7), epoch: 1, number: 6 };
    let word = call_wire::word_to_bytes(id, call_wire::Word::Cancelled);
    let parts: Vec<&str> = call.split('/').collect();
    let key = format!("@outlive/1/call-word/{}/{}", parts[3], parts[4]);
    client.put(key, word).wait().expect("put");
    assert_eq!(ask(6, "echo 1"), [] as [Vec<u8>; 0]);
    assert_eq!(ask(7, "begun echo"), [b"1".to_vec()]);
}

#[test]
fn hostile_calls_and_words_are_refused() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "in/**"]);
    let before = a.domain.contents().expect("readable").names;
    let client = session(&endpoint);
    let origin = "0123456789abcdef0123456789abcdef";
    let bytes = [&b""[..], b"OLC1", &[0xff; 44], &[0; 4096]];
    for kind in ["call", "call-word", "service-meta", "service", "gateway"] {
        for bytes in bytes {
            let key = format!("@outlive/1/{kind}/{origin}/0000000000000001/zz");
            client.put(&key, bytes).wait().expect("put");
            let get = client.get(&key).payload(bytes).attachment(bytes);
            let _ = get.timeout(Duration::from_millis(20)).wait();
        }
    }
    // One that offers what cannot be.
    let token = |instance: u64, key: &str| {
        let key =
            format!("@outlive/1/service/{origin}/{instance:016x}/0000000000000003/20000001/{key}");
        client.liveliness().declare_token(key).wait().expect("declared")
    };
    let answer = client.declare_queryable(format!("@outlive/1/service-meta/{origin}/*"));
    let answer = answer.callback(|query| {
        let meta = r#"{"type_name":"x","description":[1,2],"max_bytes":18446744073709551615,"fingerprint":1}"#;
        let _ = query.reply(query.key_expr().clone(), meta).wait();
    });
    let _answer = answer.wait().expect("declared");
    let _tokens = [token(1, "in/liar"), token(2, "in/../../etc"), token(3, "out/side")];
    assert!(eventually(LONG, || a.events("refused").len() >= 2), "{}", a.log());
    let mut names = a.domain.contents().expect("readable").names;
    names.retain(|name| !before.contains(name));
    assert_eq!(names, [] as [&str; 0], "{}", a.log());
    let _server = serve(&a, "in.fine");
    a.expect("offers", 1);
}

#[test]
fn where_a_service_has_a_server_of_its_own_no_other_serves() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let own = Service::<[u8]>::open_or_create(&b.domain, "s").expect("made");
    let mut own_server = own.server().expect("none");
    let _server = serve(&a, "s");
    b.expect("yields", 1);
    let client = own.client().expect("room");
    let call = client.begin(b"echo 1").expect("asked");
    own_server.next_timeout(LONG).expect("asked").expect("in time").reply(b"home").expect("wanted");
    assert_eq!(*call.wait().expect("answered"), *b"home");
    assert_eq!(b.events("serves").len(), 0);
    // It leaves: now the one elsewhere is asked.
    drop(own_server);
    b.expect("serves", 1);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
}

#[test]
fn a_queryable_of_a_zenoh_program_serves_where_a_rule_says_so() {
    let rules = "
[[rule]]
allow = 'arm/**'
direction = 'in'
queryables = true
";
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let config = outlive_testnet::Folder::new("config");
    let file = config.join("gateway.toml");
    std::fs::write(&file, rules).expect("written");
    let file = file.to_str().expect("text");
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--config", file]);
    let service = Service::<[u8]>::open_or_create(&a.domain, "arm.move").expect("made");
    Service::<[u8]>::open_or_create(&a.domain, "leg.move").expect("made");
    let client = service.client().expect("room");
    assert_eq!(client.call(b"x").map(drop), Err(CallError::NoServer));
    let program = session(&endpoint);
    let queryable = program.declare_queryable("arm/move").callback(|query| {
        let request =
            query.payload().map(|bytes| bytes.to_bytes().into_owned()).unwrap_or_default();
        if request == b"fail" {
            let _ = query.reply_err("no").wait();
        }
        for reply in request.split(|byte| *byte == b' ').filter(|_| request != b"fail") {
            let _ = query.reply(query.key_expr().clone(), reply).wait();
        }
    });
    let queryable = queryable.wait().expect("declared");
    let other = program.declare_queryable("leg/move").callback(drop).wait().expect("declared");
    a.expect("serves", 1);
    assert_eq!(*client.call_timeout(b"once", LONG).expect("answered"), *b"once");
    let mut call = client.begin(b"a b c").expect("asked");
    for reply in [b"a", b"b", b"c"] {
        assert_eq!(*call.next().expect("well").expect("one"), *reply);
    }
    assert!(call.next().expect("well").is_none());
    let told = client.call_timeout(b"fail", LONG).map(drop);
    assert_eq!(told, Err(CallError::Failed("no".to_owned())));
    queryable.undeclare().wait().expect("undeclared");
    a.expect("leaves", 1);
    assert_eq!(client.call_timeout(b"x", LONG).map(drop), Err(CallError::NoServer));
    drop(other);
    assert_eq!(a.events("serves").len(), 1);
}

#[test]
fn while_gateways_and_routers_are_killed_no_call_is_carried_out_twice() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let router = ["--mode", "router", "--listen", &endpoint, "--allow", "none"];
    let rules = ["--mode", "client", "--connect", &endpoint, "--allow", "**"];
    let mut machines = [
        Machine::started("r", &router),
        Machine::started("a", &rules),
        Machine::started("b", &rules),
    ];
    let _server = serve(&machines[1], "s");
    let callers: Vec<Client> = (0..3).map(|_| client(&machines[2], "s")).collect();
    let is_over = AtomicBool::new(false);
    let (done, died) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let (is_over, done, died) = (&is_over, &done, &died);
        let running: Vec<_> = callers
            .iter()
            .enumerate()
            .map(|(at, client)| {
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                        let name = format!("{at}-{}", answered.len());
                        match client.call_timeout(format!("mark {name}").as_bytes(), LONG) {
                            Ok(reply) => {
                                assert_eq!(*reply, *name.as_bytes());
                                answered.push(true);
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(CallError::ServerDied { begun }) => {
                                answered.push(false);
                                done.fetch_add(1, Ordering::Relaxed);
                                died.fetch_add(1, Ordering::Relaxed);
                                if !begun {
                                    // The stand-in is dead, and says so at once.
                                    std::thread::sleep(Duration::from_millis(5));
                                }
                            }
                            Err(CallError::NoServer) => {
                                std::thread::sleep(Duration::from_millis(5))
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    answered
                })
            })
            .collect();
        let begun = Instant::now();
        let has_seen = || done.load(Ordering::Relaxed) > 100 && died.load(Ordering::Relaxed) > 0;
        // On a slow machine more rounds, until there were calls and deaths in the middle of them.
        for round in (0..).take_while(|round| *round < 9 || !has_seen() && begun.elapsed() < LONG) {
            // At other moments each time, the longest after those before have come back.
            std::thread::sleep(Duration::from_millis(100 + 37 * (round % 9) as u64));
            let machine = &mut machines[round % 3];
            machine.kill();
            machine.start();
            let there = || callers[0].try_wait_for_server().is_ok();
            assert!(eventually(LONG, there), "{}", machines[2].log());
        }
        is_over.store(true, Ordering::Relaxed);
        running.into_iter().map(|caller| caller.join().expect("no panic")).collect()
    });
    let there = || callers[0].call_timeout(b"echo 1", LONG).is_ok();
    assert!(eventually(LONG, there), "{}", machines[2].log());
    let (mut calls, mut unknown) = (0, 0);
    for (at, answered) in outcomes.iter().enumerate() {
        for (number, &was_answered) in answered.iter().enumerate() {
            let times = begun(&callers[0], &format!("{at}-{number}"));
            assert!(times == "1" || times == "0" && !was_answered, "{at}-{number}: {times} times");
            calls += 1;
            unknown += u32::from(!was_answered);
        }
    }
    println!("{calls} calls, {unknown} of which ended by a death");
    assert!(calls > 100 && unknown > 0, "{calls} calls, {unknown}");
}

/// A queryable has no window: what its client has not taken yet waits in the gateway.
#[test]
fn replies_of_a_queryable_to_a_client_that_takes_none_are_bounded() {
    let rules = "
[[rule]]
allow = 'arm/**'
direction = 'in'
queryables = true
";
    let (_folder, file) = crate::support::rules(rules);
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--config", &file]);
    let service = Service::<[u8]>::open_or_create(&a.domain, "arm.move").expect("made");
    let client = service.client().expect("room");
    let program = session(&endpoint);
    let queryable = program.declare_queryable("arm/move").callback(|query| {
        // On a thread of its own: it takes long.
        std::thread::spawn(move || {
            for _ in 0..400_000 {
                let _ = query.reply(query.key_expr().clone(), vec![7; 1000]).wait();
            }
        });
    });
    let _queryable = queryable.wait().expect("declared");
    a.expect("serves", 1);
    let pid = a.gateway.as_ref().expect("started").pid();
    let before = crate::played::resident(pid);
    let call = client.begin(b"all").expect("asked");
    let mut most = 0;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        most = most.max(crate::played::resident(pid));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(most < before + (100 << 10), "{before} KiB before, {most} now");
    drop(call);
}
