//! How many instructions a call takes.

use super::{OPERATIONS, Program};
use crate::steps::{self, Loop, Row};
use outlive_bench::Error;
use outlive_bench::harness::scratch::Scratch;
use std::process::ExitCode;

/// Counts all, and tells.
pub(super) fn run(programs: &[Program], built: &Scratch, json: bool) -> Result<ExitCode, Error> {
    steps::begin();
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        let mut base = None;
        for program in programs {
            let name = format!("{operation} {}", program.language);
            let counted =
                Loop { name: &name, path: &program.path, scratch: built }.once(|turn| {
                    program.arguments(
                        operation,
                        &turn.domain,
                        &turn.control,
                        "steps",
                        u64::from(turn.count),
                    )
                })?;
            rows.push(Row::new(name, counted, base));
            base.get_or_insert(counted);
        }
    }
    steps::tell("c", "of a call, or of lock and unlock", &rows, json)
}
