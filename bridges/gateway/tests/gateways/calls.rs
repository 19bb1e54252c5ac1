//! Calls between domains: which server carries one out, what is known of one that is not answered, parts of
//! requests, and how many there may be.

use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use outlive::rpc::{CallError, Client, Service};
use outlive_testnet::{eventually, free_port};
use outlive_zenoh::services::wire::{self as call_wire, Asked, CallId, Kind};
use outlive_zenoh::wire::Origin;
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, Query};

use crate::services::{begun, client, serve};
use crate::support::{LONG, Machine, call_key, pair, ring, session};

/// A server in this process, which answers each call with a name until it is dropped.
struct Named {
    ending: mpsc::Sender<()>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Named {
    fn start(machine: &Machine, service: &str, name: &'static str) -> Named {
        let service = Service::<[u8]>::open_or_create(&machine.domain, service).expect("made");
        let mut server = service.server().expect("a place");
        let (ending, ended) = mpsc::channel();
        let serve = move || {
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let request = server.next_timeout(Duration::from_millis(10)).expect("serves");
                if let Some(request) = request {
                    let _ = request.reply(name.as_bytes());
                }
            }
        };
        Named { ending, thread: Some(thread::spawn(serve)) }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.ending.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answered_by(client: &Client, names: &[&str]) {
    let is_of = |reply: &[u8]| names.iter().any(|name| name.as_bytes() == reply);
    let is = || client.call_timeout(b"x", LONG).is_ok_and(|reply| is_of(&reply));
    assert!(eventually(LONG, is), "{names:?}: {:?}", client.call_timeout(b"x", LONG));
}

#[test]
fn a_server_of_one_s_own_gets_the_place_and_the_stand_in_comes_back() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    // Two that the stand-in has in its hands.
    let mut hangs = client.begin(b"hang").expect("asked");
    assert_eq!(*hangs.next().expect("well").expect("one"), *b"begun");
    let mut counts = client.begin(b"count 100").expect("asked");
    assert_eq!(*counts.next().expect("well").expect("one"), *b"0");

    let asked = Instant::now();
    let home = Named::start(&b, "s", "home");
    println!("the place after {:?}", asked.elapsed());
    for _ in 0..10 {
        assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"home");
    }
    b.expect("leaves", 1);
    b.expect("yields", 1);
    // What was begun ends as it would have.
    for number in 1..100_u32 {
        let reply = counts.next().expect("well").expect("one more");
        assert_eq!(*reply, *number.to_string().as_bytes());
    }
    assert!(counts.next().expect("well").is_none());
    assert!(hangs.try_next().expect("goes on").is_pending());
    server.kill();
    let told = hangs.next_timeout(LONG).map(|reply| matches!(reply, Poll::Ready(None)));
    assert_eq!(told, Err(CallError::ServerDied { begun: true }));
    let mut server = serve(&a, "s");
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"home");
    assert_eq!(b.events("serves").len(), 1);

    drop(home);
    b.expect("serves", 2);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    // A process that stands by gets it, too; its death brings the stand-in back.
    let service = Service::open_as_bytes(&b.domain, "s").expect("there");
    let by = service.wait_to_serve_timeout(LONG).expect("waits").expect("in time");
    b.expect("offers", 2);
    drop(by);
    b.expect("serves", 3);
    let yields = b.events("yields").len();
    let mut here = serve(&b, "s");
    b.expect("offers", 3);
    b.expect("yields", yields + 1);
    here.kill();
    b.expect("serves", 4);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    server.kill();
    b.expect("leaves", 4);
    assert_eq!(b.events("refused").len(), 0, "{}", b.log());
}

