//! Tokens: claimed, ended with thread and process, waited for.

mod claim;
mod claim_process;
mod process_end;
mod thread_end;
mod wait_dead;

use super::{HOLDS_NOTHING, Scenario};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(claim::Claim::Fresh),
        Box::new(claim::Claim::Reused),
        Box::new(claim::Claim::Growing),
        Box::new(claim_process::ClaimProcess::ByMain),
        Box::new(claim_process::ClaimProcess::ByKeeper),
        Box::new(thread_end::ThreadEnd),
        Box::new(process_end::ProcessEnd),
        Box::new(wait_dead::WaitDead::First),
        Box::new(wait_dead::WaitDead::Between),
        Box::new(wait_dead::WaitDead::InSet),
        Box::new(wait_dead::WaitDead::InLargeSet),
    ]
}

/// Beside the stopped victim: others claim tokens, for threads that come and go.
fn others_claim(world: &mut World) -> Result<&'static str, Failure> {
    world.passes("passer", "token claim")?;
    let tid = world.passes("passer", "token start-thread")?;
    world.passes("passer", &format!("token end-thread {tid}"))?;
    world.all_get_past()?;
    Ok(HOLDS_NOTHING)
}

/// After the death: no token of the victim's reads alive.
fn none_alive(world: &mut World) -> Result<(), Failure> {
    let pid = world.victim_pid();
    let alive = world.ask("watcher", &format!("token alive-of {pid}"))?;
    if alive != "0" {
        return Err(Failure::wrong(format!("{alive} tokens of the dead process {pid} read alive")));
    }
    super::nothing_left(world, &[])
}

/// After some deaths: every slot that is not alive can be claimed.
fn none_lost(world: &mut World) -> Result<(), Failure> {
    let slots = world.ask("claimer", "token exhaust")?;
    match slots.split_once(' ') {
        Some((before, after)) if before == after => Ok(()),
        _ => Err(Failure::wrong(format!(
            "slots before and after claiming all: {slots}; some are lost"
        ))),
    }
}
