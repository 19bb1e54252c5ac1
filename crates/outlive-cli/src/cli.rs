//! The command line: what holds for all verbs, and the list of them.

use clap::{Args, Parser, Subcommand};

use crate::bench;
use crate::domain::DomainArgs;
use crate::exit::{self, Failure};
use crate::verbs::{
    bw, call, completions, delay, demo, doctor, echo, exit_codes, gc, hz, info, lock, ls, man, measuring, pools,
    publish, recv, rm, sem, send, serve, state, top, topic, under, wait,
};

/// Queues, topics and locks in shared memory that outlive whoever used them
///
/// When a process is killed, nobody hangs, nothing that was acknowledged is lost, and no daemon had to watch.
#[derive(Parser, Debug)]
#[command(name = "outlive", version, max_term_width = 100, after_long_help = exit::table())]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub verb: Verb,
}

/// What every verb is told.
#[derive(Args, Debug)]
pub struct Common {
    #[command(flatten)]
    pub domain: DomainArgs,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Send standard input into a queue, a message a line
    ///
    /// What was sent stays in the queue until it is received, whoever dies. When the receiver dies, send ends with exit
    /// code 3, also while it waits; what it sent before is kept for the next receiver. A queue that has had no receiver
    /// yet takes messages until it is full; then send waits.
    #[command(after_long_help = "Examples:\n  \
        outlive send jobs < list.txt\n  \
        find . -print0 | outlive send --null files\n  \
        outlive send images --file *.jpg")]
    Send(send::SendArgs),

    /// Receive from a queue to standard output, a line a message
    ///
    /// Goes on until it is interrupted (exit code 0), or as the options say. A message leaves the queue when it has been
    /// written: if recv is killed, the next receiver gets what was not, and says on standard error when a message may
    /// have been written before. A queue has one receiver at a time.
    #[command(after_long_help = "Examples:\n  \
        outlive recv jobs | while read -r job; do …; done\n  \
        outlive recv --until-idle 0 jobs > left-over.txt\n  \
        outlive recv --json jobs | jq .text")]
    Recv(recv::RecvArgs),

