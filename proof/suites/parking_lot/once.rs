//! parking_lot's `Once` over Outlive's value that is made once.

use std::fmt;

use outlive::sync::OnceLock;

use crate::Lazy;

/// How far a `Once` is; `Poisoned` is told to a caller alone.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum OnceState {
    New,
    Poisoned,
    InProgress,
    Done,
}

impl OnceState {
    pub fn poisoned(self) -> bool {
        self == OnceState::Poisoned
    }

    pub fn done(self) -> bool {
        self == OnceState::Done
    }
}

pub struct Once(Lazy<OnceLock<u8>>);

impl Once {
    pub const fn new() -> Once {
        Once(Lazy::new())
    }

    fn once(&self) -> &OnceLock<u8> {
        self.0.get(|domain, name| OnceLock::options().create_new(domain, name))
    }

    pub fn state(&self) -> OnceState {
        match self.0.there() {
            Some(once) if once.get().is_some() => OnceState::Done,
            Some(once) if once.initializer().is_some() => OnceState::InProgress,
            _ => OnceState::New,
        }
    }

    /// Runs `f` once. Outlive tells the next caller that the one before panicked; by parking_lot's
    /// rule it panics, too.
    pub fn call_once(&self, f: impl FnOnce()) {
        self.call_once_force(|state| {
            assert!(!state.poisoned(), "Once instance has previously been poisoned");
            f();
        });
    }

    pub fn call_once_force(&self, f: impl FnOnce(OnceState)) {
        let made = self.once().get_or_init(|before| {
            f(if before.previous_died() { OnceState::Poisoned } else { OnceState::New });
            1
        });
        made.expect("a value that can be made");
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("state", &self.state()).finish()
    }
}

// The tests of parking_lot's own once.rs.
include!("once_tests.rs");
