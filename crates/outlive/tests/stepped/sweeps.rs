//! A process dies while a sweep is under way.
//!
//! Only its token tells that a name in shared memory is a dead process's. A process that dies after the
//! sweep's first look may have left its name where the sweep has been already. So the sweep must not
//! retire its token.

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(the_token_of_a_process_that_dies_during_a_sweep_is_left_to_the_next,);

/// How many tokens a sweep has retired.
const RETIRED: usize = FREE;
/// 1: the owner has its token.
const OWNS: usize = FREE + 1;

fn the_token_of_a_process_that_dies_during_a_sweep_is_left_to_the_next(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut owner = Child::start(|| {
        domain.token().expect("a token");
        board.set(OWNS, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(OWNS, 1);
    let mut sweeping = Stepped::start(world, board, || {
        let sweep = |_| {
            let report = domain.sweep(false).expect("sweeps");
            assert!(report.failed.is_empty() && report.ending == 0, "{report:?}");
            board.set(RETIRED, u64::from(report.tokens));
        };
        in_rounds(board, sweep, |_| {});
    });
    assert!(sweeping.to_call(libc::SYS_getdents64), "the sweep lists the domain after its first look");
    owner.kill();
    sweeping.go_on();
    assert_eq!(board.get(RETIRED), 0, "the owner lived when the sweep began");
    sweeping.go_on();
    assert_eq!(board.get(RETIRED), 1, "the next sweep retires it");
}
