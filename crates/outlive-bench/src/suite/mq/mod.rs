//! How fast is a message queue that is made of a lock?
//!
//! The NPTL study built one from a robust mutex in two forms and compared both with the system's:
//! `mu_cv`, a mutex and condition variables, and `mu_sm`, a mutex and semaphores. The same two,
//! built on Outlive's locks, beside the system's queue and Outlive's own. One process sends as fast
//! as it can, another receives as fast as it can; the figure is the receiver's time per message.
//! The ways are those of `bench queue`.

mod made;

use super::queue::{self, Contest};
use crate::harness::error::Error;
use crate::harness::report::{Absent, Title};
use crate::harness::round::{Group, Setting};
use crate::harness::{Common, Prepared, Waiting};
use clap::Args;
use made::{MadeOfCondvars, MadeOfSemaphores};

/// The arguments of `outlive bench mq`.
#[derive(Args, Clone, Debug)]
pub struct MqArgs {
    /// Bytes in a message; several sizes are separated by commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_values_t = [64])]
    pub(super) size: Vec<usize>,

    #[command(flatten)]
    pub(super) waiting: Waiting,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Makes it ready.
pub(super) fn prepare(args: &MqArgs) -> Result<Prepared, Error> {
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.iter().any(|&bytes| bytes < queue::LEAST_BYTES) {
        return Err(Error::Refused(format!(
            "a message carries its number: --size {} or more",
            queue::LEAST_BYTES
        )));
    }
    let title = Title {
        bench: "mq",
        mode: "one-way",
        meaning: "a message, one way, at full rate",
        ours: &["outlive_queue", "mu_cv", "mu_sm"],
        rate_of: Some("messages"),
    };
    let mut absent = Vec::new();
    let mut groups = Vec::new();
    for &bytes in &sizes {
        groups.push(group(bytes, sizes.len() > 1, &mut absent)?);
    }
    let prepared = Prepared { groups, absent, ..Prepared::of(title, Vec::new(), "") };
    let fixed =
        if let [bytes] = sizes[..] { vec![Setting::MessageBytes(bytes)] } else { Vec::new() };
    Ok(Prepared { fixed, ..prepared.waiting(args.waiting.wait) })
}

fn group(bytes: usize, one_of_many: bool, absent: &mut Vec<Absent>) -> Result<Group, Error> {
    let setting = one_of_many.then_some(Setting::MessageBytes(bytes));
    let mut contest = Contest::new(bytes);
    contest.add::<MadeOfCondvars>("mu_cv");
    contest.add::<MadeOfSemaphores>("mu_sm");
    contest.add::<queue::PosixMq>("posix_mq");
    contest.add::<queue::Outlive>("outlive_queue");
    // Without the system's queue there is nothing to compare with.
    if let Some(refused) = contest.absent.iter().find(|absent| absent.name == "posix_mq") {
        return Err(Error::Refused(format!("{bytes} B, posix_mq: {}", refused.why)));
    }
    for refused in contest.absent {
        absent.push(Absent { name: refused.name, why: format!("{bytes} B: {}", refused.why) });
    }
    Ok(Group { setting, rows: contest.rows, baseline: "posix_mq", kinds_differ: true })
}
