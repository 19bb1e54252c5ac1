//! The nouns, with the verbs of each. A verb that several nouns share is named here by its
//! arguments' type.

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use outlive::Kind;

use crate::cli::Common;
use crate::exit::Failure;
use crate::verbs::{
    beyond, bw, call, clients, create, delay, domain_watch, echo, gc, hz, info, job, lock, ls,
    node, notifier, pools, publish, recv, rm, sem, send, serve, state, topic, wait, waiters,
};

/// Publish and subscribe: messages for every subscriber
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive topic echo drive --msgpack\n  \
    outlive topic hz camera")]
pub enum Topic {
    Pub(publish::PublishArgs),
    Echo(echo::EchoArgs),
    Hz(hz::HzArgs),
    Bw(bw::BwArgs),
    Delay(delay::DelayArgs),
    Info(topic::info::InfoArgs),
    Forget(topic::forget::ForgetArgs),
    List(topic::list::ListArgs),
}

/// Queues: many senders, one receiver; a message stays until it is received
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    tail -F app.log | outlive queue send log\n  \
    outlive queue recv log")]
pub enum Queue {
    Send(send::SendArgs),
    Recv(recv::RecvArgs),
    Bridge(beyond::QueueBridgeArgs),
    /// Show all that is known about one queue
    ///
    /// Its receiver, its senders, what happens if the receiver dies, and counts: messages that were
    /// sent, that were received for good, that wait (pending), that a killed sender had begun and not
    /// acknowledged (abandoned), that were handed out again after a receiver's death (redelivered);
    /// how often the queue took more memory (grown); the most messages that were seen waiting (high
    /// water). Then the threads that wait for it, and since when.
    #[command(after_long_help = "Example:\n  outlive queue info log")]
    Info(OneArgs),
    /// List the queues of the domain
    #[command(after_long_help = "Example:\n  outlive queue list")]
    List(AllArgs),
}

/// ROS 1: topics and services of its nodes
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Example:\n  outlive ros1 bridge --out '/camera/**'")]
pub enum Ros1 {
    Bridge(beyond::Ros1BridgeArgs),
}

/// Job queues: many producers, many workers; a killed worker's job goes to another
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    ls *.flac | outlive job put encode\n  \
    outlive job work encode -P 4 ./encode.sh {}")]
pub enum Job {
    Put(job::put::PutArgs),
    Work(job::work::WorkArgs),
    Aside(job::aside::AsideArgs),
    /// Show all that is known about one job queue
    ///
    /// Each job that a worker has, with the worker and the attempt; how many jobs were put, wait, are
    /// taken and are set aside; how many a stray write has damaged; and the options that the queue
    /// was made with.
    #[command(after_long_help = "Example:\n  outlive job info encode")]
    Info(OneArgs),
    /// List the job queues of the domain
    #[command(after_long_help = "Example:\n  outlive job list")]
    List(AllArgs),
}

/// States: the latest value under a name
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive state set mode driving\n  \
    outlive state watch mode")]
pub enum State {
    Get(state::get::GetArgs),
    Set(state::set::SetArgs),
    Watch(state::watch::WatchArgs),
    /// Show all that is known about one state
    ///
    /// Its writer, the version and the size of its value, how many buffers it has for values, and how
    /// many of them readers hold just now (pins).
    #[command(after_long_help = "Example:\n  outlive state info mode")]
    Info(OneArgs),
    /// List the states of the domain
    #[command(after_long_help = "Example:\n  outlive state list")]
    List(AllArgs),
}

/// Notifiers: each listener is told how often something has happened
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive notifier notify doors 3\n  \
    outlive notifier listen doors")]
pub enum Notifier {
    Notify(notifier::notify::NotifyArgs),
    Listen(notifier::listen::ListenArgs),
    /// Show all that is known about one notifier
    ///
    /// Each process that notifies, and each that listens, with the notices that it has not taken; the
    /// numbers of the notices that a notifier has come, has left or has died; and how many have died.
    #[command(after_long_help = "Example:\n  outlive notifier info doors")]
    Info(OneArgs),
    /// List the notifiers of the domain
    #[command(after_long_help = "Example:\n  outlive notifier list")]
    List(AllArgs),
}

