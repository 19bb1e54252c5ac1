//! The flight recorder: the last seconds of the topics in shared memory, and in a file when told.
//!
//! The recorder writes *segments*, short files in a folder of the domain. Together they are its *window*.
//!
//! | segment | leaves the window |
//! | --- | --- |
//! | the last one, which is written | never |
//! | the one before, until the last one has a group: it has the positions | never |
//! | one that a snapshot still has to copy | never |
//! | the oldest other one | when it is older than the span and no note waits; when those that are not being copied have more than half of the room |
//!
//! | snapshot | begins | ends |
//! | --- | --- | --- |
//! | waiting: its note is there (notes.rs) | when told, or at a publisher's death | when it is due, and none is running |
//! | running: a thread copies its segments, oldest first | the recorder has begun a new segment | the file has its name, or an error is told |
//!
//! So the thread reads only files that are written no more, and the recorder goes on taking. If segments behind
//! one that was being copied had to be removed, the window has a gap, and begins after that gap.
//!
//! What a death leaves in each state is in doc/protocols/record.md.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive_mcap::Options;
use serde_json::{Value, json};

use crate::account::Phase;
use crate::error::Error;
use crate::notes::{LOOK, Note, Outcome, Wanted, choose, remove, write_whole};
use crate::output::{Opened, Output, Owner, Purpose, Resume, Split};
use crate::recorder::now;
use crate::window::{Folder, MADE, Made, free, without_gap};

/// How a recorder keeps the last seconds.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// How much is kept at least.
    pub span: Duration,
    /// The most bytes of shared memory, half of which are for the window, and half for what is being copied
    /// from it. Default: a quarter of what is free there.
    pub bytes: Option<u64>,
    /// Whether a snapshot is written when a publisher dies, and how much of the time after the death it has.
    pub on_death: Option<Duration>,
}

/// The least room of a window.
pub const LEAST: u64 = 1 << 20;
/// No time is longer: moments are still in the clock's range.
pub(crate) const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
/// A segment is one of so many parts of the window.
const PARTS: u32 = 8;
/// Is told what became of a snapshot.
pub(crate) type Answer = Box<dyn FnOnce(&Value)>;

/// A segment that is written no more.
#[derive(Debug)]
struct Closed {
    number: u32,
    bytes: u64,
    at: Instant,
}

struct Waiting {
    note: Note,
    due: Instant,
    is_of_death: bool,
    answer: Option<Answer>,
}

struct Running {
    wanted: Wanted,
    is_of_death: bool,
    answer: Option<Answer>,
    /// What it copies, and how many of these are copied.
    numbers: Vec<u32>,
    copied: Arc<AtomicUsize>,
    thread: JoinHandle<Result<Outcome, Error>>,
}

impl Running {
    fn needs(&self, number: u32) -> bool {
        let copied = self.copied.load(Ordering::Acquire).min(self.numbers.len());
        self.numbers[copied..].binary_search(&number).is_ok()
    }
}

/// See the head of this file.
pub(crate) struct Snapshots {
    folder: Folder,
    _lock: File,
    span: Duration,
    bytes: u64,
    on_death: Option<Duration>,
    /// Where snapshots go, and what they are called.
    output: PathBuf,
    options: Options,
    closed: VecDeque<Closed>,
    /// The segment that is written has no positions yet: those of the last one that is closed hold.
    is_without_group: bool,
    waiting: Vec<Waiting>,
    running: Option<Running>,
    /// When the last snapshot of a death was due.
    last_death: Option<Instant>,
}

