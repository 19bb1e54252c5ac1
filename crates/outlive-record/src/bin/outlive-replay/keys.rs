//! Keys of the terminal, taken one by one while the player runs.
//!
//! Ctrl-Z is none of them meanwhile, since a stopped player would leave the terminal as it needs it. A player
//! that is killed by SIGKILL leaves it so, too; `stty sane` helps.

use std::io::{IsTerminal, stdin};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Toggle,
    Step,
    Back,
    Forward,
    Faster,
    Slower,
    End,
}

/// The terminal, which is given back when this is dropped.
pub struct Keys {
    before: Termios,
    /// The beginning of a key's bytes.
    begun: Vec<u8>,
}

impl Keys {
    /// Takes the terminal; `None`: the input is none, or it is another program's now.
    pub fn take() -> Option<Keys> {
        let input = stdin();
        let is_mine = || tcgetpgrp(&input).ok() == Some(rustix::process::getpgrp());
        if !input.is_terminal() || !is_mine() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut own = before.clone();
        own.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        own.special_codes[SpecialCodeIndex::VMIN] = 1;
        own.special_codes[SpecialCodeIndex::VTIME] = 0;
        // 0: no key.
        own.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(&input, OptionalActions::Now, &own).ok()?;
        Some(Keys { before, begun: Vec::new() })
    }

    /// What is to be waited for.
    pub fn fd(&self) -> BorrowedFd<'static> {
        // SAFETY: the program closes its input nowhere.
        unsafe { BorrowedFd::borrow_raw(0) }
    }

    /// Reads what is there; `None`: the terminal is gone.
    pub fn read(&mut self) -> Option<Vec<Key>> {
        let mut bytes = [0; 64];
        match rustix::io::read(stdin().as_fd(), &mut bytes) {
            Ok(0) => None,
            Ok(len) => {
                self.begun.extend_from_slice(&bytes[..len]);
                Some(keys(&mut self.begun))
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Takes whole keys out of what was read; the beginning of one stays.
fn keys(bytes: &mut Vec<u8>) -> Vec<Key> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let (len, key) = match rest {
            [0x1b] | [0x1b, b'[' | b'O'] => break,
            [0x1b, b'[' | b'O', b'D', ..] => (3, Some(Key::Back)),
            [0x1b, b'[' | b'O', b'C', ..] => (3, Some(Key::Forward)),
            [0x1b, b'[' | b'O', ..] => (3, None),
            [b' ', ..] => (1, Some(Key::Toggle)),
            [b's', ..] => (1, Some(Key::Step)),
            [b'+' | b'=', ..] => (1, Some(Key::Faster)),
            [b'-', ..] => (1, Some(Key::Slower)),
            [b'q', ..] => (1, Some(Key::End)),
            _ => (1, None),
        };
        at += len;
        found.extend(key);
    }
    bytes.drain(..at.min(bytes.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_parts_and_many_at_once() {
        let mut begun = b" s\x1b[D\x1bOC+-x\x1b[Aq\x1b".to_vec();
        assert_eq!(
            keys(&mut begun),
            [Key::Toggle, Key::Step, Key::Back, Key::Forward, Key::Faster, Key::Slower, Key::End]
        );
        begun.push(b'[');
        assert_eq!(keys(&mut begun), []);
        begun.push(b'C');
        assert_eq!(keys(&mut begun), [Key::Forward]);
        assert!(begun.is_empty());
    }
}
