//! The command line: nouns with verbs, what holds for all of them, and the short forms.
//!
//! | noun | verbs (short form) |
//! | --- | --- |
//! | `topic` | `pub` (`pub`), `echo` (`echo`), `hz` (`hz`), `bw` (`bw`), `delay` (`delay`), `info`, `forget`, `list` |
//! | `queue` | `send` (`send`), `recv` (`recv`), `bridge`, `info`, `list` |
//! | `job` | `put`, `work` (`work`), `aside`, `info`, `list` |
//! | `state` | `get`, `set`, `watch`, `info`, `list` |
//! | `notifier` | `notify`, `listen`, `info`, `list` |
//! | `service` | `call` (`call`), `serve` (`serve`), `clients`, `info`, `list` |
//! | `lock` | `run` (`lock NAME CMD`), `info`, `list` |
//! | `semaphore` | `run` (`sem`), `info`, `list` |
//! | `pool` | `list` (`pools`), `info` |
//! | `domain` | `create`, `list` (`ls`), `info` (`info`), `wait` (`wait`), `waiters`, `watch`, `remove` (`rm`), `gc`, also `clean` (`gc`) |
//! | `node` | `list`, `info` |
//! | `config` | `show`, `check` |
//! | `ros1` | `bridge` |
//! | none | `gateway`, `record`, `replay`, `bag`, `view`, `metrics`, `image`, `plot`, `top`, `doctor`, `bench`, `demo`, `completions`, `man`, `exit-codes` |
//!
//! Rules, which a test walks all verbs for:
//! - Each verb has a line that says what it does, and examples that this parser takes.
//! - A short option has one meaning in all verbs. A short form keeps the letters that it had before
//!   there were nouns: [`KEPT_OPTIONS`].
//! - Each verb prints JSON lines with `--json`, of the form that [`JSON`] names, or refuses the
//!   option and says why.
//! - Each option whose value is called `TIME` takes `250ms` and `2s`.
//! - A short form and its long form are one type, so they have the same options and the same code.
//!
//! Help texts are at the arguments of each verb. [`command`] adds what follows from the tables
//! here: the short form's long form, the letters that it keeps, the form of the JSON, and how times
//! are written.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::domain::DomainArgs;
use crate::exit::{self, Code, Failure};
use crate::nouns::{
    Domain, Job, LockNoun, Node, Notifier, Pool, Queue, Ros1, Semaphore, Service, State, Topic,
};
#[cfg(feature = "demo")]
use crate::verbs::demo;
#[cfg(feature = "image")]
use crate::verbs::image;
#[cfg(feature = "metrics")]
use crate::verbs::metrics;
#[cfg(feature = "plot")]
use crate::verbs::plot;
#[cfg(feature = "top")]
use crate::verbs::top;
use crate::verbs::{
    beyond, bw, call, completions, config, delay, doctor, echo, exit_codes, gc, hz, info, job,
    lock, ls, man, pools, publish, recv, rm, sem, send, serve, under, wait,
};

/// Queues, topics and locks in shared memory that recover when any of their users is killed
///
/// When a process is killed, the others go on: locks are handed over, messages that a queue has
/// acknowledged are kept, and no daemon is needed for it.
#[derive(Parser, Debug)]
#[command(name = "outlive", version, max_term_width = 100)]
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
    /// Print results as JSON, one value a line
    #[arg(long, global = true, display_order = 903)]
    pub json: bool,
}

impl Common {
    /// Refuses `--json` beside an option that asks for another form.
    pub fn refuse_json_beside(&self, options: &[(&str, bool)]) -> Result<(), Failure> {
        match options.iter().find(|(_, given)| *given) {
            Some((option, _)) if self.json => {
                let text =
                    format!("--json and {option} ask for two different forms: choose one of them");
                Err(Failure::new(Code::Usage, text))
            }
            _ => Ok(()),
        }
    }
}

