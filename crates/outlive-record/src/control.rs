//! The service `record:NAME`: it tells a recorder to stop, to start, and to write. Requests are JSON.
//!
//! | state | request | then |
//! | --- | --- | --- |
//! | recording | `stop` | stopped: the file is finished, the topics are left |
//! | recording | `split`, `trigger`, `status` | recording |
//! | stopped | `start` | recording, into the next file |
//! | stopped | `status` | stopped |
//! | either | anything else | as before; the caller is told why |
//!
//! The recorder takes requests between two of its steps. If it dies, the service tells the client so, and whether
//! the recorder had begun the request. If the client dies, the answer is lost. The state is not in shared memory:
//! a successor begins as its command line says, with the window and the notes that are there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive::describe::{Description, Encoding};
use outlive::rpc::{Request, Server, Service};
use outlive::{Deadline, Domain};
use outlive_mcap::Positions;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::Start;
use crate::error::Error;
use crate::recorder::{Counts, Options, Recorder};
use crate::{output, places};

/// What a recorder's service has before the recorder's name.
pub const PREFIX: &str = "record:";

/// Returns the name of a recorder's service.
pub fn service_name(recorder: &str) -> String {
    format!("{PREFIX}{recorder}")
}

/// The description of the requests and of the answers.
fn description() -> Result<Description, outlive::Error> {
    Description::encoded("", Encoding::Json)?.with_reply(Description::encoded("", Encoding::Json)?)
}

/// Requests and answers are short.
const MAX_BYTES: u64 = 1 << 20;

/// What a request asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Status {},
    Start {},
    Stop {},
    Split {},
    Trigger {
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        file: Option<String>,
    },
}

/// A recorder, and what tells it what to do. See the head of this file.
pub struct Session {
    domain: Domain,
    options: Box<dyn Fn() -> Options>,
    /// That of a recorder with a name.
    control: Option<Control>,
    recorder: Option<Recorder>,
    /// What was recorded before the last `start`.
    before: Counts,
    /// How far the last recorder was that was stopped.
    stopped: Option<Positions>,
    /// The first file of this process, once it has begun one, and the last one.
    first: Option<PathBuf>,
    file: PathBuf,
    is_resumed: bool,
}

/// What a session came to.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was done.
    pub counts: Counts,
    /// The files, in their order; none if there was nothing to record, or no file was to be written.
    pub files: Vec<PathBuf>,
    /// Whether older files of this recording were removed, as there are to be no more than so many.
    pub has_removed: bool,
    /// Whether a recorder before this one had begun the recording: what it recorded is not among the counts.
    pub is_resumed: bool,
}

struct Control {
    name: String,
    service: Service<[u8], [u8]>,
    server: Server,
    /// No recorder has had it.
    is_new: bool,
}

impl Control {
    /// Serves for the recorder of that name, if no other process does.
    fn begin(domain: &Domain, recorder: &str) -> Result<Control, Error> {
        let name = service_name(recorder);
        loop {
            let found = Service::open_as_bytes(domain, &name);
            let is_new = matches!(found, Err(outlive::Error::NotFound { .. }));
            let service = Service::options().max_bytes(MAX_BYTES).description(description()?);
            let service = service.open_or_create(domain, &name)?;
            let server = service.server().map_err(|error| match error {
                outlive::Error::Taken { pid, .. } => {
                    Error::Running { name: recorder.to_owned(), pid }
                }
                error => error.into(),
            })?;
            // Else the former one has ended, or was given up, since it was opened: no client finds this one. A
            // service is removed by the process that serves it, so this one stays now.
            if !service.is_removed() {
                return Ok(Control { name, service, server, is_new });
            }
        }
    }