/// Services: requests and replies
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service serve upper tr a-z A-Z\n  \
    outlive service call upper hello")]
pub enum Service {
    Call(call::CallArgs),
    Serve(serve::ServeArgs),
    Clients(clients::ClientsArgs),
    /// Show all that is known about one service
    ///
    /// Its server, its clients with the calls of each that the server has begun, and counts: requests
    /// that were sent, that the server has taken (received), and that wait (pending).
    #[command(after_long_help = "Example:\n  outlive service info upper")]
    Info(OneArgs),
    /// List the services of the domain
    #[command(after_long_help = "Example:\n  outlive service list")]
    List(AllArgs),
}

/// What follows `lock`: a verb, or the name of a lock and a command.
#[derive(Debug)]
pub enum LockNoun {
    /// `lock VERB …`
    Verb(Lock),
    /// `lock NAME CMD`
    Short(lock::LockArgs),
}

impl FromArgMatches for LockNoun {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LockNoun, clap::Error> {
        match matches.subcommand() {
            Some(_) => Lock::from_arg_matches(matches).map(LockNoun::Verb),
            None => lock::LockArgs::from_arg_matches(matches).map(LockNoun::Short),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LockNoun::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LockNoun {
    fn augment_args(command: Command) -> Command {
        Lock::augment_subcommands(lock::LockArgs::augment_args(command))
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand_required(false)
            .arg_required_else_help(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        LockNoun::augment_args(command)
    }
}

/// Locks: run a command while holding one, or look at them
///
/// 'outlive lock NAME CMD' is short for 'outlive lock run NAME CMD'. A lock that bears the name of
/// a verb needs the long form.
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive lock backup rsync -a /home /mnt\n  \
    outlive lock info backup")]
pub enum Lock {
    Run(lock::LockArgs),
    /// Show all that is known about one lock
    ///
    /// Whether it is free, which threads hold it, since when and what they run, which threads wait for
    /// it, deadlock cycles that it is part of, and recorded orders of locks that can deadlock.
    #[command(after_long_help = "Example:\n  outlive lock info backup")]
    Info(OneArgs),
    /// List the locks of the domain
    #[command(after_long_help = "Example:\n  outlive lock list")]
    List(AllArgs),
}

/// Semaphores: run a command while holding one of several permits
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Example:\n  outlive semaphore run --permits 4 encoders ./encode.sh")]
pub enum Semaphore {
    Run(sem::SemArgs),
    /// Show all that is known about one semaphore
    ///
    /// Which threads hold permits and since when, how many permits are free, held, and there are at
    /// most (room), and which threads wait for one.
    #[command(after_long_help = "Example:\n  outlive semaphore info encoders")]
    Info(OneArgs),
    /// List the semaphores of the domain
    #[command(after_long_help = "Example:\n  outlive semaphore list")]
    List(AllArgs),
}

/// Pools: objects in shared memory, each owned by one process
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive pool list\n  \
    outlive pool list frames --by holder")]
pub enum Pool {
    List(pools::PoolsArgs),
    /// Show all that is known about one pool
    ///
    /// Which processes have how many of its objects, its debug modes, and its objects of all sizes
    /// together. 'outlive pool list' shows them size by size.
    #[command(after_long_help = "Example:\n  outlive pool info frames")]
    Info(OneArgs),
}

/// The domain: what is in it, which threads wait in it, and cleaning up
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain list\n  \
    outlive domain waiters")]
pub enum Domain {
    Create(create::CreateArgs),
    List(ls::LsArgs),
    Info(info::InfoArgs),
    Wait(wait::WaitArgs),
    Waiters(waiters::WaitersArgs),
    Watch(domain_watch::WatchArgs),
    Remove(rm::RmArgs),
    #[command(visible_alias = "clean")]
    Gc(gc::GcArgs),
}

/// Nodes: processes that have named themselves
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive node list\n  \
    outlive node info planner")]
pub enum Node {
    List(node::ListArgs),
    Info(node::InfoArgs),
}

impl Node {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Node::List(_) => node::list(common),
            Node::Info(args) => node::info(&args, common),
        }
    }
}

/// Arguments that name one thing.
#[derive(Args, Debug)]
pub struct OneArgs {
    #[command(flatten)]
    info: info::InfoArgs,
}

impl OneArgs {
    fn run(&self, kinds: &[Kind], common: &Common) -> Result<(), Failure> {
        info::run_of(&self.info, kinds, common)
    }
}

/// Arguments of a list of one kind.
#[derive(Args, Debug)]
pub struct AllArgs {}

impl Topic {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Topic::Info(args) => topic::info::run(&args, common),
            Topic::Forget(args) => topic::forget::run(&args, common),
            Topic::List(args) => topic::list::run(&args, common),
            Topic::Pub(args) => publish::run(&args, common),
            Topic::Echo(args) => echo::run(&args, common),
            Topic::Hz(args) => hz::run(&args, common),
            Topic::Bw(args) => bw::run(&args, common),
            Topic::Delay(args) => delay::run(&args, common),
        }
    }
}

