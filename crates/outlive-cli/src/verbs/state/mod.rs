//! `outlive state`: the latest value under a name, from a shell.

pub mod get;
pub mod set;
pub mod watch;

use clap::Args;
use outlive::describe::Description;
use serde::Serialize;

use crate::cli::Common;
use crate::described::{self, Shown};
use crate::exit::Failure;
use crate::framing::{Framing, write_record};
use crate::output;
use crate::payload::{Output, Stdout, is_text};
use crate::verbs::echo::shown;

/// How a value is printed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Form {
    /// Print two hexadecimal digits for each byte
    #[arg(long, short = 'x')]
    hex: bool,
    /// Print the bytes and nothing else, without a newline at the end
    #[arg(long, short, conflicts_with = "hex")]
    raw: bool,
}

/// A value, with --json.
#[derive(Serialize)]
struct Told<'a> {
    version: u64,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// By the description that the state has of its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown<'a>>,
}

impl Form {
    /// Refuses `--json` beside the bytes themselves.
    fn check(self, common: &Common) -> Result<(), Failure> {
        common.refuse_json_beside(&[("--raw", self.raw)])
    }

    /// Prints a value.
    fn print(
        self,
        value: &[u8],
        description: Option<&Description>,
        version: u64,
        output: &Output,
        common: &Common,
    ) -> Result<(), Failure> {
        let hex = || value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let most = match Stdout::look() {
            Stdout::Terminal if !common.json => described::SHOWN,
            _ => usize::MAX,
        };
        let fields = description
            .filter(|_| !self.hex && !self.raw && !output.is_file())
            .and_then(|one| Shown::new(one, value, most));
        if common.json {
            let text = std::str::from_utf8(value).ok();
            let text = text.filter(|_| !self.hex && fields.is_none());
            return output::print_json(&Told {
                version,
                bytes: value.len(),
                text,
                hex: (text.is_none() && fields.is_none()).then(hex),
                value: fields,
            });
        }
        if let Some(fields) = fields {
            return output::print_json(&fields);
        }
        let line = |bytes: &[u8]| output.with(|out| write_record(out, Framing::Lines, bytes));
        match Stdout::look() {
            _ if self.hex => line(hex().as_bytes()),
            _ if self.raw || output.is_file() => {
                output.with(|out| write_record(out, Framing::Raw, value))
            }
            Stdout::File if !is_text(value) => {
                output.with(|out| write_record(out, Framing::Raw, value))
            }
            Stdout::Terminal if !is_text(value) => line(shown(value).as_bytes()),
            _ => line(value),
        }
    }
}
