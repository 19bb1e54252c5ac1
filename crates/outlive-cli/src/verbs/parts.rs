//! Requests of several parts from a shell: `call --parts` sends each record of its input as a part, and
//! prints replies as they come; `serve --parts` gives a command the parts as they come, and sends each
//! record that it writes as a reply.
//!
//! Both go on at once, in one thread: it polls the input and, by a wait set's descriptor, the call. While a
//! part finds no room, `call` waits for that room and for replies, by one wait set; while a reply finds none,
//! `serve` gives the command parts, and reads nothing of it.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::process::Child;
use std::task::Poll;
use std::time::Duration;

use outlive::describe::Description;
use outlive::rpc::{Call, CallError, Client, Reply, Request};
use outlive::wait::WaitSet;
use outlive::{Deadline, Domain, RecvError, SendError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::described;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, FramingArgs, Splitter, framed};
use crate::output::talk;
use crate::signals::SLICE;
use crate::verbs::serve::tell_unanswered;

/// What ends a call: a failure of the program's, or an error of the call's.
pub enum Ended {
    Failure(Failure),
    Call(CallError),
}

impl<E: Into<Failure>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::Failure(error.into())
    }
}

/// Refuses a framing where there are no parts to tell apart.
pub fn refuse_framing(has_parts: bool, framing: FramingArgs) -> Result<(), Failure> {
    match has_parts || framing.framing() == Framing::Lines {
        true => Ok(()),
        false => Err(Failure::new(
            Code::Usage,
            "--null and --length-prefixed tell parts apart: add --parts",
        )),
    }
}

/// Sends a request, each record of standard input as a part of it, and gives `take` the replies that come
/// meanwhile; returns the call. `made` makes the part of a record.
pub fn send<'c>(
    client: &'c Client,
    domain: &Domain,
    request: &[u8],
    framing: Framing,
    deadline: Deadline,
    made: impl Fn(&[u8]) -> Result<Vec<u8>, Failure>,
    mut take: impl FnMut(Reply) -> Result<(), Failure>,
) -> Result<Call<'c>, Ended> {
    let mut stream = client.stream_until(request, deadline).map_err(Ended::Call)?;
    let mut set = WaitSet::new(domain);
    set.add(&stream)?;
    let mut sending = WaitSet::new(domain);
    sending.add(&stream)?;
    sending.add(&stream.room())?;
    let stdin = std::io::stdin();
    let (mut input, mut splitter) = (stdin.lock(), Splitter::new(framing));
    let (mut places, mut records, mut is_at_end) = (Vec::new(), VecDeque::<Vec<u8>>::new(), false);
    loop {
        // Replies that come before the last part. The call has what is left.
        while let Poll::Ready(found) = stream.try_next_reply().map_err(Ended::Call)? {
            match found {
                Some(reply) => take(reply)?,
                None => return stream.finish().map_err(Ended::Call),
            }
        }
        if deadline.has_passed() {
            return Err(Ended::Call(CallError::TimedOut { begun: stream.call().is_begun() }));
        }
        if let Some(record) = records.front() {
            match stream.try_send(record) {
                Ok(()) => drop(records.pop_front()),
                // The server may wait for room for its replies, which are taken above.
                Err(CallError::TimedOut { .. }) => {
                    sending.wait_until(deadline)?;
                }
                Err(CallError::Answered) => return stream.finish().map_err(Ended::Call),
                Err(error) => return Err(Ended::Call(error)),
            }
            continue;
        }
        if is_at_end {
            return stream.finish().map_err(Ended::Call);
        }
        if set.try_wait()?.count() > 0 {
            continue;
        }
        let fd = set.as_fd()?;
        let mut polled =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        wait(&mut polled, if deadline == Deadline::NEVER { None } else { Some(SLICE) })?;
        if polled[0].revents().is_empty() {
            continue;
        }
        is_at_end = splitter.fill(&mut input)? == 0;
        splitter.complete(&mut places)?;
        if is_at_end {
            places.extend(splitter.rest()?);
        }
        for place in &places {
            records.push_back(made(&splitter.bytes()[place.clone()])?);
        }
    }
}

