//! Where to kill: from one observed life of the victim to the points of the deaths to come.
//!
//! *Every* point means each instruction of the operation. *Telling* points are those after which
//! something differs for the survivors or the kernel (see [`super::watch`]), those that are system
//! calls, and the ones directly beside them. An instruction that repeats itself (`rep movsb`: one
//! instruction, interruptible after each byte) counts at its first, middle and last round.

use std::collections::HashMap;

use libc::c_long;

/// One point of the observed life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Address of the instruction that comes next.
    pub address: u64,
    /// Something that survivors or the kernel can see differs from the point before, or may (a
    /// system call).
    pub telling: bool,
    /// The step before was one round of a repeating instruction.
    pub repeating: bool,
    /// The victim slept here.
    pub asleep: bool,
    /// The instruction that comes next is this system call.
    pub call: Option<Call>,
}

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which.
    pub number: c_long,
    /// Its first arguments.
    pub arguments: [u64; 2],
    /// A word that tells callers of one and the same wrapper apart: the newest on the stack.
    pub caller: u64,
}

/// How many of the points to kill at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Each instruction.
    Every,
    /// Telling points and their neighbours; stops are thinned out to a number for each scenario.
    Telling,
    /// The same points without thinning out, stops with both ends at each.
    AllTelling,
    /// Telling points alone: each state that survivors can meet, once.
    Brief,
}

impl Thoroughness {
    /// How many instructions beside each telling point are points, too.
    fn beside(self) -> usize {
        usize::from(matches!(self, Thoroughness::Telling | Thoroughness::AllTelling))
    }
}

/// The points at which to kill, in order.
#[must_use]
pub fn kill_points(life: &[Moment], thoroughness: Thoroughness) -> Vec<u64> {
    let mut chosen = vec![false; life.len()];
    for (point, moment) in life.iter().enumerate() {
        let ends = point == 0 || point + 1 == life.len();
        if thoroughness == Thoroughness::Every {
            chosen[point] = true;
        } else if moment.telling || moment.asleep || ends {
            let beside = thoroughness.beside();
            let last = (point + beside).min(life.len() - 1);
            chosen[point.saturating_sub(beside)..=last].fill(true);
        }
    }
    for rounds in repeating_runs(life) {
        let (first, last) = (rounds.start, rounds.end - 1);
        let middle = first + (last - first) / 2;
        for point in rounds {
            chosen[point] &= point == first || point == middle || point == last;
        }
    }
    (0..life.len()).filter(|&point| chosen[point]).map(|point| point as u64).collect()
}

/// The points at which to stop. Of the telling ones: the one where the change has been made, and,
/// unless it is to be brief, the one before it, where the victim has made up its mind and others
/// may change what it has read.
#[must_use]
pub fn stop_points(life: &[Moment], thoroughness: Thoroughness) -> Vec<u64> {
    if thoroughness == Thoroughness::Every {
        return kill_points(life, thoroughness);
    }
    let mut chosen = vec![false; life.len()];
    for (point, moment) in life.iter().enumerate() {
        if moment.telling || moment.asleep || point == 0 || point + 1 == life.len() {
            chosen[point.saturating_sub(thoroughness.beside())..=point].fill(true);
        }
    }
    for rounds in repeating_runs(life) {
        // One round of an instruction that repeats itself is as good as another.
        rounds.skip(1).for_each(|point| chosen[point] = false);
    }
    (0..life.len()).filter(|&point| chosen[point]).map(|point| point as u64).collect()
}

fn repeating_runs(life: &[Moment]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut point = 0;
    while point < life.len() {
        let start = point;
        while point < life.len() && life[point].repeating {
            point += 1;
        }
        if point > start {
            runs.push(start..point);
        }
        point += 1;
    }
    runs
}

/// How to come to a point of the observed life: run to the n-th arrival at an instruction, then
/// step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The instruction to run to.
    pub address: u64,
    /// Which arrival there; 0: stay at the beginning.
    pub arrivals: u64,
    /// How many steps after that.
    pub steps: u64,
}

