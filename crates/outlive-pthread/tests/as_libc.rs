//! What the functions answer where no process dies: the same with the shim as without it.
//!
//! A program that knows nothing of the shim checks these answers: whether a lock may be destroyed,
//! whether it has it already, whether a time is one. doc/pthread-shim.md names the few that differ.

mod programs;

use programs::Place;

/// Runs the steps without the shim and with it, beside a process that holds what `beside` took.
fn same(name: &str, beside: &str, steps: &str) {
    let [libc, ours] = Place::without_and_with(name).map(|place| {
        place.run("init");
        let holder = (!beside.is_empty()).then(|| {
            let holder = place.start(&format!("{beside} pause"));
            holder.until("pause");
            holder
        });
        let said = place.run(steps);
        drop(holder);
        said
    });
    assert_eq!(ours, libc, "`{steps}` beside `{beside}`");
}

#[test]
fn of_mutexes_that_this_thread_has() {
    for which in ["plain", "recursive", "checking", "adaptive", "inheriting", "robust"] {
        let steps = "lock trylock destroy unlock trylock destroy unlock badclocklock consistent \
                     badtimedlock unlock pasttimedlock unlock lock condwait unlock destroy"
            .split_whitespace()
            .map(|step| format!("{step}-{which}"))
            .collect::<Vec<_>>()
            .join(" ");
        same(&format!("own-{which}"), "", &steps);
    }
    // Only these two look for the owner where they are libc's.
    for which in ["recursive", "checking"] {
        let steps =
            "unlock timedlock timedlock clocklock unlock unlock unlock unlock condwait lock"
                .split_whitespace()
                .map(|step| format!("{step}-{which}"))
                .collect::<Vec<_>>()
                .join(" ");
        same(&format!("owner-{which}"), "", &steps);
    }
}

#[test]
fn of_mutexes_that_another_process_has() {
    for which in ["plain", "recursive", "checking", "adaptive", "inheriting", "robust"] {
        let steps =
            "trylock destroy timedlock clocklock badtimedlock pasttimedlock badclocklock destroy"
                .split_whitespace()
                .map(|step| format!("{step}-{which}"))
                .collect::<Vec<_>>()
                .join(" ");
        same(&format!("held-{which}"), &format!("lock-{which}"), &steps);
    }
}

#[test]
fn a_mutex_whose_holder_died_may_be_destroyed() {
    // libc refuses that for ever: to it, the thread is there still.
    for place in Place::without_and_with("destroy-dead") {
        place.run("init");
        let holder = place.start("lock-plain lock-inheriting pause");
        holder.until("pause");
        holder.kill();
        let answer = if place.with_shim { 0 } else { libc::EBUSY };
        assert_eq!(
            place.run("destroy-plain destroy-inheriting"),
            format!("destroy-plain {answer}, destroy-inheriting {answer}")
        );
    }
}

#[test]
fn of_reader_writer_locks() {
    same("rw-free", "", "badrdlock badwrlock badclockrdlock pastwrlock rdlock wrlock trywrlock");
    same(
        "rw-own",
        "",
        "wrlock rdlock wrlock tryrdlock trywrlock timedrdlock timedwrlock clockrdlock clockwrlock \
         badrdlock unlock rdlock tryrdlock trywrlock unlock unlock destroy-rwlock",
    );
    let others = "trywrlock timedwrlock clockwrlock badrdlock badwrlock pastwrlock badclockrdlock";
    same("rw-written", "wrlock", &format!("{others} tryrdlock timedrdlock clockrdlock"));
    // Last, because a reader that wants to write waits at libc's own lock.
    same("rw-read", "rdlock", &format!("{others} tryrdlock timedrdlock unlock unlock"));
}

#[test]
fn of_condition_variables() {
    same(
        "cond",
        "",
        "signal broadcast lock-plain badwait badclockwait pastwait timedwait clockwait \
         unlock-plain destroy-cond",
    );
}