#[test]
fn a_service_for_several_servers_is_left_by_its_stand_in_when_one_comes() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let options = Service::<[u8]>::options().max_servers(3);
    options.create_new(&b.domain, "s").expect("made");
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    let service = Service::<[u8]>::open(&b.domain, "s").expect("there");
    let homes = [Named::start(&b, "s", "home"), Named::start(&b, "s", "home")];
    b.expect("leaves", 1);
    let servers = service.current_servers();
    assert_eq!(servers.iter().filter(|server| server.alive).count(), 2, "{}", b.log());
    for _ in 0..10 {
        assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"home");
    }
    drop(homes);
    b.expect("serves", 2);
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    // It has not left for its own coming.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(b.events("leaves").len(), 1, "{}", b.log());
}

#[test]
fn of_servers_in_three_domains_each_serves_its_own_and_the_longest_known_the_others() {
    let machines = ring(4);
    let mut servers = Vec::new();
    for (machine, name) in machines.iter().zip(["first", "second", "third"]) {
        servers.push(Named::start(machine, "s", name));
        machine.expect("offers", 1);
        // The others come once all know the first.
        let know = || {
            machines.iter().all(|machine| {
                Service::open_as_bytes(&machine.domain, "s").is_ok_and(|service| {
                    service.current_server().is_some_and(|server| server.alive)
                })
            })
        };
        assert!(eventually(LONG, know));
    }
    let clients: Vec<Client> = machines.iter().map(|machine| client(machine, "s")).collect();
    for (client, name) in clients.iter().zip(["first", "second", "third", "first"]) {
        answered_by(client, &[name]);
    }
    // The first one goes: its clients, and those without a server, get the server that their gateway
    // has known longer. In which order a gateway hears of two servers is not promised.
    drop(servers.remove(0));
    let either = ["second", "third"];
    for (client, names) in clients.iter().zip([&either[..], &["second"], &["third"], &either]) {
        answered_by(client, names);
    }
    servers.push(Named::start(&machines[0], "s", "again"));
    for (client, names) in clients.iter().zip([&["again"][..], &["second"], &["third"], &either]) {
        answered_by(client, names);
    }
}

#[test]
fn a_call_that_no_server_has_begun_is_told_so_across_gateways() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    let begun_one = client.begin(b"hang silently").expect("asked");
    assert!(eventually(LONG, || begun(&client, "hang") == "1"));
    // Stopped, it takes none of these; then it is killed.
    server.stop();
    let calls: Vec<_> = (0..20).map(|_| client.begin(b"mark x").expect("asked")).collect();
    let are_taken = || calls.iter().all(|call| call.is_begun());
    assert!(eventually(LONG, are_taken), "the stand-in has taken them");
    server.kill();
    for call in calls {
        let told = call.wait_timeout(LONG).map(drop);
        assert_eq!(told, Err(CallError::ServerDied { begun: false }));
    }
    // No reply came of this one either.
    let told = begun_one.wait_timeout(LONG).map(drop);
    assert_eq!(told, Err(CallError::ServerDied { begun: true }));
    // A successor there does none of them.
    b.expect("leaves", 1);
    let _server = serve(&a, "s");
    b.expect("serves", 2);
    assert_eq!(begun(&client, "x"), "0");
}

/// A gateway that the test plays, with one service, and answers calls as it says.
fn played(
    client: &zenoh::Session,
    key: &str,
    answer: impl Fn(Query) + Send + Sync + 'static,
) -> Vec<Box<dyn std::any::Any>> {
    let origin = "0123456789abcdef0123456789abcdef";
    let meta = client.declare_queryable(format!("@outlive/1/service-meta/{origin}/*"));
    let fingerprint = outlive_zenoh::wire::fingerprint("", None);
    let meta = meta.callback(move |query| {
        let meta = format!(
            r#"{{"type_name":"","description":null,"max_bytes":1048576,"fingerprint":{fingerprint}}}"#
        );
        let _ = query.reply(query.key_expr().clone(), meta).wait();
    });
    let calls = client.declare_queryable(format!("@outlive/1/call/{origin}/*/0000000000000003"));
    let calls = calls.callback(answer).wait().expect("declared");
    let token =
        format!("@outlive/1/service/{origin}/0000000000000005/0000000000000003/20000001/{key}");
    let meta = meta.wait().expect("declared");
    let token = client.liveliness().declare_token(token).wait().expect("declared");
    vec![Box::new(meta), Box::new(calls), Box::new(token)]
}