/// The nouns, the verbs without a noun, and the short forms.
#[derive(Subcommand, Debug)]
pub enum Verb {
    #[command(subcommand)]
    Topic(Topic),
    #[command(subcommand)]
    Queue(Queue),
    #[command(subcommand)]
    Job(Job),
    #[command(subcommand)]
    State(State),
    #[command(subcommand)]
    Notifier(Notifier),
    #[command(subcommand)]
    Service(Service),
    Lock(LockNoun),
    #[command(subcommand)]
    Semaphore(Semaphore),
    #[command(subcommand)]
    Pool(Pool),
    #[command(subcommand)]
    Domain(Domain),
    #[command(subcommand)]
    Node(Node),
    #[command(subcommand)]
    Config(config::ConfigNoun),
    #[command(subcommand)]
    Ros1(Ros1),

    Gateway(beyond::GatewayArgs),
    Record(beyond::RecordArgs),
    Replay(beyond::ReplayArgs),
    Bag(beyond::BagArgs),
    View(beyond::ViewArgs),

    #[cfg(feature = "metrics")]
    Metrics(metrics::MetricsArgs),
    #[cfg(feature = "image")]
    Image(image::ImageArgs),
    #[cfg(feature = "plot")]
    Plot(plot::PlotArgs),
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    Doctor(doctor::DoctorArgs),
    Bench(beyond::BenchArgs),
    #[cfg(feature = "demo")]
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    ExitCodes(exit_codes::ExitCodesArgs),

    Pub(publish::PublishArgs),
    Echo(echo::EchoArgs),
    Hz(hz::HzArgs),
    Bw(bw::BwArgs),
    Delay(delay::DelayArgs),
    Send(send::SendArgs),
    Recv(recv::RecvArgs),
    Work(job::work::WorkArgs),
    Call(call::CallArgs),
    Serve(serve::ServeArgs),
    Sem(sem::SemArgs),
    Pools(pools::PoolsArgs),
    Ls(ls::LsArgs),
    Info(info::InfoArgs),
    Wait(wait::WaitArgs),
    Rm(rm::RmArgs),
    Gc(gc::GcArgs),

    /// What a command under a lock or permit is until it has its go-ahead.
    // A name that is like no verb, so that no misspelt verb is told of it.
    #[command(hide = true, name = "%under")]
    Become(under::BecomeArgs),

    /// A producer or the consumer of the demo.
    #[cfg(feature = "demo")]
    #[command(hide = true, name = "%member")]
    DemoMember(demo::MemberArgs),
}

impl Verb {
    /// Returns whether it works in a domain, or shows which. The others run whatever is wrong with
    /// the configuration file; the programs that carry out some of them read it themselves.
    pub fn needs_domain(&self) -> bool {
        if let Verb::Queue(verb) = self {
            return verb.needs_domain();
        }
        !matches!(
            self,
            Verb::Config(config::ConfigNoun::Check(_))
                | Verb::Gateway(_)
                | Verb::Record(_)
                | Verb::Replay(_)
                | Verb::Bag(_)
                | Verb::View(_)
                | Verb::Ros1(_)
                | Verb::Bench(_)
                | Verb::Completions(_)
                | Verb::Man(_)
                | Verb::ExitCodes(_)
                | Verb::Become(_)
        )
    }

