//! How messages flow in a turn: one way at full rate, to and fro, or to a sleeper.

use super::{Channel, Receive, Send};
use crate::harness::asleep::Sleeper;
use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::Error;
use crate::harness::round::{Figure, Stage};
use crate::harness::shared::{Board, Shared};
use crate::harness::statistics::median;
use std::hint;
use std::sync::atomic::Ordering;

/// Sends one way, as fast as both can. The receiver measures.
pub(super) fn one_way<C: Channel>(
    stage: &Stage,
    bytes: usize,
    operations: u64,
    batch: usize,
) -> Result<Figure, Error> {
    let place = C::place(stage, "there", bytes)?;
    let board = Shared::<Board>::new()?;
    // The first eighth of the messages is not timed; whole batches, so that the sender ends when
    // the receiver does.
    let warm_up = (operations / 8).next_multiple_of(batch as u64);
    let timed = operations.next_multiple_of(batch as u64);
    let mut crew = Crew::new()?;
    crew.start("receiver", stage.second_core(), || {
        let mut receiver = C::receiver(&place)?;
        let mut message = vec![0; bytes];
        board.meet(2);
        let mut receive = |number: u64| {
            receiver.receive(&mut message)?;
            check_number::<C>(&message, bytes, number)
        };
        (0..warm_up).try_for_each(&mut receive)?;
        let begun = clock::now();
        (warm_up..warm_up + timed).try_for_each(&mut receive)?;
        board.leave_mean(clock::now() - begun, timed);
        Ok(())
    })?;
    crew.start("sender", stage.first_core(), || {
        let mut sender = C::sender(&place)?;
        let mut messages = vec![vec![0; bytes]; batch];
        board.meet(2);
        for first in (0..warm_up + timed).step_by(batch) {
            for (message, number) in messages.iter_mut().zip(first..) {
                write_number(message, number);
            }
            match &messages[..] {
                [message] => sender.send(message)?,
                messages => sender.send_batch(messages)?,
            }
        }
        Ok(())
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// Sends each message there and back.
pub(super) fn round_trip<C: Channel>(
    stage: &Stage,
    bytes: usize,
    operations: u64,
) -> Result<Figure, Error> {
    let there = C::place(stage, "there", bytes)?;
    let back = C::place(stage, "back", bytes)?;
    let board = Shared::<Board>::new()?;
    let warm_up = operations / 8;
    let all = warm_up + operations;
    let mut crew = Crew::new()?;
    crew.start("answering process", stage.second_core(), || {
        let mut receiver = C::receiver(&there)?;
        let mut sender = C::sender(&back)?;
        let mut message = vec![0; bytes];
        board.meet(2);
        for number in 0..all {
            receiver.receive(&mut message)?;
            check_number::<C>(&message, bytes, number)?;
            sender.send(&message)?;
        }
        Ok(())
    })?;
    crew.start("calling process", stage.first_core(), || {
        let mut receiver = C::receiver(&back)?;
        let mut sender = C::sender(&there)?;
        let mut message = vec![0; bytes];
        board.meet(2);
        let mut call = |number: u64| {
            write_number(&mut message, number);
            sender.send(&message)?;
            receiver.receive(&mut message)?;
            check_number::<C>(&message, bytes, number)
        };
        (0..warm_up).try_for_each(&mut call)?;
        let begun = clock::now();
        (warm_up..all).try_for_each(&mut call)?;
        board.leave_mean(clock::now() - begun, operations);
        Ok(())
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// Sends to a receiver that is asleep each time.
pub(super) fn to_sleeper<C: Channel>(
    stage: &Stage,
    bytes: usize,
    operations: u64,
) -> Result<Figure, Error> {
    let place = C::place(stage, "there", bytes)?;
    let board = Shared::<Board>::new()?;
    let mut crew = Crew::new()?;
    let pid = crew.start("receiver", stage.second_core(), || {
        let mut receiver = C::receiver(&place)?;
        let mut message = vec![0; bytes];
        let mut took = Vec::with_capacity(operations as usize);
        board.meet(2);
        let begun = clock::now();
        for step in 1..=operations as u32 {
            receiver.receive(&mut message)?;
            let had = clock::now();
            check_number::<C>(&message, bytes, u64::from(step))?;
            // Relaxed: written before the message was sent, which orders it.
            took.push(had.saturating_sub(board.sent_at.0.load(Ordering::Relaxed)) as f64);
            // Release pairs with the sender's Acquire.
            board.done.0.store(step, Ordering::Release);
        }
        board.leave_figure(median(&took).unwrap_or(0.0), clock::now() - begun);
        Ok(())
    })?;
    crew.start("sender", stage.first_core(), || {
        let mut sender = C::sender(&place)?;
        let mut message = vec![0; bytes];
        let sleeper = Sleeper::new(pid as u32)?;
        board.meet(2);
        for step in 1..=operations as u32 {
            write_number(&mut message, u64::from(step));
            // It sleeps nowhere but in its receiving call.
            sleeper.wait_asleep()?;
            board.sent_at.0.store(clock::now(), Ordering::Relaxed);
            sender.send(&message)?;
            while board.done.0.load(Ordering::Acquire) != step {
                hint::spin_loop();
            }
        }
        Ok(())
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

#[inline]
fn write_number(message: &mut [u8], number: u64) {
    message[..8].copy_from_slice(&number.to_ne_bytes());
}

#[inline]
fn check_number<C: Channel>(message: &[u8], bytes: usize, number: u64) -> Result<(), Error> {
    if C::IS_FLOOR || (message.len() == bytes && message[..8] == number.to_ne_bytes()) {
        return Ok(());
    }
    Err(wrong_message::<C>(message, number))
}

#[cold]
fn wrong_message<C: Channel>(message: &[u8], number: u64) -> Error {
    let found = message.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
    Error::Wrong(format!(
        "{}: message {number} came as {found} with {} bytes",
        C::NAME,
        message.len()
    ))
}