#[test]
fn what_the_other_gateway_does_not_say_may_have_been_begun() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let b = Machine::started("b", &["--mode", "router", "--listen", &endpoint, "--allow-in", "**"]);
    let network = session(&endpoint);
    let say = |query: &Query, number: u64, kind: Kind| {
        let reply = query.reply(query.key_expr().clone(), "r");
        let reply = reply.attachment(call_wire::replied_to_bytes(number, kind));
        reply.wait().expect("sent");
    };
    let kept = std::sync::Mutex::new(Vec::new());
    let _played = played(&network, "s", move |query| {
        let request = query.payload().map(|bytes| bytes.to_bytes().into_owned());
        match request.as_deref().unwrap_or_default() {
            b"not begun" => say(&query, 0, Kind::NotBegun),
            b"died" => say(&query, 0, Kind::Died),
            b"liar" => {
                say(&query, 0, Kind::Part);
                say(&query, 1, Kind::NotBegun);
            }
            b"gap" => say(&query, 1, Kind::NotBegun),
            // A credit that no request has asked for.
            b"credit" => {
                say(&query, 100, Kind::Credit);
                say(&query, 0, Kind::Last);
            }
            b"late" => {
                say(&query, 0, Kind::Last);
                say(&query, 0, Kind::NotBegun);
            }
            b"kept" => kept.lock().expect("no panic").push(query),
            // Its answer ends.
            _ => {}
        }
    });
    let client = client(&b, "s");
    let told = |request: &[u8]| {
        let mut call = client.begin(request).expect("asked");
        loop {
            match call.next_timeout(LONG) {
                Ok(Poll::Ready(Some(_))) if call.is_over() => return None,
                Ok(Poll::Ready(Some(_))) => {}
                Ok(_) => panic!("no end"),
                Err(error) => return Some(error),
            }
        }
    };
    let died = |begun| Some(CallError::ServerDied { begun });
    assert_eq!(told(b"not begun"), died(false));
    for request in [&b"died"[..], b"liar", b"gap", b"silence"] {
        assert_eq!(told(request), died(true), "{}", String::from_utf8_lossy(request));
    }
    assert_eq!(told(b"credit"), None);
    assert_eq!(told(b"late"), None);
    // A question that does not end, of a gateway that has gone: its token tells.
    let token = "@outlive/1/gateway/0123456789abcdef0123456789abcdef/0000000000000003";
    let token = network.liveliness().declare_token(token).wait().expect("declared");
    let mut call = client.begin(b"kept").expect("asked");
    assert!(call.next_timeout(Duration::from_millis(300)).expect("goes on").is_pending());
    token.undeclare().wait().expect("undeclared");
    let told = call.next_timeout(LONG).map(|reply| reply.is_pending());
    assert_eq!(told, Err(CallError::ServerDied { begun: true }));
    b.expect("unreachable", 1);
}

/// Asks a gateway as another one does.
struct Caller {
    session: zenoh::Session,
    call: String,
}

impl Caller {
    fn of(endpoint: &str) -> Caller {
        let session = session(endpoint);
        let call = call_key(&session);
        Caller { session, call }
    }

    /// What it is answered with, as it comes.
    fn ask(&self, number: u64, request: &str, has_parts: bool) -> mpsc::Receiver<(u64, Kind)> {
        let id = CallId { origin: Origin(7), epoch: 1, number };
        let fingerprint = outlive_zenoh::wire::fingerprint("", None);
        let asked = call_wire::asked_to_bytes(Asked { id, fingerprint, has_parts });
        let (sender, answers) = mpsc::channel();
        let get = self.session.get(&self.call).payload(request).timeout(LONG).attachment(asked);
        let get = get.consolidation(ConsolidationMode::None);
        let get = get.callback(move |reply| {
            let Ok(sample) = reply.result() else { return };
            let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
            let said = attachment.and_then(|bytes| call_wire::replied_from_bytes(&bytes));
            let _ = sender.send(said.expect("of this version"));
        });
        get.wait().expect("asked");
        answers
    }
}

