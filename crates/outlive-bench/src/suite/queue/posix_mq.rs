//! A POSIX message queue, as large as the system allows without privilege.

use super::{Channel, Receive, Send};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use std::ffi::CString;
use std::{fs, mem, process, ptr};

/// Returns the kernel's limits, for messages in a queue and bytes in a message.
fn limit(name: &str) -> Option<usize> {
    fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}")).ok()?.trim().parse().ok()
}

/// The open queue; its name is gone already.
pub struct Descriptor(libc::mqd_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { libc::mq_close(self.0) };
    }
}

/// The row.
pub struct PosixMq;

/// Either end.
pub struct End(libc::mqd_t);

impl Channel for PosixMq {
    const NAME: &'static str = "posix_mq";
    type Place = Descriptor;
    type Sender = End;
    type Receiver = End;

    fn place(_: &Stage, name: &'static str, bytes: usize) -> Result<Descriptor, Error> {
        // Plain ASCII and two words: no NUL inside.
        let name =
            CString::new(format!("/outlive-bench-{}-{name}", process::id())).unwrap_or_default();
        // SAFETY: plain data; the kernel reads two fields.
        let mut attributes: libc::mq_attr = unsafe { mem::zeroed() };
        attributes.mq_maxmsg = limit("msg_max").unwrap_or(10) as _;
        attributes.mq_msgsize = bytes as _;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: a string with its NUL and valid attributes, as O_CREAT asks for. Unlinked at
        // once: the children inherit the descriptor, and nothing is left however this ends.
        unsafe {
            let queue = check(
                libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &mut attributes),
                "making a POSIX message queue",
            )?;
            libc::mq_unlink(name.as_ptr());
            Ok(Descriptor(queue))
        }
    }

    fn sender(place: &Descriptor) -> Result<End, Error> {
        Ok(End(place.0))
    }

    fn receiver(place: &Descriptor) -> Result<End, Error> {
        Ok(End(place.0))
    }

    fn refuses(bytes: usize) -> Option<String> {
        match limit("msgsize_max") {
            None => Some("this kernel has no POSIX message queues".into()),
            Some(most) if bytes > most => {
                Some(format!("a message may have {most} bytes (fs.mqueue.msgsize_max)"))
            }
            Some(_) => None,
        }
    }
}

impl Send for End {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        // SAFETY: the message is valid for its length.
        let sent = unsafe { libc::mq_send(self.0, message.as_ptr().cast(), message.len(), 0) };
        check(sent, "sending to a POSIX message queue").map(drop)
    }
}

impl Receive for End {
    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        // SAFETY: room for as many bytes as a message of this queue has.
        let received = unsafe {
            libc::mq_receive(self.0, message.as_mut_ptr().cast(), message.len(), ptr::null_mut())
        };
        check(received as libc::c_int, "receiving from a POSIX message queue").map(drop)
    }
}
