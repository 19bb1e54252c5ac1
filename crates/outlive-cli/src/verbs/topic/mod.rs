//! `outlive topic`: what topics there are, and who is at both ends of one.

mod info;
pub mod list;

use clap::{Args, Subcommand};

use crate::cli::Common;
use crate::exit::Failure;

/// Arguments of `topic`.
#[derive(Args, Debug)]
pub struct TopicArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the topics of the domain
    List(list::ListArgs),
    /// Show who publishes and who subscribes, how far each is, and how fast it goes
    Info(info::InfoArgs),
}

/// Runs the verb.
pub fn run(args: &TopicArgs, common: &Common) -> Result<(), Failure> {
    match &args.what {
        What::List(args) => list::run(args, common),
        What::Info(args) => info::run(args, common),
    }
}
