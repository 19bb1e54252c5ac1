//! `io_uring` as a way to sleep on more words than one `futex_waitv` takes: one request for each group of them (Linux 6.7).
//!
//! Nothing is left in the ring between two sleeps: when one group has answered, the others are taken back, and their answers
//! are taken in. A thread that dies has its requests taken back by the kernel *before* its robust list is walked.
//!
//! A thread has one ring for all of its sleeps, and no descriptor of it: the ring is registered with the thread, and its
//! descriptor is closed at once. So a process that closes all descriptors, as a daemon does, has its rings still, and no
//! other file is taken for one. A forked child has neither the ring nor its memory.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering as StdOrdering};
use std::time::Duration;

use rustix::io_uring::{
    self as rx, IoringAsyncCancelFlags, IoringEnterFlags, IoringOp, IoringRegisterFlags, IoringRegisterOp,
    io_uring_cqe, io_uring_getevents_arg, io_uring_params, io_uring_ptr, io_uring_rsrc_update, io_uring_sqe,
};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::thread::futex::{Wait, WaitFlags, WaitPtr};

use super::clock::Deadline;
use super::futex::{MOST_WATCHES, Wakeup, Watch};
use super::{Errno, identity};

/// 0 not asked yet, 1 there, 2 absent.
static THERE: AtomicU8 = AtomicU8::new(0);

/// Whether this process may sleep on words by io_uring. Asked until the kernel has answered: an
/// attempt that finds no descriptor or memory left says nothing about the next one.
///
/// Absent before Linux 6.7; switched off on some machines (`kernel.io_uring_disabled`) and in most containers.
pub(crate) fn is_there() -> bool {
    match THERE.load(StdOrdering::Relaxed) {
        1 => true,
        2 => false,
        _ => match Ring::new(1).and_then(|mut ring| ring.can_wait()) {
            Ok(there) => {
                THERE.store(if there { 1 } else { 2 }, StdOrdering::Relaxed);
                there
            }
            // Too many open files, no memory, a signal, sixteen other rings in this thread: that passes.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR | Errno::BUSY) => false,
            Err(_) => {
                mark_absent();
                false
            }
        },
    }
}

/// Makes this process do without.
pub(crate) fn mark_absent() {
    THERE.store(2, StdOrdering::Relaxed);
}

/// The request that takes all others back.
const CANCEL: u64 = u64::MAX;

/// How many calls that fail or move nothing are ignored while requests are cancelled.
const MOST_FAILURES: u32 = 8;

/// How long one of them sleeps at most: the answers come from what the calling thread itself does in the kernel.
const MOST_PATIENT: Duration = Duration::from_millis(100);

/// A ring turns a time of day into a span: a clock that is set meanwhile is noticed after this one.
const MOST_OF_A_DAY: Duration = Duration::from_secs(1);

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// What has become of a sleep that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The kernel has answered a request with that error. The ring goes on.
    Request(Errno),
    /// The ring is of no use, and has been dropped.
    Ring,
}