impl Snapshots {
    /// Makes the window, or enters that of a dead recorder.
    pub fn open(
        domain: &Domain,
        name: &str,
        wanted: Snapshot,
        output: &Path,
        options: Options,
    ) -> Result<Snapshots, Error> {
        let folder = Folder::of(domain, name);
        let output = std::path::absolute(output).map_err(|error| Error::Io {
            doing: "find",
            path: output.to_owned(),
            error,
        })?;
        let lock = folder.enter()?;
        // Told now, and not when the first snapshot is wanted.
        let place = output.parent().unwrap_or(Path::new("/"));
        fs::metadata(place).map_err(|error| Error::Io {
            doing: "find",
            path: place.to_owned(),
            error,
        })?;
        let (profile, library) = (options.profile.clone(), options.library.clone());
        let made = Made { output: output.clone(), profile, library };
        // The file is as short as the predecessor's, and needs room beside that.
        while let Err(error) = write_whole(&folder.path.join(MADE), &made) {
            let segments = folder.segments()?;
            // The last one with a group has the positions.
            let has_positions = |(number, _): &(u32, u64)| {
                let found = outlive_mcap::read_positions(folder.segment(*number));
                found.is_ok_and(|found| found.is_some_and(|found| !found.is_empty()))
            };
            match &segments[..] {
                [(oldest, _), later @ ..]
                    if error.is_no_room() && later.iter().any(has_positions) =>
                {
                    remove(&folder.segment(*oldest))?;
                }
                _ => return Err(error),
            }
        }
        let bytes = match wanted.bytes {
            Some(bytes) => bytes,
            None => free(&folder.path)? / 4,
        };
        let (span, on_death) = (wanted.span.min(FAR), wanted.on_death.map(|after| after.min(FAR)));
        let notes = Note::all(&folder.path)?;
        let waiting = notes.into_iter().map(|note| {
            // The clock may have been set since: no note waits for longer than any can.
            let left = note.wanted.due.saturating_sub(now());
            let most = on_death.map_or(Duration::ZERO, |after| after + span);
            let left = Duration::from_nanos(left).min(most);
            // What was asked for was due at once.
            let is_of_death = !left.is_zero();
            Waiting { note, due: Instant::now() + left, is_of_death, answer: None }
        });
        Ok(Snapshots {
            waiting: waiting.collect(),
            _lock: lock,
            folder,
            span,
            bytes: bytes.max(LEAST),
            on_death,
            output,
            options,
            closed: VecDeque::new(),
            is_without_group: false,
            running: None,
            last_death: None,
        })
    }

    /// Returns the path of the segments, and when one ends.
    fn segments(&self) -> (PathBuf, Split) {
        let span = (self.span / PARTS).max(Duration::from_millis(1));
        let split = Split { bytes: Some(self.part()), span: Some(span), max_files: None };
        (self.folder.path.join("window.mcap"), split)
    }

    /// The window's half of the room; the other one is for what is being copied.
    fn window_bytes(&self) -> u64 {
        self.bytes / 2
    }

    fn part(&self) -> u64 {
        self.window_bytes() / u64::from(PARTS)
    }

    /// The most bytes of a group, so that a segment has several.
    pub fn group_bytes(&self) -> u64 {
        self.part() / 4
    }

    /// Begins a segment, behind what a predecessor has left. Returns why that was dropped, if it was.
    pub fn open_segment(&mut self, options: Options) -> Result<(Opened, Option<String>), Error> {
        let (path, split) = self.segments();
        let open = || {
            let owner = Owner { name: None, is_heir: false };
            Output::open(&path, split, options.clone(), Resume::Yes, Purpose::Window, owner)
        };
        let mut dropped = None;
        let mut opened = match open() {
            // It is not known how far the window is. The notes stay.
            Err(Error::File(error)) if is_damage(&error) => {
                for (number, _) in self.folder.segments()? {
                    remove(&self.folder.segment(number))?;
                }
                dropped = Some(error.to_string());
                open()?
            }
            opened => opened?,
        };
        if opened.phase != Phase::First {
            let at = Instant::now();
            let before = self.folder.segments()?.into_iter();
            self.closed = before.map(|(number, bytes)| Closed { number, bytes, at }).collect();
            self.is_without_group = true;
            // Others may be reading the predecessor's last one.
            while let Err(error) = opened.output.next() {
                if !error.is_no_room() || !self.make_room()? {
                    return Err(error);
                }
            }
        }
        Ok((opened, dropped))
    }

    /// The segment that is written has a group.
    pub fn written(&mut self) {
        self.is_without_group = false;
    }

    /// A segment is written no more.
    pub fn closed(&mut self, number: u32, bytes: u64) {
        self.closed.push_back(Closed { number, bytes, at: Instant::now() });
    }

    /// Removes what is too old or too much; the segment that is written has so many bytes.
    pub fn keep_bounds(&mut self, current: u64) -> Result<(), Error> {
        // What is being copied was no more than this when the copying began.
        let most = self.window_bytes().saturating_sub(current.saturating_add(self.part()));
        while self.free_bytes() > most {
            if !self.make_room()? {
                break;
            }
        }
        // A note that waits wants the span before it, and what has come since.
        if self.waiting.is_empty() {
            let span = self.span;
            while self.remove_oldest(|one| one.at.elapsed() >= span)? {}
        }
        Ok(())
    }