impl Queue {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Queue::Info(args) => args.run(&[Kind::Queue], common),
            Queue::List(_) => ls::run_of(&[Kind::Queue], common),
            Queue::Send(args) => send::run(&args, common),
            Queue::Recv(args) => recv::run(&args, common),
            Queue::Bridge(args) => Err(args.own.become_program(&beyond::QUEUE_BRIDGE, common)),
        }
    }
}

impl Ros1 {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Ros1::Bridge(args) => Err(args.own.become_program(&beyond::ROS1_BRIDGE, common)),
        }
    }
}

impl Job {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Job::Put(args) => job::put::run(&args, common),
            Job::Work(args) => job::work::run(&args, common),
            Job::Aside(args) => job::aside::run(&args, common),
            Job::Info(args) => args.run(&[Kind::JobQueue], common),
            Job::List(_) => ls::run_of(&[Kind::JobQueue], common),
        }
    }
}

impl State {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            State::Get(args) => state::get::run(&args, common),
            State::Set(args) => state::set::run(&args, common),
            State::Watch(args) => state::watch::run(&args, common),
            State::Info(args) => args.run(&[Kind::State], common),
            State::List(_) => ls::run_of(&[Kind::State], common),
        }
    }
}

impl Notifier {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Notifier::Notify(args) => notifier::notify::run(&args, common),
            Notifier::Listen(args) => notifier::listen::run(&args, common),
            Notifier::Info(args) => args.run(&[Kind::Notifier], common),
            Notifier::List(_) => ls::run_of(&[Kind::Notifier], common),
        }
    }
}

impl Service {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Service::Info(args) => args.run(&[Kind::Service], common),
            Service::List(_) => ls::run_of(&[Kind::Service], common),
            Service::Call(args) => call::run(&args, common),
            Service::Serve(args) => serve::run(&args, common),
            Service::Clients(args) => clients::run(&args, common),
        }
    }
}

/// What a thread holds to keep others out. A record counts when there are locks in it.
pub const LOCKS: [Kind; 6] = [
    Kind::Mutex,
    Kind::ReentrantMutex,
    Kind::RwLock,
    Kind::PiMutex,
    Kind::CeilingMutex,
    Kind::Record,
];

impl LockNoun {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            LockNoun::Short(args) | LockNoun::Verb(Lock::Run(args)) => lock::run(&args, common),
            LockNoun::Verb(Lock::Info(args)) => args.run(&LOCKS, common),
            LockNoun::Verb(Lock::List(_)) => ls::run_of(&LOCKS, common),
        }
    }
}

impl Semaphore {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Semaphore::Info(args) => args.run(&[Kind::Semaphore], common),
            Semaphore::List(_) => ls::run_of(&[Kind::Semaphore], common),
            Semaphore::Run(args) => sem::run(&args, common),
        }
    }
}

impl Pool {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Pool::Info(args) => args.run(&[Kind::Pool], common),
            Pool::List(args) => pools::run(&args, common),
        }
    }
}

impl Domain {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Domain::Create(args) => create::run(&args, common),
            Domain::List(args) => ls::run(&args, common),
            Domain::Info(args) => info::run(&args, common),
            Domain::Wait(args) => wait::run(&args, common),
            Domain::Waiters(args) => waiters::run(&args, common),
            Domain::Watch(args) => domain_watch::run(&args, common),
            Domain::Remove(args) => rm::run(&args, common),
            Domain::Gc(args) => gc::run(&args, common),
        }
    }
}
