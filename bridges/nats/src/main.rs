//! `outlive-queue-bridge`: see the library's documentation.

use std::process::ExitCode;

use clap::Parser;
use outlive_nats::args::Args;
use outlive_nats::ending::Ending;
use outlive_nats::exit::{Code, Failure};
use outlive_nats::told::Teller;
use outlive_nats::{incoming, names, out};

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
    let domain = args.open_domain()?;
    let system = |error| Failure::new(Code::System, format!("could not begin: {error}"));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(system)?;
    let result = runtime.block_on(async {
        let mut ending = Ending::new().map_err(system)?;
        if args.into_queue {
            incoming::run(args, &domain, told, &mut ending).await
        } else {
            out::run(args, &domain, told, &mut ending).await
        }
    });
    told.event("end", None);
    result
}
