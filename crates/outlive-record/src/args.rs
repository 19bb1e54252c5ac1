//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgGroup, CommandFactory, Parser, Subcommand, ValueEnum};
use outlive_program::names::nearest;
use outlive_program::{duration, size};
use outlive_record::snapshot::LEAST;
use outlive_record::{Compression, Kinds, Options, Snapshot, Split, Sync};
use regex::Regex;
use serde_json::json;

/// Record topics in an MCAP file
///
/// Foxglove, rerun, PlotJuggler and the mcap libraries read the file. No message of a reliable topic is in it twice, and
/// none is missing while publishers wait for the recorder. If the recorder is killed, the file ends with the last whole group of messages, and 'outlive bag
/// recover' writes its index. With --as, topics keep the place of a killed recorder, and the next recorder of
/// that name continues the file without a gap. The recorder runs until a signal ends it (exit code 0).
///
/// With --snapshot, the recorder writes no file at first. It keeps the last seconds in shared memory. At
/// SIGUSR1, 'outlive record trigger' or, with --on-death, a publisher's death, it writes them into a file.
/// They survive the recorder's own death.
///
/// To record a topic that has the name of a command, write it behind '--', and options before that: 'outlive
/// record -o FILE.mcap -- stop'.
#[derive(Clone, Parser, Debug)]
#[command(name = "outlive-record", bin_name = "outlive record", version)]
#[command(subcommand_negates_reqs = true)]
#[command(group = ArgGroup::new("which").required(true).args(["topics", "all", "regex"]))]
#[command(after_long_help = "Examples:\n  \
    outlive record --all -o drive.mcap\n  \
    outlive record camera.front lidar --as night --split 1G\n  \
    outlive record --regex '^camera' --compress zstd --max-rate 10\n  \
    outlive record -o FILE.mcap -- stop      # the topic 'stop'; options stand before the two dashes\n  \
    outlive record --all --queues --states --services -o everything.mcap\n  \
    outlive record --all --as box --snapshot 30s --on-death\n  \
    outlive record trigger --as box --reason 'it fell over'")]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[arg(skip)]
    is_behind_dashes: bool,
    /// The topics to record
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Record all topics, also those that are made later
    #[arg(long)]
    all: bool,
    /// Record the topics in whose names the pattern is found
    #[arg(long, value_name = "REGEX")]
    regex: Option<Regex>,
    /// Also record queues, chosen as topics are: a copy of each message that the recorder sees. It takes no message out
    /// of a queue
    #[arg(long)]
    queues: bool,
    /// Also record states, chosen as topics are: each value that the recorder sees
    #[arg(long)]
    states: bool,
    /// Also record services, chosen as topics are: which calls were made, how they ended and how long they took
    #[arg(long)]
    services: bool,
    /// The file, also without '.mcap'; with --split FILE_0.mcap, FILE_1.mcap and so on
    /// [default: outlive.mcap; with --as, NAME.mcap]
    #[arg(long, short = 'o', value_name = "FILE.mcap", value_parser = file_name())]
    output: Option<PathBuf>,
    /// The recorder's name: if it is killed, the next recorder of that name continues
    #[arg(long = "as", value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// How long publishers wait for the next recorder of that name
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::never_or_forever)]
    patience: Duration,
    /// Continue the file if it exists. With --as, the unfinished file of a recorder of that name is continued
    /// without this
    #[arg(long)]
    resume: bool,
    /// Lose messages rather than let publishers wait
    #[arg(long)]
    best_effort: bool,
    /// Begin the next file at this size (64K or more), or after this time: 10M is a size, 10m ten minutes
    #[arg(long, value_name = "SIZE|TIME", value_parser = split)]
    split: Vec<SplitAt>,
    /// Keep the last N files, and remove older ones
    #[arg(long, value_name = "N", requires = "split", value_parser = clap::value_parser!(u32).range(1..))]
    max_files: Option<u32>,
    /// Compress the file
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Compress::None)]
    compress: Compress,
    /// Keep the last TIME in shared memory, and write it into a file on request: a snapshot. SIZE bounds the
    /// memory [default: a quarter of what is free]
    #[arg(long, value_name = "TIME[,SIZE]", value_parser = snapshot, requires = "name")]
    #[arg(conflicts_with_all = ["resume", "split", "max_files"])]
    snapshot: Option<(Duration, Option<u64>)>,
    /// Also write a snapshot when a publisher dies
    #[arg(long, requires = "snapshot")]
    on_death: bool,
    /// How long after the publisher's death such a snapshot ends
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::seconds)]
    after: Duration,
    /// Begin stopped: 'outlive record start' begins the recording
    #[arg(long, requires = "name")]
    pub paused: bool,
    /// How long a message may wait before it is written to the file, or to the memory of --snapshot
    /// [default: 1s, or 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration::more_than_none)]
    flush: Option<Duration>,
    /// Wait for the disk after each group of messages: a power cut loses at most the last group
    #[arg(long)]
    fsync: bool,
    /// Record one of N messages of each topic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Record at most so many messages a second of each topic
    #[arg(long, value_name = "HZ", value_parser = rate)]
    max_rate: Option<f64>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = duration::more_than_none)]
    pub duration: Option<Duration>,
    /// The domain: a name, or a path, which has a '/' in it [env: OUTLIVE_DOMAIN]
    #[arg(long, short = 'd', value_name = "DOMAIN", global = true)]
    pub domain: Option<String>,
    /// The domain's group of users
    #[arg(long, value_name = "GROUP", global = true)]
    pub group: Option<String>,
    /// Print events and results as lines of JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands for a running recorder.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Write the last seconds of a recorder with --snapshot into a file, even if it has been killed
    Trigger {
        #[command(flatten)]
        which: Which,
        /// Why the snapshot is taken; the text is written into the file
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// The snapshot's name, in the folder of the recorder's files, also without '.mcap' [default: the
        /// recorder's file with the time]
        #[arg(long, short = 'o', value_name = "NAME", value_parser = snapshot_name)]
        output: Option<String>,
    },
    /// Begin the next file of a recorder that is stopped
    Start(Which),
    /// Finish a recorder's file; the recorder then waits for 'start'. With --snapshot, its last seconds are
    /// removed. If the recorder was killed, all that it has left is removed: its places in topics, its last
    /// seconds
    Stop(Which),
    /// Print a recorder's state and counts
    Status(Which),
    /// Begin the next file now
    Split(Which),
}