    /// Publish on a topic: to all who subscribe, whoever they are
    ///
    /// Standard input, a message a line, or files, each whole. Nobody is waited for, unless a subscriber has asked to be (see
    /// 'outlive echo --reliable'): what a slow one has not taken is overwritten in the end, and one that is killed is waited for no
    /// longer. What was published stays when pub has ended, as much of it as the topic keeps: see 'outlive echo --history'.
    #[command(
        name = "pub",
        after_long_help = "Examples:\n  \
        ffmpeg … -f rawvideo - | outlive pub camera --frame 6220800\n  \
        outlive pub camera --rate 30 --repeat *.jpg\n  \
        echo '{\"speed\": 1.5}' | outlive pub drive --msgpack\n  \
        date | outlive pub now --wait-for 1"
    )]
    Pub(publish::PublishArgs),

    /// Print what is published on a topic
    ///
    /// Goes on until it is interrupted (exit code 0), or as the options say, whoever publishes, dies and comes back. A line a
    /// message: text as it is, anything else in hexadecimal, its first 64 bytes. What was overwritten before it was taken is counted
    /// on standard error.
    #[command(after_long_help = "Examples:\n  \
        outlive echo drive --msgpack\n  \
        outlive echo camera --raw --count 1 > picture.jpg\n  \
        outlive echo camera --raw | ffplay -f rawvideo …\n  \
        outlive echo poses --reliable --json | jq .stamp")]
    Echo(echo::EchoArgs),

    /// Tell how many messages a second a topic has, and how evenly they come
    Hz(measuring::MeasureArgs),

    /// Tell how many bytes a second pass through a topic
    Bw(measuring::MeasureArgs),

    /// Tell how old messages are when they are received
    ///
    /// By their publishers' stamps, and so by the clock of the time of day.
    Delay(measuring::MeasureArgs),

    /// List topics, or show who is at both ends of one
    #[command(
        after_long_help = "PUBS and SUBS live. LAG is how many messages a subscriber has still to take, LOST how many were overwritten before it \
        had,\nHELD how many it is reading just now. What of the dead is listed needs no attention: see 'outlive gc'."
    )]
    Topic(topic::TopicArgs),

    /// Watch the whole domain: topics, queues, locks, pools, and what the dead left
    ///
    /// A full screen, renewed once a second. Keys: up and down (or k and j) select, Enter shows all about what is selected, Tab goes
    /// to the next kind of thing, s sorts by name, activity or size, p or the space bar pauses, q ends.
    #[command(after_long_help = "Examples:\n  \
        outlive top\n  \
        outlive top --once | head -20")]
    Top(top::TopArgs),

    /// Ask a service, and print the answer
    ///
    /// When the server dies, call ends at once with exit code 3, and says whether the call had been begun: if not, nobody
    /// will carry it out any more. Without a server it ends with code 4, or waits for one, as asked.
    #[command(after_long_help = "Examples:\n  \
        outlive call upper hello\n  \
        outlive call --timeout 2 resize < picture.png > small.png\n  \
        outlive call --wait-for-server jobs next")]
    Call(call::CallArgs),

    /// Answer the requests of a service, each by running a command
    ///
    /// One after the other. A command that fails answers nothing, and its client is told so. The command finds its client's
    /// process in OUTLIVE_CLIENT_PID. Killed, serve is a dead server: all who wait for it are told, and another may take over
    /// at once; a command that it had started is not killed with it.
    #[command(after_long_help = "Examples:\n  \
        outlive serve upper -- tr a-z A-Z\n  \
        outlive serve resize -- convert - -resize 50% -")]
    Serve(serve::ServeArgs),

    /// Run a command while holding a lock
    ///
    /// A holder that is killed never blocks the next one, which is told on standard error; the dead holder's command is
    /// killed with it, and the next command does not start before it is gone. (The command itself: what it has started in
    /// the background lives on. The kernel spares commands that change their user, set-user-ID ones; the next holder
    /// waits for those.) With --shared, commands run beside each other, but never beside one without it; one without it
    /// that waits goes before those with it that come later. Signals sent to outlive are passed on to the command. Exits
    /// with the command's code.
    #[command(after_long_help = "Examples:\n  \
        outlive lock backup -- rsync -a /home /mnt\n  \
        outlive lock --nonblock cron-job -- ./job.sh || echo 'still running'\n  \
        outlive lock --shared archive -- tar -cf today.tar /archive")]
    Lock(lock::LockArgs),

    /// Run a command while holding one of so many permits
    ///
    /// Never more than that many commands at once. A permit whose holder is killed comes back by itself; the dead holder's
    /// command is killed with it, and its permit is not used before that command is gone. (The command itself: what it has
    /// started in the background lives on. The kernel spares commands that change their user, set-user-ID ones; their
    /// permit is not used as long as they run.) Which command runs under which permit stands in a record beside the
    /// semaphore, NAME.commands. All who use one name say the same number. Signals sent to outlive are passed on to the
    /// command. Exits with the command's code.
    #[command(after_long_help = "Examples:\n  \
        find . -name '*.flac' | xargs -P 100 -I{} outlive sem encoders --permits 4 -- ./encode.sh {}\n  \
        outlive sem gpus --permits 2 --timeout 60 -- ./train.sh || echo 'no room'")]
    Sem(sem::SemArgs),

    /// Get, set or watch a state: the latest value under a name
    State(state::StateArgs),

    /// Wait until a process ends, or whoever holds a lock or receives from a queue
    ///
    /// Of a state, whoever writes it. Returns at once when there is nobody: an unknown process has ended, and so has a
    /// zombie. When a holder gives the name back and lives on, that ends the wait too.
    Wait(wait::WaitArgs),

    /// List what is in the domain
    #[command(after_long_help = "A name is 1 to 200 bytes without '/' and NUL, and does not begin with '.'.\n\
        USERS are the living processes that have the thing open, as far as you may see them;\n\
        DEAD counts claims in it whose owners died: they are told to the next user, or swept by 'outlive gc'.")]
    Ls(ls::LsArgs),

    /// Show all that is known about one thing
    Info(info::InfoArgs),

    /// Show what is in pools, size by size, and who has it
    ///
    /// ALLOC objects are there, of which USED are in use by processes, CACHE are in caches of their threads, OFFER are handed
    /// over and not claimed yet, SHARE are held by several, and FREE are nobody's. NEED is how many were not free on average of
    /// the last seconds: what gc keeps. FAIL counts how often there was no room for one. BY are the processes that have any, the
    /// dead included until somebody collects what they had.
    #[command(after_long_help = "Examples:\n  \
        outlive pools\n  \
        outlive pools frames --by holder\n  \
        outlive pools frames --modes tag,caller; outlive pools frames --by caller\n  \
        outlive pools --json | jq '.pools[] | select(.sum.failed > 0) | .name'")]
    Pools(pools::PoolsArgs),

    /// Remove names
    ///
    /// The life of a name: whoever first opens it makes it, and it stays until somebody removes it, whoever dies; nothing
    /// counts its users. Its owner, and whoever may write to the domain's folder, may remove it. Processes that have the
    /// thing open go on using it together, unseen by others; whoever opens the name afterwards makes a new one. So two
    /// programs can end up with two different things of one name: hence rm refuses while a living process has it open,
    /// unless forced. Its memory is freed when the last user ends or closes it.
    Rm(rm::RmArgs),

    /// Sweep up what the dead left
    ///
    /// Nobody needs this to go on: whoever meets a dead owner's claim deals with it. It gives back memory and tokens that
    /// nobody happens to meet. What the dead had locked is still told to the next who locks it. Of pools, what is free and
    /// more than was needed lately (see 'outlive pools') goes back to the system, whoever freed it.
    Gc(gc::GcArgs),

    /// Look for what is missing or amiss on this machine
    ///
    /// Exit code 1 if something does not work. Changes nothing unless asked to.
    Doctor(doctor::DoctorArgs),

    /// Measure what things cost beside their alternatives, in the same run
    Bench(bench::BenchArgs),

    /// See it work: processes are killed at random, and nothing is lost
    ///
    /// Producer processes send records cut from real files through one queue to a consumer process, under one lock that
    /// all of them take, while producers, and now and then the consumer, are killed at random moments and replaced. At
    /// the end every acknowledged record's checksum is compared with what was received. Beside them runs a robot: two
    /// cameras and a LiDAR publish frames on topics; four watchers take every one, the newest only, each one reliably, or
    /// slowly, holding six at once; and a logger takes what they say out of a queue; all of them are killed too. Exit code 1
    /// if a record was lost or changed, if one came twice without being marked, if a frame changed while it was held or was
    /// lost for the reliable watcher, if somebody killed was still counted, or if anybody hung. Works in a domain of its own,
    /// removed at the end. Ctrl-C ends it early, with the same comparison.
    Demo(demo::DemoArgs),

    /// Print a completion script for a shell
    #[command(
        after_long_help = "Example:\n  outlive completions bash > ~/.local/share/bash-completion/completions/outlive"
    )]
    Completions(completions::CompletionsArgs),

    /// Write man pages into a folder
    Man(man::ManArgs),

    /// List the exit codes
    #[command(after_long_help = exit::table())]
    ExitCodes,

    /// What a command under a lock or permit is until it has its go-ahead.
    #[command(hide = true)]
    Become(under::BecomeArgs),

    /// A producer or the consumer of the demo.
    #[command(hide = true)]
    DemoMember(demo::MemberArgs),
}

