//! Does growing hold a sender up?
//!
//! A queue without a reader grows from a few KiB until it is full. Every single send is timed, and
//! the turn's figure is the longest. Beside it, in the same rounds: what adding 2 MiB of shared
//! memory takes, allocated and touched, the median of a few. Both in time computed: a sender alone
//! never waits, and the longest of eight million sends would otherwise be whichever another
//! program took the core from. A queue that adds memory in steps of 2 MiB at most should not be
//! much longer about any one send.

use super::outlive;
use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::{Error, check};
use crate::harness::round::{Contender, Figure, Stage};
use crate::harness::shared::{Board, Shared};
use crate::harness::statistics::median;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

const STEP: usize = 2 << 20;
const STEPS: usize = 16;

/// Outlive's queue, growing to so many bytes with messages of so many.
pub(super) struct Growing {
    pub(super) to: u64,
    pub(super) bytes: usize,
}

impl Contender for Growing {
    fn name(&self) -> &'static str {
        "outlive"
    }

    fn turn(&mut self, stage: &Stage, _: u64) -> Result<Figure, Error> {
        let scratch = stage.scratch.inner("growing")?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        crew.start("sender", stage.first_core(), || {
            let longest = outlive::longest_send(scratch.path(), self.to, self.bytes)?;
            board.leave_mean(longest, 1);
            Ok(())
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }

    fn fixed_operations(&self) -> Option<u64> {
        Some(1)
    }
}

/// Adding 2 MiB to a file in shared memory.
pub(super) struct Allocating;

impl Allocating {
    pub(super) const NAME: &'static str = "alloc_2mib";
}

impl Contender for Allocating {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn turn(&mut self, stage: &Stage, _: u64) -> Result<Figure, Error> {
        let scratch = stage.scratch.inner("allocating")?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        crew.start("allocating process", stage.first_core(), || {
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(scratch.path().join("file"))
                .map_err(|source| Error::System { doing: "making a file to grow", source })?;
            board.leave_mean(median_step(&file)?, 1);
            Ok(())
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }

    fn fixed_operations(&self) -> Option<u64> {
        Some(1)
    }
}

fn median_step(file: &File) -> Result<u64, Error> {
    // SAFETY: a fresh mapping of a file that is still empty: nothing is touched before its pages
    // are there.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            STEP * STEPS,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(Error::last("mapping the file to grow"));
    }
    let mut took = Vec::with_capacity(STEPS);
    for step in 0..STEPS {
        let at = step * STEP;
        let begun = clock::computed();
        // SAFETY: the mapping reaches to STEP * STEPS, and the file does up to where fallocate has
        // brought it. The process ends soon, and the mapping with it.
        unsafe {
            check(
                libc::fallocate(file.as_raw_fd(), 0, at as i64, STEP as i64),
                "allocating 2 MiB in /dev/shm",
            )?;
            for page in (at..at + STEP).step_by(4096) {
                mapped.cast::<u8>().add(page).write_volatile(1);
            }
        }
        took.push((clock::computed() - begun) as f64);
    }
    Ok(median(&took).unwrap_or(0.0) as u64)
}