    /// Runs it.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Verb::Topic(verb) => verb.run(common),
            Verb::Queue(verb) => verb.run(common),
            Verb::Job(verb) => verb.run(common),
            Verb::State(verb) => verb.run(common),
            Verb::Notifier(verb) => verb.run(common),
            Verb::Service(verb) => verb.run(common),
            Verb::Lock(noun) => noun.run(common),
            Verb::Semaphore(verb) => verb.run(common),
            Verb::Pool(verb) => verb.run(common),
            Verb::Domain(verb) => verb.run(common),
            Verb::Node(verb) => verb.run(common),
            Verb::Config(verb) => verb.run(common),
            Verb::Ros1(verb) => verb.run(common),
            Verb::Gateway(args) => Err(args.own.become_program(&beyond::GATEWAY, common)),
            Verb::Record(args) => Err(args.own.become_program(&beyond::RECORD, common)),
            Verb::Replay(args) => Err(args.own.become_program(&beyond::REPLAY, common)),
            Verb::Bag(args) => Err(args.own.become_program(&beyond::BAG, common)),
            Verb::View(args) => Err(args.own.become_program(&beyond::VIEW, common)),
            Verb::Pub(args) => Topic::Pub(args).run(common),
            Verb::Echo(args) => Topic::Echo(args).run(common),
            Verb::Hz(args) => Topic::Hz(args).run(common),
            Verb::Bw(args) => Topic::Bw(args).run(common),
            Verb::Delay(args) => Topic::Delay(args).run(common),
            Verb::Send(args) => Queue::Send(args).run(common),
            Verb::Recv(args) => Queue::Recv(args).run(common),
            Verb::Work(args) => Job::Work(args).run(common),
            Verb::Call(args) => Service::Call(args).run(common),
            Verb::Serve(args) => Service::Serve(args).run(common),
            Verb::Sem(args) => Semaphore::Run(args).run(common),
            Verb::Pools(args) => Pool::List(args).run(common),
            Verb::Ls(args) => Domain::List(args).run(common),
            Verb::Info(args) => Domain::Info(args).run(common),
            Verb::Wait(args) => Domain::Wait(args).run(common),
            Verb::Rm(args) => Domain::Remove(args).run(common),
            Verb::Gc(args) => Domain::Gc(args).run(common),
            #[cfg(feature = "metrics")]
            Verb::Metrics(args) => metrics::run(&args, common),
            #[cfg(feature = "image")]
            Verb::Image(args) => image::run(&args, common),
            #[cfg(feature = "plot")]
            Verb::Plot(args) => plot::run(&args, common),
            #[cfg(feature = "top")]
            Verb::Top(args) => top::run(&args, common),
            Verb::Doctor(args) => doctor::run(&args, common),
            Verb::Bench(args) => Err(args.own.become_program(&beyond::BENCH, common)),
            #[cfg(feature = "demo")]
            Verb::Demo(args) => demo::run(&args, common),
            Verb::Completions(args) => completions::run(&args),
            Verb::Man(args) => man::run(&args),
            Verb::ExitCodes(_) => exit_codes::run(common),
            Verb::Become(args) => under::become_command(&args),
            #[cfg(feature = "demo")]
            Verb::DemoMember(args) => demo::run_member(&args),
        }
    }
}

/// Each short form, and its long form. `lock` is the noun itself: `lock NAME
/// CMD`.
pub const SHORT_FORMS: [(&str, &str); 18] = [
    ("pub", "topic pub"),
    ("echo", "topic echo"),
    ("hz", "topic hz"),
    ("bw", "topic bw"),
    ("delay", "topic delay"),
    ("send", "queue send"),
    ("recv", "queue recv"),
    ("work", "job work"),
    ("call", "service call"),
    ("serve", "service serve"),
    ("lock", "lock run"),
    ("sem", "semaphore run"),
    ("pools", "pool list"),
    ("ls", "domain list"),
    ("info", "domain info"),
    ("wait", "domain wait"),
    ("rm", "domain remove"),
    ("gc", "domain gc"),
];

/// Letters that mean something else in other verbs, and that a short form keeps because scripts use
/// them.
pub const KEPT_OPTIONS: [(&str, &str, char); 6] = [
    ("lock", "nonblock", 'n'),
    ("lock", "exclusive", 'x'),
    ("sem", "nonblock", 'n'),
    ("sem", "permits", 'p'),
    ("rm", "force", 'f'),
    ("gc", "dry_run", 'n'),
];