#[test]
fn a_caller_has_as_many_calls_as_there_is_room_for_and_is_told_of_the_others() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "**"]);
    let mut server = serve(&a, "s");
    a.expect("offers", 1);
    let caller = Caller::of(&endpoint);
    const MOST: u64 = 512;
    let calls: Vec<_> =
        (0..MOST + 100).map(|number| caller.ask(number, "hang silently", false)).collect();
    let mut refused = 0;
    for (number, call) in calls.iter().enumerate() {
        if number as u64 >= MOST {
            assert_eq!(call.recv_timeout(LONG), Ok((0, Kind::NotBegun)), "{number}");
            refused += 1;
        }
    }
    println!("{refused} were refused");
    assert_eq!(a.events("refused").len(), 1, "told once");
    // Others are served, and one that is refused is not carried out when it comes again.
    let home = client(&a, "s");
    // The others are told before all of these have begun.
    assert!(eventually(LONG, || begun(&home, "hang") == MOST.to_string()), "{}", a.log());
    assert_eq!(caller.ask(MOST, "hang silently", false).recv_timeout(LONG).ok(), None);
    // Of a stopped server: begun by none.
    assert_eq!(a.events("refused").len(), 2);
    // Another start of the gateway is not this one.
    let mut other = Caller::of(&endpoint);
    let digit = if caller.call.ends_with('0') { "1" } else { "0" };
    other.call.replace_range(other.call.len() - 1.., digit);
    assert!(other.ask(MOST + 150, "mark other", false).recv_timeout(LONG).is_err());
    assert_eq!(begun(&home, "other"), "0");
    drop(calls);
    server.kill();
    let last = caller.ask(MOST + 200, "echo 1", false);
    let told = last.recv_timeout(LONG);
    // Or the gateway knows of the death already and has withdrawn the service: no answer comes.
    let is_over =
        matches!(told, Ok((0, Kind::NotBegun)) | Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(is_over, "{told:?}");
}

#[test]
fn what_a_stand_in_has_no_room_for_waits_as_not_begun() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    const MOST: usize = 512;
    let calls: Vec<_> =
        (0..MOST + 50).map(|_| client.begin(b"hang silently").expect("asked")).collect();
    let taken = || calls.iter().filter(|call| call.is_begun()).count();
    assert!(eventually(LONG, || taken() == MOST), "{}", taken());
    let other = crate::services::client(&b, "s");
    let told = other.call_timeout(b"echo 1", Duration::from_millis(300)).map(drop);
    assert_eq!(told, Err(CallError::TimedOut { begun: false }));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(taken(), MOST);
    // As some go, others come.
    drop(calls);
    assert_eq!(*other.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    assert!(eventually(LONG, || { begun(&other, "cancelled") == begun(&other, "hang") }));
}

