//! What does a published copy cost, beside the copying?
//!
//! `outlive` publishes copies in a topic that keeps one message: its memory is used in turn, two
//! objects of it. `memcpy` copies the same bytes into two places of shared memory in turn, and
//! `memcpy_one` into one, which stays in the caches as long as it fits. One process; no subscriber
//! takes the messages.

use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::{Error, told};
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Group, Setting, Stage};
use crate::harness::shared::{Board, Shared, ZeroShared};
use crate::harness::{Common, Prepared};
use clap::Args;
use outlive::Domain;
use outlive::topic::Topic;
use std::cell::UnsafeCell;
use std::hint::black_box;

/// Bytes of a place, and of the longest message.
const MOST_BYTES: usize = 16 << 20;
/// Below this a message travels in its slot, and a call is what is measured.
const LEAST_BYTES: usize = 64;

/// The arguments of `outlive bench copies`.
#[derive(Args, Clone, Debug)]
pub struct CopiesArgs {
    /// Bytes in a message; several sizes are separated by commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_values_t = [4096, 65_536, 1 << 20, 10_000_000])]
    size: Vec<usize>,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Makes it ready.
pub(super) fn prepare(args: &CopiesArgs) -> Result<Prepared, Error> {
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.iter().any(|bytes| !(LEAST_BYTES..=MOST_BYTES).contains(bytes)) {
        return Err(Error::Refused(format!("--size takes {LEAST_BYTES} to {MOST_BYTES} bytes")));
    }
    let title = Title {
        bench: "copies",
        mode: "publish",
        meaning: "a message published as a copy, beside copying it",
        ours: &["outlive"],
        rate_of: None,
    };
    let row = |bytes, way| Box::new(Copying { bytes, way }) as Box<dyn Contender>;
    let groups = sizes.iter().map(|&bytes| Group {
        setting: Some(Setting::MessageBytes(bytes)),
        rows: vec![row(bytes, Way::Publish), row(bytes, Way::Copy(2)), row(bytes, Way::Copy(1))],
        baseline: "memcpy",
        kinds_differ: false,
    });
    Ok(Prepared { groups: groups.collect(), ..Prepared::of(title, Vec::new(), "").alone() })
}

/// What a row does with the bytes.
#[derive(Clone, Copy)]
enum Way {
    Publish,
    /// Into so many places in turn.
    Copy(usize),
}

struct Copying {
    bytes: usize,
    way: Way,
}

/// Where `memcpy` copies to.
#[repr(C, align(4096))]
struct Places([UnsafeCell<[u8; MOST_BYTES]>; 2]);

// SAFETY: one process uses it.
unsafe impl Sync for Places {}
// SAFETY: bytes.
unsafe impl ZeroShared for Places {}

impl Contender for Copying {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Publish => "outlive",
            Way::Copy(1) => "memcpy_one",
            Way::Copy(_) => "memcpy",
        }
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        let bytes = self.bytes;
        match self.way {
            Way::Publish => {
                let scratch = stage.scratch.inner("copies")?;
                crew.start("publisher", stage.first_core(), || {
                    let domain =
                        told(Domain::open_or_create_at(scratch.path()), "opening a domain")?;
                    let topic = told(
                        Topic::options().depth(1).stamps(false).open_or_create(&domain, "topic"),
                        "opening a topic",
                    )?;
                    let publisher = told(topic.publisher(), "opening a publisher")?;
                    measure(&board, bytes, operations, |message, _| {
                        told(publisher.publish(message), "publishing").map(drop)
                    })
                })?;
                board.figure(crew.finish(stage.turn_limit)?)
            }
            Way::Copy(count) => {
                let places = Shared::<Places>::new()?;
                crew.start("copying process", stage.first_core(), || {
                    measure(&board, bytes, operations, |message, number| {
                        let place = places.0[number as usize % count].get();
                        // SAFETY: room for the longest, this process's alone.
                        unsafe {
                            core::ptr::copy_nonoverlapping(
                                message.as_ptr(),
                                place.cast(),
                                message.len(),
                            )
                        };
                        black_box(place);
                        Ok(())
                    })
                })?;
                board.figure(crew.finish(stage.turn_limit)?)
            }
        }
    }
}

/// Runs the same loop for all rows: a message is a caller's, which has it in its caches as a
/// program that just made it.
#[inline]
fn measure(
    board: &Board,
    bytes: usize,
    operations: u64,
    mut copy: impl FnMut(&[u8], u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut message = vec![7u8; bytes];
    let mut one = |number: u64| {
        message[..8].copy_from_slice(&number.to_ne_bytes());
        copy(&message, number)
    };
    // At least as many as make every row use its memory for the first time.
    (0..operations / 8 + 16).try_for_each(&mut one)?;
    let begun = clock::computed();
    (0..operations).try_for_each(&mut one)?;
    board.leave_mean(clock::computed() - begun, operations);
    Ok(())
}
