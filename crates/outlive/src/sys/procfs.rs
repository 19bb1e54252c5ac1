//! Reads `/proc`: bytes, never text, and only from a `/proc` that shows the caller's own pid
//! namespace.
//!
//! Every function here returns `None` when it cannot find out: no `/proc`, a `/proc` of another pid
//! namespace, no descriptor or memory left, a process that `hidepid` hides, bytes in an unknown
//! format. `None` never means "there is no such process".
//!
//! No function here allocates, except the one that reads mappings, because real-time threads call
//! them.

use std::ffi::CStr;
use std::fmt::Arguments;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::Errno;

/// Clock ticks by which two readings of one start time may differ: the kernel rounds each down when
/// it prints it, and taking off a time namespace's offset rounds once more.
const ROUNDING: u64 = 2;

/// An open `/proc` that shows the caller's own pid namespace, so a number in it means the same
/// process as here.
pub(crate) struct Proc {
    folder: OwnedFd,
}

/// What `/proc/PID/stat` says, as far as this library uses it (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The program's short name, at most 15 bytes.
    pub(crate) name: [u8; 16],
    /// `R`, `S`, `Z` and so on.
    pub(crate) state: u8,
    pub(crate) flags: u32,
    /// Threads that have not been released: living ones, ending ones, and zombies.
    pub(crate) threads: u64,
    /// In clock ticks since boot, by the clock of the caller's time namespace.
    pub(crate) started: u64,
}

impl Proc {
    /// Opens it, and checks that it is the caller's own.
    ///
    /// `/proc/self` alone would not do: the caller may have the same number in the outer namespace
    /// that `/proc` shows as in its own. `NSpid` lists the caller's numbers from the namespace of
    /// that `/proc` inwards: a single number means that both are the same.
    pub(crate) fn own() -> Option<Proc> {
        let proc = Proc::any()?;
        let mut numbers = NumbersOf::new(b"NSpid:");
        proc.read_all(c"self/status", |bytes| numbers.take(bytes))?;
        let own = rustix::process::getpid().as_raw_nonzero().get();
        (numbers.only()? == own as u64).then_some(proc)
    }

    /// Opens it, of whatever pid namespace: `self` and `thread-self` mean the caller all the same.
    pub(crate) fn any() -> Option<Proc> {
        const PROC_SUPER_MAGIC: i64 = 0x9fa0;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(c"/proc", flags, Mode::empty()).ok()?;
        (rustix::fs::fstatfs(&folder).ok()?.f_type as i64 == PROC_SUPER_MAGIC)
            .then_some(Proc { folder })
    }

    /// Returns what it says of the calling process.
    pub(crate) fn own_stat(&self) -> Option<Stat> {
        self.stat_in(format_args!("self/stat\0"))
    }

    /// Returns what it says of the calling thread.
    pub(crate) fn own_thread_stat(&self) -> Option<Stat> {
        self.stat_in(format_args!("thread-self/stat\0"))
    }

    /// Returns what it says of a process, or of a thread if one is named.
    pub(crate) fn stat(&self, pid: u32, thread: Option<u32>) -> Option<Stat> {
        match thread {
            Some(thread) => self.stat_in(format_args!("{pid}/task/{thread}/stat\0")),
            None => self.stat_in(format_args!("{pid}/stat\0")),
        }
    }

    /// Returns what it says of the process or thread, of any process, that has that number.
    pub(crate) fn stat_of_any(&self, thread: u32) -> Option<Stat> {
        // The kernel finds threads here too, although it does not list them.
        self.stat_in(format_args!("{thread}/stat\0"))
    }

    fn stat_in(&self, path: Arguments<'_>) -> Option<Stat> {
        let mut name = [0u8; 64];
        (&mut name[..]).write_fmt(path).ok()?;
        let file = self.open(CStr::from_bytes_until_nul(&name).ok()?).ok()?;
        // Twenty-two fields take some 300 bytes at most; the kernel gives as much at once as the
        // buffer holds.
        let mut stat = [0u8; 1024];
        let read = rustix::io::read(file, &mut stat).ok()?;
        Stat::parse(&stat[..read])
    }

