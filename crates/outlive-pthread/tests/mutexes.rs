//! Process-shared mutexes: a holder is killed while another process sleeps for the mutex. Without
//! the shim the sleeper sleeps on.

mod programs;

use programs::Place;

#[test]
fn a_killed_holders_mutex_goes_to_who_sleeps_for_it() {
    for place in Place::without_and_with("mutex") {
        place.run("init");
        let holder = place.start("lock-plain pause");
        holder.until("pause");
        let waiter = place.start("lock-plain unlock-plain");
        waiter.falls_asleep();
        let dead = holder.pid();
        holder.kill();
        if !place.with_shim {
            waiter.hangs();
            continue;
        }
        assert_eq!(waiter.all_lines(), "lock-plain 0, unlock-plain 0");
        // Once: a later owner is told nothing.
        assert_eq!(place.run("lock-plain unlock-plain"), "lock-plain 0, unlock-plain 0");
        let log = place.log();
        let told =
            format!("its last known holder, thread {dead}, died; made consistent and given to us");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("died")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        let line = lines[0];
        assert!(
            line.contains(&told) && line.contains("(steps-c-") && line.contains("locks+0x0)"),
            "{line}"
        );
        assert!(line.starts_with("20") && line.contains("Z outlive-pthread: pid "), "{line}");
    }
}

#[test]
fn also_if_there_is_a_chain_of_deaths() {
    let place = Place::new("chain", true);
    place.run("init");
    for _ in 0..20 {
        let holder = place.start("lock-plain pause");
        holder.until("pause");
        holder.kill();
    }
    assert_eq!(place.run("lock-plain unlock-plain"), "lock-plain 0, unlock-plain 0");
    assert_eq!(place.log().lines().filter(|line| line.contains(" died; ")).count(), 20);
}

#[test]
fn every_way_to_lock_gets_it() {
    for how in ["lock", "trylock", "timedlock", "clocklock"] {
        for place in Place::without_and_with(how) {
            place.run("init");
            let holder = place.start("lock-plain pause");
            holder.until("pause");
            holder.kill();
            if place.with_shim {
                assert_eq!(
                    place.run(&format!("{how}-plain unlock-plain")),
                    format!("{how}-plain 0, unlock-plain 0")
                );
            } else if how == "lock" {
                place.start("lock-plain").hangs();
            } else {
                let refused = if how == "trylock" { libc::EBUSY } else { libc::ETIMEDOUT };
                assert_eq!(place.run(&format!("{how}-plain")), format!("{how}-plain {refused}"));
            }
        }
    }
}

#[test]
fn recursive_and_checking_ones_stay_what_they_are() {
    let place = Place::new("types", true);
    place.run("init");
    let holder = place.start("lock-recursive lock-recursive lock-checking pause");
    holder.until("pause");
    assert_eq!(
        place.run("trylock-recursive trylock-checking"),
        "trylock-recursive 16, trylock-checking 16"
    );
    holder.kill();
    let after = place.run(
        "lock-recursive lock-recursive unlock-recursive unlock-recursive unlock-recursive \
         lock-checking lock-checking unlock-checking unlock-checking",
    );
    let (eperm, edeadlk) = (libc::EPERM, libc::EDEADLK);
    let expected = format!(
        "lock-recursive 0, lock-recursive 0, unlock-recursive 0, unlock-recursive 0, unlock-recursive {eperm}, \
         lock-checking 0, lock-checking {edeadlk}, unlock-checking 0, unlock-checking {eperm}"
    );
    assert_eq!(after, expected);
}

#[test]
fn one_with_priority_inheritance_is_made_robust_too() {
    for place in Place::without_and_with("inherit") {
        place.run("init");
        let holder = place.start("lock-inheriting pause");
        holder.until("pause");
        let waiter = place.start("lock-inheriting unlock-inheriting");
        waiter.falls_asleep();
        holder.kill();
        if place.with_shim {
            assert_eq!(waiter.all_lines(), "lock-inheriting 0, unlock-inheriting 0");
        } else {
            // glibc 2.36 ends such a waiter by a failed assertion.
            waiter.hangs_or_fails();
        }
    }
}

