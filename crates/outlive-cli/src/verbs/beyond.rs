//! Verbs that reach beyond this machine, or need more libraries than the core: other programs carry
//! them out, which are built and installed only where they are wanted.

use std::ffi::OsString;

use clap::{Args, Command};

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::external::{Program, become_program};

pub const GATEWAY: Program =
    Program::new("outlive-gateway", "cargo install --path bridges/gateway");
pub const RECORD: Program =
    Program::new("outlive-record", "cargo install --path crates/outlive-record");
pub const REPLAY: Program =
    Program::new("outlive-replay", "cargo install --path crates/outlive-record");
pub const BAG: Program = Program::new("outlive-bag", "cargo install --path crates/outlive-bag");
pub const VIEW: Program = Program::new("outlive-view", "cargo install --path bridges/view");
pub const BENCH: Program =
    Program::new("outlive-bench", "cargo install --profile dist --path crates/outlive-bench");
pub const QUEUE_BRIDGE: Program =
    Program::new("outlive-queue-bridge", "cargo install --path bridges/nats");
pub const ROS1_BRIDGE: Program =
    Program::new("outlive-ros1-bridge", "pip install ./crates/outlive-py");

/// The verbs: what is typed behind `outlive`.
const VERBS: [&[&str]; 8] = [
    &["gateway"],
    &["record"],
    &["replay"],
    &["bag"],
    &["view"],
    &["bench"],
    &["queue", "bridge"],
    &["ros1", "bridge"],
];