/// The commands.
const VERBS: [&str; 5] = ["start", "stop", "status", "split", "trigger"];

/// Which recorder.
#[derive(clap::Args, Clone, Debug)]
pub struct Which {
    /// The recorder's name: needed if several run, or if none runs and several were killed
    #[arg(long = "as", value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// How long to wait for the recorder's answer
    #[arg(long, short = 'w', value_name = "TIME", default_value = "1m", value_parser = duration::seconds)]
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug)]
enum SplitAt {
    Bytes(u64),
    Span(Duration),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Compress {
    None,
    Zstd,
    Lz4,
}

impl Args {
    /// Reads the command line of this process.
    pub fn of_process() -> Args {
        Args::of(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
    }

    fn of(words: Vec<OsString>) -> Result<Args, clap::Error> {
        let is_behind_dashes = words.iter().any(|word| word == "--");
        let args = Args { is_behind_dashes, ..Args::try_parse_from(words)? };
        match args.topics.iter().find(|name| is_option(name)) {
            None => Ok(args),
            Some(option) => {
                let text = format!(
                    "'{option}' stands behind '--', where all words are topics: options go before it, as in 'outlive \
                     record -o FILE.mcap -- stop' (--regex records a topic of that name)"
                );
                Err(Args::command().error(ErrorKind::UnknownArgument, text))
            }
        }
    }

    /// The topics that are named.
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Returns the command that may be meant, if only one name is given and looks like a command.
    pub fn mistyped_verb(&self) -> Option<&'static str> {
        let [name] = &self.topics[..] else { return None };
        // A name behind '--' is a topic's.
        if self.is_behind_dashes || VERBS.contains(&name.as_str()) {
            return None;
        }
        let nearest = nearest(name, VERBS.into_iter().map(str::to_owned))?;
        VERBS.into_iter().find(|verb| *verb == nearest)
    }

