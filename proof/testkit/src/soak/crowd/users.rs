//! The members of the crowd that use the state and the service, and that sweep.

use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::rpc::{CallError, Service};
use outlive::state::State;
use outlive::{Error, SendError};

use super::worker::{Worker, text};
use crate::message::{SHORTEST, Stamp};

const STATE: &str = "state";
const SERVICE: &str = "service";
/// How long one waits for a turn at a time.
const TURN: Duration = Duration::from_millis(20);

type Numbers = [u64; 200];

fn whole(value: &Numbers) -> Result<u64, String> {
    if value.iter().all(|number| *number == value[0]) {
        Ok(value[0])
    } else {
        Err("a value of several".to_owned())
    }
}

/// Sets one number after the other, as long as it is its turn.
pub(super) fn set(worker: &mut Worker) -> Result<(), String> {
    let state = State::<Numbers>::open_or_create(&worker.domain, STATE).map_err(text)?;
    loop {
        worker.got_on();
        let mut writer = match state.wait_to_write_timeout(TURN) {
            Ok(Some(writer)) => writer,
            Ok(None) | Err(Error::Ending { .. }) => continue,
            Err(error) => return Err(format!("become the writer: {error}")),
        };
        let mut number = whole(&state.get().map_err(text)?)?;
        for _ in 0..worker.random.below(300) {
            number += 1;
            writer.set(&[number; 200]).map_err(text)?;
            worker.book.pages().set.fetch_add(1, Ordering::Relaxed);
            worker.got_on();
            std::thread::sleep(Duration::from_micros(worker.random.below(500)));
        }
    }
}

/// Sees values that never go back.
pub(super) fn get(worker: &Worker) -> Result<(), String> {
    let state = State::<Numbers>::open_or_create(&worker.domain, STATE).map_err(text)?;
    let mut watch = state.watch();
    let mut last = 0;
    loop {
        // A writer is killed sooner or later: its end is told, or another value.
        let _ = watch.changed().map_err(text)?;
        let number = whole(&state.get().map_err(text)?)?;
        if number < last {
            return Err(format!("{number} after {last}"));
        }
        last = number;
        worker.book.pages().got.fetch_add(1, Ordering::Relaxed);
        worker.got_on();
    }
}

/// Answers each question with itself.
pub(super) fn serve(worker: &Worker) -> Result<(), String> {
    loop {
        worker.got_on();
        let mut server = match Service::<[u8], [u8]>::options()
            .max_bytes(16 << 20)
            .open_or_create(&worker.domain, SERVICE)
            .and_then(|service| service.server())
        {
            Ok(server) => server,
            Err(Error::Taken { .. } | Error::Ending { .. }) => {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            Err(error) => return Err(format!("become the server: {error}")),
        };
        for _ in 0..500 {
            worker.got_on();
            let request = match server.next_timeout(TURN) {
                Ok(Some(request)) => request,
                Ok(None) => continue,
                Err(error) => return Err(format!("serve: {error}")),
            };
            let question = request.to_vec();
            let stamp = Stamp::of(&question)?;
            let answered = if stamp.number % 7 == 0 {
                let mut stream = request.stream();
                (0..3).try_for_each(|_| stream.send(&question)).and_then(|()| stream.finish())
            } else {
                request.reply(&question)
            };
            match answered {
                Ok(()) | Err(SendError::ReceiverDied | SendError::Cancelled) => {}
                Err(error) => return Err(format!("reply: {error}")),
            }
        }
    }
}

/// Asks, some of the questions at once.
pub(super) fn call(worker: &mut Worker) -> Result<(), String> {
    let client = Service::<[u8], [u8]>::options()
        .max_bytes(16 << 20)
        .open_or_create(&worker.domain, SERVICE)
        .and_then(|service| service.client())
        .map_err(text)?;
    client.set_wait_for_server(true);
    let mut number = 0;
    loop {
        let mut calls = Vec::new();
        for _ in 0..1 + worker.random.below(3) {
            number += 1;
            let most = if worker.random.below(5) == 0 { 20_000 } else { 100 };
            let stamp = Stamp { sender: worker.name, number };
            let question = stamp.message(SHORTEST + worker.random.below(most) as usize);
            calls.push((stamp, client.begin(&question).map_err(|error| format!("ask: {error}"))?));
        }
        for (stamp, mut call) in calls {
            worker.got_on();
            let ended = loop {
                match call.next() {
                    Ok(Some(answer)) if Stamp::of(&answer)? == stamp => {}
                    Ok(Some(answer)) => {
                        return Err(format!("{:?} answers {stamp:?}", Stamp::of(&answer)));
                    }
                    Ok(None) => break &worker.book.pages().answered,
                    Err(CallError::ServerDied { .. } | CallError::Dropped) => {
                        break &worker.book.pages().died;
                    }
                    Err(error) => return Err(format!("call: {error}")),
                }
            };
            ended.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_micros(worker.random.below(2000)));
    }
}

pub(super) fn sweep(worker: &mut Worker) -> Result<(), String> {
    loop {
        let swept = worker.domain.sweep(false).map_err(text)?;
        if !swept.failed.is_empty() {
            return Err(format!("sweep: {:?}", swept.failed));
        }
        worker.got_on();
        std::thread::sleep(Duration::from_micros(worker.random.below(60_000)));
    }
}
