//! `state.`: a number; `bytes.`: of any length.

use std::collections::HashMap;
use std::time::Instant;

use outlive::state::{Change, State, Writer};
use outlive::{Deadline, Domain};

use crate::answer::{self, Answer, Refusal, done, find, said};

#[derive(Default)]
pub(crate) struct States {
    numbers: HashMap<String, State<u64>>,
    number_writers: HashMap<String, Writer<u64>>,
    bytes: HashMap<String, State>,
    bytes_writers: HashMap<String, Writer>,
}

impl States {
    pub(crate) fn act(&mut self, domain: &Domain, command: &str, args: &[&str]) -> Answer {
        match (command, args) {
            ("state.open", [name, value]) => {
                let options = State::options().initial(&answer::number(value)?);
                self.numbers.insert((*name).to_owned(), options.open_or_create(domain, name)?);
                done()
            }
            ("state.find", [name]) => {
                State::open_as_bytes(domain, name)?;
                done()
            }
            ("state.get", [name]) => {
                let (value, version) = find(&mut self.numbers, name)?.get_with_version()?;
                said(format!("{value} {version}"))
            }
            ("state.set", [name, value]) => {
                said(self.number_writer(name)?.set(&answer::number(value)?)?)
            }
            ("state.prefault", [name, readers]) => {
                self.number_writer(name)?.prefault(answer::number(readers)?)?;
                done()
            }
            ("state.wait", [name, seen, span]) => {
                let state = find(&mut self.numbers, name)?;
                match state.wait_changed_timeout(answer::number(seen)?, answer::span(span)?)? {
                    Some(Change::Value { version }) => said(version),
                    None => Err(Refusal::new("TimedOut", "")),
                    _ => Err(Refusal::new("WriterDied", "")),
                }
            }
            ("state.close", [name]) => {
                self.number_writers.remove(*name);
                done()
            }
            ("bytes.open", [name, most, value]) => {
                let options = State::<[u8]>::options().capacity(answer::number(most)?);
                let options = options.initial(&answer::message(value)?);
                self.bytes.insert((*name).to_owned(), options.open_or_create(domain, name)?);
                done()
            }
            ("bytes.get", [name]) => {
                let mut value = Vec::new();
                let version = find(&mut self.bytes, name)?.get_into(&mut value)?;
                said(format!("{} {version}", answer::show(&value)))
            }
            ("bytes.set", [name, value]) => said(self.writer(name)?.set(&answer::message(value)?)?),
            ("bytes.flood", [name, size, span]) => {
                let (size, end) = (answer::number(size)?, answer::until(span)?);
                let writer = self.writer(name)?;
                let mut number = 0;
                while Instant::now() < end {
                    number += 1;
                    writer.set(&answer::pattern(size, number))?;
                }
                done()
            }
            ("bytes.watch", [name, count, span]) => {
                let (state, end) = (find(&mut self.bytes, name)?, answer::until(span)?);
                let (mut value, mut seen) = (Vec::new(), 1);
                for _ in 0..answer::number::<u64>(count)? {
                    state
                        .wait_changed_until(seen, Deadline::at(end))?
                        .ok_or_else(|| Refusal::new("TimedOut", ""))?;
                    seen = state.get_into(&mut value)?;
                    if !answer::is_pattern(&value, seen - 1) {
                        return Err(Refusal::new(
                            "Torn",
                            format!("version {seen} is {}", answer::show(&value)),
                        ));
                    }
                }
                done()
            }
            _ => answer::unknown(command, args),
        }
    }

    fn number_writer(&mut self, name: &str) -> Result<&mut Writer<u64>, Refusal> {
        if !self.number_writers.contains_key(name) {
            let writer = find(&mut self.numbers, name)?.writer()?;
            self.number_writers.insert(name.to_owned(), writer);
        }
        find(&mut self.number_writers, name)
    }

    fn writer(&mut self, name: &str) -> Result<&mut Writer, Refusal> {
        if !self.bytes_writers.contains_key(name) {
            let writer = find(&mut self.bytes, name)?.writer()?;
            self.bytes_writers.insert(name.to_owned(), writer);
        }
        find(&mut self.bytes_writers, name)
    }
}
