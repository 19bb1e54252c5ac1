//! What the figures were taken on.

use super::profile::PROFILE;
use super::statistics::Summary;
use serde::Serialize;
use std::fs;

/// The machine and the program, as far as they matter to the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The profile by which cargo built the program.
    pub profile: &'static str,
    /// How long a cache line took between the two cores, one way; null with one core.
    pub crossing_ns: Option<Crossing>,
}

/// The crossings of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crossing {
    /// The smallest.
    pub min: f64,
    /// The middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// At and above this a crossing is far.
    pub threshold: f64,
    /// How many were measured.
    pub measured: usize,
}

impl Machine {
    /// Looks at this machine.
    pub fn look(cores: usize) -> Self {
        Self {
            cpu: cpu_name(),
            cores,
            kernel: read("/proc/sys/kernel/osrelease"),
            profile: PROFILE,
            crossing_ns: None,
        }
    }

    /// Adds what the run saw of the crossing.
    pub fn with_crossings(mut self, crossings: &[f64], threshold: f64) -> Self {
        self.crossing_ns = Summary::of(crossings).map(|seen| Crossing {
            min: seen.min,
            median: seen.median,
            max: seen.max,
            threshold,
            measured: crossings.len(),
        });
        self
    }

    /// Returns the crossings in words.
    pub fn crossing(&self) -> String {
        self.crossing_ns.map_or("one core: nothing crosses".to_owned(), |crossing| {
            let Crossing { min, median, max, threshold, .. } = crossing;
            format!(
                "a cache line crosses in {min:.0} / {median:.0} / {max:.0} ns; below {threshold:.0} ns it is the same \
                 core complex"
            )
        })
    }
}

fn cpu_name() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = told.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        matches!(key.trim(), "model name" | "Model" | "Hardware").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

/// Returns how many processes wanted a core in the last minute, by the kernel's count; above half a
/// core, figures suffer.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
