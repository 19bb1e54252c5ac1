//! `outlive exit-codes`: the table, for people and for scripts.

use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Failure, TABLE, table};
use crate::output;

#[derive(Serialize)]
struct Row {
    code: u8,
    meaning: &'static str,
}

/// Runs the verb.
pub fn run(common: &Common) -> Result<(), Failure> {
    if common.json {
        let rows: Vec<Row> = TABLE.iter().map(|(code, meaning)| Row { code: *code as u8, meaning }).collect();
        return output::print_json(&rows);
    }
    output::print(format_args!("{}\n", table()))
}
