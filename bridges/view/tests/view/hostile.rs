//! Clients that are no friends, and the program as its user types it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use outlive::topic::Topic;
use outlive_testnet::{Folder, eventually, free_port};
use serde_json::json;
use tungstenite::Message;

use crate::client::{Client, connected};
use crate::support::{LONG, Shown, command};

/// A client sees what is published.
fn assert_serves(shown: &Shown, name: &str) {
    let topic = Topic::<u32>::options().described().open_or_create(&shown.domain, name);
    let topic = topic.expect("made");
    let mut client = shown.client();
    let subscription = client.subscribe(name);
    assert!(eventually(LONG, || !topic.subscribers().is_empty()));
    topic.publisher().expect("publishes").publish(&7).expect("published");
    assert_eq!(client.json(subscription), json!({"value": 7}));
}

#[test]
fn garbage_harms_nobody() {
    let mut shown = Shown::start("garbage", &["--allow-set", "--allow-call"]);
    let port = shown.port;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\xff\xfe nothing of the kind",
        &[b'a'; 100_000],
        b"GET / HTTP/1.1\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("possible");
        // The server may have gone before it has all.
        let _ = stream.write_all(bytes);
        let _ = stream.read(&mut [0; 1000]);
    }
    connected(port, "foxglove.websocket.v1").expect_err("another protocol");
    for message in [
        Message::Text("{".to_owned()),
        Message::Text("[]".to_owned()),
        Message::Text(
            r#"{"op":"subscribe","subscriptions":[{"id":1,"channelId":99999}]}"#.to_owned(),
        ),
        Message::Text(r#"{"op":"subscribe","subscriptions":7}"#.to_owned()),
        Message::Text(r#"{"op":"unsubscribe","subscriptionIds":[4294967295]}"#.to_owned()),
        Message::Text(
            r#"{"op":"setParameters","parameters":[{"name":"a/../b","value":{}}]}"#.to_owned(),
        ),
        Message::Text(r#"{"op":"fetchAsset","uri":"file:///etc/passwd","requestId":1}"#.to_owned()),
        Message::Text(r#"{"op":"subscribeConnectionGraph"}"#.to_owned()),
        Message::Text("[".repeat(1_000_000)),
        Message::Binary(Vec::new()),
        Message::Binary(vec![1]),
        Message::Binary(vec![2; 5]),
        Message::Binary([&[2][..], &[255; 12]].concat()),
        Message::Binary(vec![255; 100]),
        Message::Binary(vec![2; 8 << 20]),
    ] {
        let (mut client, _) = Client::connect(port);
        // It may be closed before it has sent all.
        let _ = client.socket.send(message);
        client.set_patience(Duration::from_millis(100));
        let _ = client.socket.read();
    }
    // A frame that says it is longer than anything.
    let (mut client, _) = Client::connect(port);
    let _ = client
        .socket
        .get_mut()
        .write_all(&[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    client.set_patience(Duration::from_millis(300));
    let _ = client.socket.read();
    let names: Vec<String> = (0..100_000).map(|at| format!("n{at}")).collect();
    let (mut client, _) = Client::connect(port);
    client.send(&json!({"op": "subscribeParameterUpdates", "parameterNames": names}));
    assert_serves(&shown, "still");
    assert!(shown.child.is_running());
}

#[test]
fn a_thousand_connections_harm_nobody() {
    let mut shown = Shown::start("thousand", &[]);
    let mut idle = Vec::new();
    for at in 0..1_000 {
        match TcpStream::connect(("127.0.0.1", shown.port)) {
            Ok(stream) => idle.push(stream),
            // This process itself may have no more descriptors.
            Err(_) if at > 200 => break,
            Err(error) => panic!("after {at}: {error}"),
        }
    }
    idle.truncate(idle.len() - 50);
    assert_serves(&shown, "beside");
    drop(idle);
    assert_serves(&shown, "after");
    assert!(shown.child.is_running());
}

/// With few descriptors, the server's own loop ends at the first connection too many.
#[test]
fn a_server_that_has_run_out_of_descriptors_comes_again() {
    let folder = Folder::new("few");
    let domain = folder.join("domain");
    let port = free_port();
    let mut limited = Command::new("sh");
    let view = env!("CARGO_BIN_EXE_outlive-view");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", view, "--domain"]).arg(&domain);
    limited.args(["--port", &port.to_string(), "--json"]).stdout(std::process::Stdio::piped());
    let mut child = outlive_testnet::Child::start(limited).expect("starts");
    let mut said = child.stdout().expect("piped");
    assert!(eventually(LONG, || connected(port, "foxglove.sdk.v1").is_ok()));
    let mut idle: Vec<TcpStream> = Vec::new();
    let exhausted = eventually(LONG, || {
        idle.extend((0..20).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()));
        idle.len() > 200 || TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    assert!(exhausted);
    drop(idle);
    assert!(eventually(LONG, || connected(port, "foxglove.sdk.v1").is_ok()), "it is gone for good");
    assert!(child.is_running());
    child.end(LONG);
    let mut all = String::new();
    said.read_to_string(&mut all).expect("text");
    assert!(all.contains("started again"), "it never ran out: {all}");
}

#[test]
fn exit_codes_are_those_of_outlive() {
    let folder = Folder::new("codes");
    let taken = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = taken.local_addr().expect("an address").port().to_string();
    for (code, says, args) in [
        (12, "in use", &["--port", &port][..]),
        (2, "--port", &["--port", "70000"]),
        (2, "--backlog", &["--backlog", "1"]),
        (2, "--call-timeout", &["--call-timeout", "soon"]),
        (15, "192.0.2.1", &["--listen", "192.0.2.1", "--port", "0"]),
    ] {
        let ended = command(&folder, args).output().expect("runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn it_ends_when_it_is_asked_to_with_clients_or_without() {
    // A shell that starts the tests in the background has them, and what they start, ignore SIGINT.
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut shown = Shown::start("ends", &[]);
        let topic = Topic::<u32>::open_or_create(&shown.domain, "n").expect("made");
        let mut client = shown.client();
        client.subscribe("n");
        assert!(eventually(LONG, || !topic.subscribers().is_empty()));
        shown.child.signal(signal);
        assert_eq!(shown.child.wait(LONG).and_then(|status| status.code()), Some(0));
        assert!(eventually(LONG, || topic.subscribers().is_empty()), "its subscriber is there");
    }
}