    /// The kinds of things that are recorded.
    pub fn kinds(&self) -> Kinds {
        let Args { queues, states, services, .. } = *self;
        Kinds { topics: true, queues, states, services }
    }

    /// Returns what is chosen, as a short text. The same for the same choice whichever compiler made the program, since
    /// files have it.
    fn selection(&self) -> String {
        let Kinds { topics, queues, states, services } = self.kinds();
        let mut names = self.topics.clone();
        names.sort();
        names.dedup();
        let regex = self.regex.as_ref().map(Regex::as_str);
        let chosen = json!([[topics, queues, states, services], self.all, regex, names]);
        // FNV-1a.
        let hash = chosen.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// Whether topics to record are chosen: by name, by a pattern, or all.
    pub fn is_recording_asked(&self) -> bool {
        self.all || self.regex.is_some() || !self.topics.is_empty()
    }

    /// Whether the last seconds are kept, and no file is written.
    pub fn is_window(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Returns the recorder's options.
    pub fn options(&self) -> Options {
        let name = self.name.as_ref();
        let own = || PathBuf::from(format!("{}.mcap", name.map_or("outlive", String::as_str)));
        let mut split = Split { max_files: self.max_files, ..Split::default() };
        for at in &self.split {
            match *at {
                SplitAt::Bytes(bytes) => split.bytes = Some(bytes),
                SplitAt::Span(span) => split.span = Some(span),
            }
        }
        let (all, topics, regex) = (self.all, self.topics.clone(), self.regex.clone());
        Options {
            wanted: Box::new(move |name| {
                all || topics.iter().any(|topic| topic == name)
                    || regex.as_ref().is_some_and(|regex| regex.is_match(name))
            }),
            kinds: self.kinds(),
            selection: self.selection(),
            name: self.name.clone(),
            patience: self.patience,
            reliable: !self.best_effort,
            resume: self.resume,
            split,
            compression: match self.compress {
                Compress::None => Compression::None,
                Compress::Zstd => Compression::Zstd(3),
                Compress::Lz4 => Compression::Lz4(1),
            },
            sync: if self.fsync { Sync::EachFlush } else { Sync::Never },
            flush: self.flush.unwrap_or(Duration::from_millis(match self.snapshot {
                Some(_) => 100,
                None => 1000,
            })),
            snapshot: self.snapshot.map(|(span, bytes)| {
                let on_death = self.on_death.then_some(self.after);
                Snapshot { span, bytes, on_death }
            }),
            every: self.every,
            max_rate: self.max_rate,
            ..Options::new(self.output.clone().unwrap_or_else(own))
        }
    }
}

/// Returns whether a word is one of the recorder's options.
fn is_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    Args::command().get_arguments().any(|arg| {
        let is_long = arg.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long));
        // Its value may stand in the same word: -oFILE.
        let rest = arg.get_short().and_then(|short| word.strip_prefix(&format!("-{short}")));
        is_long || rest.is_some_and(|rest| rest.is_empty() || arg.get_action().takes_values())
    })
}

fn file_name() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| outlive_mcap::new_file(&path))
}

