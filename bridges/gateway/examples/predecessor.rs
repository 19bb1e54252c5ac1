//! `predecessor DOMAIN ORIGIN INSTANCE SESSION LOCAL RING STAND-IN`: a gateway that is killed as it publishes the
//! first message of a stream: its journal says where that was to be, and not whether it was.
use outlive::Domain;
use outlive_zenoh::journal::Journal;
use outlive_zenoh::wire::{Origin, StreamId};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let domain = Domain::open_or_create_at(&args[0]).expect("opens");
    let origin = Origin(u128::from_str_radix(&args[1], 16).expect("hexadecimal"));
    let journal = Journal::take(&domain, "default", || ());
    let journal = journal.unwrap_or_else(|_| panic!("another gateway acts"));
    let stream = StreamId { origin, instance: number(2), session: number(3) as u32 };
    let entry = journal.entry(stream).expect("free");
    entry.set_next(0);
    entry.intend(0, number(4), number(5) as u32, number(6) as u32, 0);
    std::process::abort();
}
