//! Sleeping until any of several owners has ended, beside others that sleep on one of them alone.

use std::time::Duration;

use outlive::{Domain, TokenId};

use crate::asleep::{thread_id, wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::waiting::{owner, token_on};

crate::checks!(
    whichever_dies_first_is_named,
    a_dead_one_among_them_is_told_at_once,
    without_tokens_or_deaths_the_deadline_ends_it,
    more_owners_than_the_kernel_watches_at_once,
    several_without_futex_waitv,
    those_who_sleep_on_one_are_woken_beside_those_who_sleep_on_several,
    a_sleeper_that_dies_with_its_owner_strands_nobody: 60,
);

fn owners(domain: &Domain, count: usize) -> (Vec<Child>, Vec<TokenId>) {
    (0..count)
        .map(|_| {
            let (child, peer) = owner(domain, Board::new());
            (child, peer.id())
        })
        .unzip()
}

/// A child that must be told that `expected` ended.
fn waiter<'a>(domain: &'a Domain, ids: &'a [TokenId], expected: TokenId) -> Child {
    let waiter = Child::start(move || assert_eq!(domain.wait_any_dead(ids), Ok(expected)));
    wait_asleep(waiter.pid());
    waiter
}

fn whichever_dies_first_is_named(world: &World) {
    let domain = world.domain();
    for victim in 0..3 {
        let (mut children, ids) = owners(&domain, 3);
        let waiters: Vec<Child> = (0..3).map(|_| waiter(&domain, &ids, ids[victim])).collect();
        children[victim].kill();
        waiters.into_iter().for_each(Child::finish);
    }
}

fn a_dead_one_among_them_is_told_at_once(world: &World) {
    let domain = world.domain();
    let (mut children, ids) = owners(&domain, 3);
    children[1].kill();
    assert_eq!(domain.wait_any_dead_timeout(&ids, Duration::ZERO), Ok(Some(ids[1])));
}

fn without_tokens_or_deaths_the_deadline_ends_it(world: &World) {
    let domain = world.domain();
    assert_eq!(domain.wait_any_dead_timeout(&[], Duration::from_millis(5)), Ok(None));
    let (_children, ids) = owners(&domain, 2);
    assert_eq!(domain.wait_any_dead_timeout(&ids, Duration::from_millis(5)), Ok(None));
}

fn more_owners_than_the_kernel_watches_at_once(world: &World) {
    let domain = world.domain();
    for victim in [0, 29, 30, 39] {
        let (mut children, ids) = owners(&domain, 40);
        let waiter = waiter(&domain, &ids, ids[victim]);
        children[victim].kill();
        waiter.finish();
    }
}

fn several_without_futex_waitv(world: &World) {
    let domain = world.domain();
    let (mut children, ids) = owners(&domain, 3);
    let (all, last) = (&ids, ids[2]);
    let domain = &domain;
    let waiter = Child::start(move || {
        outlive::abilities::pretend_no_futex_waitv();
        assert_eq!(domain.wait_any_dead(all), Ok(last));
    });
    wait_asleep(waiter.pid());
    children[2].kill();
    waiter.finish();
}

fn those_who_sleep_on_one_are_woken_beside_those_who_sleep_on_several(world: &World) {
    let domain = world.domain();
    for several_first in [false, true] {
        let (mut children, ids) = owners(&domain, 2);
        let pair = |who: usize| (0..2).map(move |_| who);
        // Alone on 0, alone on 1, on both: in either order, so that slots are grouped under
        // sleepers and before them.
        let mut order: Vec<usize> = pair(0).chain(pair(1)).chain(pair(2)).collect();
        if several_first {
            order.reverse();
        }
        let single = [[ids[0]], [ids[1]]];
        let mut waiters: Vec<(usize, Child)> = Vec::new();
        for who in order {
            let child = match who {
                2 => waiter(&domain, &ids, ids[0]),
                one => waiter(&domain, &single[one], ids[one]),
            };
            waiters.push((who, child));
        }
        children[0].kill();
        let (on_one, rest): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|(who, _)| *who == 1);
        rest.into_iter().for_each(|(_, child)| child.finish());
        children[1].kill();
        on_one.into_iter().for_each(|(_, child)| child.finish());
    }
}

/// One process has an owner and a sleeper on several: killed together, the sleeper may swallow the
/// kernel's one wake-up.
fn a_sleeper_that_dies_with_its_owner_strands_nobody(world: &World) {
    let domain = world.domain();
    let (mut other, other_id) = owner(&domain, Board::new());
    let other_id = other_id.id();
    for round in 0..60 {
        let board = Board::new();
        let shared = &domain;
        let mut both = Child::start(move || {
            let own = shared.token().expect("a token");
            board.set(0, u64::from(own.as_u32()));
            let sleepers: Vec<_> = (1..4)
                .map(|n| {
                    let domain = shared.clone();
                    std::thread::spawn(move || {
                        board.set(n, thread_id() as u64);
                        let _ = domain.wait_any_dead(&[own, other_id]);
                    })
                })
                .collect();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no panic"));
        });
        let id = token_on(&domain, board, 0);
        let alone = [id];
        // Half of the rounds: asleep before the slots are grouped.
        let early = (round % 2 == 0).then(|| waiter(&domain, &alone, id));
        for n in 1..4 {
            let sleeper = board.reach(n, 1) as i32;
            wait_thread_asleep(both.pid(), sleeper);
        }
        let late: Vec<Child> = (0..2).map(|_| waiter(&domain, &alone, id)).collect();
        both.kill();
        early.into_iter().chain(late).for_each(Child::finish);
    }
    other.kill();
}
