//! The lines that are written: one `write` each, so that lines of several processes do not mix.
//!
//! Nothing is allocated and no lock is taken on the way: a line may be due anywhere where a lock is
//! taken. `errno` stays as it was, and the thread cannot be cancelled meanwhile.

use std::ffi::{CStr, c_int};
use std::fmt::{self, Write};

use crate::{real, settings};

const ROOM: usize = 1024;

/// A line that is being made; what does not fit is cut off.
struct Line {
    bytes: [u8; ROOM],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Line {
    /// Bytes that need not be text; what would break the line is replaced.
    fn push(&mut self, bytes: &[u8]) {
        // One is kept for the line's end.
        let fits = bytes.len().min(ROOM - 1 - self.used);
        for (to, &byte) in self.bytes[self.used..].iter_mut().zip(&bytes[..fits]) {
            *to = if byte < b' ' { b'?' } else { byte };
        }
        self.used += fits;
    }
}

/// Says what happened to the lock at that address.
///
/// `2026-11-21T23:59:59.123Z outlive-pthread: pid 12 (reader): mutex 0x7f01c0de0040
/// (/dev/shm/table+0x40): what`
#[cold]
pub(crate) fn line(lock: &str, address: usize, what: fmt::Arguments<'_>) {
    quietly(|| {
        let mut line = Line { bytes: [0; ROOM], used: 0 };
        let _ = stamp(&mut line);
        // SAFETY: no memory is passed.
        let _ = write!(line, " outlive-pthread: pid {} (", unsafe { libc::getpid() });
        // SAFETY: libc's own string, there for the whole life of the process.
        unsafe {
            if !real::program_invocation_short_name.is_null() {
                line.push(CStr::from_ptr(real::program_invocation_short_name).to_bytes());
            }
        }
        let _ = write!(line, "): {lock} {address:#x} (");
        push_place(&mut line, address);
        let _ = write!(line, "): {what}");
        line.bytes[line.used] = b'\n';
        put(&line.bytes[..=line.used]);
    });
}

/// Runs it with cancellation off, and gives `errno` back as it was.
pub(crate) fn quietly<R>(run: impl FnOnce() -> R) -> R {
    let mut state: c_int = 0;
    // SAFETY: two places of this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        real::pthread_setcancelstate(real::CANCEL_DISABLE, &mut state);
        let result = run();
        real::pthread_setcancelstate(state, &mut state);
        *libc::__errno_location() = errno;
        result
    }
}

fn put(bytes: &[u8]) {
    let path = settings::log_file();
    // SAFETY: the path is a string that is never freed; the bytes are as long as said; the
    // descriptor is closed once, by the function that opened it.
    unsafe {
        if !path.is_null() {
            let flags =
                libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY;
            let file = libc::open(path, flags, 0o644 as libc::c_uint);
            if file >= 0 {
                let put = libc::write(file, bytes.as_ptr().cast(), bytes.len());
                libc::close(file);
                if put == bytes.len() as isize {
                    return;
                }
            }
        }
        libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len());
    }
}

/// Returns the time of day in UTC, by hand: libc's `gmtime_r` takes a lock.
fn stamp(line: &mut Line) -> fmt::Result {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of our own.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    let (days, second) = (now.tv_sec.div_euclid(86_400), now.tv_sec.rem_euclid(86_400));
    // Days since 1 March of the year 0, in eras of 400 years: a leap day is then the last of its
    // year.
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = now.tv_nsec / 1_000_000;
    write!(line, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// What is mapped there, and where in it the address lies, as `/proc/self/maps` says.
fn push_place(line: &mut Line, address: usize) {
    // SAFETY: a string; the descriptor is closed below.
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return line.push(b"?");
    }
    let mut buffer = [0u8; 4096];
    let mut used = 0;
    let mut found = false;
    while !found {
        // SAFETY: the rest of the buffer is as long as said.
        let got =
            unsafe { libc::read(file, buffer[used..].as_mut_ptr().cast(), buffer.len() - used) };
        if got <= 0 {
            break;
        }
        used += got as usize;
        let mut begin = 0;
        while let Some(length) = buffer[begin..used].iter().position(|&byte| byte == b'\n') {
            found = found || push_if_inside(line, &buffer[begin..begin + length], address);
            begin += length + 1;
        }
        // A line that fills the whole buffer is passed over.
        buffer.copy_within(begin..used, 0);
        used = if begin == 0 && used == buffer.len() { 0 } else { used - begin };
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    if !found {
        line.push(b"?");
    }
}

/// `start-end rights offset device inode      path`
fn push_if_inside(line: &mut Line, entry: &[u8], address: usize) -> bool {
    let Ok(text) = str::from_utf8(entry) else { return false };
    let mut words = text.splitn(6, ' ');
    let hex = |word: &str| usize::from_str_radix(word, 16).ok();
    let Some((start, end)) = words.next().and_then(|range| range.split_once('-')) else {
        return false;
    };
    let (Some(start), Some(end), Some(offset)) = (hex(start), hex(end), words.nth(1).and_then(hex))
    else {
        return false;
    };
    if !(start..end).contains(&address) {
        return false;
    }
    let path = words.nth(2).unwrap_or("").trim_start();
    let _ = write!(
        line,
        "{}+{:#x}",
        if path.is_empty() { "memory" } else { path },
        offset + (address - start)
    );
    true
}

/// Says why a lock cannot be given, and ends the process if that was asked for; else the caller
/// gets `error`.
#[cold]
pub(crate) fn refuse(lock: &str, address: usize, error: c_int, why: fmt::Arguments<'_>) -> c_int {
    line(lock, address, format_args!("refused: {why}"));
    if settings::aborts() {
        // SAFETY: it ends the process.
        unsafe { libc::abort() };
    }
    error
}
