//! A client of Foxglove's protocol, as small as it can be.

use std::collections::HashMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::support::LONG;

/// What a server sends.
#[derive(Debug)]
pub enum Incoming {
    Text(Value),
    Binary(Vec<u8>),
}

/// See the head of this file.
pub struct Client {
    pub socket: WebSocket<TcpStream>,
    /// By topic: what was advertised.
    pub channels: HashMap<String, Value>,
    pub services: HashMap<String, Value>,
    /// What has come and was not asked for yet.
    pub kept: Vec<Incoming>,
    next: u32,
}

/// Returns a connection to that port, or why there is none.
pub fn connected(port: u16, protocol: &str) -> Result<WebSocket<TcpStream>, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(LONG)).expect("possible");
    let mut request = format!("ws://127.0.0.1:{port}").into_client_request().expect("a request");
    request.headers_mut().insert("sec-websocket-protocol", protocol.parse().expect("a header"));
    let (socket, _) = tungstenite::client(request, stream).map_err(|error| error.to_string())?;
    Ok(socket)
}

impl Client {
    /// Connects, and returns what the server says of itself.
    pub fn connect(port: u16) -> (Client, Value) {
        let socket = connected(port, "foxglove.sdk.v1").expect("connects");
        let (channels, services) = (HashMap::new(), HashMap::new());
        let mut client = Client { socket, channels, services, kept: Vec::new(), next: 1 };
        let info =
            client.wait(|one| matches!(one, Incoming::Text(text) if text["op"] == "serverInfo"));
        let Incoming::Text(info) = info else { unreachable!() };
        (client, info)
    }

    pub fn send(&mut self, message: &Value) {
        self.socket.send(Message::Text(message.to_string())).expect("sends");
    }

    /// Reads one message.
    fn read(&mut self) -> Incoming {
        loop {
            let incoming = match self.socket.read().expect("reads") {
                Message::Text(text) => Incoming::Text(serde_json::from_str(&text).expect("JSON")),
                Message::Binary(bytes) => Incoming::Binary(bytes),
                _ => continue,
            };
            if let Incoming::Text(text) = &incoming {
                let all = |key: &str| text[key].as_array().cloned().unwrap_or_default();
                let name = |one: &Value, key: &str| one[key].as_str().expect("a name").to_owned();
                match text["op"].as_str().expect("an operation") {
                    "advertise" => self
                        .channels
                        .extend(all("channels").into_iter().map(|one| (name(&one, "topic"), one))),
                    "unadvertise" => {
                        let gone = all("channelIds");
                        self.channels.retain(|_, one| !gone.contains(&one["id"]));
                    }
                    "advertiseServices" => self
                        .services
                        .extend(all("services").into_iter().map(|one| (name(&one, "name"), one))),
                    "unadvertiseServices" => {
                        let gone = all("serviceIds");
                        self.services.retain(|_, one| !gone.contains(&one["id"]));
                    }
                    _ => {}
                }
            }
            return incoming;
        }
    }

