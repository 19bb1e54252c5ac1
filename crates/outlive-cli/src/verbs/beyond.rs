//! Verbs that reach beyond this machine, or need more libraries than the core: other programs carry
//! them out, which are built and installed only where they are wanted.

use std::ffi::OsString;

use clap::Args;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::external::become_program;

/// What the other program is told.
#[derive(Args, Debug)]
struct OwnArgs {
    /// Its own arguments: '-- --help' shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

impl OwnArgs {
    /// Becomes the program, in the domain that was chosen.
    fn become_program(&self, name: &str, install: &str, common: &Common) -> Failure {
        if common.domain.no_create {
            let text = "--no-create: the program that carries this out makes what it needs";
            return Failure::new(Code::Usage, text);
        }
        // What follows counts, where it says it as well: the environment may have said it here.
        let words = common.domain.words();
        let pairs = words.as_chunks::<2>().0.iter().filter(|[option, _]| !self.says(option));
        let mut args: Vec<OsString> = pairs.flatten().cloned().collect();
        args.extend(common.json.then(|| "--json".into()));
        args.extend(self.args.iter().cloned());
        become_program(name, install, &args)
    }

    /// Returns whether an option is among the arguments, in either form.
    fn says(&self, option: &OsString) -> bool {
        let long = option.to_string_lossy();
        self.args.iter().any(|arg| {
            let arg = arg.to_string_lossy();
            arg.split('=').next() == Some(&*long) || long == "--domain" && arg == "-d"
        })
    }
}

/// Carry topics, services, states and notifiers to other machines, and bring theirs
///
/// Nothing leaves and nothing comes in unless a rule allows it. A publisher that dies elsewhere dies
/// here, too; a machine that cannot be reached is told apart from that. What was under way when a gateway
/// is killed is sent again, once. 'cargo install --path bridges/gateway' installs the program that does it,
/// and 'outlive-gateway --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive gateway --listen tcp/0.0.0.0:7447 --allow-out 'camera/**'\n  \
    outlive gateway --connect tcp/192.0.2.7:7447 --allow-in 'camera/**'")]
pub struct GatewayArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl GatewayArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        Err(self.own.become_program(
            "outlive-gateway",
            "cargo install --path bridges/gateway",
            common,
        ))
    }
}

/// Record topics in a file that Foxglove, rerun and the mcap libraries read
///
/// The file has each message of a reliable topic once. A record that is killed goes on where it was, without
/// a gap, if it has a name. 'cargo install --path crates/outlive-record' installs the program that does it,
/// and 'outlive-record --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive record --all -o drive.mcap\n  \
    outlive record camera.front lidar --as night --split 1G")]
pub struct RecordArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl RecordArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let install = "cargo install --path crates/outlive-record";
        Err(self.own.become_program("outlive-record", install, common))
    }
}

/// Publish a recording again, in its spacing
///
/// Topics are made as they were if they are not there; files of other programs are played, too. A terminal's keys
/// stop it, step, and go forward and back. 'cargo install --path crates/outlive-record' installs the program that
/// does it, and 'outlive-replay --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive replay drive.mcap\n  \
    outlive replay drive.mcap --rate 2 --start 10s --topics lidar")]
pub struct ReplayArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl ReplayArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let install = "cargo install --path crates/outlive-record";
        Err(self.own.become_program("outlive-replay", install, common))
    }
}

/// Look at recordings in MCAP, repair, filter, cut, merge and convert them
///
/// The files may be others', too. A file that is written has its name only when it is whole, and replaces
/// none unless '--force' is given. 'cargo install --path crates/outlive-bag' installs the program that does
/// it, and 'outlive-bag --help' shows its verbs.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive bag info drive.mcap\n  \
    outlive bag recover --in-place drive.mcap\n  \
    outlive bag filter drive.mcap --topics lidar -o lidar.mcap")]
pub struct BagArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl BagArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let install = "cargo install --path crates/outlive-bag";
        Err(self.own.become_program("outlive-bag", install, common))
    }
}

/// Show topics, states and services in Foxglove or Lichtblick
///
/// They connect to ws://127.0.0.1:8765. Pictures, points, scans, transforms and logs are shown as such,
/// other messages by their fields; publishers never wait for that. 'cargo install --path bridges/view'
/// installs the program that does it, and 'outlive-view --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive view\n  \
    outlive view --port 8766 --allow-set --allow-call")]
pub struct ViewArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl ViewArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        Err(self.own.become_program("outlive-view", "cargo install --path bridges/view", common))
    }
}

/// Carry a queue's messages into a stream of NATS JetStream, or out of it
///
/// Each message arrives at least once, whatever is killed: it leaves the queue when the stream has
/// it. 'cargo install --path bridges/nats' installs the program that does it, and
/// 'outlive-queue-bridge --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive queue bridge orders --nats nats://192.0.2.7 ORDERS\n  \
    outlive queue bridge orders --nats nats://192.0.2.7 ORDERS --in")]
pub struct QueueBridgeArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl QueueBridgeArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        Err(self.own.become_program(
            "outlive-queue-bridge",
            "cargo install --path bridges/nats",
            common,
        ))
    }
}

/// Carry topics and services between the domain and ROS 1
///
/// Nothing passes that no option allows. 'pip install ./crates/outlive-py' installs the program that does
/// it, beside ROS's own packages, and 'outlive-ros1-bridge --help' shows its options.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive ros1 bridge --out '/camera/**'\n  \
    outlive ros1 bridge --config bridge.toml")]
pub struct Ros1BridgeArgs {
    #[command(flatten)]
    own: OwnArgs,
}

impl Ros1BridgeArgs {
    /// Runs the verb.
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        Err(self.own.become_program(
            "outlive-ros1-bridge",
            "pip install ./crates/outlive-py",
            common,
        ))
    }
}
