//! Records in a stream of bytes: where one ends and the next begins.
//!
//! Lines, NUL-separated (file names, say), or each behind its length in four little-endian bytes
//! (anything at all).

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsFd;

use clap::Args;
use outlive::queue::LARGEST_MESSAGE;
use rustix::io::writev;

use crate::exit::{Code, Failure};

/// How records are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each ends with a newline, which is no part of it.
    Lines,
    /// Each ends with a NUL, which is no part of it.
    Null,
    /// Each follows its length, which is four little-endian bytes.
    LengthPrefixed,
    /// Each has so many bytes, and nothing is between them.
    Fixed(usize),
    /// Nothing is between them: the reader of such a stream knows where they end.
    Raw,
}

/// The choice of a framing, for verbs that read or write records.
#[derive(Args, Debug, Clone, Copy)]
pub struct FramingArgs {
    /// A NUL ends each message, and not a newline
    #[arg(long, short = '0', conflicts_with_all = ["length_prefixed"])]
    null: bool,
    /// Each message follows its length in 4 little-endian bytes, and may hold anything
    #[arg(long, short = 'p')]
    length_prefixed: bool,
}

impl FramingArgs {
    /// Returns what was chosen.
    pub fn framing(self) -> Framing {
        match (self.null, self.length_prefixed) {
            (true, _) => Framing::Null,
            (_, true) => Framing::LengthPrefixed,
            _ => Framing::Lines,
        }
    }
}

/// Cuts a stream into records, as they come.
///
/// One read takes what is there, and every record that is complete then is handed out before the
/// next read: so a record that comes alone is handed out at once, and many that come at once
/// are handed out together.
pub struct Splitter {
    framing: Framing,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold input.
    filled: usize,
    /// Where the first record that has not been handed out begins.
    start: usize,
    /// Up to where there is no end of a record.
    searched: usize,
}

const FIRST_BUFFER: usize = 256 << 10;

impl Splitter {
    /// Makes a splitter that has seen nothing yet.
    pub fn new(framing: Framing) -> Splitter {
        Splitter { framing, buffer: vec![0; FIRST_BUFFER], filled: 0, start: 0, searched: 0 }
    }

    /// Reads once. Returns how many bytes came; 0 is the end.
    pub fn fill(&mut self, input: &mut impl Read) -> Result<usize, Failure> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            if self.filled as u64 > LARGEST_MESSAGE + 4 {
                let text = format!(
                    "a record is longer than {LARGEST_MESSAGE} bytes; split it, or use another framing"
                );
                return Err(Failure::new(Code::BadInput, text));
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        loop {
            match input.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.filled += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::system("read the input", &error)),
            }
        }
    }

    /// Finds all records that are complete, as places in [`Splitter::bytes`].
    pub fn complete(&mut self, records: &mut Vec<Range<usize>>) -> Result<(), Failure> {
        records.clear();
        while let Some(record) = self.next_record()? {
            records.push(record);
        }
        Ok(())
    }

    /// Returns where the places of [`Splitter::complete`] are.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns, at the end of the input, what is there without an end of its own. A last line may
    /// lack its newline; a record that is shorter than its prefix says is an error.
    pub fn rest(&mut self) -> Result<Option<Range<usize>>, Failure> {
        if self.start == self.filled {
            return Ok(None);
        }
        if self.framing == Framing::LengthPrefixed {
            let text = format!(
                "the input ends in the middle of a record ({} bytes of it came); what came before was sent",
                self.filled - self.start
            );
            return Err(Failure::new(Code::BadInput, text));
        }
        if let Framing::Fixed(frame) = self.framing {
            let text = format!(
                "the input ends in the middle of a frame ({} of {frame} bytes)",
                self.filled - self.start
            );
            return Err(Failure::new(Code::BadInput, text));
        }
        let rest = self.start..self.filled;
        self.start = self.filled;
        Ok(Some(rest))
    }

    fn next_record(&mut self) -> Result<Option<Range<usize>>, Failure> {
        let end = match self.framing {
            Framing::Lines => self.find(b'\n'),
            Framing::Null => self.find(0),
            Framing::LengthPrefixed => return self.next_prefixed(),
            Framing::Fixed(frame) => return Ok(self.next_fixed(frame)),
            Framing::Raw => None,
        };
        let Some(end) = end else { return Ok(None) };
        let record = self.start..end;
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(record))
    }

    fn find(&mut self, end: u8) -> Option<usize> {
        let found = memchr::memchr(end, &self.buffer[self.searched..self.filled])
            .map(|at| self.searched + at);
        self.searched = found.unwrap_or(self.filled);
        found
    }

    fn next_fixed(&mut self, frame: usize) -> Option<Range<usize>> {
        let record = self.start..self.start + frame.max(1);
        if record.end > self.filled {
            return None;
        }
        self.start = record.end;
        self.searched = self.start;
        Some(record)
    }

    fn next_prefixed(&mut self) -> Result<Option<Range<usize>>, Failure> {
        let here = &self.buffer[self.start..self.filled];
        let Some((prefix, rest)) = here.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*prefix);
        if u64::from(len) > LARGEST_MESSAGE {
            let text =
                format!("a prefix asks for a record of {len} bytes; the most is {LARGEST_MESSAGE}");
            return Err(Failure::new(Code::BadInput, text));
        }
        if rest.len() < len as usize {
            return Ok(None);
        }
        let record = self.start + 4..self.start + 4 + len as usize;
        self.start = record.end;
        self.searched = self.start;
        Ok(Some(record))
    }
}

