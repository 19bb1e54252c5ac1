//! Verbs that reach beyond this machine: other programs carry them out, which are built and installed
//! only where they are wanted.

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
        let mut args = common.domain.words();
        args.extend(common.json.then(|| "--json".into()));
        args.extend(self.args.iter().cloned());
        become_program(name, install, &args)
    }
}

/// Carry topics and services to other machines, and bring theirs
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