#[test]
fn one_with_a_ceiling_is_left_alone_and_the_log_says_so() {
    let place = Place::new("protect", true);
    assert_eq!(place.run("init"), "init 0");
    assert!(place.log().contains("left to libc: it cannot be made robust"), "{}", place.log());
}

#[test]
fn a_program_that_asked_for_robustness_is_told_as_before() {
    for place in Place::without_and_with("own") {
        place.run("init");
        let holder = place.start("lock-robust pause");
        holder.until("pause");
        holder.kill();
        let repaired = place.run("lock-robust consistent-robust unlock-robust lock-robust");
        let told = libc::EOWNERDEAD;
        assert_eq!(
            repaired,
            format!("lock-robust {told}, consistent-robust 0, unlock-robust 0, lock-robust 0")
        );
        // It ended with the lock in hand; the next one unlocks without a repair.
        let unrepaired = place.run("lock-robust unlock-robust lock-robust");
        assert_eq!(
            unrepaired,
            format!("lock-robust {told}, unlock-robust 0, lock-robust {}", libc::ENOTRECOVERABLE)
        );
        assert!(!place.log().contains("died"), "{}", place.log());
    }
}

#[test]
fn strict_tells_the_caller() {
    let place = Place::new("strict", true).set("OUTLIVE_PTHREAD", "strict");
    place.run("init");
    let holder = place.start("lock-plain pause");
    holder.until("pause");
    let dead = holder.pid();
    holder.kill();
    let told = place.run("lock-plain consistent-plain unlock-plain lock-plain unlock-plain");
    let expected = format!(
        "lock-plain {}, consistent-plain 0, unlock-plain 0, lock-plain 0, unlock-plain 0",
        libc::EOWNERDEAD
    );
    assert_eq!(told, expected);
    let line = format!("thread {dead}, died; EOWNERDEAD is returned");
    assert!(place.log().contains(&line), "{}", place.log());
    // Told and not repaired: not recoverable, and the log says why it is refused from then on.
    place.start("lock-plain pause").until("pause");
    place.run("lock-plain unlock-plain");
    assert_eq!(place.run("lock-plain"), format!("lock-plain {}", libc::ENOTRECOVERABLE));
    assert!(place.log().contains("refused: a thread was told of a death"), "{}", place.log());
}

#[test]
fn off_leaves_everything_to_libc() {
    let place = Place::new("off", true).set("OUTLIVE_PTHREAD", "off");
    place.run("init");
    let holder = place.start("lock-plain rdlock pause");
    holder.until("pause");
    let waiter = place.start("lock-plain");
    waiter.falls_asleep();
    holder.kill();
    waiter.hangs();
    assert_eq!(place.log(), "");
    assert!(!place.path("domain").exists(), "nothing was asked of Outlive");
}

#[test]
fn a_thread_that_ends_with_locks_in_hand_leaves_them_to_others() {
    let place = Place::new("thread", true);
    let said = place.run("init thread-ends trylock-plain trywrlock");
    assert_eq!(said, "init 0, thread-ends 0, trylock-plain 0, trywrlock 0");
    assert_eq!(
        place.log().lines().filter(|line| line.contains(" died; made consistent")).count(),
        2
    );
}

/// What the note of the holder relies on: libc leaves that word of a robust mutex alone, whatever
/// is done to it. If a later glibc does not, the dead one's name is wrong here, or the lock is
/// taken for one that asked for robustness by itself.
#[test]
fn the_note_of_the_holder_survives_everything_that_libc_does() {
    let place = Place::new("note", true);
    place.run("init");
    for which in ["plain", "recursive", "checking", "adaptive", "inheriting"] {
        let used = format!(
            "lock-{which} unlock-{which} trylock-{which} unlock-{which} timedlock-{which} unlock-{which}"
        );
        place.run(&used);
        let holder = place.start(&format!("{used} lock-{which} pause"));
        holder.until("pause");
        let contended = place.run(&format!("trylock-{which} timedlock-{which}"));
        assert_eq!(
            contended,
            format!("trylock-{which} {}, timedlock-{which} {}", libc::EBUSY, libc::ETIMEDOUT)
        );
        let dead = holder.pid();
        holder.kill();
        place.run(&format!("{used} destroy-{which}"));
        assert!(
            place.log().contains(&format!("last known holder, thread {dead}, died")),
            "{which}: {}",
            place.log()
        );
    }
}
