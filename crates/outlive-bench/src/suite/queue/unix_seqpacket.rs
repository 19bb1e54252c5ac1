//! A pair of Unix sockets that keep messages apart.

use super::{Channel, Receive, Send};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The row.
pub struct UnixSeqpacket;

/// An end. The parent owns the descriptor and outlives the turn's processes.
pub struct End(RawFd);

impl Channel for UnixSeqpacket {
    const NAME: &'static str = "unix_seqpacket";
    type Place = [OwnedFd; 2];
    type Sender = End;
    type Receiver = End;

    fn place(_: &Stage, _: &'static str, _: usize) -> Result<Self::Place, Error> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors, which are fresh and this function's alone.
        unsafe {
            check(
                libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()),
                "making a pair of sockets",
            )?;
            Ok(ends.map(|end| OwnedFd::from_raw_fd(end)))
        }
    }

    fn sender(place: &Self::Place) -> Result<End, Error> {
        Ok(End(place[0].as_raw_fd()))
    }

    fn receiver(place: &Self::Place) -> Result<End, Error> {
        Ok(End(place[1].as_raw_fd()))
    }
}

impl Send for End {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        // SAFETY: the message is valid for its length.
        let sent = unsafe {
            libc::send(self.0, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL)
        };
        check(sent as libc::c_int, "sending to a socket").map(drop)
    }
}

impl Receive for End {
    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        // SAFETY: room for as many bytes as asked for.
        let received = unsafe { libc::recv(self.0, message.as_mut_ptr().cast(), message.len(), 0) };
        let received = check(received as libc::c_int, "receiving from a socket")?;
        if received as usize == message.len() {
            Ok(())
        } else {
            Err(Error::Wrong(format!("unix_seqpacket: {received} bytes came")))
        }
    }
}