/// Sleeps in the calling thread's ring until a word of one of the groups is woken or the deadline passes; returns at once when
/// a word is not as expected. In each group the words are queued in the order given, and the groups one after the other.
/// `None`: no ring can be made just now.
///
/// `until` is asked when there is one.
pub(crate) fn wait(groups: &[Vec<Watch<'_>>], until: impl FnOnce() -> Deadline) -> Option<Result<Wakeup, Failed>> {
    let in_it = |ring: &RefCell<Option<Ring>>| {
        // Borrowed: a signal handler waits in a thread that sleeps here. Others must do.
        let mut ring = ring.try_borrow_mut().ok()?;
        let many = u32::try_from(groups.len()).ok()?;
        if !ring.as_ref().is_some_and(|ring| ring.serves(many)) {
            *ring = None;
            // None can be made now (too many open files): helpers do.
            *ring = Ring::new(many).ok();
        }
        let slept = ring.as_mut()?.wait(groups, until());
        if slept == Err(Failed::Ring) {
            *ring = None;
        }
        Some(slept)
    };
    // A thread that ends has none any more.
    RING.try_with(in_it).ok()?
}

/// A ring with room for so many groups.
struct Ring {
    registered: Registered,
    groups: u32,
    /// Submissions and completions, in one mapping.
    queues: Mapped,
    entries: Mapped,
    at: Offsets,
    /// The worst answer of this sleep.
    worst: Option<Errno>,
}

/// The ring's number among those that the calling thread has registered. Not a descriptor.
struct Registered {
    number: u32,
    /// The process whose thread it is: a forked child has none.
    of: u64,
}

impl Registered {
    fn new(fd: &OwnedFd) -> Result<Registered, Errno> {
        let of = identity::this_process()?;
        let mut update = io_uring_rsrc_update::default();
        update.offset = u32::MAX;
        update.data = io_uring_ptr::new(core::ptr::without_provenance_mut(fd.as_raw_fd() as usize));
        // SAFETY: one update, which the kernel writes to as well.
        let done = unsafe {
            rx::io_uring_register(fd, IoringRegisterOp::RegisterRingFds, (&raw mut update).cast_const().cast(), 1)?
        };
        // A filter that answers in the kernel's place has registered nothing.
        if done == 1 && update.offset != u32::MAX {
            Ok(Registered { number: update.offset, of })
        } else {
            Err(Errno::NOSYS)
        }
    }

    /// As calls want it that are told that it is one.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the calls take it for an index, and the kernel has given that one.
        unsafe { BorrowedFd::borrow_raw(self.number as i32) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if identity::this_process() != Ok(self.of) {
            return;
        }
        let mut update = io_uring_rsrc_update::default();
        update.offset = self.number;
        let flags = IoringRegisterFlags::USE_REGISTERED_RING;
        // An error: the kernel does so at the thread's end.
        // SAFETY: one update, which is only read.
        let _ = unsafe {
            rx::io_uring_register_with(
                self.as_fd(),
                IoringRegisterOp::UnregisterRingFds,
                flags,
                (&raw const update).cast(),
                1,
            )
        };
    }
}

/// Where the words lie in `queues`, and how many entries there are, as the kernel said.
struct Offsets {
    submission_head: u32,
    submission_tail: u32,
    submission_mask: u32,
    submissions: u32,
    submission_count: u32,
    answer_head: u32,
    answer_tail: u32,
    answer_mask: u32,
    answers: u32,
    answer_count: u32,
}

struct Mapped {
    base: NonNull<u8>,
    len: usize,
    /// The process that has it: a forked child does not, and may have something else there.
    of: u64,
}

impl Mapped {
    fn new(fd: &OwnedFd, len: usize, at: u64) -> Result<Mapped, Errno> {
        let of = identity::this_process()?;
        // SAFETY: a fresh mapping, not a fixed one, touches no memory of ours.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            rustix::mm::mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, at)?
        };
        let mapped = Mapped { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, len, of };
        // A child that had it would keep the ring alive, with requests that the parent wants taken back.
        // SAFETY: that mapping; the advice changes no bytes.
        unsafe { rustix::mm::madvise(base, len, Advice::LinuxDontFork)? };
        Ok(mapped)
    }

    /// A word that the kernel uses as well.
    fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.len);
        // SAFETY: inside the mapping, as the kernel said when it was set up; aligned.
        unsafe { &*self.base.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if identity::this_process() != Ok(self.of) {
            return;
        }
        // SAFETY: mapped by us, and nobody has a reference into it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Ring {
    /// A ring for that many groups at once.
    fn new(groups: u32) -> Result<Ring, Errno> {
        let mut params = io_uring_params::default();
        // One more for the request that takes the others back. Its room for answers is twice as large.
        let entries = (groups + 1).next_power_of_two();
        // SAFETY: the parameters are ours.
        let fd = unsafe { rx::io_uring_setup(entries, &mut params)? };
        let submissions = params.sq_off.array as usize + params.sq_entries as usize * 4;
        let completions = params.cq_off.cqes as usize + params.cq_entries as usize * size_of::<io_uring_cqe>();
        let one_mapping = params.features.contains(rx::IoringFeatureFlags::SINGLE_MMAP);
        if !one_mapping || !params.features.contains(rx::IoringFeatureFlags::EXT_ARG) {
            return Err(Errno::NOSYS);
        }
        let queues = Mapped::new(&fd, submissions.max(completions), rx::IORING_OFF_SQ_RING)?;
        let bytes = params.sq_entries as usize * size_of::<io_uring_sqe>();
        let entries = Mapped::new(&fd, bytes, rx::IORING_OFF_SQES)?;
        let at = Offsets {
            submission_head: params.sq_off.head,
            submission_tail: params.sq_off.tail,
            submission_mask: params.sq_off.ring_mask,
            submissions: params.sq_off.array,
            submission_count: params.sq_entries,
            answer_head: params.cq_off.head,
            answer_tail: params.cq_off.tail,
            answer_mask: params.cq_off.ring_mask,
            answers: params.cq_off.cqes,
            answer_count: params.cq_entries,
        };
        // Behind this line the descriptor is closed: from then on nothing can be taken for it.
        let registered = Registered::new(&fd)?;
        Ok(Ring { registered, groups: params.sq_entries - 1, queues, entries, at, worst: None })
    }

    /// Whether it has room for so many groups, and is this process's.
    fn serves(&self, groups: u32) -> bool {
        groups <= self.groups && identity::this_process() == Ok(self.registered.of)
    }

    /// Whether the kernel knows the request: it answers at once that the word is not as expected.
    fn can_wait(&mut self) -> Result<bool, Errno> {
        let word = crate::shim::AtomicU32::new(1);
        let mut waits = [Wait::new(); 1];
        fill(&mut waits, &[Watch { word: &word, expected: 0 }]);
        self.push(wait_for(&waits, 0));
        self.submit()?;
        self.enter(0, 1, Some(MOST_PATIENT))?;
        match self.answer() {
            Some((0, what)) if what == -Errno::AGAIN.raw_os_error() => Ok(true),
            Some((0, what)) if what == -Errno::NOMEM.raw_os_error() => Err(Errno::NOMEM),
            _ => Ok(false),
        }
    }

    /// See [`wait`].
    fn wait(&mut self, groups: &[Vec<Watch<'_>>], deadline: Deadline) -> Result<Wakeup, Failed> {
        debug_assert!(groups.len() as u32 <= self.groups && groups.iter().all(|group| group.len() <= MOST_WATCHES));
        self.worst = None;
        let mut waits: Vec<Wait> = vec![Wait::new(); groups.iter().map(Vec::len).sum()];
        let mut rest = &mut waits[..];
        for (number, group) in groups.iter().enumerate() {
            let (these, others) = rest.split_at_mut(group.len());
            rest = others;
            fill(these, group);
            self.push(wait_for(these, number as u64));
        }
        let slept = match self.submit() {
            Ok(()) => self.sleep(deadline),
            Err(errno) => Err(errno),
        };
        let handed_in = groups.len() as u32 - self.withdraw();
        // Whatever happened: nothing of ours stays queued. Died before: the kernel takes all back.
        self.take_back(handed_in).map_err(|_| Failed::Ring)?;
        let slept = slept.map_err(|_| Failed::Ring)?;
        self.worst.map_or(Ok(slept), |errno| Err(Failed::Request(errno)))
    }

    /// Takes back the requests that were handed in and are not answered, and takes in their answers.
    ///
    /// A request that stays queued could swallow a wake-up that another sleeper needs. So an error is no reason to give
    /// up at once. If the kernel refuses for good, the caller drops the ring: the kernel takes the requests back a moment
    /// later, and sleepers who miss a wake-up in that moment look by themselves.
    fn take_back(&mut self, handed_in: u32) -> Result<(), Errno> {
        let mut left = handed_in.saturating_sub(self.answers());
        if left > 0 {
            self.push(io_uring_sqe {
                opcode: IoringOp::AsyncCancel,
                op_flags: rx::op_flags_union {
                    cancel_flags: IoringAsyncCancelFlags::ALL | IoringAsyncCancelFlags::ANY,
                },
                user_data: CANCEL.into(),
                ..io_uring_sqe::default()
            });
            left += 1;
        }
        let mut failures = 0;
        while left > 0 {
            let before = self.unsubmitted();
            let entered = self.enter(before, 1, Some(MOST_PATIENT));
            let answers = self.answers();
            left = left.saturating_sub(answers);
            if answers == 0 && self.unsubmitted() == before {
                if failures == MOST_FAILURES {
                    // Success without effect: a filter answers in the kernel's place.
                    return entered.and(Err(Errno::BADF));
                }
                failures += 1;
            }
        }
        Ok(())
    }

    /// Hands in what has been pushed.
    fn submit(&mut self) -> Result<(), Errno> {
        loop {
            match self.unsubmitted() {
                0 => return Ok(()),
                left => {
                    self.enter(left, 0, None)?;
                    // The kernel takes at least one, or tells an error: a filter has answered.
                    if self.unsubmitted() == left {
                        return Err(Errno::BADF);
                    }
                }
            }
        }
    }

    /// Takes back what has been pushed and not handed in; how much that was.
    fn withdraw(&mut self) -> u32 {
        let left = self.unsubmitted();
        // Relaxed: only we write it, and the kernel reads it when we ask it to.
        let tail = self.queues.word(self.at.submission_tail);
        tail.store(tail.load(StdOrdering::Relaxed).wrapping_sub(left), StdOrdering::Relaxed);
        left
    }

    /// Takes in what answers there are; how many.
    fn answers(&mut self) -> u32 {
        let mut answers = 0;
        while let Some((whose, what)) = self.answer() {
            answers += 1;
            // Woken, or the answer of the request that took the others back.
            if whose == CANCEL || what >= 0 {
                continue;
            }
            match Errno::from_raw_os_error(what.wrapping_neg()) {
                // Not as expected, taken back: what a sleep ends with.
                Errno::AGAIN | Errno::CANCELED | Errno::INTR => {}
                errno if self.worst != Some(Errno::FAULT) => self.worst = Some(errno),
                _ => {}
            }
        }
        answers
    }

    /// Sleeps until there is an answer.
    fn sleep(&mut self, deadline: Deadline) -> Result<Wakeup, Errno> {
        let span = deadline.remaining();
        let span = if deadline.is_time_of_day() { span.map(|span| span.min(MOST_OF_A_DAY)) } else { span };
        match self.enter(0, 1, span) {
            Ok(()) | Err(Errno::INTR | Errno::AGAIN) => Ok(Wakeup::LookAgain),
            Err(Errno::TIME) if !deadline.has_passed() => Ok(Wakeup::LookAgain),
            Err(Errno::TIME) => Ok(Wakeup::TimedOut),
            Err(other) => Err(other),
        }
    }

    fn enter(&self, submit: u32, least: u32, span: Option<Duration>) -> Result<(), Errno> {
        let flags = IoringEnterFlags::GETEVENTS | IoringEnterFlags::EXT_ARG | IoringEnterFlags::REGISTERED_RING;
        let span =
            span.map(|span| rustix::time::Timespec { tv_sec: span.as_secs() as _, tv_nsec: span.subsec_nanos() as _ });
        let mut argument = io_uring_getevents_arg::default();
        if let Some(span) = &span {
            argument.ts = io_uring_ptr::new(core::ptr::from_ref(span).cast_mut().cast());
        }
        // SAFETY: the entries submitted point to waits that live until this returns, by when the kernel has copied them; the
        // argument lives as long.
        unsafe { rx::io_uring_enter_arg(self.registered.as_fd(), submit, least, flags, Some(&argument)) }.map(drop)
    }

    /// Puts a request in; it is submitted by the next `enter`.
    fn push(&mut self, request: io_uring_sqe) {
        let tail = self.queues.word(self.at.submission_tail);
        // Relaxed: only we write it.
        let at = tail.load(StdOrdering::Relaxed);
        let index =
            at & self.queues.word(self.at.submission_mask).load(StdOrdering::Relaxed) & (self.at.submission_count - 1);
        // SAFETY: below the number of entries, which are mapped; the kernel does not read it before it is submitted.
        unsafe { self.entries.base.as_ptr().cast::<io_uring_sqe>().add(index as usize).write(request) };
        self.queues.word(self.at.submissions + index * 4).store(index, StdOrdering::Relaxed);
        // Release: the kernel reads the entry behind it.
        tail.store(at.wrapping_add(1), StdOrdering::Release);
    }

    /// Requests that the kernel has not taken yet.
    fn unsubmitted(&self) -> u32 {
        let tail = self.queues.word(self.at.submission_tail).load(StdOrdering::Relaxed);
        tail.wrapping_sub(self.queues.word(self.at.submission_head).load(StdOrdering::Acquire))
    }

    /// Takes an answer in: whose, and what.
    fn answer(&mut self) -> Option<(u64, i32)> {
        let head = self.queues.word(self.at.answer_head);
        let at = head.load(StdOrdering::Relaxed);
        // Acquire: the answer is there.
        if at == self.queues.word(self.at.answer_tail).load(StdOrdering::Acquire) {
            return None;
        }
        let index = at & self.queues.word(self.at.answer_mask).load(StdOrdering::Relaxed) & (self.at.answer_count - 1);
        let offset = self.at.answers as usize + index as usize * size_of::<io_uring_cqe>();
        // SAFETY: below the number of answers, which are mapped; written by the kernel before the tail.
        let (whose, what) = unsafe {
            let answer = &*self.queues.base.as_ptr().add(offset).cast::<io_uring_cqe>();
            (answer.user_data.u64_(), answer.res)
        };
        // Release: we have read it.
        head.store(at.wrapping_add(1), StdOrdering::Release);
        Some((whose, what))
    }
}

fn fill(waits: &mut [Wait], group: &[Watch<'_>]) {
    for (wait, watch) in waits.iter_mut().zip(group) {
        wait.val = u64::from(watch.expected);
        wait.uaddr = WaitPtr::new(watch.word.as_ptr().cast());
        // Shared always: no PRIVATE among the flags.
        wait.flags = WaitFlags::SIZE_U32;
    }
}

fn wait_for(waits: &[Wait], number: u64) -> io_uring_sqe {
    io_uring_sqe {
        opcode: IoringOp::FutexWaitv,
        addr_or_splice_off_in: rx::addr_or_splice_off_in_union {
            addr: io_uring_ptr::new(waits.as_ptr().cast_mut().cast()),
        },
        len: rx::len_union { len: waits.len() as u32 },
        user_data: number.into(),
        ..io_uring_sqe::default()
    }
}
