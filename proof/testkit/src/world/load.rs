//! How long tests wait on a busy machine: what is a hang after five seconds on a quiet machine is
//! none where twenty others want each processor.

use std::fs;
use std::time::Duration;

/// However busy the machine is, the world waits for no process longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// So much patience as that comes to while as many want a processor as do now.
#[must_use]
pub fn stretched(patience: Duration) -> Duration {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running: f64 = average.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1.0, |number| number.get() as f64);
    // An average of the last minute is late: twice of it.
    patience.mul_f64((2.0 * running / processors).max(1.0)).min(LONGEST.max(patience))
}