    /// Returns how many bytes are not being copied.
    fn free_bytes(&self) -> u64 {
        let is_free =
            |one: &&Closed| self.running.as_ref().is_none_or(|running| !running.needs(one.number));
        let bytes = self.closed.iter().filter(is_free).map(|one| one.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Removes the oldest segment that is not being copied. Returns whether there was one.
    pub fn make_room(&mut self) -> Result<bool, Error> {
        self.remove_oldest(|_| true)
    }

    fn remove_oldest(&mut self, goes: impl Fn(&Closed) -> bool) -> Result<bool, Error> {
        let is_free =
            |one: &Closed| self.running.as_ref().is_none_or(|running| !running.needs(one.number));
        let most = self.closed.len().saturating_sub(usize::from(self.is_without_group));
        let mut own = self.closed.iter().take(most);
        let Some(at) = own.position(is_free) else { return Ok(false) };
        if !goes(&self.closed[at]) {
            return Ok(false);
        }
        remove(&self.folder.segment(self.closed[at].number))?;
        self.closed.remove(at);
        Ok(true)
    }

    /// Asks for a snapshot, and returns its file. `name`: what it is called in the folder of the others.
    ///
    /// # Errors
    /// [`Error::Busy`]: another one was asked for, and is not written yet. [`Error::NameTaken`];
    /// [`Error::NoName`]; the note could not be written.
    pub fn trigger(
        &mut self,
        reason: &str,
        name: Option<&str>,
        answer: Option<Answer>,
    ) -> Result<PathBuf, Error> {
        let is_asked = self.waiting.iter().any(|one| !one.is_of_death)
            || self.running.as_ref().is_some_and(|running| !running.is_of_death);
        if is_asked {
            return Err(Error::Busy);
        }
        let waiting = self.note(reason, name, Instant::now(), answer)?;
        let file = waiting.note.wanted.file.clone();
        self.waiting.push(waiting);
        Ok(file)
    }

    /// Asks for a snapshot because a publisher has died, unless one that waits will have this death, too. A
    /// program that dies again and again causes one snapshot in each span, which has what came since the last.
    pub fn died(&mut self, reason: &str) -> Result<(), Error> {
        let Some(after) = self.on_death else { return Ok(()) };
        if self.waiting.iter().any(|one| one.is_of_death) {
            return Ok(());
        }
        let due = Instant::now() + after;
        let due = self.last_death.map_or(due, |last| due.max(last + self.span));
        let waiting = self.note(reason, None, due, None)?;
        self.waiting.push(Waiting { is_of_death: true, ..waiting });
        self.last_death = Some(due);
        Ok(())
    }

    /// Chooses a file, and makes a note. Where there is no room for it, the window gets shorter.
    fn note(
        &mut self,
        reason: &str,
        name: Option<&str>,
        due: Instant,
        answer: Option<Answer>,
    ) -> Result<Waiting, Error> {
        let taken = self.waiting.iter().map(|one| &one.note.wanted.file);
        let taken = taken.chain(self.running.iter().map(|one| &one.wanted.file));
        let taken = taken.cloned().collect::<Vec<_>>();
        let file = choose(&self.output, name, "", &taken)?;
        let left = due.saturating_duration_since(Instant::now()).as_nanos();
        let due_at = now().saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
        let wanted = Wanted { file, reason: reason.to_owned(), due: due_at };
        let note = loop {
            match Note::write(&self.folder.path, wanted.clone()) {
                Err(error) if error.is_no_room() && self.make_room()? => {}
                written => break written?,
            }
        };
        Ok(Waiting { note, due, is_of_death: false, answer })
    }

    /// Returns when there is something to do.
    pub fn next_moment(&self) -> Option<Instant> {
        match &self.running {
            Some(_) => Some(Instant::now() + LOOK),
            None => self.waiting.iter().map(|one| one.due).min(),
        }
    }

    /// Returns whether a snapshot can begin.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        self.running.is_none() && self.waiting.iter().any(|one| one.due <= now)
    }

    /// Begins the snapshot that is due first. The recorder has begun a new segment. Returns what is to be told,
    /// if that failed.
    pub fn launch(&mut self) -> Option<Value> {
        let first = (0..self.waiting.len()).min_by_key(|at| self.waiting[*at].due);
        let first = first?;
        let Waiting { note, answer, is_of_death, .. } = self.waiting.remove(first);
        let all = self.closed.iter().map(|one| one.number).collect::<Vec<_>>();
        let numbers = without_gap(&all).to_vec();
        let paths = numbers.iter().map(|number| self.folder.segment(*number)).collect::<Vec<_>>();
        let copied = Arc::new(AtomicUsize::new(0));
        let (told, wanted) = (Arc::clone(&copied), note.wanted.clone());
        let options = self.options.clone();
        let work = move || {
            // Release: pairs with `needs`, which lets the segment go.
            note.carry_out(&paths, &options, &|count| told.store(count, Ordering::Release))
        };
        let thread = std::thread::Builder::new().name("snapshot".to_owned()).spawn(work);
        match thread {
            Ok(thread) => {
                self.running =
                    Some(Running { wanted, is_of_death, answer, numbers, copied, thread });
                None
            }
            Err(error) => {
                let outcome = Err(self.folder.failed("start a thread for", error));
                // A successor may have a thread for it: the note stays.
                Some(tell(&wanted, &outcome, answer))
            }
        }
    }

    /// Returns what is to be told of the running snapshot, if it has ended.
    pub fn ended(&mut self) -> Option<Value> {
        let running = self.running.take_if(|running| running.thread.is_finished())?;
        let outcome = running.thread.join();
        let outcome =
            outcome.unwrap_or_else(|_| Err(self.folder.failed("copy", ErrorKind::Other.into())));
        Some(tell(&running.wanted, &outcome, running.answer))
    }

    /// Writes what is asked for, without waiting for its time, and removes the window. No segment is
    /// written any more.
    pub fn end(mut self, told: &dyn Fn(&Value)) -> Result<(), Error> {
        while self.running.is_some() || !self.waiting.is_empty() {
            let failed = if self.running.is_none() { self.launch() } else { None };
            match failed.or_else(|| self.ended()) {
                Some(event) => told(&event),
                None => std::thread::sleep(LOOK),
            }
        }
        self.folder.remove()
    }

    /// Describes the window, for `status`.
    pub fn status(&self, current: u64) -> Value {
        let bytes = self.closed.iter().map(|one| one.bytes).fold(current, u64::saturating_add);
        json!({"span_s": self.span.as_secs_f64(), "bytes": bytes, "max_bytes": self.bytes,
            "segments": self.closed.len() + 1,
            "pending": self.waiting.len() + usize::from(self.running.is_some())})
    }
}

/// Whether a segment cannot be gone on with.
fn is_damage(error: &outlive_mcap::Error) -> bool {
    use outlive_mcap::Error::{
        Damaged, NotMcap, NotResumable, OtherVersion, TooLarge, TwoChannels,
    };
    matches!(
        error,
        Damaged { .. }
            | TwoChannels { .. }
            | NotMcap { .. }
            | NotResumable { .. }
            | OtherVersion { .. }
            | TooLarge { .. }
    )
}

/// Returns what is told of a snapshot, and tells it to the process that asked for it.
fn tell(wanted: &Wanted, outcome: &Result<Outcome, Error>, answer: Option<Answer>) -> Value {
    let event = event(wanted, outcome);
    if let Some(answer) = answer {
        answer(&event);
    }
    event
}

pub(crate) fn event(wanted: &Wanted, outcome: &Result<Outcome, Error>) -> Value {
    let (file, reason) = (wanted.file.to_string_lossy(), &wanted.reason);
    match outcome {
        Ok(Outcome::Written(joined)) => json!({"event": "snapshot", "file": file, "reason": reason,
            "messages": joined.messages, "events": joined.events, "faults": joined.faults}),
        Ok(Outcome::WasWritten) => {
            json!({"event": "snapshot", "file": file, "reason": reason})
        }
        Err(error) => {
            let why = match error {
                // Nothing of the file is left.
                Error::File(outlive_mcap::Error::NoSpace { error, .. }) => {
                    format!("no room for {file}: {error}")
                }
                error => error.to_string(),
            };
            json!({"event": "snapshot_failed", "file": file, "reason": reason, "why": why})
        }
    }
}