/// How far back a route looks for an instruction that is arrived at rarely.
const LOOK_BACK: usize = 400;

/// The cheapest route to each of the points. An arrival and a step cost about the same.
#[must_use]
pub fn routes(life: &[Moment], points: &[u64]) -> Vec<Route> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    let arrivals: Vec<Option<u64>> = life
        .iter()
        .enumerate()
        .map(|(point, moment)| {
            if point == 0 {
                return Some(0);
            }
            // Asleep is no place to run to, nor is the middle of an instruction, nor a thread that
            // is gone.
            if moment.asleep || moment.repeating || moment.address == 0 {
                return None;
            }
            let count = counts.entry(moment.address).or_default();
            *count += 1;
            Some(*count)
        })
        .collect();
    points
        .iter()
        .map(|&point| {
            let point = point as usize;
            (point.saturating_sub(LOOK_BACK)..=point)
                .filter_map(|from| {
                    let steps = (point - from) as u64;
                    Some(Route { address: life[from].address, arrivals: arrivals[from]?, steps })
                })
                .min_by_key(|route| route.arrivals + route.steps)
                .unwrap_or(Route { address: 0, arrivals: 0, steps: point as u64 })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(pattern: &str) -> Vec<Moment> {
        pattern
            .chars()
            .map(|letter| Moment {
                telling: matches!(letter, 'T' | 'R'),
                repeating: matches!(letter, 'R' | 'r'),
                asleep: letter == 'S',
                ..Moment::default()
            })
            .collect()
    }

    #[test]
    fn every_instruction_is_every_point() {
        assert_eq!(kill_points(&life("....."), Thoroughness::Every), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn in_brief_they_come_alone() {
        assert_eq!(kill_points(&life("......T......"), Thoroughness::Brief), [0, 6, 12]);
    }

    #[test]
    fn telling_points_bring_their_neighbours() {
        assert_eq!(
            kill_points(&life("......T......"), Thoroughness::Telling),
            [0, 1, 5, 6, 7, 11, 12]
        );
        assert_eq!(kill_points(&life("....S...."), Thoroughness::Telling), [0, 1, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn stops_are_before_and_after_a_change() {
        assert_eq!(stop_points(&life("......T......"), Thoroughness::Telling), [0, 5, 6, 11, 12]);
        assert_eq!(stop_points(&life("......T......"), Thoroughness::Brief), [0, 6, 12]);
        assert_eq!(stop_points(&life("....S...."), Thoroughness::Telling), [0, 3, 4, 7, 8]);
        assert_eq!(stop_points(&life("..RRRR.."), Thoroughness::Telling), [0, 1, 2, 6, 7]);
        assert_eq!(stop_points(&life("....."), Thoroughness::Every), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_repeating_instruction_counts_three_times() {
        let expected = [0, 1, 2, 3, 4, 8, 12, 13, 14, 15, 16];
        assert_eq!(kill_points(&life("....RRRRRRRRR...."), Thoroughness::Every), expected);
    }

    #[test]
    fn routes_run_to_rare_instructions_and_step_from_there() {
        // A loop of two instructions, 1000 rounds, then a straight line.
        let mut life = vec![Moment { address: 1, ..Moment::default() }];
        for _ in 0..1000 {
            life.extend([2, 3].map(|address| Moment { address, ..Moment::default() }));
        }
        life.extend([4, 5].map(|address| Moment { address, ..Moment::default() }));
        let routes = routes(&life, &[0, 3, 1500, 2001, 2002]);
        assert_eq!(routes[0], Route { address: 1, arrivals: 0, steps: 0 });
        assert_eq!(routes[1].arrivals + routes[1].steps, 2);
        assert_eq!(routes[2].arrivals + routes[2].steps, 750);
        assert_eq!(routes[3], Route { address: 4, arrivals: 1, steps: 0 });
        assert_eq!(routes[4], Route { address: 5, arrivals: 1, steps: 0 });
    }
}