#[test]
fn parts_of_requests_arrive_in_order() {
    let (a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    for (count, len) in [(0, 0), (1, 0), (1, 7), (7, 1025), (100, 3), (30, 100_000)] {
        let mut all = Vec::new();
        let mut stream = client.stream(b"all").expect("asked");
        for number in 0..count {
            let part: Vec<u8> = (0..len).map(|at| (at + number) as u8).collect();
            stream.send_timeout(&part, LONG).expect("sent");
            all.extend(part);
        }
        let reply = stream.finish().expect("well").wait_timeout(LONG).expect("answered");
        assert!(*reply == all[..], "{count} parts of {len} bytes");
    }
    // Both ways at once, more than may lie anywhere.
    let mut stream = client.stream(b"each").expect("asked");
    for number in 0..200_u32 {
        stream.send_timeout(&number.to_le_bytes(), LONG).expect("sent");
        let reply = stream.next_reply_timeout(LONG).expect("well");
        let Poll::Ready(Some(reply)) = reply else { panic!("no reply to {number}") };
        assert_eq!(*reply, number.to_le_bytes());
    }
    let mut call = stream.finish().expect("well");
    assert!(call.next().expect("well").is_none());
    // One that is answered before its last part.
    let mut stream = client.stream(b"first").expect("asked");
    let answered = loop {
        match stream.send_timeout(b"part", LONG) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(answered, CallError::Answered);
    let reply = stream.finish().expect("well").wait_timeout(LONG).expect("answered");
    assert_eq!(*reply, *b"part");
    assert_eq!(a.events("refused").len() + b.events("refused").len(), 0);
}

#[test]
fn a_request_of_parts_ends_with_its_client_its_server_or_a_gateway() {
    let (mut a, b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    let send = |count: u32| {
        let mut stream = client.stream(b"all").expect("asked");
        for _ in 0..count {
            stream.send_timeout(b"part", LONG).expect("sent");
        }
        stream
    };
    let stream = send(20);
    assert!(stream.cancel());
    assert!(eventually(LONG, || begun(&client, "cancelled") == "1"));
    let mut stream = send(20);
    server.stop();
    // The window is full, here and there: no more than that is under way.
    let mut sent = 0;
    while stream.send_timeout(&[1; 5000], Duration::from_millis(300)).is_ok() {
        sent += 1;
        assert!(sent < 100, "{sent}");
    }
    println!("{sent} parts were under way");
    server.kill();
    let told = stream.send_timeout(&[1; 5000], LONG);
    assert_eq!(told, Err(CallError::ServerDied { begun: true }));
    drop(stream);
    b.expect("leaves", 1);
    let _server = serve(&a, "s");
    b.expect("serves", 2);
    let mut stream = send(20);
    a.kill();
    let told = loop {
        match stream.send_timeout(b"part", LONG) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(told, CallError::ServerDied { begun: true });
    drop(stream);
    a.start();
    b.expect("serves", 3);
    assert!(eventually(LONG, || begun(&client, "cancelled") == "1"));
}

#[test]
fn parts_that_come_uncalled_for_end_their_call() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "**"]);
    let _server = serve(&a, "s");
    a.expect("offers", 1);
    let caller = Caller::of(&endpoint);
    let key = caller.call.replace("/call/", "/call-part/");
    let key = key.rsplit_once('/').expect("an epoch").0.to_owned();
    let part = |call: u64, number: u64, is_end: bool| {
        let id = CallId { origin: Origin(7), epoch: 1, number: call };
        let bytes = call_wire::part_to_bytes(id, number, is_end);
        caller.session.put(&key, "part").attachment(bytes).wait().expect("put");
    };
    // One that is missing.
    let answers = caller.ask(1, "all", true);
    assert_eq!(answers.recv_timeout(LONG), Ok((8, Kind::Credit)));
    part(1, 0, false);
    part(1, 0, false);
    part(1, 2, false);
    assert_eq!(answers.recv_timeout(LONG), Ok((0, Kind::Died)));
    // Repeats are dropped; the end is no part.
    let answers = caller.ask(2, "all", true);
    assert_eq!(answers.recv_timeout(LONG), Ok((8, Kind::Credit)));
    for number in [0, 0, 1, 0] {
        part(2, number, false);
    }
    part(2, 2, true);
    part(2, 2, false);
    assert_eq!(answers.recv_timeout(LONG), Ok((0, Kind::Last)));
    // Of a call that has none, or is none.
    let answers = caller.ask(3, "echo 1", false);
    part(3, 0, false);
    part(99, 0, true);
    assert_eq!(answers.recv_timeout(LONG), Ok((0, Kind::Last)));
    // Far more than were called for, at a server that takes none.
    let answers = caller.ask(4, "hang silently", true);
    assert_eq!(answers.recv_timeout(LONG), Ok((8, Kind::Credit)));
    for number in 0..40 {
        part(4, number, false);
        // No faster than its task takes them.
        thread::sleep(Duration::from_millis(10));
    }
    let ended = answers.iter().find(|(_, kind)| *kind != Kind::Credit);
    assert_eq!(ended, Some((0, Kind::Died)));
    let home = client(&a, "s");
    assert!(eventually(LONG, || begun(&home, "cancelled") == "2"), "{}", begun(&home, "cancelled"));
}

#[test]
fn a_request_that_comes_behind_its_gateway_s_end_is_not_carried_out() {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "**"]);
    let _server = serve(&a, "s");
    a.expect("offers", 1);
    let caller = Caller::of(&endpoint);
    let token = || {
        let token = format!("@outlive/1/gateway/{:032x}/{:016x}", 7, 1);
        caller.session.liveliness().declare_token(token).wait().expect("declared")
    };
    let first = token();
    assert_eq!(caller.ask(1, "mark x", false).recv_timeout(LONG), Ok((0, Kind::Last)));
    first.undeclare().wait().expect("undeclared");
    // It is told by another path: it may take a while.
    let mut asked = 1;
    let is_refused = || {
        asked += 1;
        caller.ask(asked, "mark late", false).recv_timeout(LONG).is_err()
    };
    assert!(eventually(LONG, is_refused));
    let home = client(&a, "s");
    let before = begun(&home, "late");
    assert!(caller.ask(100, "mark late", false).recv_timeout(LONG).is_err());
    assert_eq!(begun(&home, "late"), before);
    // A link that heals.
    let _again = token();
    let mut asked = 200;
    assert!(eventually(LONG, || {
        asked += 1;
        caller.ask(asked, "mark again", false).recv_timeout(LONG).is_ok()
    }));
}

