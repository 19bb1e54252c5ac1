//! How messages flow in a turn: to and fro, at full rate, or to several.

use crate::peers::{Publish, Shape, Subscribe, Topic, Wait, read_number, write_number};
use hdrhistogram::Histogram;
use outlive_bench::Error;
use outlive_bench::harness::clock;
use outlive_bench::harness::crew::Crew;
use outlive_bench::harness::round::{Figure, Stage};
use outlive_bench::harness::shared::{Board, Shared};
use std::hint;
use std::sync::atomic::Ordering;

/// A message takes less than a minute.
const MOST_NS: u64 = 60_000_000_000;

/// Latencies of one turn.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// Begins without a latency; keeps three significant digits.
    pub fn new() -> Result<Self, Error> {
        let empty = Histogram::new_with_bounds(1, MOST_NS, 3);
        empty.map(Self).map_err(|error| Error::told("making a histogram", error))
    }

    /// Counts one.
    #[inline]
    pub fn count(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Leaves its percentiles for the parent.
    pub fn leave(&self, board: &Board, span: u64) {
        let at = |quantile| self.0.value_at_quantile(quantile);
        board.leave_figure(at(0.5) as f64, span);
        board.leave(0, [at(0.99), at(0.999), self.0.len(), 0]);
    }
}

/// Returns the figure that a child has left with [`Latencies::leave`], each divided by so many
/// ways.
pub(crate) fn figure(board: &Board, preempted: u64, ways: f64) -> Result<Figure, Error> {
    let figure = board.figure(preempted)?;
    let [p99, p99_9, count, _] = board.left(0);
    let told = |least, ns: u64| (count >= least).then_some(ns as f64 / ways);
    Ok(Figure { ns: figure.ns / ways, tail: [told(100, p99), told(1_000, p99_9)], ..figure })
}

/// Writes message `number`: every byte, or the number only.
#[inline]
pub(crate) fn write(message: &mut [u8], number: u64, every_byte: bool) {
    if every_byte {
        message.fill(number as u8);
    }
    write_number(message, number);
}

/// Reads a message's number, and every byte if asked: the sum is looked at, so the reading is not
/// left out.
#[inline]
pub(crate) fn read(message: &[u8], every_byte: bool) -> u64 {
    if every_byte {
        let (words, rest) = message.as_chunks::<8>();
        let words =
            words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
        hint::black_box(rest.iter().fold(words, |sum, &byte| sum.wrapping_add(byte.into())));
    }
    read_number(message)
}

#[inline]
fn check<T: Topic>(found: u64, number: u64, shape: &Shape) -> Result<(), Error> {
    let whole = if shape.bytes < 8 { (1 << (8 * shape.bytes)) - 1 } else { u64::MAX };
    if T::IS_FLOOR || found == number & whole { Ok(()) } else { Err(wrong::<T>(found, number)) }
}

#[cold]
fn wrong<T: Topic>(found: u64, number: u64) -> Error {
    Error::Wrong(format!("{}: message {number} came as {found}", T::NAME))
}

/// Sends to and fro: returns half of what each round trip took, as percentiles.
pub(crate) fn latency<T: Topic>(
    stage: &Stage,
    shape: Shape,
    every_byte: bool,
    operations: u64,
) -> Result<Figure, Error> {
    let there = T::place(stage, "there", shape)?;
    let back = T::place(stage, "back", shape)?;
    let board = Shared::<Board>::new()?;
    // At least as many as make every row use its memory for the first time.
    let warm_up = operations / 8 + 64;
    let all = warm_up + operations;
    let mut crew = Crew::new()?;
    crew.start("answering process", stage.second_core(), || {
        let mut subscriber = T::subscriber(&there)?;
        let mut publisher = T::publisher(&back)?;
        board.meet(2);
        for _ in 0..all {
            let number = subscriber.receive(|message| read(message, every_byte))?;
            publisher.publish(shape.bytes, |message| write(message, number, every_byte))?;
        }
        // Until the last message is there, nothing of this end is taken down.
        board.meet(4);
        Ok(())
    })?;
    crew.start("calling process", stage.first_core(), || {
        let mut subscriber = T::subscriber(&back)?;
        let mut publisher = T::publisher(&there)?;
        let mut latencies = Latencies::new()?;
        board.meet(2);
        let mut at = clock::now();
        let mut begun = at;
        for number in 0..all {
            publisher.publish(shape.bytes, |message| write(message, number, every_byte))?;
            let found = subscriber.receive(|message| read(message, every_byte))?;
            let after = clock::now();
            check::<T>(found, number, &shape)?;
            if number >= warm_up {
                latencies.count(after - at);
            } else {
                begun = after;
            }
            at = after;
        }
        latencies.leave(&board, at - begun);
        board.meet(4);
        Ok(())
    })?;
    figure(&board, crew.finish(stage.turn_limit)?, 2.0)
}

