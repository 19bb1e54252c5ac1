//! Requests and replies that are values: of types that both sides agree on, and as msgpack.

use outlive::rpc::Client;
use outlive::rpc::{CallError, Service};
use outlive::{Error, RecvError};

use crate::child::{Child, PATIENCE};
use crate::rpc::next;
use crate::runner::World;
use crate::services::{client_of, server_of};

crate::checks!(values_as_msgpack, values_of_agreed_types, a_length_that_is_not_the_types_is_told,);

fn values_of_agreed_types(world: &World) {
    let domain = world.domain();
    let sums = Service::<[u16], u64>::open_or_create(&domain, "sums").expect("made");
    let client = sums.client().expect("a client");
    let _server = Child::start(|| {
        let mut server =
            Service::<[u16], u64>::open(&domain, "sums").expect("there").server().expect("free");
        loop {
            let request = server.next().expect("served");
            let numbers = request.value();
            let mut stream = request.stream();
            stream.send(&(numbers.len() as u64)).expect("taken");
            stream.send(&numbers.iter().map(|&number| u64::from(number)).sum()).expect("taken");
            stream.finish().expect("taken");
        }
    });
    client.wait_for_server_timeout(PATIENCE).expect("one comes");
    for len in [0usize, 1, 3, 57, 5_000] {
        let numbers: Vec<u16> = (0..len as u16).collect();
        let mut call = client.begin(&numbers).expect("sent");
        let sum = numbers.iter().map(|&number| u64::from(number)).sum::<u64>();
        for wanted in [len as u64, sum] {
            assert_eq!(next(&mut call).expect("lives").expect("two").value(), wanted);
        }
        assert!(next(&mut call).expect("lives").is_none());
    }
    let is_other = |error: Error| matches!(error, Error::OtherType { .. });
    assert!(is_other(Service::<[u16], i64>::open(&domain, "sums").err().expect("other replies")));
    assert!(is_other(Service::<u16, u64>::open(&domain, "sums").err().expect("other requests")));
    assert!(is_other(Service::<[u8], [u8]>::open(&domain, "sums").err().expect("bytes")));
}

fn a_length_that_is_not_the_types_is_told(world: &World) {
    let domain = world.domain();
    let typed = Service::<u32, u32>::options().create_new(&domain, "typed").expect("made");
    let bytes = Service::open_as_bytes(&domain, "typed").expect("there");
    let mut server = typed.server().expect("free");
    let (client, odd) = (typed.client().expect("a client"), bytes.client().expect("a client"));

    let call = odd.begin(b"abc").expect("sent");
    assert!(matches!(server.try_next(), Err(RecvError::Encoding(_))));
    let error = call.wait().expect_err("its request was no value");
    assert!(matches!(&error, CallError::Failed(why) if why.contains("length")), "{error}");

    let call = odd.begin(&7_u32.to_ne_bytes()).expect("sent");
    let request = server.try_next().expect("served").expect("there");
    assert_eq!(request.value(), 7);
    request.reply(&8).expect("taken");
    assert_eq!(*call.wait().expect("answered"), 8_u32.to_ne_bytes());

    drop(server);
    let mut server = bytes.server().expect("free");
    let call = client.begin(&9).expect("sent");
    server.try_next().expect("served").expect("there").reply(b"abc").expect("taken");
    assert!(matches!(call.wait(), Err(CallError::Encoding(_))));
    let call = client.begin(&10).expect("its slot is free again");
    server.try_next().expect("served").expect("there").reply(&11_u32.to_ne_bytes()).expect("taken");
    assert_eq!(call.wait().expect("answered").value(), 11);
}

fn values_as_msgpack(world: &World) {
    type Value = (u64, String, Vec<f32>);
    let domain = world.domain();
    let client = client_of(&domain, "s");
    let _server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        loop {
            let request = server.next().expect("served");
            match request.msgpack::<Value>() {
                Ok((0, ..)) => {
                    let mut stream = request.stream();
                    for part in 0..3u64 {
                        stream.send(&packed(&part).expect("a form")).expect("taken");
                    }
                    stream.finish().expect("taken");
                }
                Ok((number, text, floats)) => {
                    let answer = packed(&(number + 1, text + "!", floats)).expect("a form");
                    request.reply(&answer).expect("taken");
                }
                // The client is told that it was dropped.
                Err(_) => drop(packed(&Unspeakable).expect_err("has no form")),
            }
        }
    });
    await_dropping_server(&client);
    for len in [1usize, 3, 30_000] {
        let question: Value = (len as u64, "x".repeat(len), vec![0.5; len]);
        let reply = client.call_timeout(&packed(&question).expect("a form"), PATIENCE);
        let reply = reply.expect("answered");
        let answer: Value = (len as u64 + 1, "x".repeat(len) + "!", vec![0.5; len]);
        assert_eq!(reply.msgpack::<Value>().expect("well-formed"), answer);
    }
    let mut pending =
        client.begin(&packed(&(0u64, "", [0.0f32; 0])).expect("a form")).expect("room");
    for part in 0..3u64 {
        let reply = next(&mut pending).expect("lives").expect("three");
        assert_eq!(reply.msgpack::<u64>().expect("well-formed"), part);
    }
    assert!(next(&mut pending).expect("lives").is_none());
    let error: CallError = packed(&Unspeakable).expect_err("has no form").into();
    assert!(matches!(error, CallError::Encoding(_)));
}

fn packed<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, outlive::SendError> {
    outlive::Msgpack(value).to_vec()
}

/// What serde cannot write.
struct Unspeakable;

impl serde::Serialize for Unspeakable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it has no words"))
    }
}

/// Waits until there is a server that lets go of what is no msgpack.
fn await_dropping_server(client: &Client) {
    client.set_wait_for_server(true);
    assert_eq!(client.call_timeout(b"\xc1", PATIENCE).expect_err("dropped"), CallError::Dropped);
    client.set_wait_for_server(false);
}
