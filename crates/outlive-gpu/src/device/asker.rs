//! Asks another process for a block: one connection for each block, closed when the answer has
//! arrived.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use outlive::{Deadline, Domain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketFlags, SocketType,
};

use super::card::Says;
use super::exporter::{self, Answer, GONE, HERE, MARK, Request, failed};
use crate::GpuError;

/// How often a process that waits for an answer checks the deadline, and whether the exporter is
/// still alive: a forked child of it may still have its socket, in which case no process closes it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Asks for the file as which that block is exported, until the deadline: the exporter may be
/// stopped.
///
/// # Errors
/// [`GpuError::OwnerDied`], [`GpuError::BlockGone`], [`GpuError::TimedOut`], [`GpuError::System`].
pub(super) fn ask(domain: &Domain, says: &Says, deadline: Deadline) -> Result<OwnedFd, GpuError> {
    let owner = domain.peer(says.exporter);
    // An exporter that does not answer is dead, or has finished with the block.
    let gone = || {
        let owner = says.exporter;
        if domain.peer(owner).is_alive() {
            return GpuError::BlockGone { owner };
        }
        exporter::remove_dead(domain.path(), owner);
        GpuError::OwnerDied { owner }
    };
    let patience = || {
        if !owner.is_alive() {
            Err(gone())
        } else if deadline.has_passed() {
            Err(GpuError::TimedOut)
        } else {
            Ok(())
        }
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(failed("make a socket"))?;
    let (address, _open) = exporter::address_of(domain.path(), says.exporter)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(gone()),
            // Many askers are before this one: the exporter is stopped, or dying.
            Err(Errno::AGAIN) => {
                patience()?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::INTR) => {}
            Err(other) => return Err(failed("connect to the message's owner")(other)),
        }
    }
    let request: Request = [MARK, says.number];
    match rustix::net::send(&socket, &exporter::bytes_of(&request), SendFlags::NOSIGNAL) {
        Ok(_) => {}
        Err(Errno::PIPE | Errno::CONNRESET) => return Err(gone()),
        Err(other) => return Err(failed("ask the message's owner")(other)),
    }
    let slice = Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN.as_nanos() as _ };
    loop {
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => patience()?,
            Ok(_) => break,
            Err(other) => return Err(failed("wait for the message's owner")(other)),
        }
    }
    let (answer, file) = receive(&socket)?;
    match (answer, file) {
        ([MARK, HERE, len], Some(file)) if len == says.bytes => Ok(file),
        // Closed without an answer; there is no block of that number; or it is not what the card
        // says.
        ([0, ..] | [MARK, GONE, _], _) => Err(gone()),
        _ => Err(GpuError::BlockGone { owner: says.exporter }),
    }
}

/// Receives what is there; all 0: the other side has closed.
fn receive(socket: &OwnedFd) -> Result<(Answer, Option<OwnedFd>), GpuError> {
    let mut bytes = [0; size_of::<Answer>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    let (read, is_cut) = match received {
        Ok(received) => (received.bytes, received.flags.contains(ReturnFlags::CTRUNC)),
        Err(Errno::CONNRESET) => (0, false),
        Err(other) => return Err(failed("receive from the message's owner")(other)),
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    if is_cut && file.is_none() {
        // The kernel dropped the descriptor, usually because this process has none left. The owner
        // still has the block.
        return Err(failed("take the message's block as a file")(Errno::MFILE));
    }
    Ok((if read == bytes.len() { exporter::words(&bytes) } else { [0; 3] }, file))
}