    /// Removes the service, unless it is gone and another one has its name.
    fn remove(&self, domain: &Domain) -> Result<(), Error> {
        if self.service.is_removed() {
            return Ok(());
        }
        match domain.remove(&self.name) {
            Ok(()) | Err(outlive::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Session {
    /// Begins to record, or to wait for `start`.
    ///
    /// # Errors
    /// Those of [`Recorder::start`]; another recorder of this name lives.
    ///
    /// # If a process dies
    /// The next one of this name goes on where this one was.
    pub fn begin(
        domain: &Domain,
        options: Box<dyn Fn() -> Options>,
        is_paused: bool,
    ) -> Result<Session, Error> {
        let wanted = options();
        let file = wanted.output.clone();
        // First: another recorder of this name, of other topics, finds nothing of this one.
        let control =
            wanted.name.as_deref().map(|name| Control::begin(domain, name)).transpose()?;
        let is_heir = control.as_ref().is_some_and(|control| !control.is_new);
        let start = || match is_paused {
            true => Ok(None),
            false => {
                let start = Start { is_heir, ..Start::default() };
                Recorder::start_as(domain, wanted, start).map(Some)
            }
        };
        let mut recorder = start().inspect_err(|_| {
            if let Some(control) = control.as_ref().filter(|control| control.is_new) {
                // No recorder of this name is there. If that fails, places and a service are left as of a dead one.
                let _ = places::give_up(domain, &control.name);
                let _ = control.remove(domain);
            }
        })?;
        if let (Some(recorder), Some(control)) = (&mut recorder, &control) {
            recorder.also_wait_for(&control.server)?;
        }
        let (domain, before) = (domain.clone(), Counts::default());
        let first = recorder.as_ref().map(Recorder::first_file);
        let is_resumed = recorder.as_ref().is_some_and(Recorder::is_resumed);
        let stopped = None;
        Ok(Session { domain, options, control, recorder, before, stopped, first, file, is_resumed })
    }

    /// Records and answers requests, until that moment at most.
    ///
    /// # Errors
    /// Those of [`Recorder::step`].
    pub fn step(&mut self, until: Instant) -> Result<(), Error> {
        match (&mut self.recorder, &mut self.control) {
            (Some(recorder), _) => recorder.step(until)?,
            (None, Some(control)) => {
                if let Some(request) = taken(control.server.next_until(Deadline::at(until)))? {
                    self.serve(request)?;
                }
            }
            (None, None) => std::thread::sleep(until.saturating_duration_since(Instant::now())),
        }
        // A client that never stops asking must not keep the recorder from taking messages.
        for _ in 0..MOST {
            let Some(control) = &mut self.control else { break };
            let Some(request) = taken(control.server.try_next())? else { break };
            self.serve(request)?;
        }
        Ok(())
    }

    /// Returns the recorder, unless it is stopped.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Returns what has been done, before stops, too.
    pub fn counts(&self) -> Counts {
        match &self.recorder {
            Some(recorder) => self.before.and(recorder.counts()),
            None => self.before.stopped(),
        }
    }

    /// Returns the file that is written, or was written last.
    pub fn file(&self) -> PathBuf {
        self.recorder.as_ref().map_or_else(|| self.file.clone(), Recorder::current_file)
    }

    /// Asks for a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`], [`Error::Stopped`].
    pub fn trigger(&mut self, reason: &str) -> Result<(), Error> {
        let recorder = self.recorder.as_mut().ok_or(Error::Stopped)?;
        recorder.trigger(reason, None, None).map(drop)
    }

    /// Ends the recording in order. The recorder's name is free then. A file in which there is nothing but that the
    /// recorder has begun and ended is removed: its name is free as well.
    ///
    /// # Errors
    /// Those of [`Recorder::finish`].
    pub fn end(mut self) -> Result<Ended, Error> {
        let now = self.counts();
        let (is_recording, is_window) = (
            self.recorder.is_some(),
            self.recorder.as_ref().is_some_and(|one| one.window().is_some()),
        );
        self.stop(false)?;
        let first = self.first.take().filter(|_| !is_window);
        let (mut files, mut has_removed) = (Vec::new(), false);
        if let Some(first) = first {
            if is_recording {
                output::remove_if_empty(&self.file)?;
            }
            files = output::files_between(&first, &self.file);
            has_removed = first != self.file && files.first() != Some(&first);
        }
        if let Some(control) = &self.control {
            // While it serves: a successor's service is another one.
            control.remove(&self.domain)?;
        }
        let Counts { topics, queues, states, services, refused, .. } = now;
        let counts = Counts { topics, queues, states, services, refused, ..self.before };
        Ok(Ended { counts, files, has_removed, is_resumed: self.is_resumed })
    }

    /// `is_told`: by a request; the recorder may be told to start again.
    fn stop(&mut self, is_told: bool) -> Result<(), Error> {
        if let Some(recorder) = self.recorder.take() {
            // Where its end fails, too.
            self.file = recorder.current_file();
            let (counts, positions, last) = recorder.end(is_told)?;
            self.file = last;
            self.before = self.before.and(counts);
            self.stopped = Some(positions);
            // Also where it recorded nothing any more: a topic that was set aside, or that only a predecessor wanted.
            self.give_up_places()?;
        }
        Ok(())
    }

    fn give_up_places(&self) -> Result<(), Error> {
        let Some(control) = &self.control else { return Ok(()) };
        places::give_up(&self.domain, &control.name).map(drop)
    }

    fn start(&mut self) -> Result<(), Error> {
        let start = Start {
            is_told: true,
            // Where this start fails, the next one needs them.
            stopped: self.stopped.clone(),
            is_heir: self.control.as_ref().is_some_and(|control| !control.is_new),
        };
        let started = Recorder::start_as(&self.domain, (self.options)(), start);
        let mut recorder = match started {
            Ok(recorder) => recorder,
            Err(error) => {
                // It is stopped as before, and no publisher waits for it.
                self.give_up_places()?;
                return Err(error);
            }
        };
        if let Some(control) = &self.control {
            recorder.also_wait_for(&control.server)?;
        }
        self.first.get_or_insert_with(|| recorder.first_file());
        self.recorder = Some(recorder);
        Ok(())
    }

    /// Carries out a request. An error of the recording ends it, when the caller has been told.
    fn serve(&mut self, request: Request) -> Result<(), Error> {
        let command = match serde_json::from_slice(&request) {
            Ok(command) => command,
            Err(error) => {
                refuse(request, &format!("not a request: {error}"));
                return Ok(());
            }
        };
        match (command, &mut self.recorder) {
            (Command::Status {}, _) => answer(request, &self.status()),
            (Command::Start {}, None) => match self.start() {
                Ok(()) => answer(request, &self.status()),
                Err(error) => refuse(request, &error.to_string()),
            },
            (Command::Start {}, Some(_)) => refuse(request, "the recorder is recording already"),
            (Command::Stop {}, None) => refuse(request, "the recorder is stopped already"),
            (_, None) => refuse(request, &Error::Stopped.to_string()),
            (Command::Stop {}, Some(_)) => match self.stop(true) {
                Ok(()) => answer(request, &self.status()),
                Err(error) => {
                    refuse(request, &error.to_string());
                    return Err(error);
                }
            },
            (Command::Split {}, Some(recorder)) => match recorder.split() {
                Ok(()) => answer(request, &self.status()),
                Err(error @ Error::NoSplit) => refuse(request, &error.to_string()),
                Err(error) => {
                    refuse(request, &error.to_string());
                    return Err(error);
                }
            },
            (Command::Trigger { reason, file }, Some(recorder)) => {
                let reason = reason.unwrap_or_else(|| match request.client() {
                    Some(client) => format!("asked for by {} ({})", client.program, client.pid),
                    None => "asked for".to_owned(),
                });
                // It is answered when the file is there. Until then its caller holds it, or has died.
                let request = std::rc::Rc::new(std::cell::Cell::new(Some(request)));
                let later = std::rc::Rc::clone(&request);
                let told = Box::new(move |event: &Value| {
                    let Some(request) = later.take() else { return };
                    match event["why"].as_str() {
                        Some(why) => refuse(request, why),
                        None => answer(request, event),
                    }
                });
                if let Err(error) = recorder.trigger(&reason, file.as_deref(), Some(told))
                    && let Some(request) = request.take()
                {
                    refuse(request, &error.to_string());
                }
            }
        }
        Ok(())
    }

    fn status(&self) -> Value {
        let counts = self.counts();
        let Counts { messages, bytes, lost, skipped, refused, deaths, .. } = counts;
        let Counts { topics, queues, states, services, .. } = counts;
        let mut status = json!({
            "state": if self.recorder.is_some() { "recording" } else { "stopped" },
            "pid": std::process::id(), "messages": messages, "bytes": bytes, "lost": lost,
            "skipped": skipped, "topics": topics, "queues": queues,
            "states": states, "services": services, "refused": refused, "deaths": deaths,
        });
        match self.recorder.as_ref().and_then(Recorder::window) {
            Some(window) => status["window"] = window,
            // As in a snapshot's answer: its reader may be in another folder.
            None => {
                let file = self.file();
                let file = std::path::absolute(&file).unwrap_or(file);
                status["file"] = file.to_string_lossy().into();
            }
        }
        status
    }
}

/// So many requests are answered between two steps of the recorder.
const MOST: usize = 16;

/// A request whose bytes are not in order has been refused by the service.
fn taken(found: Result<Option<Request>, outlive::RecvError>) -> Result<Option<Request>, Error> {
    match found {
        Ok(found) => Ok(found),
        Err(outlive::RecvError::Encoding(_)) => Ok(None),
        Err(error) => Err(Error::Receive { topic: "requests".to_owned(), error }),
    }
}

/// A client that has died, or waits no more, needs no answer.
fn answer(request: Request, value: &Value) {
    let _ = request.reply(value.to_string().as_bytes());
}

fn refuse(request: Request, why: &str) {
    let _ = request.fail(why);
}

/// Asks the recorder of that name; waits for the answer until the deadline.
///
/// # Errors
/// There is no such service; what its call says.
pub fn ask(
    domain: &Domain,
    recorder: &str,
    request: &Value,
    span: Duration,
) -> Result<Result<Value, outlive::rpc::CallError>, outlive::Error> {
    let service = Service::open_as_bytes(domain, &service_name(recorder))?;
    let reply = match service.client()?.call_timeout(request.to_string().as_bytes(), span) {
        Ok(reply) => reply,
        Err(error) => return Ok(Err(error)),
    };
    let value = serde_json::from_slice(&reply);
    Ok(value.map_err(|error| outlive::rpc::CallError::Encoding(error.to_string())))
}
