//! Waits for another value of a state: each waiter is told of values and deaths, and the next
//! writer of its turn.

use std::time::Duration;

use outlive::state::{Change, State, Watch};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error, Peer, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;
use crate::states::{Value, idle_writer, opened, value, write_on};
use crate::wait_bridges::block_on;
use crate::wait_sets::{AS_IT_IS, NO_WAITV};
use crate::waiting::owner;

crate::checks!(
    who_waits_is_told_of_values_and_deaths,
    who_waits_is_told_without_futex_waitv,
    who_waits_in_a_set_is_told,
    who_waits_in_a_set_without_futex_waitv_is_told,
    who_awaits_is_told,
    sets_are_told_of_many_states: 60,
    who_waits_sees_one_that_comes_and_dies,
    the_next_writer_waits_for_the_end,
);

/// How one waits.
#[derive(Clone, Copy)]
enum How {
    Plainly,
    InASet,
    /// With an owner in the set beside the state, so that its thread's end passes on another
    /// wake-up.
    BesideAnOwner(Peer),
    Awaited,
}

fn change(watch: &mut Watch, set: &mut WaitSet, how: How) -> Change {
    match how {
        How::Plainly => watch.changed().expect("told"),
        How::InASet | How::BesideAnOwner(_) => loop {
            if let Some(change) = watch.try_changed().expect("told") {
                return change;
            }
            let told: Vec<_> = set.wait().expect("ready").map(|(_, what)| what).collect();
            assert!(matches!(told[..], [Readiness::Changed | Readiness::Ended]), "{told:?}");
        },
        How::Awaited => block_on(watch.changed_async()).expect("told"),
    }
}

