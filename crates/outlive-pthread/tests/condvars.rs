//! Process-shared condition variables: waiters and signallers are killed.

mod programs;

use programs::Place;

#[test]
fn a_waiter_is_killed_and_another_gets_every_item() {
    for place in Place::without_and_with("waiter") {
        place.run("init");
        let victim = place.start("lock-plain wait-item");
        let other =
            place.start("lock-plain wait-item unlock-plain lock-plain wait-item unlock-plain");
        victim.falls_asleep();
        other.falls_asleep();
        victim.kill();
        let bring = "lock-plain add-item signal unlock-plain";
        place.run(bring);
        other.until("wait-item 0");
        other.falls_asleep();
        let second = place.start(bring);
        if place.with_shim {
            second.all_lines();
            other.until("wait-item 0");
        } else {
            // libc's wakes the dead one.
            other.until("lock-plain 0");
            other.hangs();
        }
    }
}

#[test]
fn a_waiter_is_killed_and_destroy_does_not_wait_for_it() {
    for place in Place::without_and_with("destroy") {
        place.run("init");
        let victim = place.start("lock-plain wait-item");
        victim.falls_asleep();
        victim.kill();
        let last = place.start("destroy-cond init lock-plain timedwait unlock-plain");
        if place.with_shim {
            let late = libc::ETIMEDOUT;
            assert_eq!(
                last.all_lines(),
                format!("destroy-cond 0, init 0, lock-plain 0, timedwait {late}, unlock-plain 0")
            );
        } else {
            last.hangs();
        }
    }
}

#[test]
fn who_would_have_signalled_is_killed_before() {
    for place in Place::without_and_with("signaller") {
        place.run("init");
        let waiter = place.start("lock-plain wait-item unlock-plain");
        waiter.falls_asleep();
        let bringer = place.start("lock-plain add-item unlock-plain pause");
        bringer.until("pause");
        bringer.kill();
        if place.with_shim {
            // The recheck finds it, a second later at most.
            waiter.until("wait-item 0");
        } else {
            waiter.until("lock-plain 0");
            waiter.hangs();
        }
    }
}

#[test]
fn who_would_have_signalled_is_killed_with_the_mutex_in_hand() {
    for place in Place::without_and_with("holder") {
        place.run("init");
        let waiter = place.start("lock-plain wait-item unlock-plain");
        waiter.falls_asleep();
        let bringer = place.start("lock-plain add-item pause");
        bringer.until("pause");
        bringer.kill();
        if place.with_shim {
            waiter.until("wait-item 0");
            assert!(
                place.log().contains("mutex") && place.log().contains("died; made consistent"),
                "{}",
                place.log()
            );
        } else {
            waiter.until("lock-plain 0");
            waiter.hangs();
        }
    }
}

/// The recheck is not what wakes them ordinarily.
#[test]
fn a_signal_wakes_all_and_wakes_them_itself() {
    let place = Place::new("all", true).set("OUTLIVE_PTHREAD_RECHECK", "0");
    for how in ["signal", "broadcast"] {
        place.run("init");
        let waiters = [(); 3].map(|()| place.start("lock-plain wait-item unlock-plain"));
        waiters.iter().for_each(programs::Running::falls_asleep);
        place.run(&format!("lock-plain add-item add-item add-item unlock-plain {how}"));
        for waiter in waiters {
            assert_eq!(waiter.all_lines(), "lock-plain 0, wait-item 0, unlock-plain 0");
        }
    }
}

#[test]
fn deadlines_are_kept_on_each_clock() {
    for place in Place::without_and_with("clocks") {
        let (late, wrong) = (libc::ETIMEDOUT, libc::EINVAL);
        let said = place
            .run("init lock-plain timedwait timedwait-monotonic clockwait pastwait badwait trylock-plain unlock-plain");
        assert_eq!(
            said,
            format!(
                "init 0, lock-plain 0, timedwait {late}, timedwait-monotonic {late}, clockwait {late}, pastwait {late}, \
                 badwait {wrong}, trylock-plain {}, unlock-plain 0",
                libc::EBUSY
            )
        );
    }
}

/// With the recheck off, which would end the wait a second later.
#[test]
fn a_cancelled_waiter_leaves_at_once_and_has_the_mutex_in_its_cleanup() {
    for place in Place::without_and_with("cancel") {
        let place = place.set("OUTLIVE_PTHREAD_RECHECK", "0");
        let said = place.run("init cancel-wait cancel-timed cancel-clock trylock-plain");
        assert_eq!(said, "init 0, cancel-wait 0, cancel-timed 0, cancel-clock 0, trylock-plain 0");
    }
}

#[test]
fn strict_tells_who_comes_back_from_a_wait() {
    let place = Place::new("strict", true).set("OUTLIVE_PTHREAD", "strict");
    place.run("init");
    let waiter = place.start("lock-plain wait-item consistent-plain unlock-plain");
    waiter.falls_asleep();
    let holder = place.start("lock-plain broadcast pause");
    holder.until("pause");
    holder.kill();
    let told = libc::EOWNERDEAD;
    assert_eq!(
        waiter.all_lines(),
        format!("lock-plain 0, wait-item {told}, consistent-plain 0, unlock-plain 0")
    );
}
