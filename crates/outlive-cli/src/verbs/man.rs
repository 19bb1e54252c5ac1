//! `outlive man DIR`: man pages from the same definitions as the parser, one for the program, one
//! for each noun and one for each verb.
//!
//! A page has the sections of man-pages(7), in their order. What the parser's crate writes by itself
//! (names, descriptions, options) is taken from it; its synopsis names options without their values,
//! and it knows neither examples nor exit codes, so those come from here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::{self, Json, SHORT_FORMS};
use crate::exit::{self, Failure};
use crate::output::{self, talk};

/// Write man pages into a folder, one for the program and one for each verb
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The folder for the pages, made when it is not there, as in ~/.local/share/man/man1
    dir: PathBuf,
}

/// Runs the verb.
pub fn run(args: &ManArgs) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::system(format_args!("write man pages to {}", args.dir.display()), &error)
    };
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let mut program = without_help_verbs(cli::command());
    program.build();
    let mut written = Vec::new();
    write_all(&program, "", &args.dir, &mut written).map_err(failed)?;
    talk(format_args!(
        "{} in {}",
        output::counted(written.len() as u64, "page"),
        args.dir.display()
    ));
    output::print(written.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}

/// Removes the verb `help`: it has no page, so none should name it.
fn without_help_verbs(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help_verbs)
}

/// Writes the page of a command, and those of its verbs. Short forms are hidden from help, but have
/// their pages. `verb`: what is typed behind `outlive`, as in `topic echo`.
fn write_all(
    command: &Command,
    verb: &str,
    dir: &Path,
    written: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let path = dir.join(format!("{}.1", page_name(verb)));
    let mut page = Vec::new();
    render(command, verb, &mut page)?;
    fs::write(&path, page)?;
    written.push(path);
    for inner in command.get_subcommands() {
        let is_short_form = SHORT_FORMS.iter().any(|(short, _)| inner.get_name() == *short);
        if !inner.is_hide_set() || is_short_form {
            let verb = format!("{verb} {}", inner.get_name());
            write_all(inner, verb.trim_start(), dir, written)?;
        }
    }
    Ok(())
}

/// Returns the name of a verb's page. The words are joined by '-', so that man finds the page and
/// shows the right heading.
fn page_name(verb: &str) -> String {
    format!("outlive {verb}").trim_end().replace(' ', "-")
}

fn render(command: &Command, verb: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let name = page_name(verb);
    let command =
        command.clone().name(name.clone()).display_name(name).subcommand_help_heading("COMMANDS");
    let is_program = verb.is_empty();
    let man = |command: Command| {
        let source = concat!("outlive ", env!("CARGO_PKG_VERSION"));
        Man::new(command).source(source).manual("Outlive")
    };
    let whole = man(command.clone());
    whole.render_title(page)?;
    whole.render_name_section(page)?;
    synopsis(&usage).to_writer(page)?;
    whole.render_description_section(page)?;
    let part = |arg: &Arg| match (arg.is_positional(), is_of_all(arg)) {
        (true, _) => "ARGUMENTS",
        (_, false) => "OPTIONS",
        (_, true) => "OPTIONS OF ALL VERBS",
    };
    for title in ["ARGUMENTS", "OPTIONS", "OPTIONS OF ALL VERBS"] {
        let command = command.clone().mut_args(|arg| {
            let hidden = arg.is_hide_set() || part(&arg) != title;
            // What is the same for all verbs is explained on the program's page.
            let explained = if is_of_all(&arg) && !is_program { arg.long_help(None) } else { arg };
            explained.hide(hidden)
        });
        if command.get_arguments().any(|arg| !arg.is_hide_set()) {
            let mut section = Vec::new();
            man(command).render_options_section(&mut section)?;
            page.extend_from_slice(retitled(&section, title).as_bytes());
        }
    }
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        whole.render_subcommands_section(page)?;
    }
    rest(&command, verb).to_writer(page)
}

/// Returns whether all verbs have the option.
fn is_of_all(arg: &Arg) -> bool {
    arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version")
}

/// Returns a section of options under another title, and the lists in it line by line.
fn retitled(section: &[u8], title: &str) -> String {
    let text = String::from_utf8_lossy(section).replacen("OPTIONS", &format!("\"{title}\""), 1);
    text.replace("\n\\- ", "\n.br\n\\- ")
}

/// Returns the synopsis: the usage that help shows, a form on each line.
fn synopsis(usage: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).control("nf", []);
    for form in usage.lines() {
        roff.text([roman(form.trim_start_matches("Usage:").trim())]);
    }
    roff.control("fi", []);
    roff
}

/// Returns the sections behind the options.
fn rest(command: &Command, verb: &str) -> Roff {
    let mut roff = Roff::new();
    let lines = |roff: &mut Roff, text: &str| {
        roff.control("nf", []);
        for line in text.lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    };
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs = || help.split("\n\n").filter_map(|paragraph| paragraph.split_once('\n'));
    if let Some((_, forms)) = paragraphs().find(|(title, _)| title.starts_with("Short forms")) {
        roff.control("SH", ["SHORT FORMS"]).text([roman("With the same options:")]);
        roff.control("PP", []);
        lines(&mut roff, forms);
    }
    if command.get_arguments().any(cli::is_time) {
        roff.control("SH", ["TIMES"]).text([roman(cli::HOW_TIMES_ARE_WRITTEN)]);
    }
    if let Some(json) = cli::json_of(verb) {
        roff.control("SH", ["JSON"]);
        match json {
            Json::Line(of, members) => roff
                .text([roman(format!("With --json, one line of JSON for {of}:"))])
                .control("PP", [])
                .text([roman(members)]),
            Json::Refused(why) => roff.text([roman(format!("--json is refused: {why}."))]),
        };
    }
    // A noun alone does nothing; `lock`, which is a short form, too, does.
    let is_verb =
        command.get_subcommands().all(Command::is_hide_set) || cli::long_form(verb) != verb;
    if is_verb || verb.is_empty() {
        roff.control("SH", ["EXIT STATUS"]);
        for (codes, meaning) in exit::statuses(verb) {
            roff.control("TP", []).text([bold(codes)]).text([roman(meaning)]);
        }
    }
    if let Some((_, examples)) = paragraphs().find(|(title, _)| title.starts_with("Example")) {
        roff.control("SH", ["EXAMPLES"]);
        lines(&mut roff, examples);
    }
    let mut others = Vec::new();
    if let Some((noun, _)) = verb.split_once(' ') {
        others.push(page_name(noun));
    }
    if cli::long_form(verb) != verb {
        others.push(page_name(cli::long_form(verb)));
    }
    let ever = [page_name(""), page_name("exit-codes")];
    others.extend(ever.into_iter().filter(|other| *other != page_name(verb)));
    let others: Vec<String> = others.iter().map(|other| format!("{other}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    roff
}
