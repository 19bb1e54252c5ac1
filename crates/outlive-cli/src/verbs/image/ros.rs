//! ROS's own messages with pictures, as bridges bring them: `sensor_msgs/Image` and
//! `sensor_msgs/CompressedImage` of ROS 1 and, as CDR, of ROS 2.
//!
//! Both put the fields one after the other; CDR begins with four bytes of its own, puts numbers at
//! multiples of their size from there, and a NUL at the end of texts.

use super::picture::Raw;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_cdr: bool,
    is_big_endian: bool,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], is_cdr: bool) -> Option<Reader<'a>> {
        match (is_cdr, bytes) {
            (false, _) => Some(Reader { bytes, at: 0, is_cdr, is_big_endian: false }),
            (true, [0, order @ (0 | 1), _, _, rest @ ..]) => {
                Some(Reader { bytes: rest, at: 0, is_cdr, is_big_endian: *order == 0 })
            }
            _ => None,
        }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        if self.is_cdr {
            self.at = self.at.next_multiple_of(4);
        }
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn sequence(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(self.sequence()?).into_owned();
        Some(text.trim_end_matches('\0').to_owned())
    }

    /// Passes a `std_msgs/Header`.
    fn header(&mut self) -> Option<()> {
        // ROS 2 has no sequence.
        for _ in 0..if self.is_cdr { 2 } else { 3 } {
            self.number()?;
        }
        self.text().map(drop)
    }
}

/// Reads a `sensor_msgs/Image`.
pub fn image(bytes: &[u8], is_cdr: bool) -> Result<Raw<'_>, String> {
    let read = || {
        let mut reader = Reader::new(bytes, is_cdr)?;
        reader.header()?;
        let (height, width) = (reader.number()?.into(), reader.number()?.into());
        let encoding = reader.text()?;
        let is_big_endian = reader.take(1)? != [0];
        let step = reader.number()?.into();
        let data = reader.sequence()?;
        Some(Raw { width, height, step, encoding, is_big_endian, data })
    };
    read().ok_or_else(|| "a message that is no sensor_msgs/Image".to_owned())
}

/// Reads a `sensor_msgs/CompressedImage`, and returns its file.
pub fn compressed(bytes: &[u8], is_cdr: bool) -> Result<&[u8], String> {
    let read = || {
        let mut reader = Reader::new(bytes, is_cdr)?;
        reader.header()?;
        reader.text()?;
        reader.sequence()
    };
    read().ok_or_else(|| "a message that is no sensor_msgs/CompressedImage".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_ros_are_read() {
        let ros1 = b"\x01\0\0\0\x02\0\0\0\x03\0\0\0\x03\0\0\0cam\x01\0\0\0\x02\0\0\0\x04\0\0\0rgb8\0\x06\0\0\0\x06\0\0\0abcdef";
        // The texts have a NUL, and the numbers behind them begin at multiples of four.
        let ros2 = b"\0\x01\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0cam\0\x01\0\0\0\x02\0\0\0\x05\0\0\0rgb8\0\0\0\0\x06\0\0\0\x06\0\0\0abcdef";
        for (bytes, is_cdr) in [(&ros1[..], false), (&ros2[..], true)] {
            let raw = image(bytes, is_cdr).expect("an image");
            assert_eq!((raw.width, raw.height, raw.step), (2, 1, 6), "{is_cdr}");
            assert_eq!((raw.encoding.as_str(), raw.data), ("rgb8", &b"abcdef"[..]));
            for end in 0..bytes.len() {
                assert!(image(&bytes[..end], is_cdr).is_err());
            }
        }
        let ros1 = b"\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0jpeg\x02\0\0\0\xff\xd8";
        assert_eq!(compressed(ros1, false), Ok(&b"\xff\xd8"[..]));
        assert!(compressed(ros1, true).is_err());
        assert!(image(&[0xff; 64], false).is_err());
    }
}
