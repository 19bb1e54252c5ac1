//! `outlive man DIR`: man pages from the same definitions as the parser, one for the program, one
//! for each noun and one for each verb.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::cli::{self, SHORT_FORMS};
use crate::exit::Failure;
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
    write_all(&program, "outlive", &args.dir, &mut written).map_err(failed)?;
    talk(
        "man",
        format_args!("{} in {}", output::counted(written.len() as u64, "page"), args.dir.display()),
    );
    output::print(written.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}

/// Removes the verb `help`: it has no page, so none should name it.
fn without_help_verbs(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help_verbs)
}

/// Writes the page of a command, and those of its verbs. Short forms are hidden from help, but have
/// their pages.
fn write_all(
    command: &Command,
    name: &str,
    dir: &Path,
    written: &mut Vec<PathBuf>,
) -> io::Result<()> {
    written.push(write(command, name, dir)?);
    for verb in command.get_subcommands() {
        let is_short_form = SHORT_FORMS.iter().any(|(short, _)| verb.get_name() == *short);
        if !verb.is_hide_set() || is_short_form {
            write_all(verb, &format!("{name}-{}", verb.get_name()), dir, written)?;
        }
    }
    Ok(())
}

fn write(command: &Command, name: &str, dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    // The program's name and the page's are joined by '-', so that man finds the page and shows the
    // right heading.
    let command = command.clone().name(name.to_owned()).display_name(name.to_owned());
    Man::new(command).render(&mut page)?;
    fs::write(&path, page)?;
    Ok(path)
}
