//! Messages as msgpack, for any type that serde can serialize: written straight into the memory
//! that is published.

use std::io::{self, Write};

use rmp_serde::Serializer;
use serde::Serialize;

use super::error::PublishError;
use super::publisher::{Published, Publisher};

/// The length of the first loan, when nothing is known of a value's length.
const FIRST_GUESS: usize = 4096;

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

impl Publisher<[u8]> {
    /// Publishes a value as msgpack, with its fields by name. Waits as [`Publisher::publish`] does.
    ///
    /// The value is written in place, into as much memory as the last one took; a longer one is
    /// written twice.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-msgpack-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::Topic;
    /// let topic = Topic::<[u8]>::open(&domain, "people")?;
    /// let mut subscriber = topic.subscriber()?;
    /// topic.publisher()?.publish_msgpack(&("Ada", 36))?;
    /// let sample = subscriber.recv()?;
    /// let (name, age): (&str, u32) = sample.msgpack()?;
    /// assert_eq!((name, age), ("Ada", 36));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PublishError::Encoding`] when the value cannot be serialized; else the errors of
    /// [`Publisher::publish_copy`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn publish_msgpack<T: Serialize + ?Sized>(
        &self,
        value: &T,
    ) -> Result<Published<'_>, PublishError> {
        let mut len = self.msgpack_guess().max(FIRST_GUESS);
        loop {
            let mut loan = self.loan(len)?;
            let mut into = Into { bytes: &mut loan, written: 0 };
            let encoded = value.serialize(&mut Serializer::new(&mut into).with_struct_map());
            encoded.map_err(|error| PublishError::Encoding(error.to_string()))?;
            let written = into.written;
            if written <= len {
                self.guess_msgpack(written);
                loan.cut(written);
                return self.publish(loan);
            }
            // Otherwise a value whose length differs each time would be written for ever.
            len = written.max(len.saturating_mul(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