fn snapshot_name(text: &str) -> Result<String, String> {
    // It is a name in the recorder's folder: what else is wrong with it, the recorder says.
    let path = outlive_mcap::with_ending(Path::new(text))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The shortest file: of many shorter ones, most would hold little but their own beginnings.
const LEAST_SPLIT: u64 = 64 << 10;

fn split(text: &str) -> Result<SplitAt, String> {
    if let Ok(span) = duration::more_than_none(text)
        && text.ends_with(['s', 'm', 'h', 'd', 'n'])
    {
        return Ok(SplitAt::Span(span));
    }
    size::with_unit(text, LEAST_SPLIT).map(SplitAt::Bytes).map_err(|why| {
        format!("{why}, or a time as in 90s, 10m or 1h (10M is a size, 10m ten minutes)")
    })
}

fn snapshot(text: &str) -> Result<(Duration, Option<u64>), String> {
    let (span, bytes) = match text.split_once(',') {
        Some((span, bytes)) => (span, Some(size::with_unit(bytes, LEAST)?)),
        None => (text, None),
    };
    Ok((duration::more_than_none(span)?, bytes))
}

fn name(text: &str) -> Result<String, String> {
    match (1..=outlive_record::NAME).contains(&text.len()) {
        // The name is a part of a service's name, and of a folder's.
        true if text.contains(['/', '\0']) => Err("a name has no '/'".to_owned()),
        true => Ok(text.to_owned()),
        false => Err(format!("a name has 1 to {} bytes", outlive_record::NAME)),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a rate is a number above 0, in messages a second".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Args, clap::Error> {
        Args::of(["record"].iter().chain(words).map(OsString::from).collect())
    }

    #[test]
    fn a_command_with_a_typing_error_is_found() {
        let meant = |names: &[&str]| read(names).expect("topics").mistyped_verb();
        let all =
            [("satus", "status"), ("triger", "trigger"), ("spilt", "split"), ("stpo", "stop")];
        for (name, verb) in all {
            assert_eq!(meant(&[name]), Some(verb));
            assert_eq!(meant(&["--", name]), None, "a topic: it stands behind two dashes");
        }
        assert_eq!((meant(&["lidar"]), meant(&["satus", "lidar"])), (None, None));
    }

    #[test]
    fn options_behind_two_dashes_are_refused_and_those_before_them_are_not() {
        let args = read(&["-o", "f", "--", "stop", "-x", "--other"]).expect("three topics");
        assert_eq!(args.topics(), ["stop", "-x", "--other"]);
        assert_eq!(args.options().output, Path::new("f.mcap"));
        for option in ["-o", "-oX", "-dX", "--json", "--split=1G", "-d", "--as"] {
            let told = read(&["--", "stop", option]).expect_err("an option").to_string();
            let first = option.split('=').next().expect("a name");
            assert!(told.contains(first) && told.contains("FILE.mcap -- stop"), "{told}");
        }
    }

    #[test]
    fn a_file_ends_in_mcap() {
        let output = |name| {
            let args = read(&["--all", "-o", name]).map_err(|error| error.to_string())?;
            Ok::<_, String>(args.options().output)
        };
        assert_eq!(output("s"), Ok("s.mcap".into()));
        assert_eq!(output("../s.mcap"), Ok("../s.mcap".into()));
        assert!(
            output("s.mcpa").is_err_and(|why| why.contains("'.mcpa'") && why.contains("s.mcap"))
        );
        assert!(
            read(&["trigger", "-o", "s.bag"]).is_err_and(|why| why.to_string().contains("'.bag'"))
        );
    }

    /// A command that is not in the list would never be proposed.
    #[test]
    fn all_commands_are_known() {
        let command = <Args as clap::CommandFactory>::command();
        let mut names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut known = VERBS.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
    }

    /// Files have it: another text here is another selection to the next version.
    #[test]
    fn a_selection_has_the_same_text_in_each_version() {
        let chosen = |args: &[&str]| Args::parse_from([&["record"], args].concat()).selection();
        assert_eq!(chosen(&["--all"]), "23c4057ad07d0165");
        assert_eq!(chosen(&["b", "a", "--queues"]), chosen(&["a", "b", "a", "--queues"]));
        assert_ne!(chosen(&["a", "b"]), chosen(&["ab"]));
    }

    #[test]
    fn a_split_is_a_size_or_a_time() {
        let bytes = |text| match split(text) {
            Ok(SplitAt::Bytes(bytes)) => bytes,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!((bytes("1G"), bytes("500M"), bytes("64k")), (1 << 30, 500 << 20, 1 << 16));
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h", 3600), ("1m30s", 90)] {
            let Ok(SplitAt::Span(span)) = split(text) else { panic!("{text}") };
            assert_eq!(span.as_secs(), seconds);
        }
        for wrong in ["0", "0s", "1", "65536", "x", "", "-1G", "63K", "0M"] {
            let told = split(wrong).expect_err(wrong);
            assert!(told.contains("a size") && told.contains("10m"), "{wrong}: {told}");
        }
        assert!(snapshot("30s,64M").is_ok() && snapshot("30s,1M").is_ok());
        assert!(["30s,64", "30s,1K", "30s,", "0s,1M"].iter().all(|text| snapshot(text).is_err()));
    }
}
