//! `outlive send`: from a pipe or files into a queue.
//!
//! What one read brings is sent in one step, so a fast input costs little per line, and a line that
//! comes alone goes out at once. Into a queue that is bounded by messages, each goes alone.

use std::fs::{self, File};
use std::io::stdin;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use outlive::describe::Description;
use outlive::queue::{LARGEST_MESSAGE, OnReceiverDeath, Queue, QueueOptions, Sender};
use outlive::{Deadline, Domain, Error, SendError};
use serde::Serialize;

use crate::cli::Common;
use crate::described;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, FramingArgs, Splitter};
use crate::output;
use crate::progress::Progress;
use crate::size;
use crate::verbs::attributes::AttributeArgs;

/// Send standard input into a queue, one message a line
///
/// A message stays in the queue until a receiver has taken it, whichever process dies. While there
/// is no receiver, because none has come yet or because it died, the queue takes messages until it
/// is full; then send waits for the next receiver.
///
/// A queue that was made with --on-receiver-death fail ends send with exit code 3 when its receiver
/// dies, also while send waits; so does a queue that a program made without choosing. The messages
/// that were sent before are kept for the next receiver.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive queue send jobs < list.txt\n  \
    find . -print0 | outlive queue send --null files\n  \
    outlive queue send images --file *.jpg\n  \
    tail -F app.log | outlive queue send log")]
pub struct SendArgs {
    /// The queue's name; a queue that is not there is made
    queue: String,
    #[command(flatten)]
    framing: FramingArgs,
    /// Send each FILE whole, as one message, instead of standard input
    #[arg(long, short, num_args = 1.., value_name = "FILE", conflicts_with_all = ["null", "length_prefixed"])]
    file: Vec<PathBuf>,
    #[command(flatten)]
    made: MakeArgs,
    /// Give up with exit code 5 when the queue has been full for this time [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// How to make a queue that is not there.
#[derive(Args, Debug)]
pub struct MakeArgs {
    /// For a new queue: the most memory it may take, as in 64M [default: a quarter of the file
    /// system, 6G at most]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_bytes: Option<u64>,
    /// For a new queue: the most unread messages; with so many, a send waits. If there is no memory
    /// for so many when they are needed, it stays with fewer, as 'queue info' says [default: no
    /// limit but the memory]
    #[arg(long, value_name = "N", conflicts_with = "first_slots")]
    max_messages: Option<u32>,
    /// For a new queue: bytes of a slot; a larger message takes a block of memory of its own
    /// [default: 128]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_small)]
    slot_bytes: Option<u32>,
    /// For a new queue: how many slots it begins with, before it grows [default: 64]
    #[arg(long, value_name = "N")]
    first_slots: Option<u32>,
    /// For a new queue: sending fails with exit code 4 while the queue has no receiver
    #[arg(long)]
    need_receiver: bool,
    /// For a new queue: what a send does while the receiver is dead [default: keep]; an existing
    /// queue that does the other is refused
    #[arg(long, value_name = "WHAT")]
    on_receiver_death: Option<ReceiverDeath>,
}

/// What a send does while the receiver is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReceiverDeath {
    /// A send fails with exit code 3
    Fail,
    /// A send goes on; the next receiver gets its message
    Keep,
}

impl From<ReceiverDeath> for OnReceiverDeath {
    fn from(death: ReceiverDeath) -> OnReceiverDeath {
        match death {
            ReceiverDeath::Fail => OnReceiverDeath::Fail,
            ReceiverDeath::Keep => OnReceiverDeath::Keep,
        }
    }
}

impl MakeArgs {
    /// Returns whether it was said how to make one.
    pub fn is_given(&self) -> bool {
        let MakeArgs {
            max_bytes,
            max_messages,
            slot_bytes,
            first_slots,
            need_receiver,
            on_receiver_death,
        } = self;
        max_bytes.is_some()
            || max_messages.is_some()
            || slot_bytes.is_some()
            || first_slots.is_some()
            || *need_receiver
            || on_receiver_death.is_some()
    }

    /// Returns the queue of that name, which must be there. It is taken as it is, unless it would
    /// lose what is to be kept.
    pub fn open_existing(&self, domain: &Domain, name: &str) -> Result<Queue, Error> {
        let mut there = Queue::options();
        if let Some(death) = self.on_receiver_death {
            there = there.on_receiver_death(death.into());
        }
        there.open_as_bytes(domain, name)
    }

    /// Returns the queue of that name, made as asked unless it is there.
    pub fn open(&self, domain: &Domain, name: &str, create: bool) -> Result<Queue, Failure> {
        loop {
            match self.open_existing(domain, name) {
                Err(Error::NotFound { .. }) if create => {}
                opened => return Ok(opened?),
            }
            match self.options().create_new(domain, name) {
                // Another process was quicker.
                Err(Error::AlreadyExists { .. }) => {}
                made => return Ok(made?),
            }
        }
    }

    fn options(&self) -> QueueOptions {
        // A receiver that a shell starts is started again when it was killed.
        let death = self.on_receiver_death.map_or(OnReceiverDeath::Keep, OnReceiverDeath::from);
        let mut options =
            Queue::options().need_receiver(self.need_receiver).on_receiver_death(death);
        if let Some(bytes) = self.max_bytes {
            options = options.max_bytes(bytes);
        }
        if let Some(messages) = self.max_messages {
            options = options.max_messages(messages);
        }
        if let Some(bytes) = self.slot_bytes {
            options = options.slot_bytes(bytes);
        }
        if let Some(slots) = self.first_slots {
            options = options.slots(slots);
        }
        options
    }
}