/// What the other program is told.
#[derive(Args, Debug)]
pub struct OwnArgs {
    /// Its own arguments, all that follow the verb; '--help' among them shows its help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

impl OwnArgs {
    /// Becomes the program, in the domain that was chosen; returns why that failed.
    ///
    /// A domain that an option names is handed over in the environment, and not as an argument: if the program refuses
    /// its arguments, it then names only what the user has typed.
    pub fn become_program(&self, program: &Program, common: &Common) -> Failure {
        if common.domain.no_create {
            let text = "--no-create: the program that carries this out makes what it needs";
            return Failure::new(Code::Usage, text);
        }
        let is_json = common.json && !self.args.iter().any(|arg| arg == "--json");
        let mut args: Vec<OsString> = is_json.then(|| "--json".into()).into_iter().collect();
        args.extend(self.args.iter().cloned());
        become_program(program, &args, &common.domain.variables())
    }
}

/// Puts '--' behind the verb if another program carries it out, so that the parser takes all that follows as that
/// program's own: '--help', '--version' and a '--' of its own, too.
pub fn behind_dashes(words: Vec<OsString>, options: &Command) -> Vec<OsString> {
    let words = help_of_its_verb(&words, options).unwrap_or(words);
    let Some(at) = own_arguments(&words, options) else { return words };
    let mut all = words;
    all.insert(at, "--".into());
    all
}

/// Of `help record stop`, what its program understands: `record stop --help`. Help of `record` alone needs no other
/// program.
fn help_of_its_verb(words: &[OsString], options: &Command) -> Option<Vec<OsString>> {
    let at = behind_options(words, options, 1);
    let (before, [help, rest @ ..]) = words.split_at_checked(at)? else { return None };
    let verb = VERBS.iter().find(|verb| {
        rest.len() > verb.len() && rest.iter().zip(**verb).all(|(word, part)| word == part)
    });
    (help == "help" && verb.is_some())
        .then(|| before.iter().chain(rest).cloned().chain(["--help".into()]).collect())
}

/// Returns where the first word from `at` on is that is neither an option nor the value of one.
fn behind_options(words: &[OsString], options: &Command, mut at: usize) -> usize {
    while let Some(word) = words.get(at).and_then(|word| word.to_str())
        && word.starts_with('-')
    {
        // Of a cluster of letters, as in -dNAME, the parser makes what it is.
        let is_named = |option: &&clap::Arg| {
            let is_short = |letter| word == format!("-{letter}");
            option.get_long().is_some_and(|long| word == format!("--{long}"))
                || option.get_short().is_some_and(is_short)
        };
        let named = options.get_arguments().find(is_named);
        at += 1 + usize::from(named.is_some_and(|option| option.get_action().takes_values()));
    }
    at
}

/// Returns where the other program's arguments begin. `options` has the options that may stand before a verb.
fn own_arguments(words: &[OsString], options: &Command) -> Option<usize> {
    let mut verb: Vec<&str> = Vec::new();
    let mut at = 1;
    loop {
        at = behind_options(words, options, at);
        verb.push(words.get(at)?.to_str()?);
        at += 1;
        if VERBS.contains(&&verb[..]) {
            return Some(at);
        }
        if !VERBS.iter().any(|known| known.starts_with(&verb)) {
            return None;
        }
    }
}

/// Carry topics, services, states and notifiers to other machines, and bring theirs
///
/// Nothing leaves and nothing comes in unless a rule allows it. A publisher that dies elsewhere dies
/// here, too; a machine that cannot be reached is told apart from that. What was under way when a gateway
/// is killed is sent again, once. 'cargo install --path bridges/gateway' installs the program that does it,
/// and 'outlive gateway --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive gateway --listen tcp/0.0.0.0:7447 --allow-out 'camera/**'\n  \
    outlive gateway --connect tcp/192.0.2.7:7447 --allow-in 'camera/**'")]
pub struct GatewayArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Record topics in a file that Foxglove, rerun and the mcap libraries read
///
/// The file has each message of a reliable topic once. If a recorder with a name is killed, the next one of
/// that name continues the file without a gap. 'cargo install --path crates/outlive-record' installs the
/// program that does it, and 'outlive record --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive record --all -o drive.mcap\n  \
    outlive record camera.front lidar --as night --split 1G")]
pub struct RecordArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Publish a recording again, in its spacing
///
/// Topics are made as they were if they are not there; files of other programs are played, too. A terminal's keys
/// stop it, step, and go forward and back. 'cargo install --path crates/outlive-record' installs the program that
/// does it, and 'outlive replay --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive replay drive.mcap\n  \
    outlive replay drive.mcap --rate 2 --start 10s --topics lidar")]
pub struct ReplayArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Look at recordings in MCAP, repair, filter, cut, merge and convert them
///
/// The files may be others', too. A file that is written has its name only when it is whole, and replaces
/// none unless '--force' is given. 'cargo install --path crates/outlive-bag' installs the program that does
/// it, and 'outlive bag --help' shows its verbs.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag info drive.mcap\n  \
    outlive bag recover --in-place drive.mcap\n  \
    outlive bag filter drive.mcap --topics lidar -o lidar.mcap")]
pub struct BagArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Show topics, states and services in Foxglove or Lichtblick
///
/// They connect to ws://127.0.0.1:8765. Pictures, points, scans, transforms and logs are shown as such,
/// other messages by their fields; publishers never wait for that. 'cargo install --path bridges/view'
/// installs the program that does it, and 'outlive view --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive view\n  \
    outlive view --port 8766 --allow-set --allow-call")]
pub struct ViewArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Measure what things cost beside their alternatives, in the same run
///
/// Contenders take turns, and what is printed is the median with minimum and maximum. All figures are costs
/// in nanoseconds: less is better. 'cargo install --profile dist --path crates/outlive-bench' installs the
/// program that does it, and 'outlive bench --help' shows its benchmarks.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bench locks --contended\n  \
    outlive bench all --quick --html report.html")]
pub struct BenchArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Carry a queue's messages into a stream of NATS JetStream, or out of it
///
/// Each message arrives at least once, whatever is killed: it leaves the queue when the stream has
/// it. 'cargo install --path bridges/nats' installs the program that does it, and
/// 'outlive queue bridge --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive queue bridge orders --nats nats://192.0.2.7 ORDERS\n  \
    outlive queue bridge orders --nats nats://192.0.2.7 ORDERS --in")]
pub struct QueueBridgeArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Carry topics and services between the domain and ROS 1
///
/// Nothing passes that no option allows. 'pip install ./crates/outlive-py' installs the program that does
/// it, beside ROS's own packages, and 'outlive ros1 bridge --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive ros1 bridge --out '/camera/**'\n  \
    outlive ros1 bridge --config bridge.toml")]
pub struct Ros1BridgeArgs {
    #[command(flatten)]
    pub own: OwnArgs,
}
