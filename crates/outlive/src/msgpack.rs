//! Values as msgpack, for any type that serde can serialize, with their fields by name: one codec
//! for every kind that moves messages.

use std::io::{self, Write};

use rmp_serde::decode::Error;
use rmp_serde::{Deserializer, Serializer};
use serde::{Deserialize, Serialize};

use crate::SendError;

/// A value to be sent as msgpack, with its fields by name.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-msgpack-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::Msgpack;
/// use outlive::topic::Topic;
/// let topic = Topic::<[u8]>::open_or_create(&domain, "people")?;
/// let mut subscriber = topic.subscriber()?;
/// topic.publisher()?.publish(Msgpack(&("Ada", 36)))?;
/// let sample = subscriber.recv()?;
/// let (name, age): (&str, u32) = sample.msgpack()?;
/// assert_eq!((name, age), ("Ada", 36));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Msgpack<'v, T: ?Sized>(
    /// The value.
    pub &'v T,
);

impl<T: Serialize + ?Sized> Msgpack<'_, T> {
    /// Returns the value's bytes, to be sent by a queue, a state or a service of bytes.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-to-vec-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{Msgpack, rpc::Service};
    /// let service = Service::<[u8], [u8]>::open_or_create(&domain, "greeter")?;
    /// let mut server = service.server()?;
    /// let serving = std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let request = server.next()?;
    ///     let (name, age): (String, u32) = request.msgpack()?;
    ///     Ok(request.reply(&Msgpack(&format!("{name} will be {}", age + 1)).to_vec()?)?)
    /// });
    /// let client = service.client()?;
    /// let reply = client.call(&Msgpack(&("Ada", 36)).to_vec()?)?;
    /// assert_eq!(reply.msgpack::<&str>()?, "Ada will be 37");
    /// serving.join().unwrap().unwrap();
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::Encoding`] when the value cannot be serialized.
    pub fn to_vec(&self) -> Result<Vec<u8>, SendError> {
        rmp_serde::to_vec_named(self.0).map_err(|error| SendError::Encoding(error.to_string()))
    }
}

/// Writes into memory of a fixed length, and goes on counting when that is full.
struct Into<'a> {
    bytes: &'a mut [u8],
    written: usize,
}

impl Write for Into<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.written.saturating_add(bytes.len());
        if let Some(into) = self.bytes.get_mut(self.written..end) {
            into.copy_from_slice(bytes);
        }
        self.written = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a value into `bytes`, and returns how many bytes it takes. If these are more, the value
/// is not there in whole. `Err`: why the value cannot be serialized.
pub(crate) fn write<T: Serialize + ?Sized>(bytes: &mut [u8], value: &T) -> Result<usize, String> {
    let mut into = Into { bytes, written: 0 };
    let encoded = value.serialize(&mut Serializer::new(&mut into).with_struct_map());
    encoded.map_err(|error| error.to_string())?;
    Ok(into.written)
}

/// Reads a value, which all of the bytes must be. `Err`: why they are no such value.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let mut from = Deserializer::from_read_ref(bytes);
    let value = T::deserialize(&mut from).map_err(|error| error.to_string())?;
    // The deserializer does not tell how far it has come. Where no byte is left it cannot read the
    // marker of a further value. (A `bool` reads one marker: within a list it would read more.)
    match bool::deserialize(&mut from) {
        Err(Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err("bytes are left behind the value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_must_be_the_value() {
        assert_eq!(read::<u8>(&[1]), Ok(1));
        assert_eq!(read::<(u8, &str)>(b"\x92\x01\xa1a"), Ok((1, "a")));
        assert_eq!(read::<Option<bool>>(b"\xc0"), Ok(None));
        assert_eq!(read::<()>(b"\xc0"), Ok(()));
        // A number, a list whose item is missing, a string whose bytes are, no marker at all.
        for rest in [&b"\x01"[..], b"\x91", b"\xa5", b"\xc1", b"\xc2", b"\xc0\xc0", b"\xd9"] {
            for value in [&b"\x92\x01\x02"[..], b"\x92\xc0\xc0", b"\x92\x01\xc0"] {
                assert!(read::<(Option<u8>, Option<u8>)>(value).is_ok());
                let bytes = [value, rest].concat();
                let left = read::<(Option<u8>, Option<u8>)>(&bytes);
                assert_eq!(left, Err("bytes are left behind the value".to_owned()), "{bytes:x?}");
            }
        }
        assert!(read::<u8>(&[]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut bytes = [0; 4];
        let mut into = Into { bytes: &mut bytes, written: 0 };
        into.write_all(&[1, 2, 3]).unwrap();
        into.write_all(&[4, 5]).unwrap();
        into.write_all(&[6]).unwrap();
        assert_eq!(into.written, 6);
        assert_eq!(bytes, [1, 2, 3, 0]);
    }
}