/// Writes one record, whole: when this returns, the kernel has it.
pub fn write_record(out: impl AsFd, framing: Framing, record: &[u8]) -> Result<(), Failure> {
    let prefix = (record.len() as u32).to_le_bytes();
    let parts: [&[u8]; 2] = match framing {
        Framing::Lines => [record, b"\n"],
        Framing::Null => [record, b"\0"],
        Framing::LengthPrefixed => [&prefix, record],
        Framing::Fixed(_) | Framing::Raw => [record, b""],
    };
    write_all(out, parts).map_err(|error| Failure::system("write to standard output", &error))
}

/// Returns one record with what tells where it ends.
pub fn framed(framing: Framing, record: &[u8]) -> Vec<u8> {
    let prefix = (record.len() as u32).to_le_bytes();
    match framing {
        Framing::Lines => [record, b"\n"].concat(),
        Framing::Null => [record, b"\0"].concat(),
        Framing::LengthPrefixed => [&prefix, record].concat(),
        Framing::Fixed(_) | Framing::Raw => record.to_vec(),
    }
}

fn write_all(out: impl AsFd, mut parts: [&[u8]; 2]) -> io::Result<()> {
    while parts.iter().any(|part| !part.is_empty()) {
        let slices = parts.map(io::IoSlice::new);
        match writev(&out, &slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(mut written) => {
                for part in &mut parts {
                    let here = written.min(part.len());
                    *part = &part[here..];
                    written -= here;
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            // Another process has made the descriptor non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                let mut poll = [rustix::event::PollFd::new(&out, rustix::event::PollFlags::OUT)];
                rustix::event::poll(&mut poll, None)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(self.1).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn split(framing: Framing, input: &[u8], drip: usize) -> Result<Vec<Vec<u8>>, Failure> {
        let mut input = Dripping(input, drip);
        let mut splitter = Splitter::new(framing);
        let (mut records, mut places) = (Vec::new(), Vec::new());
        while splitter.fill(&mut input)? > 0 {
            splitter.complete(&mut places)?;
            records.extend(places.iter().map(|place| splitter.bytes()[place.clone()].to_vec()));
        }
        records.extend(splitter.rest()?.map(|place| splitter.bytes()[place].to_vec()));
        Ok(records)
    }

    #[test]
    fn lines_and_nulls_are_cut_wherever_reads_end() {
        for drip in [1, 2, 3, 1000] {
            assert_eq!(
                split(Framing::Lines, b"a\n\nbc\r\nlast", drip).unwrap(),
                [&b"a"[..], b"", b"bc\r", b"last"]
            );
            assert_eq!(split(Framing::Lines, b"a\n", drip).unwrap(), [b"a"]);
            assert_eq!(split(Framing::Null, b"a\nb\0c\0", drip).unwrap(), [&b"a\nb"[..], b"c"]);
            assert!(split(Framing::Lines, b"", drip).unwrap().is_empty());
        }
    }

    #[test]
    fn prefixed_records_hold_anything_and_must_be_whole() {
        let input = b"\x03\0\0\0\n\0x\0\0\0\0\x01\0\0\0y";
        for drip in [1, 5, 1000] {
            assert_eq!(
                split(Framing::LengthPrefixed, input, drip).unwrap(),
                [&b"\n\0x"[..], b"", b"y"]
            );
            let failure = split(Framing::LengthPrefixed, &input[..6], drip).unwrap_err();
            assert_eq!(failure.number(), Code::BadInput as u8);
        }
        let failure = split(Framing::LengthPrefixed, b"\xff\xff\xff\xffx", 100).unwrap_err();
        assert_eq!(failure.number(), Code::BadInput as u8);
    }

    #[test]
    fn frames_are_of_one_size_and_must_be_whole() {
        for drip in [1, 2, 5, 1000] {
            assert_eq!(split(Framing::Fixed(3), b"abcd\n\0", drip).unwrap(), [b"abc", b"d\n\0"]);
            let failure = split(Framing::Fixed(3), b"abcd", drip).unwrap_err();
            assert_eq!(failure.number(), Code::BadInput as u8);
        }
    }

    #[test]
    fn a_record_longer_than_the_buffer_is_one_record() {
        let long = vec![b'x'; FIRST_BUFFER * 3 + 1];
        let mut input = long.clone();
        input.extend_from_slice(b"\nshort");
        assert_eq!(split(Framing::Lines, &input, 100_000).unwrap(), [&long[..], b"short"]);
    }

    #[test]
    fn what_is_written_can_be_cut_again() {
        for framing in [Framing::Lines, Framing::Null, Framing::LengthPrefixed] {
            let (read, write) = rustix::pipe::pipe().expect("a pipe");
            for record in [&b"one"[..], b"", b"three"] {
                write_record(&write, framing, record).unwrap();
            }
            drop(write);
            let mut bytes = Vec::new();
            std::fs::File::from(read).read_to_end(&mut bytes).expect("read");
            assert_eq!(split(framing, &bytes, 7).unwrap(), [&b"one"[..], b"", b"three"]);
        }
    }
}
