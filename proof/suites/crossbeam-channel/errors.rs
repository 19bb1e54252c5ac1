//! crossbeam-channel's errors, by their names and fields.

use std::error::Error;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    Full(T),
    Disconnected(T),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    Timeout(T),
    Disconnected(T),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    Empty,
    Disconnected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    Timeout,
    Disconnected,
}

macro_rules! says {
    ($($name:ident $(<$value:ident>)?: $text:literal;)*) => {$(
        impl$(<$value>)? fmt::Display for $name$(<$value>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }
        impl$(<$value: Send>)? Error for $name$(<$value>)? {}
    )*};
}

says! {
    SendError<T>: "the receiver is gone";
    TrySendError<T>: "the channel is full, or the receiver is gone";
    SendTimeoutError<T>: "no room in time, or the receiver is gone";
    RecvError: "all senders are gone";
    TryRecvError: "nothing is there, or all senders are gone";
    RecvTimeoutError: "nothing came in time, or all senders are gone";
}

macro_rules! shows {
    ($($name:ident)*) => {$(
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

shows! { SendError TrySendError SendTimeoutError }
