//! What messages to several subscribers are made of.

use super::flow::{self, Content};
use outlive_bench::Error;
use serde::{Deserialize, Serialize};

/// Bytes in place: the number is written and read, nothing else is touched.
#[derive(Clone, Copy)]
pub(super) struct Bytes(usize);

impl Bytes {
    /// Makes content of so many bytes.
    pub fn of(bytes: usize) -> Self {
        Self(bytes)
    }
}

impl Content for Bytes {
    fn bytes(self) -> usize {
        self.0
    }

    fn write(self, message: &mut [u8], number: u64) {
        flow::write(message, number, false);
    }

    fn read(self, message: &[u8]) -> Result<u64, Error> {
        Ok(flow::read(message, false))
    }
}

/// A record with so many bytes of content, as msgpack.
#[derive(Clone, Copy)]
pub(super) struct MsgPack {
    content: &'static [u8],
}

#[derive(Serialize)]
struct Sent<'a> {
    number: u64,
    #[serde(with = "serde_bytes")]
    content: &'a [u8],
}

/// As a program would have it: the content is its own.
#[derive(Deserialize)]
struct Received {
    number: u64,
    #[serde(with = "serde_bytes")]
    content: Vec<u8>,
}

/// An array of two, a u64 in nine bytes at most, and five bytes before the content.
const AROUND: usize = 1 + 9 + 5;

impl MsgPack {
    /// Makes so many bytes of content, the same in every message.
    pub fn of(bytes: usize) -> Self {
        Self { content: vec![7; bytes].leak() }
    }
}

impl Content for MsgPack {
    fn bytes(self) -> usize {
        self.content.len() + AROUND
    }

    fn write(self, message: &mut [u8], number: u64) {
        // Room enough: see AROUND. What is not written is behind the value, where no reader looks.
        let _ =
            rmp_serde::encode::write(&mut &mut *message, &Sent { number, content: self.content });
    }

    fn read(self, message: &[u8]) -> Result<u64, Error> {
        let mut from = rmp_serde::Deserializer::from_read_ref(message);
        let received = Received::deserialize(&mut from)
            .map_err(|error| Error::told("reading msgpack", error))?;
        if received.content.len() == self.content.len() {
            Ok(received.number)
        } else {
            Err(Error::Wrong("msgpack with other content came out".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out() {
        let packed = MsgPack::of(70_000);
        let mut message = vec![0; packed.bytes()];
        for number in [0, 1, u64::MAX] {
            packed.write(&mut message, number);
            assert_eq!(packed.read(&message).unwrap(), number);
        }
    }
}