/// Gives a command a request's parts as they come, and sends each record that it writes as a reply.
pub fn answer(
    program: &str,
    mut child: Child,
    request: Request,
    domain: &Domain,
    framing: Framing,
    description: Option<&Description>,
) -> Result<(), Failure> {
    let request_is = description.map(Description::request);
    let given = |bytes: &[u8]| {
        let line = request_is.as_ref().and_then(|one| described::line(one, bytes));
        framed(framing, line.as_deref().map_or(bytes, str::as_bytes))
    };
    let reply_is = description.and_then(Description::reply).filter(|one| described::is_json(one));
    // Without a request there is nothing before the parts.
    let mut pending = if request.is_empty() { Vec::new() } else { given(&request) };
    let (mut input, mut output) = (child.stdin.take(), child.stdout.take());
    if let Some(input) = &input {
        // Its other end is the command's, and no other process has this one.
        rustix::io::ioctl_fionbio(input, true)
            .map_err(|errno| Failure::system("prepare a pipe", &errno.into()))?;
    }
    let mut stream = request.stream();
    let mut set = WaitSet::new(domain);
    set.add(&stream.parts())?;
    let mut sending = WaitSet::new(domain);
    sending.add(&stream.room())?;
    let (mut splitter, mut places) = (Splitter::new(framing), Vec::new());
    // What the command has written, or why that is no reply.
    let mut replies = VecDeque::<Result<Vec<u8>, String>>::new();
    let sent = 'both: loop {
        while let Some(reply) = replies.front() {
            match reply.as_ref().map(|reply| stream.try_send(reply)) {
                Ok(Ok(())) => drop(replies.pop_front()),
                // The command gets parts meanwhile.
                Ok(Err(SendError::Full { .. })) => break,
                Ok(Err(error)) => break 'both Err(error),
                Err(why) => {
                    talk(format_args!("{why}"));
                    break 'both stream.fail(why);
                }
            }
        }
        let is_full = !replies.is_empty();
        while let Some(pipe) = input.as_mut().filter(|_| !pending.is_empty()) {
            match pipe.write(&pending) {
                Ok(count) => drop(pending.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It does not want its input: what is not taken, the client is told of by the last reply.
                Err(_) => input = None,
            }
        }
        // A command that has closed its output may go on reading: it gets every part before it is waited for.
        if output.is_none() && !is_full && (input.is_none() || has_exited(program, &mut child)?) {
            break match ended(program, &mut child)? {
                None => stream.finish(),
                Some(why) => {
                    talk(format_args!("{why}: no last reply"));
                    stream.fail(&why)
                }
            };
        }
        let wants_more = input.is_some() && pending.is_empty();
        if wants_more {
            match stream.try_next_part() {
                Ok(Poll::Ready(Some(part))) => {
                    pending = given(&part);
                    continue;
                }
                Ok(Poll::Ready(None)) => {
                    input = None;
                    continue;
                }
                Ok(Poll::Pending) => {}
                Err(RecvError::Cancelled) => break 'both Err(SendError::Cancelled),
                Err(error) => break 'both Err(of_receiving(error)),
            }
            if set.try_wait()?.count() > 0 {
                continue;
            }
        }
        if is_full && sending.try_wait()?.count() > 0 {
            continue;
        }
        let mut polled = Vec::with_capacity(4);
        // What it writes meanwhile waits in its pipe.
        let reads = output.is_some() && !is_full;
        polled
            .extend(output.as_ref().filter(|_| reads).map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        // Without an event it tells that no process reads there any more.
        let of_input = if wants_more { PollFlags::empty() } else { PollFlags::OUT };
        polled.extend(input.as_ref().map(|pipe| PollFd::new(pipe, of_input)));
        if wants_more {
            polled.push(PollFd::from_borrowed_fd(set.as_fd()?, PollFlags::IN));
        }
        if is_full {
            polled.push(PollFd::from_borrowed_fd(sending.as_fd()?, PollFlags::IN));
        }
        // Its end is no event.
        wait(&mut polled, output.is_none().then_some(SLICE))?;
        let mut found = polled.iter().map(PollFd::revents);
        let of_output = reads.then(|| found.next()).flatten().unwrap_or(PollFlags::empty());
        let of_input = input.as_ref().and_then(|_| found.next()).unwrap_or(PollFlags::empty());
        if of_input.contains(PollFlags::ERR) {
            input = None;
        }
        let Some(pipe) = output.as_mut().filter(|_| !of_output.is_empty()) else { continue };
        let is_at_end = splitter.fill(pipe)? == 0;
        splitter.complete(&mut places)?;
        if is_at_end {
            places.extend(splitter.rest()?);
        }
        for place in &places {
            let record = &splitter.bytes()[place.clone()];
            let reply = match &reply_is {
                None => Ok(record.to_vec()),
                Some(one) => described::parsed(one, record),
            };
            replies.push_back(reply.map_err(|why| format!("{program}: {why}")));
        }
        if is_at_end {
            output = None;
        }
    };
    // The command's ends of the pipes: one that goes on learns that no process reads or writes there.
    drop((input, output));
    ended(program, &mut child)?;
    match sent {
        Ok(()) => Ok(()),
        Err(error @ (SendError::Damaged(_) | SendError::System(_))) => {
            Err(Failure::new(Code::System, error.to_string()))
        }
        // The client has gone, or there is no room: the next one may do better.
        Err(error) => {
            tell_unanswered(&error);
            Ok(())
        }
    }
}

fn has_exited(program: &str, child: &mut Child) -> Result<bool, Failure> {
    let status = child.try_wait();
    status
        .map(|status| status.is_some())
        .map_err(|error| Failure::system(format_args!("run {program}"), &error))
}

/// Waits for the command, and returns why it failed, if it did.
fn ended(program: &str, child: &mut Child) -> Result<Option<String>, Failure> {
    let status = child.wait();
    let status = status.map_err(|error| Failure::system(format_args!("run {program}"), &error))?;
    Ok((!status.success()).then(|| format!("{program}: {status}")))
}

fn of_receiving(error: RecvError) -> SendError {
    match error {
        RecvError::Damaged(error) => SendError::Damaged(error),
        RecvError::System(error) => SendError::System(error),
        other => SendError::Encoding(other.to_string()),
    }
}

fn wait(polled: &mut [PollFd<'_>], span: Option<Duration>) -> Result<(), Failure> {
    let span = span.map(|span| Timespec { tv_sec: 0, tv_nsec: span.subsec_nanos().into() });
    match poll(polled, span.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(Failure::system("wait for input", &errno.into())),
    }
}
