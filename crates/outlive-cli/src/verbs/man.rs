//! `outlive man DIR`: man pages from the same definitions as the parser, one for the program and one a verb.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::exit::Failure;
use crate::output::{self, talk};

/// Arguments of `man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder for the pages, made when it is not there, as in ~/.local/share/man/man1
    dir: PathBuf,
}

/// Runs the verb.
pub fn run(args: &ManArgs) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::system(format_args!("write man pages to {}", args.dir.display()), &error);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let mut program = Cli::command();
    program.build();
    let mut written = vec![write(&program, "outlive", &args.dir).map_err(failed)?];
    for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        written.push(write(verb, &format!("outlive-{}", verb.get_name()), &args.dir).map_err(failed)?);
    }
    talk("man", format_args!("{} in {}", output::counted(written.len() as u64, "page"), args.dir.display()));
    output::print(written.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}

fn write(command: &Command, name: &str, dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    // The program's name and the page's are joined by '-', so that man finds the page and shows the right heading.
    let command = command.clone().name(name.to_owned()).display_name(name.to_owned());
    Man::new(command).render(&mut page)?;
    fs::write(&path, page)?;
    Ok(path)
}
