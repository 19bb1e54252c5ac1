//! Processes that fuzz side by side, each in a domain of its own, and what they report.

use std::io::{Read, Write as _};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::corpus::Case;
use crate::world::World;
use crate::{busy, quiet, watch};

/// After so many different finds a worker stops: they are to be looked at first.
const MOST_FINDS: usize = 4;
/// Of ten seconds, how many are busy rounds.
const BUSY_SHARE: u32 = 3;

/// What all workers found.
#[derive(Default)]
pub struct Report {
    pub quiet: u64,
    pub busy: u64,
    pub operations: u64,
    pub finds: Vec<String>,
}

/// Replays a past find in a world of its own; a few times, as the timing differs.
pub fn replay(case: &Case) -> Result<(), watch::Find> {
    let world = World::new();
    let board = Board::new();
    (0..3).try_for_each(|_| quiet::run(&world, board, case.seed, &case.writes))
}

/// Fuzzes on every processor until that moment.
pub fn run_all(seed: u64, until: Instant) -> Report {
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut pipes = Vec::new();
    for worker in 0..workers {
        let mut ends = [0; 2];
        // SAFETY: a place of ours for two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        // SAFETY: new descriptors, ours.
        let [from, to] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // SAFETY: this process has one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            drop(from);
            // SAFETY: no pointers are passed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let text = work(seed.wrapping_mul(1_000_003).wrapping_add(worker << 32), until);
            let _ = std::fs::File::from(to).write_all(text.as_bytes());
            // SAFETY: always.
            unsafe { libc::_exit(0) }
        }
        pipes.push((pid, std::fs::File::from(from)));
    }
    let mut report = Report::default();
    for (pid, mut pipe) in pipes {
        let mut text = String::new();
        let read = pipe.read_to_string(&mut text);
        let mut status = 0;
        // SAFETY: a place of ours; the pid is our child's.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        match text.split_once('\n') {
            Some((counts, finds)) if read.is_ok() && status == 0 => {
                let mut counts = counts.split(' ').map(|count| count.parse().unwrap_or(0));
                report.quiet += counts.next().unwrap_or(0);
                report.busy += counts.next().unwrap_or(0);
                report.operations += counts.next().unwrap_or(0);
                report
                    .finds
                    .extend(finds.split('\0').filter(|find| !find.is_empty()).map(str::to_owned));
            }
            _ => report.finds.push(format!("worker {pid} itself ended with status {status:#x}")),
        }
    }
    report
}

/// A worker's life. Counts in the first line, then finds, ended by NUL each.
fn work(seed: u64, until: Instant) -> String {
    let world = World::new();
    let board = Board::new();
    let mut found: Vec<watch::Find> = Vec::new();
    let mut texts = String::new();
    let (mut quiet_rounds, mut busy_rounds) = (0u64, 0u64);
    let (mut in_quiet, mut in_busy) = (Duration::ZERO, Duration::ZERO);
    while Instant::now() < until && found.len() < MOST_FINDS {
        let begun = Instant::now();
        let round = seed.wrapping_add(quiet_rounds + busy_rounds);
        if in_busy * (10 - BUSY_SHARE) > in_quiet * BUSY_SHARE {
            quiet_rounds += 1;
            let writes = quiet::script(&world, round);
            if let Err(find) = quiet::run(&world, board, round, &writes)
                && !found.iter().any(|known| known.is_like(&find))
            {
                let short = quiet::shorten(&world, board, round, writes, &find);
                texts += &format!("# quiet round: {find}\nseed {round}\n");
                for write in &short {
                    texts += &format!("{write}\n");
                }
                texts.push('\0');
                found.push(find);
            }
            in_quiet += begun.elapsed();
        } else {
            busy_rounds += 1;
            if let Err((find, writes)) = busy::run(&world, board, round, Duration::from_millis(60))
                && !found.iter().any(|known| known.is_like(&find))
            {
                texts += &format!("# busy round: {find}\nseed {round}\n");
                // The last ones are the likely ones.
                for write in writes.iter().skip(writes.len().saturating_sub(60)) {
                    texts += &format!("{write}\n");
                }
                texts.push('\0');
                found.push(find);
            }
            in_busy += begun.elapsed();
        }
    }
    drop(world);
    format!("{quiet_rounds} {busy_rounds} {}\n{texts}", board.operations())
}
