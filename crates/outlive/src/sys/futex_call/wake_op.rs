use rustix::thread::futex::{self as rx, Flags};

use super::{FutexError, at_most};
use crate::shim::AtomicU32;

/// Says what [`wake_op`] does to the second word, atomically. The arguments have 12 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Stores the value.
    Set(u16),
    /// Adds the value.
    Add(u16),
    /// Sets these bits.
    Or(u16),
    /// Clears these bits.
    AndNot(u16),
    /// Inverts these bits.
    Xor(u16),
    /// Sets the bit of this number, 0 to 31, which 12 bits cannot always express.
    SetBit(u8),
    /// Clears the bit of this number, 0 to 31.
    ClearBit(u8),
}

/// Says how the second word's old value must compare for its sleepers to be woken; as signed
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// Describes what [`wake_op`] does: it changes the second word, and wakes its sleepers if the old
/// value compares so with `than`.
///
/// All arguments have 12 bits, and the kernel reads them as signed: 0x800 to 0xfff mean -2048 to
/// -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeOp {
    /// The change.
    pub change: Change,
    /// The comparison ...
    pub when: Comparison,
    /// ... of the old value with this one.
    pub than: u16,
}

/// Changes `other`, wakes some sleepers on `word`, and, if the old value of `other` compares as
/// `op` says, some sleepers on `other` (`FUTEX_WAKE_OP`). One system call instead of two; returns
/// how many it woke in all.
///
/// Made for a signal that also unlocks: wake a waiter, set the lock to 0, and wake one waiter of
/// the lock if it was more than 1, that is, contended.
///
/// ```
/// use outlive::futex::{self, Change, Comparison, WakeOp};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let (condition, lock) = (AtomicU32::new(0), AtomicU32::new(2));
/// let unlock = WakeOp { change: Change::Set(0), when: Comparison::Gt, than: 1 };
/// assert_eq!(futex::wake_op(&condition, 1, &lock, 1, unlock), Ok(0), "no thread sleeps on either");
/// assert_eq!(lock.load(Ordering::Relaxed), 0);
/// ```
///
/// # Errors
/// - [`FutexError::Invalid`]: an argument above 0xfff, a bit above 31, or a sleeper by a PI call;
///   in the last case `other` may have been changed already.
/// - [`FutexError::Fault`]: the memory is gone, or `other` may not be written.
pub fn wake_op(
    word: &AtomicU32,
    wake: u32,
    other: &AtomicU32,
    wake_other: u32,
    op: WakeOp,
) -> Result<u32, FutexError> {
    let bit =
        |number: u8| if number < 32 { Ok(u16::from(number)) } else { Err(FutexError::Invalid) };
    let (change, argument) = match op.change {
        Change::Set(value) => (rx::WakeOp::Set, value),
        Change::Add(value) => (rx::WakeOp::Add, value),
        Change::Or(value) => (rx::WakeOp::Or, value),
        Change::AndNot(value) => (rx::WakeOp::AndN, value),
        Change::Xor(value) => (rx::WakeOp::XOr, value),
        Change::SetBit(number) => (rx::WakeOp::OrShift, bit(number)?),
        Change::ClearBit(number) => (rx::WakeOp::AndNShift, bit(number)?),
    };
    let comparison = match op.when {
        Comparison::Eq => rx::WakeOpCmp::Eq,
        Comparison::Ne => rx::WakeOpCmp::Ne,
        Comparison::Lt => rx::WakeOpCmp::Lt,
        Comparison::Le => rx::WakeOpCmp::Le,
        Comparison::Gt => rx::WakeOpCmp::Gt,
        Comparison::Ge => rx::WakeOpCmp::Ge,
    };
    let (wake, wake_other) = (at_most(wake), at_most(wake_other));
    let woken = rx::wake_op(
        word,
        Flags::empty(),
        wake,
        wake_other,
        other,
        change,
        comparison,
        argument,
        op.than,
    )?;
    Ok(woken as u32)
}
