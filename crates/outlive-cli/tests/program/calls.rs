//! `call` and `serve`: requests and answers from a shell, and what is told when a process dies.

use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::task::Poll;

use outlive::Domain;
use outlive::rpc::Service;

use crate::stage::{LIMIT, Running, Stage, line, until};

fn serving(stage: &Stage, name: &str) -> bool {
    stage.entry(name).is_some_and(|entry| entry["receiver"]["alive"] == true)
}

#[test]
fn a_command_answers() {
    let stage = Stage::new();
    let server = stage.start(&["serve", "upper", "--", "tr", "a-z", "A-Z"]);
    until("it serves", || serving(&stage, "upper"));
    assert_eq!(stage.run(&["call", "upper", "hello"]).expect(0).text(), "HELLO");
    let long: Vec<u8> = (0..300_000).map(|n| b'a' + (n % 26) as u8).collect();
    let answer = stage.feed(&["call", "upper"], &long).expect(0).out;
    assert_eq!(answer, long.to_ascii_uppercase());
    assert_eq!(stage.run(&["call", "--json", "upper", "x"]).expect(0).json()["text"], "X");
    stage.run(&["serve", "upper", "--", "cat"]).expect(12).says("has a living server already");
    let listed = stage.run(&["ls"]).expect(0).text();
    assert!(listed.contains("service") && listed.contains("server"), "{listed}");
    stage.run(&["info", "upper"]).expect(0);
    server.kill();
    server.end();
    stage.run(&["call", "upper", "x"]).expect(3).says("died");
    stage.run(&["gc"]).expect(0);
}

#[test]
fn what_can_go_wrong_is_told() {
    let stage = Stage::new();
    stage.run(&["call", "nobody", "x"]).expect(6).says("no service 'nobody'");
    stage.run(&["call", "--no-create", "none", "x"]).expect(6);
    stage.run(&["call", "--wait-for-server", "--timeout", "0.05", "nobody", "x"]).expect(5);
    assert!(!stage.domain().exists(), "call makes neither a service nor a domain");
    let kept = stage.path("kept");
    std::fs::write(&kept, "what was there").expect("written");
    let output = ["call", "--output", kept.to_str().expect("text"), "nobody", "x"];
    stage.run(&output).expect(6);
    let still = || std::fs::read_to_string(&kept).expect("there");
    assert_eq!(still(), "what was there");
    let server = stage.start(&["serve", "fails", "-n", "1", "--", "false"]);
    until("it serves", || serving(&stage, "fails"));
    stage.run(&["call", "fails", "x"]).expect(1).says("false: exit status: 1");
    server.end().expect(0).says("no answer");
    // It was served once.
    stage.run(&["call", "fails", "x"]).expect(4).says("no server");
    let path = kept.to_str().expect("text");
    stage.run(&["call", "--output", path, "fails", "x"]).expect(4);
    assert_eq!(still(), "what was there");
    let new = stage.path("new");
    stage.run(&["call", "--output", new.to_str().expect("text"), "fails", "x"]).expect(4);
    assert!(!new.exists(), "there was no reply");
    let server = stage.start(&["serve", "fails", "-n", "2", "--", "cat"]);
    until("it serves", || serving(&stage, "fails"));
    // Before the request is sent: the reply would have no place.
    stage
        .run(&["call", "--output", "no/such/folder", "fails", "x"])
        .expect(6)
        .says("no/such/folder");
    stage.run(&["call", "--output", path, "fails", "short"]).expect(0);
    assert_eq!(still(), "short");
    stage.run(&["call", "--output", path, "fails", ""]).expect(0);
    assert_eq!(still(), "");
    server.end().expect(0);
    stage.run(&["call", "fials", "x"]).expect(6).says("is 'fails' meant?");
    assert!(stage.entry("fials").is_none());
    let server = stage.start(&["serve", "none", "-n", "1", "--", "/no/such/command"]);
    until("it serves", || serving(&stage, "none"));
    stage.run(&["call", "none", "x"]).expect(1).says("cannot run /no/such/command");
    server.end().expect(6);
    // One that waits gets the next server; one that does not is told of the death.
    let server = stage.start(&["serve", "slow", "--", "sh", "-c", "exec sleep 20 2> slow"]);
    until("it serves", || serving(&stage, "slow"));
    let first = stage.start(&["call", "slow", "x"]);
    until("it is begun", || {
        stage.entry("slow").is_some_and(|entry| entry["figures"]["begun"] == 1)
    });
    let second = stage.start(&["call", "--wait-for-server", "slow", "y"]);
    until("it waits", || {
        stage.entry("slow").is_some_and(|entry| entry["counters"]["pending"] == 1)
    });
    server.kill();
    server.end();
    first.end().expect(3).says("had begun");
    let server = stage.start(&["serve", "slow", "-n", "1", "--", "cat"]);
    assert_eq!(second.end().expect(0).text(), "y");
    server.end().expect(0);
}