    /// Returns by how many clock ticks the caller's time namespace is ahead of the machine's boot;
    /// `None` if unknown.
    pub(crate) fn time_offset(&self) -> Option<i64> {
        let time = rustix::fs::statat(&self.folder, c"self/ns/time", AtFlags::empty());
        let of_children =
            rustix::fs::statat(&self.folder, c"self/ns/time_for_children", AtFlags::empty());
        match (time, of_children) {
            // The file below describes the namespace of children, which may be another one.
            (Ok(own), Ok(of_children))
                if (own.st_dev, own.st_ino) == (of_children.st_dev, of_children.st_ino) => {}
            // A kernel without time namespaces.
            (Err(Errno::NOENT), Err(Errno::NOENT)) => return Some(0),
            _ => return None,
        }
        let file = self.open(c"self/timens_offsets").ok()?;
        let mut text = [0u8; 256];
        let read = rustix::io::read(file, &mut text).ok()?;
        parse_time_offset(&text[..read])
    }

    /// Returns whether a thread of that process has the file of that device and inode mapped;
    /// `None` if unknown.
    ///
    /// The threads share one address space, so one that still has it answers for all. A process
    /// that exits is taken apart thread by thread, and its first thread may be the first to go:
    /// that one shows no mappings at all.
    pub(crate) fn has_mapped(&self, pid: u32, file: (u64, u64)) -> Option<bool> {
        // On some file systems the numbers in `maps` are not those of `fstat`. The caller has the
        // file mapped, so its own `maps` shows it.
        if !mentions(&self.maps(c"self/maps")?, file) {
            return None;
        }
        let before = self.stat(pid, None)?.threads;
        let mut name = [0u8; 64];
        (&mut name[..]).write_fmt(format_args!("{pid}/task\0")).ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = CStr::from_bytes_until_nul(&name).ok()?;
        let tasks = rustix::fs::openat(&self.folder, path, flags, Mode::empty()).ok()?;
        let mut listed = 0;
        for task in rustix::fs::Dir::read_from(&tasks).ok()? {
            let task = task.ok()?;
            let Some(thread) = number(task.file_name().to_bytes()) else { continue };
            let mut name = [0u8; 64];
            (&mut name[..]).write_fmt(format_args!("{pid}/task/{thread}/maps\0")).ok()?;
            match self.maps(CStr::from_bytes_until_nul(&name).ok()?) {
                Some(maps) if maps.is_empty() => listed += 1,
                Some(maps) => return Some(mentions(&maps, file)),
                None => return None,
            }
        }
        // All listed threads have given their memory up, and the count says that there are no
        // others.
        (listed == before && self.stat(pid, None)?.threads == before).then_some(false)
    }

    /// Returns the mappings of a process or thread; empty when it has none any more.
    fn maps(&self, path: &CStr) -> Option<Vec<u8>> {
        let mut maps = Vec::new();
        let file = match self.open(path) {
            Ok(file) => file,
            // The process exists, and its memory does not.
            Err(Errno::SRCH) => return Some(maps),
            Err(_) => return None,
        };
        let mut chunk = [0u8; 4096];
        loop {
            match rustix::io::read(&file, &mut chunk) {
                Ok(0) => return Some(maps),
                Ok(read) => maps.extend_from_slice(&chunk[..read]),
                Err(Errno::INTR) => {}
                Err(Errno::SRCH) if maps.is_empty() => return Some(maps),
                Err(_) => return None,
            }
        }
    }

