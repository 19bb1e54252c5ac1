//! A child that runs an operation round after round, and is moved on by single instructions.

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

/// On the board: 2 * round + 1 while the child is on its way, 2 * round + 2 once it has returned.
const STAND: usize = 0;
/// The word's value when the child may not be traced.
const REFUSED: u64 = u64::MAX;
/// Words of the board from this one on are the check's.
pub const FREE: usize = 1;

/// The child, and the instruction at which it is stopped.
pub struct Stepped<'a> {
    pub child: Child,
    board: Board,
    world: &'a World,
    round: u64,
}

fn ptrace(request: libc::c_uint, pid: i32) -> bool {
    let none = core::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests that are made here reads or writes memory of ours.
    unsafe { libc::ptrace(request, pid, none, none) == 0 }
}

/// Returns the system call that the process is in, is about to make, or has just made.
fn call_of(pid: i32) -> Option<libc::c_long> {
    let path = format!("/proc/{pid}/syscall");
    let call = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    call.split(' ').next()?.trim().parse().ok()
}

impl<'a> Stepped<'a> {
    /// Starts the child, which stands still then where its first round begins. `life` is called in
    /// the child, and calls [`in_rounds`].
    pub fn start(world: &'a World, board: Board, life: impl FnOnce()) -> Stepped<'a> {
        let stepped = Stepped { child: Child::start(life), board, world, round: 0 };
        stepped.wait_stopped();
        stepped
    }

    /// Waits until the child stands still; fails when it ends instead. Without a deadline of its
    /// own: the check has one.
    fn wait_stopped(&self) {
        let mut status = 0;
        // SAFETY: status is a place for an int.
        let got = unsafe { libc::waitpid(self.child.pid(), &raw mut status, 0) };
        if self.board.get(STAND) == REFUSED {
            self.world.skip("a process may not be traced here");
        }
        assert_eq!(got, self.child.pid(), "a child that is waited for");
        assert!(libc::WIFSTOPPED(status), "the traced child ended: {status:x}");
        let signal = libc::WSTOPSIG(status);
        assert!(matches!(signal, libc::SIGTRAP | libc::SIGSTOP), "stopped by {signal}");
    }

    /// Moves it on by so many instructions of the round, or as many as there are. Whether the
    /// operation has returned.
    pub fn step(&self, steps: u64) -> bool {
        let mut done = 0;
        while self.board.get(STAND) != 2 * self.round + 2 && done < steps {
            assert!(ptrace(libc::PTRACE_SINGLESTEP, self.child.pid()), "a step is made");
            self.wait_stopped();
            // What comes before the operation is not counted.
            done += u64::from(self.board.get(STAND) == 2 * self.round + 1);
        }
        self.board.get(STAND) == 2 * self.round + 2
    }

    /// Moves the child on to the next call of that number. Returns false if the operation has
    /// returned without one.
    pub fn to_call(&self, number: libc::c_long) -> bool {
        std::iter::from_fn(|| self.next_call()).any(|call| call == number)
    }

    /// Moves the child on to where it makes its next call, or has made it, and returns the call's
    /// number; `None` once the operation has returned.
    pub fn next_call(&self) -> Option<libc::c_long> {
        while self.board.get(STAND) != 2 * self.round + 2 {
            assert!(ptrace(libc::PTRACE_SYSCALL, self.child.pid()), "it goes on");
            self.wait_stopped();
            let call = call_of(self.child.pid());
            if call.is_some() && self.board.get(STAND) != 2 * self.round + 2 {
                return call;
            }
        }
        None
    }

    /// Lets it go on to where the next round begins.
    pub fn go_on(&mut self) {
        assert!(ptrace(libc::PTRACE_CONT, self.child.pid()), "it goes on");
        self.wait_stopped();
        self.round += 1;
    }
}

/// In the child: the operation, and what is done after it, round after round.
pub fn in_rounds(board: Board, mut operation: impl FnMut(u64), mut afterwards: impl FnMut(u64)) {
    if !ptrace(libc::PTRACE_TRACEME, 0) {
        board.set(STAND, REFUSED);
        return;
    }
    for round in 0.. {
        // SAFETY: always.
        unsafe { libc::raise(libc::SIGSTOP) };
        board.set(STAND, 2 * round + 1);
        operation(round);
        board.set(STAND, 2 * round + 2);
        afterwards(round);
    }
}