/// A call may come before the first server.
#[test]
fn a_service_that_is_not_there_is_waited_for() {
    let stage = Stage::new();
    let call = stage.start(&["call", "--wait-for-server", "--timeout", "20", "upper", "x"]);
    until("it waits", || call.is_waiting());
    assert!(!stage.domain().exists());
    let server = stage.start(&["serve", "upper", "-n", "1", "tr", "a-z", "A-Z"]);
    let ended = call.end().expect(0).says("waiting for a server to make 'upper'");
    assert_eq!(ended.text(), "X");
    server.end().expect(0);
}

#[test]
fn several_commands_answer_at_a_time() {
    let stage = Stage::new();
    // Each waits for the other one: only commands that run at the same time can answer.
    let meet = "mkdir meet-$$ && until [ $(ls -d meet-* | wc -l) = 2 ]; do sleep 0.01; done; cat";
    let server = stage.start(&["serve", "--jobs", "2", "-n", "2", "pair", "sh", "-c", meet]);
    until("it serves", || serving(&stage, "pair"));
    let (first, second) =
        (stage.start(&["call", "pair", "a"]), stage.start(&["call", "pair", "b"]));
    assert_eq!(first.end().expect(0).text(), "a");
    assert_eq!(second.end().expect(0).text(), "b");
    server.end().expect(0);
    stage.run(&["serve", "--jobs", "0", "pair", "cat"]).expect(2);
}

#[test]
fn a_server_that_is_told_to_end_answers_first() {
    let stage = Stage::new();
    // It ends with the test's folder, at the latest: its server may have left it behind.
    let script = r#"exec 2> /dev/null; cat; until [ -e go ] || [ ! -e "$OUTLIVE_DOMAIN" ]; do sleep 0.01; done"#;
    for more in [false, true] {
        let server = stage.start(&["serve", "slow", "sh", "-c", script]);
        until("it serves", || serving(&stage, "slow"));
        let client = stage.start(&["call", "slow", "x"]);
        until("it is begun", || {
            stage.entry("slow").is_some_and(|entry| entry["figures"]["begun"] == 1)
        });
        server.signal(libc::SIGTERM);
        if more {
            until("the first has been read", || !server.is_pending(libc::SIGTERM));
            server.signal(libc::SIGINT);
            assert_eq!(server.end().code(), 128 + libc::SIGINT);
            client.end().expect(3);
        } else {
            std::fs::write(stage.path("go"), "").expect("written");
            assert_eq!(client.end().expect(0).text(), "x");
            server.end().expect(0);
            std::fs::remove_file(stage.path("go")).expect("removed");
        }
    }
    std::fs::write(stage.path("go"), "").expect("written");
}

/// A terminal sends its SIGINT to the server's whole process group.
#[test]
fn an_interrupt_from_the_terminal_does_not_reach_the_commands() {
    let stage = Stage::new();
    let script = "cat; until [ -e go ]; do sleep 0.01; done";
    let mut command = stage.command(["serve", "slow", "sh", "-c", script]);
    command.process_group(0);
    let server = Running::new(command);
    until("it serves", || serving(&stage, "slow"));
    let client = stage.start(&["call", "slow", "x"]);
    until("it is begun", || {
        stage.entry("slow").is_some_and(|entry| entry["figures"]["begun"] == 1)
    });
    let group = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("there");
    until("it has been read", || !server.is_pending(libc::SIGINT));
    std::fs::write(stage.path("go"), "").expect("written");
    assert_eq!(client.end().expect(0).text(), "x");
    server.end().expect(0);
}

#[test]
fn typed_queues_and_services_are_used_as_bytes() {
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("made");
    let queue = outlive::queue::Queue::<[u16]>::open_or_create(&domain, "levels").expect("made");
    stage.feed(&["send", "levels"], b"abcd\n").expect(0);
    let mut receiver = queue.receiver().expect("free");
    let levels = receiver.recv_timeout(LIMIT).expect("no error");
    assert_eq!(levels, Some([*b"ab", *b"cd"].map(u16::from_le_bytes).to_vec()));
    drop(receiver);
    queue.sender().expect("a sender").send(&[u16::from_le_bytes(*b"ok")]).expect("sent");
    assert_eq!(stage.run(&["recv", "levels", "-n", "1"]).expect(0).text(), "ok\n");

    let service = outlive::rpc::Service::<u32, u32>::open_or_create(&domain, "turn").expect("made");
    let server = stage.start(&["serve", "turn", "-n", "1", "--", "tr", "1234", "4321"]);
    until("it serves", || serving(&stage, "turn"));
    let client = service.client().expect("a client");
    let asked = u32::from_le_bytes(*b"1234");
    let reply = client.call(&asked).expect("answered").value();
    assert_eq!(reply.to_le_bytes(), *b"4321");
    server.end().expect(0);
}