    fn read_all(&self, path: &CStr, mut take: impl FnMut(&[u8])) -> Option<()> {
        let file = self.open(path).ok()?;
        let mut chunk = [0u8; 512];
        loop {
            match rustix::io::read(&file, &mut chunk) {
                Ok(0) => return Some(()),
                Ok(read) => take(&chunk[..read]),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn open(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }
}

impl Stat {
    fn parse(stat: &[u8]) -> Option<Stat> {
        // The program's name is in brackets and may hold any bytes: count from the last bracket,
        // behind which is field 3.
        let bracket = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = stat.get(bracket + 2..)?;
        let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
        let mut name = [0; 16];
        name.iter_mut().zip(stat.get(begin..bracket)?).take(15).for_each(|(to, from)| *to = *from);
        let field = |n: usize| fields.split(u8::is_ascii_whitespace).nth(n - 3);
        Some(Stat {
            name,
            state: *field(3)?.first()?,
            flags: u32::try_from(number(field(9)?)?).ok()?,
            threads: number(field(20)?)?,
            // Without a field behind it, this one may be cut off.
            started: field(23).and_then(|_| number(field(22)?))?,
        })
    }
}

/// Returns a start time as a token records it: by the machine's clock, whatever time namespace the
/// caller lives in; 0 is unknown.
pub(crate) fn start_time(started: u64, offset: Option<i64>) -> u64 {
    offset.and_then(|offset| started.checked_add_signed(offset.checked_neg()?)).unwrap_or(0)
}

/// Returns whether two start times can be of the same process. Neither is unknown.
pub(crate) fn is_same_start(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= ROUNDING
}

/// Returns a thread's start time as a token records it beside its process's: 24 bits, which wrap
/// after 46 hours.
pub(crate) fn start_mark(started: u64) -> u32 {
    if started == 0 { 0 } else { (started as u32 & MARK).max(1) }
}

const MARK: u32 = 0x00ff_ffff;

/// Returns whether two such marks can be of the same thread. Neither is 0.
pub(crate) fn is_same_mark(one: u32, other: u32) -> bool {
    let apart = one.wrapping_sub(other) & MARK;
    u64::from(apart.min(MARK + 1 - apart)) <= ROUNDING
}

/// Parses `/proc/self/timens_offsets`: lines of a clock (its name; before Linux 5.7 its number),
/// seconds and nanoseconds.
fn parse_time_offset(text: &[u8]) -> Option<i64> {
    let line = text.split(|byte| *byte == b'\n').find(|line| {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        matches!(fields.next(), Some(b"boottime" | b"7"))
    })?;
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).skip(1);
    let mut field = || std::str::from_utf8(fields.next()?).ok()?.parse::<i64>().ok();
    let nanos = i128::from(field()?) * 1_000_000_000 + i128::from(field()?);
    i64::try_from(nanos.div_euclid(1_000_000_000 / i128::from(ticks_per_second()?))).ok()
}

fn ticks_per_second() -> Option<i64> {
    // SAFETY: no pointers are passed; the call only reads a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks).filter(|&ticks| ticks > 0)
}

/// Returns device and inode of a line of `/proc/PID/maps`:
/// `address perms offset major:minor inode path`. The path may be any bytes.
pub(crate) fn mapped_file(line: &[u8]) -> Option<(u64, u64)> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).skip(3);
    let device = fields.next()?;
    let colon = device.iter().position(|byte| *byte == b':')?;
    let inode = number(fields.next()?).filter(|&inode| inode != 0)?;
    let hex = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    Some((rustix::fs::makedev(hex(&device[..colon])?, hex(&device[colon + 1..])?), inode))
}