/// What was sent.
#[derive(Debug, Default, Serialize)]
struct Sent {
    messages: u64,
    bytes: u64,
}

/// Runs the verb.
pub fn run(args: &SendArgs, common: &Common) -> Result<(), Failure> {
    let domain = args.attributes.on(common.domain.open()?);
    let queue = args.made.open(&domain, &args.queue, !common.domain.no_create)?;
    let is_lines = args.framing.framing() == Framing::Lines && args.file.is_empty();
    let description = queue.description()?.filter(|one| is_lines && described::is_json(one));
    let mut sending = Sending {
        description,
        sender: queue.sender()?,
        // A batch counts as one message: of a queue that holds so many messages, each is sent alone.
        most_batched: queue.config().max_messages.map_or(BATCH_MESSAGES, |_| 1),
        timeout: args.timeout,
        sent: Sent::default(),
    };
    let result = if args.file.is_empty() {
        from_stdin(args, &mut sending)
    } else {
        from_files(args, &mut sending)
    };
    let sent = &sending.sent;
    if common.json {
        output::print_json(sent)?;
    }
    result.map_err(|failure| match failure {
        Failure::Told { code, message } => {
            let sent = output::counted(sent.messages, "message");
            Failure::Told { code, message: format!("{message} ({sent} sent before)") }
        }
        other => other,
    })
}

struct Sending {
    /// Of the queue's messages, which are given as lines of JSON.
    description: Option<Description>,
    sender: Sender,
    most_batched: usize,
    timeout: Option<Duration>,
    sent: Sent,
}

/// A batch is a message of its own to the queue: one of this size is cheap to hold, and a larger
/// one saves nothing more.
const BATCH_BYTES: usize = 32 << 10;
const BATCH_MESSAGES: usize = 1024;

impl Sending {
    fn deadline(&self) -> Deadline {
        self.timeout.map_or(Deadline::NEVER, Deadline::after)
    }

    fn one(&mut self, message: &[u8]) -> Result<(), Failure> {
        self.sender.send_until(message, self.deadline())?;
        self.sent.messages += 1;
        self.sent.bytes += message.len() as u64;
        Ok(())
    }

    /// Sends what is in the input, or what that says as JSON.
    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        match &self.description {
            None => self.one(line),
            Some(_) if line.trim_ascii().is_empty() => Ok(()),
            Some(description) => {
                let message = described::message(description, line)?;
                self.one(&message)
            }
        }
    }

    fn batch(&mut self, batch: &[&[u8]]) -> Result<(), Failure> {
        if let [message] = batch {
            return self.one(message);
        }
        match self.sender.send_batch_until(batch, self.deadline()) {
            Ok(()) => {
                self.sent.messages += batch.len() as u64;
                self.sent.bytes += batch.iter().map(|message| message.len() as u64).sum::<u64>();
                Ok(())
            }
            // Together they do not fit into a small queue: one by one they may.
            Err(SendError::TooLarge { .. }) if batch.len() > 1 => {
                batch.iter().try_for_each(|message| self.one(message))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn all<'a>(&mut self, messages: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure> {
        if self.description.is_some() {
            for message in messages {
                self.line(message)?;
            }
            return Ok(());
        }
        let mut batch: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        for message in messages {
            if !batch.is_empty()
                && (bytes + message.len() > BATCH_BYTES || batch.len() == self.most_batched)
            {
                self.batch(&batch)?;
                batch.clear();
                bytes = 0;
            }
            bytes += message.len();
            batch.push(message);
        }
        if batch.is_empty() { Ok(()) } else { self.batch(&batch) }
    }
}

fn from_stdin(args: &SendArgs, sending: &mut Sending) -> Result<(), Failure> {
    // Not `Stdin`, which has a buffer of its own: what is ready must be seen at once.
    let mut input = stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(File::from)
        .map_err(|error| Failure::system("read standard input", &error))?;
    let total = input.metadata().ok().filter(fs::Metadata::is_file).map(|facts| facts.len());
    let mut progress = Progress::new(total, true);
    let mut splitter = Splitter::new(args.framing.framing());
    let mut places = Vec::new();
    loop {
        let count = splitter.fill(&mut input)?;
        // What is complete goes out even if what follows it is not valid.
        let made_sense = splitter.complete(&mut places);
        sending.all(places.iter().map(|place| &splitter.bytes()[place.clone()]))?;
        made_sense?;
        if count == 0 {
            break;
        }
        progress.add(count as u64);
    }
    if let Some(place) = splitter.rest()? {
        sending.line(&splitter.bytes()[place])?;
    }
    Ok(())
}

fn from_files(args: &SendArgs, sending: &mut Sending) -> Result<(), Failure> {
    let total =
        args.file.iter().filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum();
    let mut progress = Progress::new(Some(total), true);
    for path in &args.file {
        let reading = |error: &std::io::Error| {
            Failure::system(format_args!("read {}", path.display()), error)
        };
        let len = fs::metadata(path).map_err(|error| reading(&error))?.len();
        if len > LARGEST_MESSAGE {
            let text = format!(
                "{} has {len} bytes; a message has {LARGEST_MESSAGE} at most: send it in records, by standard input",
                path.display()
            );
            return Err(Failure::new(Code::NoSpace, text));
        }
        let contents = fs::read(path).map_err(|error| reading(&error))?;
        sending.one(&contents)?;
        progress.add(contents.len() as u64);
    }
    Ok(())
}
