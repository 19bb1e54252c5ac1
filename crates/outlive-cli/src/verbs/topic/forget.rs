//! `outlive topic forget`: a place that a topic keeps for a subscriber's name is given up.

use clap::Args;
use outlive::topic::Topic;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output;

/// Give up the place that a topic keeps for a subscriber that died
///
/// A subscriber with a name, such as 'outlive record --as night' (its name is 'record:night'), has a
/// place that its topic keeps when it is killed, and publishers wait for the next one of that name.
/// 'outlive topic info' shows these places, and for how long publishers wait. Once a place is forgotten,
/// publishers go on at once; the next subscriber of that name begins anew. The place of a living
/// subscriber is not given up (exit code 12): end that subscriber instead.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive topic forget camera record:night")]
pub struct ForgetArgs {
    /// The topic's name
    name: String,
    /// The subscriber's name, as 'outlive topic info' shows it
    subscriber: String,
}

#[derive(Serialize)]
struct Forgotten<'a> {
    name: &'a str,
    forgotten: &'a str,
}

/// Runs the verb.
pub fn run(args: &ForgetArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let topic = Topic::open_as_bytes(&domain, &args.name)?;
    if !topic.forget(&args.subscriber)? {
        let text = format!(
            "'{}' keeps no place for a subscriber '{}'; 'outlive topic info' shows those that it keeps",
            args.name.escape_debug(),
            args.subscriber.escape_debug()
        );
        return Err(Failure::new(Code::NotFound, text));
    }
    if common.json {
        output::print_json(&Forgotten { name: &args.name, forgotten: &args.subscriber })?;
    }
    Ok(())
}
