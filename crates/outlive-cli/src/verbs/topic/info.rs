//! `outlive topic info`: both ends of a topic, looked at twice for the rates.

use std::time::{Duration, Instant};

use clap::Args;
use outlive::describe::Description;
use outlive::topic::TopicUsage;
use outlive::{Detail, Domain, Entry};
use serde::Serialize;

use super::list::{living_publishers, living_subscribers, message_type, published};
use super::shown::Shown;
use crate::cli::Common;
use crate::described::{self, Told};
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output::{self, bytes, count};
use crate::verbs::measuring::rate;

/// Show the publishers and subscribers of a topic, how far each is, and how fast
///
/// SESSION counts the topic's publishers from its beginning: one that is started again has another
/// number. LAG is how many messages a subscriber has still to take, LOST how many it has found
/// overwritten before it had taken them (one that is stopped has not looked), HELD how many it holds
/// at the moment. Behind that stands what is unusual: how long a publisher waits for reliable
/// subscribers, and how often it has stopped waiting; how long its messages count; which subscriber
/// is lagging, so that publishers do not wait for it, and how often it was told so.
///
/// KEPT FOR lists subscribers with names, such as 'outlive record --as night'. When one of these is killed,
/// publishers wait for the next one of its name, for its PATIENCE at most. The last column says how many
/// publishers wait, since when, and for how much longer. 'outlive topic forget' gives the place up.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive topic info camera")]
pub struct InfoArgs {
    /// The topic's name
    name: String,
    /// Count messages for this time, for the rates
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::seconds)]
    look: Duration,
}

#[derive(Serialize)]
struct Report {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Told>,
    bytes: u64,
    max_bytes: u64,
    messages_per_second: f64,
    #[serde(flatten)]
    shown: Shown,
}

impl Report {
    fn new(entry: &Entry, before: &TopicUsage, now: &TopicUsage, seconds: f64) -> Report {
        let new = published(now).saturating_sub(published(before));
        Report {
            name: entry.name.clone(),
            type_name: entry.type_name.clone(),
            payload: entry.description.as_ref().map(Told::of),
            bytes: now.bytes,
            max_bytes: now.max_bytes,
            messages_per_second: new as f64 / seconds.max(1e-9),
            shown: Shown::new(now, Some((before, seconds))),
        }
    }

    fn told(&self, usage: &TopicUsage, description: Option<&Description>) -> String {
        let mut lines = vec![
            ("name", self.name.escape_debug().to_string()),
            ("type", message_type(&self.type_name)),
        ];
        lines.extend(description.into_iter().flat_map(described::lines));
        lines.extend(self.shown.made_with(usage));
        let size = format!("{}, at most {}", bytes(self.bytes), bytes(self.max_bytes));
        lines.push(("size", size));
        let (published, rate) = (count(published(usage)), rate(self.messages_per_second));
        lines.push(("published", format!("{published}, {rate} a second")));
        lines.extend(self.shown.left_over());
        let ends =
            [(living_publishers(usage), "publisher"), (living_subscribers(usage), "subscriber")];
        let ends = ends.map(|(number, word)| output::counted(number as u64, word));
        lines.push(("living", ends.join(", ")));
        let mut text: String =
            lines.iter().map(|(name, value)| format!("{name:<11}  {value}\n")).collect();
        text.push_str(&self.shown.tables());
        text
    }
}

fn look(domain: &Domain, name: &str) -> Result<(Entry, TopicUsage, Instant), Failure> {
    let entry = domain.entry(name)?;
    let at = Instant::now();
    match &entry.detail {
        Detail::Topic(usage) => {
            let usage = usage.clone();
            Ok((entry, usage, at))
        }
        _ => {
            let kind = entry.kind.as_ref().map_or_else(|_| "?".to_owned(), ToString::to_string);
            let text = format!(
                "'{}' is no topic but a {kind}; 'outlive ls' lists what there is",
                name.escape_debug()
            );
            Err(Failure::new(Code::Mismatch, text))
        }
    }
}

/// Runs the verb.
pub fn run(args: &InfoArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let (_, before, then) = look(&domain, &args.name)?;
    std::thread::sleep(args.look);
    let (entry, usage, now) = look(&domain, &args.name)?;
    let report = Report::new(&entry, &before, &usage, (now - then).as_secs_f64());
    if common.json {
        output::print_json(&report)
    } else {
        output::print(report.told(&usage, entry.description.as_ref()))
    }
}