fn mentions(maps: &[u8], file: (u64, u64)) -> bool {
    maps.split(|byte| *byte == b'\n').filter_map(mapped_file).any(|mapped| mapped == file)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The numbers of one line of a text that is read in pieces.
struct NumbersOf {
    name: &'static [u8],
    /// How many bytes of the name this line has matched so far; `None`: it is another line.
    matched: Option<usize>,
    number: Option<u64>,
    count: u32,
    last: u64,
}

impl NumbersOf {
    fn new(name: &'static [u8]) -> NumbersOf {
        NumbersOf { name, matched: Some(0), number: None, count: 0, last: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.matched {
                Some(matched) if matched == self.name.len() => self.take_digit(byte),
                Some(matched) if byte == self.name[matched] => self.matched = Some(matched + 1),
                _ => self.matched = None,
            }
            if byte == b'\n' {
                self.matched = Some(0);
            }
        }
    }

    fn take_digit(&mut self, byte: u8) {
        if byte.is_ascii_digit() {
            self.number = Some(
                self.number.unwrap_or(0).wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            );
        } else if let Some(number) = self.number.take() {
            self.count += 1;
            self.last = number;
        }
    }

    /// Returns the number, if there was exactly one.
    fn only(&self) -> Option<u64> {
        (self.count == 1).then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &[u8] = b" S 1 2 3 4 5 4194304 7 8 9 10 11 12 13 14 20 0 3 0 777 18 19 20";

    #[test]
    fn a_name_may_hold_any_bytes() {
        for name in [
            &b"plain"[..],
            b"a b",
            b"a) R 1 2 3 (b",
            "наблюдатель".as_bytes().split_at(15).0,
            b"\xff\n)",
        ] {
            let stat = [b"12 (", name, b")", REST].concat();
            let mut padded = [0; 16];
            padded[..name.len().min(15)].copy_from_slice(&name[..name.len().min(15)]);
            let expected =
                Stat { name: padded, state: b'S', flags: 4_194_304, threads: 3, started: 777 };
            assert_eq!(Stat::parse(&stat), Some(expected), "{name:?}");
        }
        let stat = [b"12 (x)", REST].concat();
        for cut in 0..stat.len() - b"7 18 19 20".len() {
            assert_eq!(Stat::parse(&stat[..cut]), None, "cut off after {cut} bytes");
        }
    }

    #[test]
    fn one_line_of_many_is_read_in_pieces() {
        let text = b"Name:\tNSpid: 5\nGroups:\t1 2 3\nNStgid:\t9\nNSpid:\t4711\nKthread:\t0\n";
        for size in 1..text.len() {
            let mut numbers = NumbersOf::new(b"NSpid:");
            text.chunks(size).for_each(|piece| numbers.take(piece));
            assert_eq!(numbers.only(), Some(4711), "in pieces of {size}");
        }
        let mut two = NumbersOf::new(b"NSpid:");
        two.take(b"NSpid:\t4711\t1\n");
        assert_eq!(two.only(), None, "of an outer namespace");
    }

    #[test]
    fn offsets_of_time_namespaces() {
        assert_eq!(
            parse_time_offset(
                b"monotonic           0         0\nboottime            0         0\n"
            ),
            Some(0)
        );
        assert_eq!(parse_time_offset(b"monotonic  5 0\nboottime  100 20000000\n"), Some(10_002));
        assert_eq!(parse_time_offset(b"1 5 0\n7 -1 990000000\n"), Some(-1));
        assert_eq!(parse_time_offset(b"monotonic 5 0\n"), None);
        assert_eq!(start_time(10_702, Some(10_002)), 700);
        assert_eq!(start_time(700, None), 0);
        assert_eq!(start_time(5, Some(6)), 0, "before boot: it makes no sense");
    }

    #[test]
    fn marks_come_round() {
        assert!(is_same_mark(start_mark(0x0100_0000), start_mark(0x00ff_ffff)));
        assert!(!is_same_mark(start_mark(0x0100_0003), start_mark(0x00ff_ffff)));
        assert_eq!(start_mark(0), 0, "unknown");
        assert_ne!(start_mark(0x0100_0000), 0, "known");
    }

    #[test]
    fn a_line_of_maps_names_its_file() {
        let line = b"7f2d77400000-7f2d77401000 rw-s 00000000 00:1a 1234                       /dev/shm/\xff y";
        assert_eq!(mapped_file(line), Some((rustix::fs::makedev(0, 0x1a), 1234)));
        assert_eq!(mapped_file(b"7ffe-7fff rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(mapped_file(b""), None);
    }
}
