//! Orders about states: eight equal numbers, with room for more, so that four buffers are all there
//! are at first.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::JoinHandle;

use outlive::state::{Change, State, Writer};
use outlive::wait::WaitSet;
use outlive::{Detail, Domain, Error, WaitStrategy};

/// The most bytes of a value.
const MOST: usize = 640;

/// A value.
#[must_use]
pub fn eight(number: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes.as_chunks_mut::<8>().0.fill(number.to_ne_bytes());
    bytes
}

/// The writers that a survivor keeps, and the readers that are stopped in the middle of a get.
#[derive(Default)]
pub struct States {
    writers: Vec<Writer>,
    stopped: BTreeMap<String, Vec<Stopped>>,
}

/// A thread that has a buffer pinned until it is let on.
struct Stopped {
    goes_on: mpsc::Sender<()>,
    thread: JoinHandle<Result<u64, String>>,
}

impl Stopped {
    fn at_the_latest(domain: &Domain, name: &str) -> Result<Stopped, String> {
        let bytes = State::<[u8]>::open(domain, name).map_err(|error| error.to_string())?;
        let (goes_on, may_go_on) = mpsc::channel();
        let (stands, is_pinned) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stop = || {
                let _ = stands.send(());
                // Until the sender is dropped.
                let _ = may_go_on.recv();
            };
            let (value, _) = bytes.get_as_if_stopped(stop).map_err(|error| error.to_string())?;
            whole(&value)
        });
        is_pinned.recv().map_err(|error| error.to_string())?;
        Ok(Stopped { goes_on, thread })
    }

    fn go_on(self) -> Result<u64, String> {
        drop(self.goes_on);
        self.thread.join().map_err(|_| "a stopped reader panicked".to_owned())?
    }
}

/// How many buffers it has.
fn buffers(domain: &Domain, name: &str) -> Result<usize, String> {
    match domain.entry(name).map_err(|error| error.to_string())?.detail {
        Detail::State { buffers, .. } => Ok(buffers as usize),
        _ => Err("no state".to_owned()),
    }
}

/// The state of that name, at first of ones.
///
/// # Errors
/// What opening reports, as text.
pub fn open(domain: &Domain, name: &str) -> Result<State, String> {
    State::<[u8]>::options()
        .capacity(MOST)
        .initial(&eight(1))
        .wait_strategy(WaitStrategy::Block)
        .open_or_create(domain, name)
        .map_err(|error| error.to_string())
}

/// The number that a whole value is made of.
///
/// # Errors
/// When it is not whole.
pub fn whole(value: &[u8]) -> Result<u64, String> {
    let number = value.first_chunk::<8>().map_or(0, |number| u64::from_ne_bytes(*number));
    if value == eight(number) {
        Ok(number)
    } else {
        Err(format!("parts of several values: {value:?}"))
    }
}

/// The latest value, and its version.
fn get(state: &State) -> Result<(u64, u64), String> {
    let mut value = Vec::new();
    let version = state.get_into(&mut value).map_err(|error| error.to_string())?;
    Ok((whole(&value)?, version))
}

/// Returns the latest value as a reader does that has been overtaken.
///
/// # Errors
/// When the state yields no value, or one that is not whole.
pub fn get_pinned(domain: &Domain, name: &str) -> Result<u64, String> {
    let bytes = State::<[u8]>::open(domain, name).map_err(|error| error.to_string())?;
    let (value, _) = bytes.get_as_if_overtaken().map_err(|error| error.to_string())?;
    whole(&value)
}

/// Follows from the first version on, until the writer is dead or nines are set. Answers what was
/// seen last, and why it ended.
///
/// # Errors
/// What waiting reports, and values that are not whole.
pub fn follow(state: &State) -> Result<String, String> {
    let (mut seen, mut last) = (1, 1);
    loop {
        match state.wait_changed(seen).map_err(|error| error.to_string())? {
            Change::Value { .. } => {
                (last, seen) = get(state)?;
                if last == 9 {
                    return Ok("9".to_owned());
                }
            }
            _ => return Ok(format!("{last} died")),
        }
    }
}

/// The same by a wait set.
///
/// # Errors
/// As [`follow`].
pub fn follow_in_set(domain: &Domain, state: &State) -> Result<String, String> {
    let mut watch = state.watch();
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&watch).map_err(|error| error.to_string())?;
    let mut last = 1;
    loop {
        match watch.try_changed().map_err(|error| error.to_string())? {
            Some(Change::Value { .. }) => {
                (last, _) = get(state)?;
                if last == 9 {
                    return Ok("9".to_owned());
                }
            }
            Some(_) => return Ok(format!("{last} died")),
            None => {
                set.wait().map_err(|error| error.to_string())?;
            }
        }
    }
}

impl States {
    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let text = |error: Error| error.to_string();
        let [verb, name, more @ ..] = order else { return Err("unknown order".to_owned()) };
        let state = open(domain, name)?;
        let set = |writer: Result<Writer, Error>, number: u64| match writer {
            Ok(mut writer) => writer
                .set(&eight(number))
                .map(|version| version.to_string())
                .map_err(|e| e.to_string()),
            Err(Error::Taken { .. }) => Ok("taken".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match (*verb, more) {
            // The number and the version.
            ("get", []) => {
                let (number, version) = get(&state)?;
                Ok(format!("{number} {version}"))
            }
            // Waits for a version beyond that which is there. Answers the value, or that the writer
            // died.
            ("beyond", []) => {
                let (_, seen) = get(&state)?;
                Ok(match state.wait_changed(seen).map_err(|error| error.to_string())? {
                    Change::Value { .. } => get(&state)?.0.to_string(),
                    _ => "died".to_owned(),
                })
            }
            ("writer-pid", []) => Ok(state
                .current_writer()
                .map_or_else(|| "none".to_owned(), |who| who.pid.to_string())),
            ("get-pinned", []) => get_pinned(domain, name).map(|number| number.to_string()),
            ("follow", []) => follow(&state),
            ("follow-in-set", []) => follow_in_set(domain, &state),
            // Becomes the writer, sets, and leaves. Answers the version.
            ("set", [number]) => set(state.writer(), super::number(number)?),
            ("set-in-turn", [number]) => set(state.wait_to_write(), super::number(number)?),
            ("hold", []) => {
                self.writers.push(state.writer().map_err(text)?);
                Ok(String::new())
            }
            ("leave", []) => {
                self.writers.clear();
                Ok(String::new())
            }
            // Readers pin all buffers but the latest, each a value of ones.
            ("pin-all", []) => {
                let mut stopped = Vec::new();
                while stopped.len() + 1 < buffers(domain, name)? {
                    stopped.push(Stopped::at_the_latest(domain, name)?);
                    set(state.writer(), 1)?;
                }
                self.stopped.insert((*name).to_owned(), stopped);
                Ok(String::new())
            }
            ("more-buffers", []) => {
                let pinned = self.stopped.get(*name).ok_or("nobody is stopped")?.len();
                Ok((buffers(domain, name)? - pinned - 1).to_string())
            }
            ("unpin-all", []) => {
                for stopped in self.stopped.remove(*name).ok_or("nobody is stopped")? {
                    if stopped.go_on()? != 1 {
                        return Err("what a stopped reader had pinned was written".to_owned());
                    }
                }
                Ok(String::new())
            }
            ("writer", []) => Ok(match state.current_writer() {
                None => "none",
                Some(who) if who.alive => "alive",
                Some(_) => "dead",
            }
            .to_owned()),
            _ => Err("unknown order".to_owned()),
        }
    }
}
