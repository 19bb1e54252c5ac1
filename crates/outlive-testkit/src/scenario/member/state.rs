//! Orders about states: eight equal numbers.

use outlive::state::{Change, State, StateBytes, StateWriter};
use outlive::wait::WaitSet;
use outlive::{Deadline, Domain, Error, Wait};

/// What is set.
pub type Eight = [u64; 8];

/// The writers that a survivor keeps.
#[derive(Default)]
pub struct States(Vec<StateWriter<Eight>>);

/// The state of that name, at first of ones.
///
/// # Errors
/// What opening reports, as text.
pub fn open(domain: &Domain, name: &str) -> Result<State<Eight>, String> {
    let state = State::open(domain, name, [1; 8]).map_err(|error| error.to_string())?;
    state.set_wait(Wait::Block);
    Ok(state)
}

/// The number that a whole value is made of.
///
/// # Errors
/// When it is not whole.
pub fn whole(value: &[u64]) -> Result<u64, String> {
    if value.len() == 8 && value.iter().all(|number| *number == value[0]) {
        Ok(value[0])
    } else {
        Err(format!("parts of several values: {value:?}"))
    }
}

/// The latest value by the way of one who has been overtaken.
///
/// # Errors
/// When it cannot be had, or is not whole.
pub fn get_pinned(domain: &Domain, name: &str) -> Result<u64, String> {
    let bytes = StateBytes::open(domain, name).map_err(|error| error.to_string())?;
    let (value, _) = bytes.get_as_if_overtaken().map_err(|error| error.to_string())?;
    let numbers: Vec<u64> =
        value.chunks_exact(8).filter_map(|n| Some(u64::from_ne_bytes(n.try_into().ok()?))).collect();
    whole(&numbers)
}

/// Follows from the first version on, until the writer is dead or nines are set. Answers what was seen last, and why it ended.
///
/// # Errors
/// What waiting reports, and values that are not whole.
pub fn follow(state: &State<Eight>) -> Result<String, String> {
    let (mut seen, mut last) = (1, 1);
    loop {
        match state.wait_changed(seen).map_err(|error| error.to_string())? {
            Change::Value { .. } => {
                let (value, version) = state.get_with_version().map_err(|error| error.to_string())?;
                (seen, last) = (version, whole(&value)?);
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
pub fn follow_in_set(domain: &Domain, state: &State<Eight>) -> Result<String, String> {
    let mut watch = state.watch();
    let mut set = WaitSet::new(domain);
    set.set_wait(Wait::Block);
    set.add(&watch).map_err(|error| error.to_string())?;
    let mut last = 1;
    loop {
        match watch.try_changed() {
            Some(Change::Value { .. }) => {
                last = whole(&state.get().map_err(|error| error.to_string())?)?;
                if last == 9 {
                    return Ok("9".to_owned());
                }
            }
            Some(_) => return Ok(format!("{last} died")),
            None => {
                set.wait(Deadline::NEVER).map_err(|error| error.to_string())?;
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
        let set = |writer: Result<StateWriter<Eight>, Error>, number: u64| match writer {
            Ok(mut writer) => writer.set(&[number; 8]).map(|version| version.to_string()).map_err(|e| e.to_string()),
            Err(Error::WriterTaken { .. }) => Ok("taken".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match (*verb, more) {
            // The number and the version.
            ("get", []) => {
                let (value, version) = state.get_with_version().map_err(text)?;
                Ok(format!("{} {version}", whole(&value)?))
            }
            ("get-pinned", []) => get_pinned(domain, name).map(|number| number.to_string()),
            ("follow", []) => follow(&state),
            ("follow-in-set", []) => follow_in_set(domain, &state),
            // Becomes the writer, sets, and leaves. Answers the version.
            ("set", [number]) => set(state.writer(), super::number(number)?),
            ("set-in-turn", [number]) => set(state.writer_until(Deadline::NEVER), super::number(number)?),
            ("hold", []) => {
                self.0.push(state.writer().map_err(text)?);
                Ok(String::new())
            }
            ("writer", []) => Ok(match state.writer_now() {
                None => "none",
                Some(who) if who.alive => "alive",
                Some(_) => "dead",
            }
            .to_owned()),
            _ => Err("unknown order".to_owned()),
        }
    }
}
