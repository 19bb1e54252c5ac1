//! `outlive completions SHELL`: a script that asks this program what can come next.
//!
//! The script that is printed calls the program back, with `OUTLIVE_COMPLETE` set and the words that
//! have been typed. So words are completed by the parser's own definitions, and names of things by
//! a look at the domain, which changes nothing there.

use std::ffi::OsString;

use clap::{Arg, Args, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use outlive::Kind;

use crate::cli::{self, long_form};
use crate::domain::DomainArgs;
use crate::exit::Failure;
use crate::nouns::LOCKS;
use crate::output;

/// Print a completion script for a shell
///
/// The script completes nouns, verbs, options and the names of the things that are in the domain:
/// of topics behind 'outlive topic echo', of locks behind 'outlive lock run'. It calls outlive,
/// which must be found by PATH.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive completions bash > ~/.local/share/bash-completion/completions/outlive\n  \
    outlive completions zsh > ~/.local/share/zsh/site-functions/_outlive\n  \
    outlive completions fish > ~/.config/fish/completions/outlive.fish")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// The variable by which the script says that it wants words, and for which shell.
const ASKED: &str = "OUTLIVE_COMPLETE";

/// Runs the verb.
pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::system("write the script", &error);
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| failed(std::io::Error::from(std::io::ErrorKind::NotFound)))?;
    let mut script = Vec::new();
    shell
        .write_registration(ASKED, "outlive", "outlive", "outlive", &mut script)
        .map_err(failed)?;
    output::print(String::from_utf8_lossy(&script))
}

/// Answers the script and ends, if it is the script that has called.
pub fn answer() {
    if std::env::var_os(ASKED).is_some() {
        CompleteEnv::with_factory(with_names).var(ASKED).completer("outlive").complete();
    }
}

/// Returns the command line, with what there is to name.
fn with_names() -> Command {
    let mut command = named(cli::command(), "");
    if !current_word().starts_with('-') {
        command = without_options(command);
    }
    command.mut_arg("domain", |option| option.add(ArgValueCandidates::new(domains)))
}

/// Hides options, so that one name among them is completed at once: they are offered where nothing
/// else can come, and behind a dash.
fn without_options(command: Command) -> Command {
    let hide = |argument: Arg| {
        let is_option = !argument.is_positional();
        argument.hide(is_option)
    };
    let command = command.disable_help_flag(true).disable_version_flag(true);
    command.mut_args(hide).mut_subcommands(without_options)
}

/// Adds the names of things to the arguments that take them.
fn named(command: Command, path: &str) -> Command {
    let kinds = kinds_of(long_form(path));
    let command = match kinds {
        Some(kinds) => command.mut_args(|argument| match takes_a_name(&argument) {
            true => argument.add(ArgValueCandidates::new(move || names(kinds))),
            false => argument,
        }),
        None => command,
    };
    command.mut_subcommands(|verb| {
        let path = if path.is_empty() {
            verb.get_name().to_owned()
        } else {
            format!("{path} {}", verb.get_name())
        };
        named(verb, &path)
    })
}

/// Returns whether it is the argument by which a verb is told of which thing.
fn takes_a_name(argument: &Arg) -> bool {
    let ids = ["topic", "queue", "state", "service", "name", "names", "sources", "target"];
    argument.is_positional() && ids.contains(&argument.get_id().as_str())
}

/// Returns the kinds of things that a verb works with; none named: all kinds.
fn kinds_of(path: &str) -> Option<&'static [Kind]> {
    let kinds: &[Kind] = match path.split(' ').next() {
        Some("topic" | "image") => &[Kind::Topic],
        Some("plot") => &[Kind::Topic, Kind::State],
        Some("queue") => &[Kind::Queue],
        Some("state") => &[Kind::State],
        Some("notifier") => &[Kind::Notifier],
        Some("service") => &[Kind::Service],
        Some("job") => &[Kind::JobQueue],
        Some("lock") if path == "lock run" => &[Kind::RwLock],
        Some("lock") => &LOCKS,
        Some("semaphore") => &[Kind::Semaphore],
        Some("pool") => &[Kind::Pool],
        Some("domain") => &[],
        _ => return None,
    };
    Some(kinds)
}

/// Returns the names of the things of these kinds. There are none where they cannot be seen: a shell
/// that completes a word has no place for a message.
fn names(kinds: &[Kind]) -> Vec<CompletionCandidate> {
    let Some(domain) = typed_domain().open_existing().ok() else { return Vec::new() };
    let entries = domain.entries().unwrap_or_default();
    let of_kind = entries.iter().filter(|entry| {
        kinds.is_empty() || entry.kind.as_ref().is_ok_and(|kind| kinds.contains(kind))
    });
    of_kind.map(|entry| CompletionCandidate::new(&entry.name)).collect()
}

/// Returns the names of the domains that lie beside the default one.
fn domains() -> Vec<CompletionCandidate> {
    let default = DomainArgs { domain: None, ..typed_domain() };
    let beside = default.path().parent().and_then(|base| std::fs::read_dir(base).ok());
    let names = beside.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let domains = names.filter(|name| !name.to_string_lossy().starts_with('.'));
    domains.map(CompletionCandidate::new).collect()
}

/// Returns the words that have been typed: they stand behind a `--`.
fn typed() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    words.map(|word: OsString| word.to_string_lossy().into()).collect()
}

/// Returns the word that is completed: the last one, unless the shell's script says which.
fn current_word() -> String {
    let mut words = typed();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
    let last = words.len().saturating_sub(1);
    words.drain(..).nth(index.unwrap_or(last)).unwrap_or_default()
}

/// Returns the domain that the words so far name, else the environment's.
fn typed_domain() -> DomainArgs {
    let words = typed();
    let after = |long: &str, short: &str| {
        let mut found = std::env::var(format!("OUTLIVE_{}", long[2..].to_uppercase())).ok();
        for (at, word) in words.iter().enumerate() {
            let joined = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = joined {
                found = Some(value.to_owned());
            } else if word == long || word == short {
                found = words.get(at + 1).cloned().or(found);
            }
        }
        found
    };
    DomainArgs::named(after("--domain", "-d"), after("--group", ""))
}
