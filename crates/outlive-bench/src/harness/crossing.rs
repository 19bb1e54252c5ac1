//! How far apart the two cores are at the moment, and which rounds may therefore be compared.
//!
//! Two virtual cores may sit close together (a cache line crosses in 20 to 55 ns) or far apart (250
//! ns), and that flips within seconds, as the host moves them. Spinning figures change three- to
//! tenfold with it. So the crossing is measured between any two timed turns, each turn is near, far
//! or mixed by what was seen on both its sides, and only turns of one kind are compared.

use super::clock;
use super::crew::Crew;
use super::error::Error;
use super::shared::{Board, Shared};
use super::statistics::median;
use std::hint;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Where near ends if the run itself does not show a better place: one way, in nanoseconds.
const USUAL_THRESHOLD_NS: f64 = 120.0;
/// Two groups of crossings are told apart when the gap between them is at least this factor.
const CLEAR_GAP: f64 = 2.0;
/// What one measurement takes.
const MEASURE_NS: u64 = 5_000_000;
/// Where other programs have the cores, the two rarely run at once, and a round trip takes their
/// turns to come: after this time the measurement ends with what it has.
const MOST_NS: u64 = 1_000_000_000;
const ROUND_TRIPS_PER_BLOCK: u32 = 250;
/// So many looks in vain before the clock is asked: none while both run.
const LOOKS: u32 = 1 << 14;
const STOP: u32 = u32::MAX;

/// The two cores that the benchmark's processes are pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of the sender, the holder, or the only process.
    pub first: usize,
    /// Of the receiver or the waiter.
    pub second: usize,
}

/// What those words mean, in one line.
pub const EXPLAINED: &str = "A core complex is a group of cores that share a cache; between two of them a cache line takes several \
     times as long. Only rounds with the same answer are compared.";

/// What a turn was, by the crossings before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both below the threshold.
    Near,
    /// Both at or above it.
    Far,
    /// One of each: the cores moved during the turn, so it is compared with nothing.
    Mixed,
}

impl Kind {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Mixed => "mixed",
        }
    }

    /// Returns it in words, as printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Near => "same core complex: yes",
            Self::Far => "same core complex: no",
            Self::Mixed => "same core complex: for a part of the turn",
        }
    }

    /// Classes a turn.
    pub fn of(before: f64, after: f64, threshold: f64) -> Self {
        match (before < threshold, after < threshold) {
            (true, true) => Self::Near,
            (false, false) => Self::Far,
            _ => Self::Mixed,
        }
    }
}

/// Returns the border between near and far for these crossings.
///
/// The usual one, unless the crossings fall into two groups with a clear gap between them: then the
/// geometric middle of that gap. A group must hold a tenth of all, lest one disturbed measurement
/// make a group.
pub fn threshold(crossings: &[f64]) -> f64 {
    let mut sorted = crossings.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = (sorted.len() / 10).max(2);
    let widest = sorted
        .windows(2)
        .enumerate()
        .filter(|(below, _)| below + 1 >= least && sorted.len() - (below + 1) >= least)
        .max_by(|(_, a), (_, b)| (a[1] / a[0]).total_cmp(&(b[1] / b[0])));
    match widest {
        Some((_, gap)) if gap[1] / gap[0] >= CLEAR_GAP => (gap[0] * gap[1]).sqrt(),
        _ => USUAL_THRESHOLD_NS,
    }
}

/// Measures the crossing: the median over some 5 ms of how long one cache line takes one way, in
/// nanoseconds.
pub fn measure(cores: Cores) -> Result<f64, Error> {
    let board = Shared::<Board>::new()?;
    let mut crew = Crew::new()?;
    crew.start("echo", Some(cores.second), || {
        let mut seen = 0;
        loop {
            // Acquire and Release, here and below, as any hand-over would have them; no data goes
            // with the flag.
            let step = board.step.0.load(Ordering::Acquire);
            if step == STOP {
                return Ok(());
            }
            if step != seen {
                board.done.0.store(step, Ordering::Release);
                seen = step;
            }
        }
    })?;
    crew.start("caller", Some(cores.first), || {
        let mut blocks = Vec::new();
        let mut step = 0;
        let end = clock::now() + MEASURE_NS;
        let begun = clock::now();
        let mut at = begun;
        'measuring: while at < end || blocks.len() < 8 {
            for trip in 1..=ROUND_TRIPS_PER_BLOCK {
                step += 1;
                board.step.0.store(step, Ordering::Release);
                let mut looks = 0;
                while board.done.0.load(Ordering::Acquire) != step {
                    hint::spin_loop();
                    looks += 1;
                    if looks % LOOKS == 0 && clock::now() > begun + MOST_NS {
                        blocks.push((clock::now() - at) as f64 / f64::from(2 * trip));
                        break 'measuring;
                    }
                }
            }
            let after = clock::now();
            blocks.push((after - at) as f64 / f64::from(2 * ROUND_TRIPS_PER_BLOCK));
            at = after;
        }
        // The first block holds the echo's start.
        let begins = usize::from(blocks.len() > 1);
        board.leave_figure(median(&blocks[begins..]).unwrap_or(0.0), clock::now() - begun);
        board.step.0.store(STOP, Ordering::Release);
        Ok(())
    })?;
    let preempted = crew.finish(Duration::from_secs(10))?;
    Ok(board.figure(preempted)?.ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_of_one_kind_only_if_both_sides_agree() {
        assert_eq!(Kind::of(30.0, 119.9, 120.0), Kind::Near);
        assert_eq!(Kind::of(120.0, 250.0, 120.0), Kind::Far);
        assert_eq!(Kind::of(30.0, 250.0, 120.0), Kind::Mixed);
        assert_eq!(Kind::of(250.0, 30.0, 120.0), Kind::Mixed);
    }

    #[test]
    fn one_group_keeps_the_usual_threshold() {
        assert_eq!(threshold(&[24.0, 25.0, 26.0, 25.5, 31.0]), USUAL_THRESHOLD_NS);
        assert_eq!(threshold(&[250.0; 9]), USUAL_THRESHOLD_NS);
        assert_eq!(threshold(&[]), USUAL_THRESHOLD_NS);
    }

    #[test]
    fn two_groups_are_split_in_the_geometric_middle_of_their_gap() {
        let seen = [130.0, 25.0, 520.0, 20.0, 600.0, 24.0];
        // Groups 20 24 25 | 130 … would leave one alone beside 520 and 600 as well: the widest
        // ratio is 25 to 130.
        assert!((threshold(&seen) - (25.0_f64 * 130.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_single_outlier_makes_no_group() {
        let mut seen = vec![25.0; 20];
        seen.push(9_000.0);
        assert_eq!(threshold(&seen), USUAL_THRESHOLD_NS);
    }
}