    /// Waits for a message of that kind; others are kept.
    pub fn wait(&mut self, is: impl Fn(&Incoming) -> bool) -> Incoming {
        if let Some(at) = self.kept.iter().position(&is) {
            return self.kept.remove(at);
        }
        let until = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < until, "nothing of that kind has come: {:?}", self.kept.len());
            let incoming = self.read();
            if is(&incoming) {
                return incoming;
            }
            self.kept.push(incoming);
        }
    }

    /// Waits until a topic is advertised, and returns how.
    pub fn channel(&mut self, topic: &str) -> Value {
        while !self.channels.contains_key(topic) {
            let incoming = self.read();
            self.kept.push(incoming);
        }
        self.channels[topic].clone()
    }

    /// Waits until a topic is advertised no more.
    pub fn no_channel(&mut self, topic: &str) {
        while self.channels.contains_key(topic) {
            let incoming = self.read();
            self.kept.push(incoming);
        }
    }

    /// Subscribes to a topic, once it is there, and returns the subscription.
    ///
    /// The server (foxglove 0.30) advertises a channel and only then notes that it has: a client that is
    /// quick is told that there is no such channel. So this one asks until it is told that it has
    /// subscribed already.
    pub fn subscribe(&mut self, topic: &str) -> u32 {
        let channel = self.channel(topic)["id"].clone();
        let id = self.next;
        self.next += 1;
        let subscription = json!({"id": id, "channelId": channel});
        let says = |one: &Incoming, text: &str| match one {
            Incoming::Text(said) => {
                said["message"].as_str().is_some_and(|said| said.contains(text))
            }
            Incoming::Binary(_) => false,
        };
        let has = format!("already subscribed to channel: {channel};");
        let lacks = format!("Unknown channel ID: {channel}");
        loop {
            self.send(&json!({"op": "subscribe", "subscriptions": [subscription]}));
            self.send(&json!({"op": "subscribe", "subscriptions": [subscription]}));
            let said = self.wait(|one| says(one, &has) || says(one, &lacks));
            if says(&said, &has) {
                return id;
            }
        }
    }

    /// Waits for a message of a subscription: its time and its bytes.
    pub fn message(&mut self, subscription: u32) -> (u64, Vec<u8>) {
        let is = |one: &Incoming| match one {
            Incoming::Binary(bytes) => bytes[0] == 1 && bytes[1..5] == subscription.to_le_bytes(),
            Incoming::Text(_) => false,
        };
        let Incoming::Binary(bytes) = self.wait(is) else { unreachable!() };
        let time = u64::from_le_bytes(bytes[5..13].try_into().expect("eight bytes"));
        (time, bytes[13..].to_vec())
    }

    /// Waits for a message of a subscription that is JSON.
    pub fn json(&mut self, subscription: u32) -> Value {
        serde_json::from_slice(&self.message(subscription).1).expect("JSON")
    }

    /// Waits for a message with that operation. What is said of subscriptions is left out.
    pub fn operation(&mut self, operation: &str) -> Value {
        let of_subscriptions = |said: &Value| {
            let said = said["message"].as_str().unwrap_or_default();
            said.contains("ignoring subscription") || said.contains("Unknown channel ID")
        };
        let is = |one: &Incoming| match one {
            Incoming::Text(text) => text["op"] == operation && !of_subscriptions(text),
            Incoming::Binary(_) => false,
        };
        let Incoming::Text(text) = self.wait(is) else { unreachable!() };
        text
    }

    /// Calls a service with JSON, and returns the reply, or what the server says of the failure.
    pub fn call(&mut self, service: &str, request: &Value) -> Result<Value, String> {
        while !self.services.contains_key(service) {
            let incoming = self.read();
            self.kept.push(incoming);
        }
        let id = u32::try_from(self.services[service]["id"].as_u64().expect("a number"));
        let mut bytes = vec![2];
        bytes.extend_from_slice(&id.expect("a number").to_le_bytes());
        let call = self.next;
        self.next += 1;
        bytes.extend_from_slice(&call.to_le_bytes());
        bytes.extend_from_slice(&4_u32.to_le_bytes());
        bytes.extend_from_slice(b"json");
        bytes.extend_from_slice(request.to_string().as_bytes());
        self.socket.send(Message::Binary(bytes)).expect("sends");
        let answer = self.wait(|one| match one {
            Incoming::Binary(bytes) => bytes[0] == 3 && bytes[5..9] == call.to_le_bytes(),
            Incoming::Text(text) => text["op"] == "serviceCallFailure" && text["callId"] == call,
        });
        match answer {
            Incoming::Binary(bytes) => Ok(serde_json::from_slice(&bytes[17..]).expect("JSON")),
            Incoming::Text(text) => Err(text["message"].as_str().expect("a text").to_owned()),
        }
    }

    /// How long a read may take.
    pub fn set_patience(&mut self, span: Duration) {
        self.socket.get_ref().set_read_timeout(Some(span)).expect("possible");
    }
}