impl Verb {
    /// What it is called in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Verb::Send(_) => "send",
            Verb::Recv(_) => "recv",
            Verb::Pub(_) => "pub",
            Verb::Echo(_) => "echo",
            Verb::Hz(_) => "hz",
            Verb::Bw(_) => "bw",
            Verb::Delay(_) => "delay",
            Verb::Topic(_) => "topic",
            Verb::Top(_) => "top",
            Verb::Call(_) => "call",
            Verb::Serve(_) => "serve",
            Verb::Lock(_) | Verb::Become(_) => "lock",
            Verb::Sem(_) => "sem",
            Verb::State(_) => "state",
            Verb::Wait(_) => "wait",
            Verb::Ls(_) => "ls",
            Verb::Info(_) => "info",
            Verb::Pools(_) => "pools",
            Verb::Rm(_) => "rm",
            Verb::Gc(_) => "gc",
            Verb::Doctor(_) => "doctor",
            Verb::Bench(_) => "bench",
            Verb::Demo(_) | Verb::DemoMember(_) => "demo",
            Verb::Completions(_) => "completions",
            Verb::Man(_) => "man",
            Verb::ExitCodes => "exit-codes",
        }
    }

    /// Runs it.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Verb::Send(args) => send::run(&args, common),
            Verb::Recv(args) => recv::run(&args, common),
            Verb::Pub(args) => publish::run(&args, common),
            Verb::Echo(args) => echo::run(&args, common),
            Verb::Hz(args) => hz::run(&args, common),
            Verb::Bw(args) => bw::run(&args, common),
            Verb::Delay(args) => delay::run(&args, common),
            Verb::Topic(args) => topic::run(&args, common),
            Verb::Top(args) => top::run(&args, common),
            Verb::Call(args) => call::run(&args, common),
            Verb::Serve(args) => serve::run(&args, common),
            Verb::Lock(args) => lock::run(&args, common),
            Verb::Sem(args) => sem::run(&args, common),
            Verb::State(args) => state::run(&args, common),
            Verb::Wait(args) => wait::run(&args, common),
            Verb::Ls(args) => ls::run(&args, common),
            Verb::Info(args) => info::run(&args, common),
            Verb::Pools(args) => pools::run(&args, common),
            Verb::Rm(args) => rm::run(&args, common),
            Verb::Gc(args) => gc::run(&args, common),
            Verb::Doctor(args) => doctor::run(&args, common),
            Verb::Bench(args) => Ok(bench::run(&args, |_| {}).map(drop)?),
            Verb::Demo(args) => demo::run(&args, common),
            Verb::Completions(args) => completions::run(&args),
            Verb::Man(args) => man::run(&args),
            Verb::ExitCodes => exit_codes::run(common),
            Verb::Become(args) => under::become_command(&args),
            Verb::DemoMember(args) => demo::run_member(&args),
        }
    }
}
