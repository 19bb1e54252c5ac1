//! `outlive exit-codes`: the table, for people and for scripts.

use clap::Args;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{self, Failure, TABLE};
use crate::output;

/// List the exit codes
#[derive(Args, Debug)]
#[command(after_long_help = format!("Example:\n  outlive exit-codes\n\n{}", exit::table()))]
pub struct ExitCodesArgs {}

#[derive(Serialize)]
struct Row {
    code: u8,
    meaning: &'static str,
}

/// Runs the verb.
pub fn run(common: &Common) -> Result<(), Failure> {
    if common.json {
        let rows: Vec<Row> =
            TABLE.iter().map(|(code, meaning)| Row { code: *code as u8, meaning }).collect();
        return output::print_json(&rows);
    }
    output::print(format_args!("{}\n", exit::table()))
}