#[test]
fn two_servers_share_the_requests() {
    let stage = Stage::new();
    let first = stage.start(&["serve", "--servers", "2", "who", "--", "echo", "one"]);
    until("it serves", || serving(&stage, "who"));
    let second = stage.start(&["serve", "--servers", "2", "who", "--", "echo", "one"]);
    let both = || stage.run(&["info", "--json", "who"]).expect(0).json()["holders"].clone();
    until("both serve", || both().as_array().is_some_and(|servers| servers.len() == 2));
    let text = stage.run(&["info", "who"]).expect(0).text();
    assert!(text.contains("2 at most"), "{text}");
    stage.run(&["serve", "--servers", "3", "who", "--", "echo"]).expect(7);
    stage.run(&["serve", "who", "--", "echo"]).expect(12);
    // The first dies, and the second answers.
    first.kill();
    first.end();
    assert_eq!(stage.run(&["call", "who", ""]).expect(0).text(), "one\n");
    drop(second);
}

#[test]
fn a_server_that_stands_by_takes_over() {
    let stage = Stage::new();
    let first = stage.start(&["serve", "who", "--", "echo", "first"]);
    until("it serves", || serving(&stage, "who"));
    let next = stage.start(&["serve", "--standby", "who", "--", "echo", "next"]);
    let told = stage.start(&["serve", "--standby", "who", "--", "echo", "told"]);
    assert_eq!(stage.run(&["call", "who", ""]).expect(0).text(), "first\n");
    // This server gets a signal, and ends, before it serves.
    until("it stands by", || told.is_waiting());
    told.signal(libc::SIGTERM);
    told.end().expect(0);
    first.kill();
    first.end();
    let answer = stage.run(&["call", "--wait-for-server", "--timeout", "300", "who", ""]);
    assert_eq!(answer.expect(0).text(), "next\n");
    drop(next);
}