/// What a verb does with `--json`.
#[derive(Clone, Copy, Debug)]
pub enum Json {
    /// It prints a line of JSON for each of these, with these members. `a or b`: one of them;
    /// `[a]`: perhaps.
    Line(&'static str, &'static str),
    /// It refuses the option, for this reason.
    Refused(&'static str),
}

const MESSAGE: &str = "sequence, publisher, stamp, session, publisher_alive, key, frame, bytes, [dtype], [shape], text or hex or value";
const ENTRY: &str = "name, kind, bytes, max_bytes, users, dead_claims, waiters, [error], [type], [payload], [not_recoverable], [locks], \
    [figures], [holders], [receiver], [senders], [counters], [config], [notifiers], [listeners], \
    [attributes], [nodes], [commands], [deadlocks], [lock_orders], [depth], [durability], [mode], \
    [reliable], [stamps], [max_publishers], [max_subscribers], [max_samples], [published], \
    [publishers], [left_over], [subscribers], [kept]";
const DEMO: &str = "ok, interrupted, seed, producers, seconds, messages, bytes, messages_per_second, killed, \
    owner_deaths, abandoned, redelivered, sent_again, grown, longest_stall_ms, lost, corrupted, \
    duplicates_not_marked, out_of_order, total_wrong, hung, [frames], [frame_bytes], [looks], \
    [passed_over], [log_lines], [robot_killed], [samples_changed], [lost_for_reliable], \
    [frames_out_of_order], [counts_wrong], [log_lost]";
const LISTING: Json = Json::Line("the domain", "domain, entries");
const ONE_ENTRY: Json = Json::Line("the thing", ENTRY);
const OF_COMMAND: Json = Json::Refused("standard output belongs to the command");

/// What each verb does with `--json`, by its long form; `doc/program.md` says what the members
/// mean.
pub const JSON: [(&str, Json); 68] = [
    ("topic pub", Json::Line("the run, at its end", "messages, bytes, subscribers, [missed]")),
    ("topic echo", Json::Line("each message", MESSAGE)),
    ("topic hz", Json::Line("each interval", "hz, messages, lost, seconds, gap_seconds")),
    (
        "topic bw",
        Json::Line(
            "each interval",
            "bytes_per_second, messages, bytes, lost, seconds, smallest, largest",
        ),
    ),
    ("topic delay", Json::Line("each interval", "messages, without_stamp, lost, delay_seconds")),
    (
        "topic info",
        Json::Line(
            "the topic",
            "name, type, [payload], bytes, max_bytes, messages_per_second, depth, durability, mode, reliable, stamps, max_publishers, max_subscribers, max_samples, published, publishers, left_over, subscribers, kept",
        ),
    ),
    ("topic forget", Json::Line("the place", "name, forgotten")),
    ("topic list", Json::Line("the domain", "domain, topics, [failed]")),
    ("queue send", Json::Line("the run, at its end", "messages, bytes")),
    ("queue recv", Json::Line("each message", "bytes, redelivered, text or hex or value")),
    (
        "queue bridge",
        Json::Line("each event", "event, and what doc/how-to/durable-queues.md says of it"),
    ),
    ("ros1 bridge", Json::Line("each event", "event, and what doc/how-to/ros.md says of it")),
    ("gateway", Json::Line("each event", "event, [name], [origin], [session], [messages], [why]")),
    (
        "record",
        Json::Line(
            "each second, and each event",
            "event, and what doc/how-to/record.md says of it",
        ),
    ),
    (
        "replay",
        Json::Line(
            "each second",
            "event, [topics], [seconds], [messages], [bytes], [paused], [refused], [faults], [stalls], [late_p50_us], [late_p99_us], [late_max_us], [why]",
        ),
    ),
    ("bag", Json::Line("each result", "what doc/how-to/bag.md says of it")),
    ("view", Json::Line("each event", "event, [name], [url], [why]")),
    ("bench", Json::Line("the benchmark ('all': a list of them)", "bench, mode, machine, rows")),
    ("queue info", ONE_ENTRY),
    ("queue list", LISTING),
    ("job put", Json::Line("the run, at its end", "jobs, bytes")),
    ("job work", OF_COMMAND),
    ("job aside", Json::Line("each job", "id, attempts, bytes, is_damaged, text or hex")),
    ("job info", ONE_ENTRY),
    ("job list", LISTING),
    ("state get", Json::Line("the value", "version, bytes, text or hex or value")),
    ("state set", Json::Line("the new value", "version, bytes")),
    ("state watch", Json::Line("each value", "version, bytes, text or hex or value")),
    ("state info", ONE_ENTRY),
    ("state list", LISTING),
    ("notifier notify", Json::Line("the run, at its end", "notices, listeners")),
    ("notifier listen", Json::Line("each number that was notified", "number, count")),
    ("notifier info", ONE_ENTRY),
    ("notifier list", LISTING),
    ("service call", Json::Line("each reply", "bytes, text or hex or value")),
    ("service serve", OF_COMMAND),
    (
        "service clients",
        Json::Line("each client; with --watch each change of one", "state, pid, program"),
    ),
    ("service info", ONE_ENTRY),
    ("service list", LISTING),
    ("lock run", OF_COMMAND),
    ("lock info", ONE_ENTRY),
    ("lock list", LISTING),
    ("semaphore run", OF_COMMAND),
    ("semaphore info", ONE_ENTRY),
    ("semaphore list", LISTING),
    ("pool info", ONE_ENTRY),
    ("pool list", Json::Line("the domain", "domain, pools, [failed]")),
    ("domain create", Json::Line("the domain", "domain, made, [group], [budget], [max_bytes]")),
    ("domain list", LISTING),
    ("domain info", ONE_ENTRY),
    ("domain wait", Json::Line("the wait, at its end", "target, processes, ended, seconds")),
    (
        "domain waiters",
        Json::Line(
            "each waiter",
            "name, pid, tid, program, alive, waited_seconds, offset, holder, held_seconds",
        ),
    ),
    ("domain watch", Json::Line("each thing and node", "event, name, kind, [pid]")),
    ("domain remove", Json::Line("the run, at its end", "removed")),
    (
        "domain gc",
        Json::Line(
            "the run, at its end; with --below each domain",
            "[domain], dry_run, claims, objects, tokens, quarantined, ending, bytes, failed",
        ),
    ),
    ("node list", Json::Line("the domain", "domain, nodes")),
    (
        "node info",
        Json::Line("each process", "name, version, pid, program, token, [attributes], [damaged]"),
    ),
    ("config show", Json::Line("each value", "key, value, source, [from], [line]")),
    ("config check", Json::Line("each file", "file, ok, faults")),
    ("image", Json::Refused("its output is a picture; programs use 'outlive topic echo --json'")),
    (
        "plot",
        Json::Refused(
            "its output is a picture; programs use 'outlive topic echo --json' and 'state watch --json'",
        ),
    ),
    (
        "metrics",
        Json::Refused(
            "metrics are for Prometheus, in its own formats; other programs use 'outlive ls --json'",
        ),
    ),
    (
        "top",
        Json::Line(
            "the domain, with --once",
            "domain, seconds, processes, things, bytes, owner_deaths, rescues, sweep, topics, queues, locks, pools, others, dead",
        ),
    ),
    ("doctor", Json::Line("the machine", "ok, domain, findings")),
    ("demo", Json::Line("the run, at its end", DEMO)),
    ("completions", Json::Refused("its output is a script for a shell")),
    ("man", Json::Refused("its output is the paths of the pages, one a line")),
    ("exit-codes", Json::Line("the table, a list", "code, meaning")),
];

/// Returns what the verb of that path, in its long or short form, does with `--json`.
pub fn json_of(path: &str) -> Option<Json> {
    let path = long_form(path);
    JSON.iter().find(|(verb, _)| *verb == path).map(|(_, json)| *json)
}

/// Returns the long form of a path: itself, unless it is a short form.
pub fn long_form(path: &str) -> &str {
    SHORT_FORMS.iter().find(|(short, _)| *short == path).map_or(path, |(_, long)| *long)
}

/// Returns the whole command line, with what the tables add to it.
pub fn command() -> Command {
    let mut command = with_notes(Cli::command(), "");
    for (name, id, letter) in KEPT_OPTIONS {
        command = command
            .mut_subcommand(name, |verb| verb.mut_arg(id, |option| keep_letter(option, letter)));
    }
    let mut listed = String::from("Short forms, with the same options:\n");
    for (short, long) in SHORT_FORMS {
        let typed = if short == "lock" { "lock NAME CMD" } else { short };
        listed.push_str(&format!("  {typed:<13}  {long}\n"));
        // The noun `lock` says so itself.
        if short != "lock" {
            command = command.mut_subcommand(short, |verb| {
                let about = verb
                    .get_long_about()
                    .or(verb.get_about())
                    .map(ToString::to_string)
                    .unwrap_or_default();
                verb.hide(true).long_about(format!(
                    "{about}\n\n'outlive {short}' is short for 'outlive {long}'."
                ))
            });
        }
    }
    let examples = "Examples:\n  outlive topic list\n  outlive help topic echo\n  outlive lock backup rsync -a /home /mnt";
    command
        .after_help(listed.trim_end().to_owned())
        .after_long_help(format!("{listed}\n{examples}\n\n{}", exit::table()))
}

fn keep_letter(option: Arg, letter: char) -> Arg {
    if option.get_short().is_some() {
        option.visible_short_alias(letter)
    } else {
        option.short(letter)
    }
}

/// For the help of each verb that takes a time.
pub const HOW_TIMES_ARE_WRITTEN: &str =
    "TIME is written 250ms, 2s or 1m30s; a number without a unit is seconds unless said otherwise.";

/// Adds to each verb's long help how times are written, and what the verb does with `--json`.
fn with_notes(command: Command, path: &str) -> Command {
    let mut notes = String::new();
    if command.get_arguments().any(is_time) {
        notes.push_str("\n\n");
        notes.push_str(HOW_TIMES_ARE_WRITTEN);
    }
    match json_of(path) {
        Some(Json::Line(of, members)) => {
            notes.push_str(&format!("\n\nWith --json, one line of JSON for {of}:\n  {members}"));
        }
        Some(Json::Refused(why)) => notes.push_str(&format!("\n\n--json is refused: {why}.")),
        None => {}
    }
    let command = match command.get_after_long_help().map(ToString::to_string) {
        Some(help) if !notes.is_empty() => command.after_long_help(help + &notes),
        _ => command,
    };
    command.mut_subcommands(|verb| {
        let path = if path.is_empty() {
            verb.get_name().to_owned()
        } else {
            format!("{path} {}", verb.get_name())
        };
        with_notes(verb, &path)
    })
}

/// Returns whether an option takes a time.
pub fn is_time(option: &Arg) -> bool {
    option.get_value_names().is_some_and(|names| names.iter().any(|name| name == "TIME"))
}

/// Returns what was typed: the verb's path, as in `topic echo`, and all that it is told. Ends the
/// program when the parser refuses it.
pub fn parse(words: Vec<OsString>) -> (String, Cli) {
    if let Some(cli) = lock_of_a_verbs_name(&words) {
        return ("lock".to_owned(), cli);
    }
    let words = beyond::behind_dashes(words, &Common::augment_args(Command::new("outlive")));
    let matches = match command().try_get_matches_from(&words) {
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => show_help(&words),
        result => result.unwrap_or_else(|error| error.exit()),
    };
    let mut path = Vec::new();
    let mut at = &matches;
    while let Some((name, inner)) = at.subcommand() {
        path.push(name);
        at = inner;
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let path = match &cli.verb {
        // They speak as the verb that started them.
        Verb::Become(args) => args.verb.clone(),
        #[cfg(feature = "demo")]
        Verb::DemoMember(_) => "demo".to_owned(),
        _ => path.join(" "),
    };
    (path, cli)
}

/// Shows the help of what was typed without a verb, and ends as after any command line that is not
/// valid. (By itself, the parser would name the hidden verbs, too.)
fn show_help(words: &[OsString]) -> ! {
    let mut program = command();
    program.build();
    let mut at = &program;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        // Any other word is an option, or the value of one.
        at = at.find_subcommand(word).unwrap_or(at);
    }
    eprint!("{}", at.clone().render_help());
    std::process::exit(Code::Usage as i32)
}

/// Reads `lock run -- cmd`: before there were verbs, that meant the lock whose name is `run`, and
/// it still does. The grammar of that time: a name, `--` and a command. What it does not take has a
/// verb or needs no `--`.
fn lock_of_a_verbs_name(words: &[OsString]) -> Option<Cli> {
    let lock = LockNoun::augment_args(Command::new("lock"));
    let of_a_verb = words.windows(2).any(|pair| {
        let name = pair[1].to_str();
        pair[0] == "lock"
            && name.is_some_and(|name| name == "help" || lock.find_subcommand(name).is_some())
    });
    if !of_a_verb {
        return None;
    }
    let mut before = lock::LockArgs::augment_args(Command::new("lock"))
        .mut_arg("command", |command| command.trailing_var_arg(false).last(true));
    for (name, id, letter) in KEPT_OPTIONS {
        if name == "lock" {
            before = before.mut_arg(id, |option| keep_letter(option, letter));
        }
    }
    let before = Common::augment_args(Command::new("outlive")).subcommand(before);
    let matches = before.try_get_matches_from(words).ok()?;
    let args = lock::LockArgs::from_arg_matches(matches.subcommand_matches("lock")?).ok()?;
    Some(Cli {
        common: Common::from_arg_matches(&matches).ok()?,
        verb: Verb::Lock(LockNoun::Short(args)),
    })
}

#[cfg(test)]
mod tests;
