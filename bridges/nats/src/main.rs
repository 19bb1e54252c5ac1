//! `outlive-queue-bridge`: see the library's documentation.

use std::process::ExitCode;

use clap::Parser;
use outlive_nats::args::Args;
use outlive_nats::ending::Signals;
use outlive_nats::told::Teller;
use outlive_nats::{incoming, names, out};
use outlive_program::exit::{Code, Failure};

fn main() -> ExitCode {
    let args = Args::parse();
    let told = Teller::new(args.json);
    match run(&args, &told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            told.talk(&failure.message);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(args: &Args, told: &Teller) -> Result<(), Failure> {
    names::check("a stream", &args.stream)?;
    if let Some(subject) = &args.subject {
        names::check_subject(subject, args.into_queue)?;
    }
    if args.set_aside.as_ref() == Some(&args.queue) {
        return Err(Failure::new(Code::Usage, "--set-aside needs another queue"));
    }
    let system =
        |error| Failure::new(Code::System, format!("could not take over signals: {error}"));
    let signals = Signals::take().map_err(system)?;
    let domain = args.open_domain()?;
    let carry = if args.into_queue { incoming::run } else { out::run };
    let result = carry(args, &domain, told, &signals);
    told.event("end", None);
    result
}