#[test]
fn a_stopped_stand_in_gives_way_when_it_goes_on_and_a_dead_one_is_none() {
    let (a, mut b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let _server = serve(&a, "s");
    let client = client(&b, "s");
    let service = Service::open_as_bytes(&b.domain, "s").expect("there");
    b.gateway.as_mut().expect("started").stop();
    assert!(matches!(service.server(), Err(outlive::Error::Taken { .. })));
    thread::scope(|scope| {
        let by = scope.spawn(|| service.wait_to_serve_timeout(LONG).expect("waits"));
        thread::sleep(Duration::from_millis(200));
        b.gateway.as_mut().expect("started").go_on();
        let mut by = by.join().expect("no panic").expect("in time");
        let call = client.begin(b"x").expect("asked");
        by.next_timeout(LONG).expect("serves").expect("asked").reply(b"home").expect("wanted");
        assert_eq!(*call.wait().expect("answered"), *b"home");
    });
    b.expect("serves", 2);
    b.kill();
    drop(service.server().expect("a dead one is in no way"));
}

#[test]
fn of_two_gateways_in_a_domain_one_stands_in() {
    let (a, mut b) = pair(&["--allow-out", "**"], &["--allow-in", "**"]);
    let mut server = serve(&a, "s");
    let client = client(&b, "s");
    let mut command = b.command();
    command.args(["--name", "other"]);
    let _other = outlive_testnet::Child::start(command).expect("starts");
    assert!(eventually(LONG, || b.events("acts").len() == 2), "{}", b.log());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(*client.call_timeout(b"echo 1", LONG).expect("answered"), *b"1");
    assert_eq!(b.events("serves").len(), 1, "{}", b.log());
    // A server of its own gets the place from whichever has it.
    let home = Named::start(&b, "s", "home");
    answered_by(&client, &["home"]);
    drop(home);
    b.expect("serves", 2);
    answered_by_echo(&client);
    b.kill();
    b.expect("serves", 3);
    answered_by_echo(&client);
    let home = Named::start(&b, "s", "home");
    answered_by(&client, &["home"]);
    drop(home);
    server.kill();
}

fn answered_by_echo(client: &Client) {
    let is = || client.call_timeout(b"echo 1", LONG).is_ok_and(|reply| *reply == *b"1");
    assert!(eventually(LONG, is));
}