/// Sends one way, as fast as both can; the subscriber measures.
pub(super) fn rate<T: Topic>(
    stage: &Stage,
    shape: Shape,
    operations: u64,
) -> Result<Figure, Error> {
    let place = T::place(stage, "there", shape)?;
    let board = Shared::<Board>::new()?;
    let warm_up = operations / 8 + 1;
    let mut crew = Crew::new()?;
    crew.start("subscriber", stage.second_core(), || {
        let mut subscriber = T::subscriber(&place)?;
        board.meet(2);
        subscriber.settle()?;
        board.meet(4);
        let mut receive = |number: u64| {
            check::<T>(subscriber.receive(|message| read(message, false))?, number, &shape)
        };
        (0..warm_up).try_for_each(&mut receive)?;
        let begun = clock::now();
        (warm_up..warm_up + operations).try_for_each(&mut receive)?;
        board.leave_mean(clock::now() - begun, operations);
        board.meet(6);
        Ok(())
    })?;
    crew.start("publisher", stage.first_core(), || {
        let mut publisher = T::publisher(&place)?;
        board.meet(2);
        board.meet(4);
        (0..warm_up + operations).try_for_each(|number| {
            publisher.publish(shape.bytes, |message| write(message, number, false))
        })?;
        board.meet(6);
        Ok(())
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// What the messages to several are made of.
pub(super) trait Content: Copy + 'static {
    /// Returns bytes of a message.
    fn bytes(self) -> usize;
    /// Writes message `number`.
    fn write(self, message: &mut [u8], number: u64);
    /// Reads it.
    fn read(self, message: &[u8]) -> Result<u64, Error>;
}

/// Publishes to several subscribers that sleep, nothing lost: from the first message's publishing
/// until the last subscriber has read the last, by the number of messages.
pub(super) fn to_several<T: Topic, C: Content>(
    stage: &Stage,
    shape: Shape,
    content: C,
    operations: u64,
) -> Result<Figure, Error> {
    let place = T::place(stage, "there", shape)?;
    let board = Shared::<Board>::new()?;
    let everyone = shape.subscribers as u32 + 1;
    // As many as make every row use its memory for the first time.
    let warm_up = 16;
    let mut crew = Crew::new()?;
    // Pinned to none: there are more processes than cores.
    for worker in 0..shape.subscribers {
        crew.start("subscriber", None, || {
            let (place, board) = (&place, &board);
            let mut subscriber = T::subscriber(place)?;
            assemble(board, everyone);
            subscriber.settle()?;
            assemble(board, 2 * everyone);
            for number in 0..warm_up + operations {
                let found = subscriber.receive(|message| content.read(message))??;
                check::<T>(found, number, &shape)?;
            }
            board.leave(worker, [clock::now(), 0, 0, 0]);
            assemble(board, 3 * everyone);
            Ok(())
        })?;
    }
    crew.start("publisher", None, || {
        let mut publisher = T::publisher(&place)?;
        assemble(&board, everyone);
        assemble(&board, 2 * everyone);
        let mut publish =
            |number| publisher.publish(shape.bytes, |message| content.write(message, number));
        (0..warm_up).try_for_each(&mut publish)?;
        let begun = clock::now();
        (warm_up..warm_up + operations).try_for_each(&mut publish)?;
        assemble(&board, 3 * everyone);
        let ended =
            (0..shape.subscribers).map(|worker| board.left(worker)[0]).max().unwrap_or(begun);
        board.leave_mean(ended - begun, operations);
        Ok(())
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// Waits as [`Board::meet`] does, for more processes than cores: they give theirs up while they
/// wait.
pub(crate) fn assemble(board: &Board, processes: u32) {
    // AcqRel and Acquire: what each did before is seen by all after.
    board.ready.0.fetch_add(1, Ordering::AcqRel);
    while board.ready.0.load(Ordering::Acquire) < processes {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Returns a shape whose messages may queue up.
pub(super) fn streaming(bytes: usize, wait: Wait, subscribers: usize, buffer: usize) -> Shape {
    Shape { subscribers, buffer, full_rate: wait == Wait::Busy, ..Shape::pair(bytes, wait) }
}
