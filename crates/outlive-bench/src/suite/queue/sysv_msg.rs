//! A System V message queue.

use super::{Channel, Receive, Send};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use std::fs;

/// A private queue, removed when dropped.
pub(super) struct Place {
    id: libc::c_int,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: our own queue; no memory is touched.
        unsafe { libc::msgctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// The row.
pub(super) struct SysVMsg;

/// An end, with room for a message behind its type, as the system call wants it.
pub(super) struct End {
    id: libc::c_int,
    typed: Vec<u8>,
}

const TYPE_BYTES: usize = size_of::<libc::c_long>();

impl End {
    fn of(place: &Place) -> Self {
        let mut typed = vec![0; TYPE_BYTES + place.bytes];
        let message_type: libc::c_long = 1;
        typed[..TYPE_BYTES].copy_from_slice(&message_type.to_ne_bytes());
        Self { id: place.id, typed }
    }
}

impl Channel for SysVMsg {
    const NAME: &'static str = "sysv_msg";
    type Place = Place;
    type Sender = End;
    type Receiver = End;

    fn place(_: &Stage, _: &'static str, bytes: usize) -> Result<Place, Error> {
        // SAFETY: no memory is touched.
        let id = check(
            unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) },
            "making a System V message queue",
        )?;
        Ok(Place { id, bytes })
    }

    fn sender(place: &Place) -> Result<End, Error> {
        Ok(End::of(place))
    }

    fn receiver(place: &Place) -> Result<End, Error> {
        Ok(End::of(place))
    }

    fn refuses(bytes: usize) -> Option<String> {
        let most = fs::read_to_string("/proc/sys/kernel/msgmax")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        match most {
            None => Some("this kernel has no System V message queues".into()),
            Some(most) if bytes > most => {
                Some(format!("a message may have {most} bytes (kernel.msgmax)"))
            }
            Some(_) => None,
        }
    }
}

impl Send for End {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.typed[TYPE_BYTES..].copy_from_slice(message);
        // SAFETY: the type and behind it as many bytes as said. Alignment: the kernel copies bytes.
        let sent = unsafe { libc::msgsnd(self.id, self.typed.as_ptr().cast(), message.len(), 0) };
        check(sent, "sending to a System V message queue").map(drop)
    }
}

impl Receive for End {
    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        // SAFETY: room for the type and as many bytes as asked for.
        let received =
            unsafe { libc::msgrcv(self.id, self.typed.as_mut_ptr().cast(), message.len(), 0, 0) };
        check(received as libc::c_int, "receiving from a System V message queue")?;
        message.copy_from_slice(&self.typed[TYPE_BYTES..]);
        Ok(())
    }
}