/// Three that wait; each tells what came by the board.
fn waiting(
    domain: &Domain,
    state: &State<Value>,
    board: &'static Board,
    prepare: fn(),
    hows: [How; 3],
) -> Vec<Child> {
    let children: Vec<Child> = (0..3)
        .map(|index| {
            Child::start(move || {
                prepare();
                let mut watch = state.watch();
                let mut set = WaitSet::new(domain);
                set.set_wait_strategy(WaitStrategy::Block);
                set.add(&watch).expect("added");
                if let How::BesideAnOwner(peer) = hows[index] {
                    set.add(&peer).expect("added");
                }
                assert_eq!(watch.changed(), Ok(Change::Value { version: 1 }));
                board.set(index, 1);
                loop {
                    match change(&mut watch, &mut set, hows[index]) {
                        Change::Value { version } => board.set(index, version),
                        Change::WriterDied { .. } => board.set(index, 1000 + board.get(index)),
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    (0..3).for_each(|index| {
        board.reach(index, 1);
    });
    children.iter().for_each(|child| wait_asleep(child.pid()));
    children
}

fn told(board: &Board, what: u64) {
    wait_until("all three are told", || (0..3).all(|index| board.get(index) == what));
}

fn tell(world: &World, prepare: fn(), hows: [How; 3]) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    // At first no process writes: the waiters wait for a writer to come.
    let mut waiters = waiting(&world.domain(), &state, board, prepare, hows);
    let asleep = |waiters: &[Child]| waiters.iter().for_each(|child| wait_asleep(child.pid()));
    let go = Board::new();
    let mut writer = Child::start(|| {
        let mut writer = state.writer().expect("none lives");
        for version in 2..=3 {
            go.reach(0, version);
            assert_eq!(writer.set(&value(version)), Ok(version));
        }
        loop {
            std::thread::park();
        }
    });
    for version in 2..=3 {
        go.set(0, version);
        told(board, version);
        asleep(&waiters);
    }
    writer.kill();
    told(board, 1003);
    asleep(&waiters);
    // One that leaves in order is no news.
    let mut own = state.writer().expect("free");
    assert_eq!(own.set(&value(4)), Ok(4));
    told(board, 4);
    asleep(&waiters);
    drop(own);
    asleep(&waiters);
    told(board, 4);
    let mut last = idle_writer(&state);
    asleep(&waiters);
    last.kill();
    told(board, 1004);
    assert!(waiters.iter_mut().all(|child| !child.has_ended()));
    waiters.iter_mut().for_each(Child::kill);
}

fn who_waits_is_told_of_values_and_deaths(world: &World) {
    tell(world, AS_IT_IS, [How::Plainly; 3]);
}

fn who_waits_is_told_without_futex_waitv(world: &World) {
    tell(world, NO_WAITV, [How::Plainly; 3]);
}

fn who_waits_in_a_set_is_told(world: &World) {
    let (_other, peer) = owner(&world.domain(), Board::new());
    tell(world, AS_IT_IS, [How::InASet, How::BesideAnOwner(peer), How::InASet]);
}

fn who_waits_in_a_set_without_futex_waitv_is_told(world: &World) {
    let (_other, peer) = owner(&world.domain(), Board::new());
    tell(world, NO_WAITV, [How::InASet, How::BesideAnOwner(peer), How::InASet]);
}

fn who_awaits_is_told(world: &World) {
    tell(world, AS_IT_IS, [How::Awaited; 3]);
}

/// Three hundred states in one set, their writers killed and replaced: each last value is told, and
/// each death.
fn sets_are_told_of_many_states(world: &World) {
    const STATES: usize = 300;
    let domain = world.domain();
    let open = |at: usize| State::<u64>::open_or_create(&domain, &format!("s{at}")).expect("opens");
    let states: Vec<_> = (0..STATES).map(open).collect();
    let board = Board::new();
    let (shared, all) = (&domain, &states);
    let mut waiter = Child::start(move || {
        let mut set = WaitSet::new(shared);
        let mut watches: Vec<_> = all.iter().map(State::watch).collect();
        let keys: Vec<_> = watches.iter().map(|watch| set.add(watch).expect("added")).collect();
        loop {
            let ready: Vec<_> = set.wait().expect("ready").collect();
            for (key, _) in ready {
                let at = keys.binary_search(&key).expect("one of them");
                match watches[at].try_changed().expect("told") {
                    Some(Change::Value { version }) => board.set(at, 2 * version),
                    Some(Change::WriterDied { version }) => board.set(at, 2 * version + 1),
                    // The death of a writer that had set nothing, which the check below does not
                    // wait for: the next writer has come.
                    None => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    (0..STATES).for_each(|at| {
        board.reach(at, 1);
    });
    let mut random = Random::new();
    for _ in 0..40 {
        let seed = random.next();
        let mut writer = Child::start(|| {
            let mut random = Random::from_seed(seed);
            let mut writers: Vec<_> =
                states.iter().map(|state| state.writer().expect("free")).collect();
            loop {
                writers[random.below(STATES as u64) as usize].set(&1).expect("set");
            }
        });
        random.pause(4000);
        writer.kill();
        for (at, state) in states.iter().enumerate() {
            let is_dead = u64::from(state.current_writer().is_some());
            wait_until("the last value and the death are told", || {
                // The watch does not report a process that did not come to be the writer.
                board.get(at) / 2 == state.version() && (is_dead == 0 || board.get(at) & 1 == 1)
            });
        }
    }
    waiter.kill();

    assert_eq!(domain.stats().rescues, 0);
}

fn who_waits_sees_one_that_comes_and_dies(world: &World) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let (_other, peer) = owner(&world.domain(), Board::new());
    let hows = [How::Plainly, How::BesideAnOwner(peer), How::Awaited];
    let mut waiters = waiting(&world.domain(), &state, board, AS_IT_IS, hows);
    let mut random = Random::new();
    for _ in 0..200 {
        let before = state.version();
        let mut writer = Child::start(|| {
            let mut writer = state.writer().expect("none lives");
            write_on(&mut writer, before);
        });
        std::thread::sleep(Duration::from_micros(random.below(700)));
        writer.kill();
        let version = state.version();
        let has_come = state.current_writer().is_some();
        let news = if has_come { 1000 + version } else { version };
        wait_until("all are told", || (0..3).all(|index| board.get(index) == news));
        state.writer().expect("free").set(&value(version + 1)).expect("set");
        wait_until("all are told", || (0..3).all(|index| board.get(index) == version + 1));
    }
    waiters.iter_mut().for_each(Child::kill);
    assert_eq!(world.domain().stats().rescues, 0);
}

fn the_next_writer_waits_for_the_end(world: &World) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut first = idle_writer(&state);
    assert!(state.try_wait_to_write().expect("taken").is_none());
    assert!(state.wait_to_write_timeout(Duration::from_millis(5)).expect("taken").is_none());
    let error = state.writer().err().expect("taken");
    assert!(matches!(error, Error::Taken { pid, .. } if pid == Some(first.pid() as u32)));
    let mut next: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                let mut writer = state.wait_to_write().expect("my turn");
                let version = state.version() + 1;
                assert_eq!(writer.set(&value(version)), Ok(version));
                board.add(0, 1);
                // Leaves in good order.
            })
        })
        .collect();
    next.iter().for_each(|child| wait_asleep(child.pid()));
    first.kill();
    assert_eq!(board.reach(0, 3), 3);
    next.drain(..).for_each(Child::finish);
    assert_eq!(state.get(), Ok(value(4)));
}
