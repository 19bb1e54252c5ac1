//! The calls of `calls.c`, in Rust: what is done in which order is the same there, line by line.

use clap::Args;
use outlive::Domain;
use outlive::queue::{Queue, Receiver, Sender};
use outlive::sync::Mutex;
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive_bench::Error;
use outlive_bench::harness::clock;
use outlive_testkit::engine::victim::Stage;
use std::error::Error as Any;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const BYTES: usize = 64;
const BURST: u64 = 128;
/// Bursts before the first that counts.
const WARM: u64 = 16;

/// The arguments, in the order of `calls.c`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallsArgs {
    operation: String,
    domain: PathBuf,
    control: PathBuf,
    how: String,
    count: u64,
}

struct Things {
    lock: Mutex<u64>,
    sender: Sender,
    receiver: Receiver,
    publisher: Publisher<[u8]>,
    subscriber: Subscriber<[u8]>,
    message: [u8; BYTES],
    room: Vec<u8>,
    sum: u64,
}

type Done = Result<(), Box<dyn Any>>;
type Calls = fn(&mut Things, u64) -> Done;

impl Things {
    fn open(path: &Path) -> Result<Things, Box<dyn Any>> {
        let domain = Domain::open_or_create_at(path)?;
        let queue =
            Queue::<[u8]>::options().slots(4 * BURST as u32).open_or_create(&domain, "queue")?;
        let topic = Topic::<[u8]>::options()
            .depth(2 * BURST as u32)
            .stamps(false)
            .open_or_create(&domain, "topic")?;
        Ok(Things {
            lock: Mutex::options(0).open_or_create(&domain, "lock")?,
            sender: queue.sender()?,
            receiver: queue.receiver()?,
            publisher: topic.publisher()?,
            subscriber: topic.subscriber()?,
            message: [0; BYTES],
            room: Vec::with_capacity(BYTES),
            sum: 0,
        })
    }

    #[inline(never)]
    fn locks(&mut self, count: u64) -> Done {
        for _ in 0..count {
            drop(self.lock.lock().map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    #[inline(never)]
    fn send(&mut self, count: u64) -> Done {
        for _ in 0..count {
            self.sender.send(black_box(&self.message[..]))?;
        }
        Ok(())
    }

    #[inline(never)]
    fn recv(&mut self, count: u64) -> Done {
        for _ in 0..count {
            self.receiver.recv_into(&mut self.room)?;
            self.sum += self.room.len() as u64;
        }
        Ok(())
    }

    #[inline(never)]
    fn publish(&mut self, count: u64) -> Done {
        for n in 0..count {
            let mut loan = self.publisher.loan(black_box(BYTES))?;
            loan[..8].copy_from_slice(&n.to_ne_bytes());
            self.publisher.publish(loan)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn publish_copy(&mut self, count: u64) -> Done {
        for _ in 0..count {
            self.publisher.publish(black_box(&self.message[..]))?;
        }
        Ok(())
    }

    #[inline(never)]
    fn take(&mut self, count: u64) -> Done {
        for _ in 0..count {
            let sample = self.subscriber.recv()?;
            if let Some(first) = sample.first_chunk() {
                self.sum += u64::from_ne_bytes(*first);
            }
        }
        Ok(())
    }
}

/// What is measured, and what goes before and after it.
const OPERATIONS: [(&str, Option<Calls>, Calls, Option<Calls>); 6] = [
    ("lock", None, Things::locks, None),
    ("send", None, Things::send, Some(Things::recv)),
    ("recv", Some(Things::send), Things::recv, None),
    ("publish", None, Things::publish, Some(Things::take)),
    ("publish_copy", None, Things::publish_copy, Some(Things::take)),
    ("take", Some(Things::publish_copy), Things::take, None),
];

/// Runs in a process of its own.
pub(crate) fn run(args: &CallsArgs) -> Result<ExitCode, Error> {
    calls(args).map_err(|error| Error::told("calling from Rust", error)).map(|()| ExitCode::SUCCESS)
}

fn calls(args: &CallsArgs) -> Done {
    let which =
        OPERATIONS.iter().find(|(name, ..)| *name == args.operation).ok_or("no such operation")?;
    let (_, before, timed, after) = which;
    let stage = Stage::enter(&args.control, None)?;
    let by_steps = args.how == "steps";
    let (bursts, mut spent) = (if by_steps { 1 } else { args.count.div_ceil(BURST) }, 0);
    let mut things = Things::open(&args.domain)?;
    for burst in 0..bursts + WARM {
        let counts = burst >= WARM;
        let times = if by_steps && counts { args.count } else { BURST };
        before.map_or(Ok(()), |before| before(&mut things, times))?;
        if by_steps && counts {
            stage.begin();
            timed(&mut things, times)?;
            stage.end();
        } else {
            let begun = clock::now();
            timed(&mut things, times)?;
            spent += if counts { clock::now() - begun } else { 0 };
        }
        after.map_or(Ok(()), |after| after(&mut things, times))?;
    }
    black_box(things.sum);
    stage.control().set_note(0, spent);
    stage.control().set_note(1, bursts * BURST);
    Ok(())
}