#[test]
fn clients_that_do_nothing_are_told_and_those_that_come_and_go() {
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let service = Service::<[u8]>::open_or_create(&domain, "arm").expect("made");
    let _server = service.server().expect("the first");
    let none = stage.run(&["service", "clients", "arm", "--lease", "5ms"]).expect(0);
    assert!(none.out.is_empty());
    let client = service.client().expect("made");
    let listed = stage.run(&["service", "clients", "arm", "--lease", "20ms", "--json"]).expect(0);
    let listed = listed.json();
    let this = std::process::id();
    assert_eq!((&listed["state"], &listed["pid"]), (&"not_lively".into(), &this.into()));
    // With a lease that is not over it is not idle.
    let text = stage.run(&["service", "clients", "arm", "--lease", "1s"]);
    assert!(text.expect(0).text().starts_with("not_lively  "));

    let mut command =
        stage.command(["service", "clients", "arm", "--watch", "--lease", "30ms", "--json"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut watch = Running::with_own_streams(command);
    let mut out = std::io::BufReader::new(watch.child.stdout.take().expect("piped"));
    let mut next = || {
        let told: serde_json::Value =
            serde_json::from_str(&crate::stage::line(&mut out)).expect("JSON");
        (
            told["state"].as_str().expect("text").to_owned(),
            told["pid"].as_u64().expect("a pid") as u32,
        )
    };
    assert_eq!(next(), ("came".to_owned(), this));
    assert_eq!(next(), ("not_lively".to_owned(), this));
    client.assert_liveliness();
    assert_eq!(next(), ("lively".to_owned(), this));
    drop(client);
    // It may be idle for a moment before it is gone.
    until("it has left", || next() == ("left".to_owned(), this));
    let caller = stage.start(&["call", "arm", "x"]);
    until("it came", || next() == ("came".to_owned(), caller.pid()));
    let dead_pid = caller.pid();
    caller.kill();
    until("it died", || next() == ("died".to_owned(), caller.pid()));
    caller.end().expect(-9);
    // No server looks, so its place is as it left it.
    let dead = stage.run(&["service", "clients", "arm", "--lease", "1ms"]).expect(0).text();
    assert!(dead.starts_with(&format!("dead        {dead_pid} ")), "{dead}");
    watch.signal(2);
    watch.end().expect(0);
    stage.run(&["service", "clients", "none"]).expect(6);
}

#[test]
fn parts_are_lines_and_so_are_replies() {
    let stage = Stage::new();
    let server = stage.start(&["serve", "--parts", "-n", "4", "upper", "tr", "a-z", "A-Z"]);
    until("it serves", || serving(&stage, "upper"));
    let answer = stage.feed(&["call", "--parts", "upper", "first"], b"a\nb\n\nlast").expect(0);
    assert_eq!(answer.text(), "FIRST\nA\nB\n\nLAST\n");
    // More than the ring, the pipes and the service hold at once; without a request of its own.
    let many: Vec<u8> = (0..2_000).flat_map(|n| format!("line {n:060}\n").into_bytes()).collect();
    let answer = stage.feed(&["call", "--parts", "--raw", "upper"], &many).expect(0);
    assert_eq!(answer.out, many.to_ascii_uppercase());
    let answer = stage.feed(&["call", "--parts", "--json", "upper"], b"x\n").expect(0);
    assert_eq!(answer.json()["text"], "X");
    assert!(stage.feed(&["call", "--parts", "upper"], b"").expect(0).out.is_empty());
    server.end().expect(0);
    stage.run(&["call", "-0", "upper", "x"]).expect(2).says("add --parts");
    // Framings, and a command that does not want its input.
    let server = stage.start(&["serve", "--parts", "-0", "-n", "1", "echo", "cat"]);
    until("it serves", || serving(&stage, "echo"));
    let answer = stage.feed(&["call", "--parts", "-0", "echo"], b"a\nb\0c\0").expect(0);
    assert_eq!(answer.out, b"a\nb\0c\0");
    server.end().expect(0);
    let server = stage.start(&["serve", "--parts", "-n", "2", "one", "echo", "hi"]);
    until("it serves", || serving(&stage, "one"));
    assert_eq!(stage.feed(&["call", "--parts", "one"], &many).expect(0).text(), "hi\n");
    server.kill();
    server.end();
    let server =
        stage.start(&["serve", "--parts", "-n", "1", "fails", "sh", "-c", "echo hi; exit 3"]);
    until("it serves", || serving(&stage, "fails"));
    let told = stage.feed(&["call", "--parts", "fails"], b"x\n").expect(1);
    assert_eq!(told.says("sh: exit status: 3").text(), "hi\n");
    server.end().expect(0).says("no last reply");
    // A command that closes its output, and goes on reading.
    let taken = stage.path("taken");
    let to_file = format!("exec cat > '{}'", taken.display());
    let server = stage.start(&["serve", "--parts", "-n", "1", "takes", "sh", "-c", &to_file]);
    until("it serves", || serving(&stage, "takes"));
    assert!(stage.feed(&["call", "--parts", "takes"], &many).expect(0).out.is_empty());
    server.end().expect(0);
    assert_eq!(std::fs::read(&taken).expect("written"), many);
}

/// The client takes no reply before its last part is sent.
#[test]
fn a_command_gets_parts_while_its_replies_find_no_room() {
    let stage = Stage::new();
    let server = stage.start(&["serve", "--parts", "-n", "1", "echo", "cat"]);
    until("it serves", || serving(&stage, "echo"));
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let service = Service::<[u8]>::open_or_create(&domain, "echo").expect("opens");
    let client = service.client().expect("room");
    let mut parts = client.stream_timeout(b"", LIMIT).expect("sent");
    for number in 0..200_u8 {
        parts.send_timeout(&[b'a' + number % 26], LIMIT).expect("the command takes it");
    }
    let mut call = parts.finish().expect("well");
    for number in 0..200_u8 {
        let Poll::Ready(Some(reply)) = call.next_timeout(LIMIT).expect("sent") else {
            panic!("reply {number} did not come");
        };
        assert_eq!(*reply, [b'a' + number % 26]);
    }
    assert!(matches!(call.next_timeout(LIMIT), Ok(Poll::Ready(None))));
    server.end().expect(0);
}

/// The first reply is there before the second part.
#[test]
fn a_reply_comes_before_the_next_part() {
    let stage = Stage::new();
    let server = stage.start(&["serve", "--parts", "echo", "cat"]);
    until("it serves", || serving(&stage, "echo"));
    let mut command = stage.command(["call", "--parts", "echo"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut call = Running::with_own_streams(command);
    let mut out = BufReader::new(call.child.stdout.take().expect("piped"));
    for part in ["one", "two"] {
        call.write(format!("{part}\n").as_bytes());
        assert_eq!(line(&mut out).trim_end(), part);
    }
    call.end().expect(0);
    // A client that is killed ends its command's input; the server goes on.
    let call = stage.start(&["call", "--parts", "--wait-for-server", "echo"]);
    call.kill();
    call.end();
    assert_eq!(stage.feed(&["call", "--parts", "echo"], b"x\n").expect(0).text(), "x\n");
    server.kill();
    server.end();
}
