//! Process-shared reader-writer locks: readers, writers and waiters are killed.

mod programs;

use std::os::unix::process::ExitStatusExt;

use programs::Place;

#[test]
fn a_killed_readers_lock_goes_to_the_writer_who_sleeps() {
    for place in Place::without_and_with("reader") {
        place.run("init");
        let reader = place.start("rdlock rdlock pause");
        reader.until("pause");
        let writer = place.start("wrlock unlock");
        writer.falls_asleep();
        reader.kill();
        if !place.with_shim {
            writer.hangs();
            continue;
        }
        assert_eq!(writer.all_lines(), "wrlock 0, unlock 0");
        assert!(
            !place.log().contains("died"),
            "a reader leaves nothing half-done: {}",
            place.log()
        );
    }
}

#[test]
fn a_killed_writers_lock_goes_to_readers_and_writers_who_sleep() {
    for place in Place::without_and_with("writer") {
        place.run("init");
        let holder = place.start("wrlock pause");
        holder.until("pause");
        let waiters =
            ["rdlock unlock", "rdlock unlock", "wrlock unlock"].map(|steps| place.start(steps));
        waiters.iter().for_each(programs::Running::falls_asleep);
        let dead = holder.pid();
        holder.kill();
        for (waiter, said) in waiters.into_iter().zip([
            "rdlock 0, unlock 0",
            "rdlock 0, unlock 0",
            "wrlock 0, unlock 0",
        ]) {
            if place.with_shim {
                assert_eq!(waiter.all_lines(), said);
            } else {
                waiter.hangs();
            }
        }
        if place.with_shim {
            let log = place.log();
            let told: Vec<&str> = log.lines().filter(|line| line.contains("died")).collect();
            assert_eq!(told.len(), 1, "one is told: {log}");
            let wanted = format!(
                "its writer, process {dead}, thread {dead}, died; made consistent and given to us"
            );
            assert!(told[0].contains(&wanted) && told[0].contains("locks+0x"), "{log}");
        }
    }
}

#[test]
fn who_waits_and_is_killed_leaves_nothing() {
    let place = Place::new("waiters", true);
    place.run("init");
    let holder = place.start("wrlock pause");
    holder.until("pause");
    for steps in ["rdlock", "wrlock"] {
        let waiter = place.start(steps);
        waiter.falls_asleep();
        waiter.kill();
    }
    let last = place.start("rdlock unlock wrlock unlock");
    last.falls_asleep();
    holder.kill();
    assert_eq!(last.all_lines(), "rdlock 0, unlock 0, wrlock 0, unlock 0");
}

#[test]
fn one_of_several_readers_is_killed_and_the_writer_waits_for_the_rest() {
    let place = Place::new("several", true);
    place.run("init");
    let readers = [(); 3].map(|()| place.start("rdlock pause"));
    readers.iter().for_each(|reader| reader.until("pause"));
    let writer = place.start("wrlock unlock");
    let [first, second, third] = readers;
    second.kill();
    writer.hangs();
    first.kill();
    writer.hangs();
    third.kill();
    assert_eq!(writer.all_lines(), "wrlock 0, unlock 0");
}

#[test]
fn strict_tells_the_caller_who_has_it_alone_then() {
    let place = Place::new("strict", true).set("OUTLIVE_PTHREAD", "strict");
    place.run("init");
    for steps in ["rdlock tryrdlock unlock rdlock unlock", "wrlock trywrlock unlock wrlock unlock"]
    {
        let holder = place.start("wrlock pause");
        holder.until("pause");
        holder.kill();
        let lines = place.run(steps);
        let wanted = format!(", {}, ", libc::EBUSY);
        let told: Vec<&str> =
            lines.split(", ").map(|line| line.rsplit(' ').next().expect("a number")).collect();
        assert_eq!(
            told,
            [&libc::EOWNERDEAD.to_string(), &libc::EBUSY.to_string(), "0", "0", "0"],
            "{lines} {wanted}"
        );
    }
    // Told, and killed before it could repair: the next one is told as well.
    place.start("wrlock pause").until("pause");
    place.start("rdlock pause").until("pause");
    assert_eq!(place.run("rdlock"), format!("rdlock {}", libc::EOWNERDEAD));
}

#[test]
fn they_are_reader_writer_locks() {
    let (busy, again, late) = (libc::EBUSY, libc::EDEADLK, libc::ETIMEDOUT);
    for place in Place::without_and_with("meaning") {
        place.run("init");
        let reader = place.start("rdlock rdlock unlock pause");
        reader.until("pause");
        let beside =
            place.run("rdlock tryrdlock timedrdlock clockrdlock trywrlock timedwrlock unlock unlock unlock unlock");
        let read = "rdlock 0, tryrdlock 0, timedrdlock 0, clockrdlock 0";
        let beside_readers = format!(
            "{read}, trywrlock {busy}, timedwrlock {late}, unlock 0, unlock 0, unlock 0, unlock 0"
        );
        // A reader that wants to write waits at libc's own lock; the shim returns EDEADLK.
        assert_eq!(
            beside.replace(&format!("timedwrlock {again}"), &format!("timedwrlock {late}")),
            beside_readers
        );
        assert_eq!(
            place.run("clockwrlock badwrlock"),
            format!("clockwrlock {late}, badwrlock {}", libc::EINVAL)
        );
        drop(reader);
        place.run("init");
        let writer = place.start("wrlock pause");
        writer.until("pause");
        let beside =
            place.run("tryrdlock trywrlock timedrdlock clockrdlock timedwrlock clockwrlock");
        assert_eq!(
            beside,
            format!(
                "tryrdlock {busy}, trywrlock {busy}, timedrdlock {late}, clockrdlock {late}, timedwrlock {late}, clockwrlock {late}"
            )
        );
    }
}

#[test]
fn a_thread_that_has_it_is_told_of_its_deadlock_and_who_has_it_not_cannot_give_it_back() {
    let place = Place::new("own", true);
    let said = place.run(
        "init unlock wrlock rdlock wrlock tryrdlock child-unlocks unlock unlock rdlock wrlock unlock destroy-rwlock",
    );
    let (eperm, again, busy) = (libc::EPERM, libc::EDEADLK, libc::EBUSY);
    assert_eq!(
        said,
        format!(
            "init 0, unlock {eperm}, wrlock 0, rdlock {again}, wrlock {again}, tryrdlock {busy}, child-unlocks {eperm}, \
             unlock 0, unlock {eperm}, rdlock 0, wrlock {again}, unlock 0, destroy-rwlock 0"
        )
    );
}

#[test]
fn a_process_of_another_domain_is_refused() {
    let place = Place::new("domain", true);
    place.run("init");
    let elsewhere = place.path("elsewhere").display().to_string();
    let place = place.set("OUTLIVE_DOMAIN", &elsewhere);
    assert_eq!(place.run("rdlock trywrlock"), format!("rdlock {0}, trywrlock {0}", libc::EINVAL));
    assert!(
        place.log().contains("refused: it was initialised in another domain"),
        "{}",
        place.log()
    );
    let place = place.set("OUTLIVE_PTHREAD", "auto,abort");
    assert_eq!(place.start("wrlock").ends().signal(), Some(libc::SIGABRT));
}

#[test]
fn without_a_domain_it_is_left_to_libc_and_the_log_says_so() {
    let place = Place::new("nowhere", true).set("OUTLIVE_DOMAIN", "/nowhere/at/all");
    let said = place.run("init rdlock tryrdlock trywrlock unlock unlock wrlock unlock");
    let busy = libc::EBUSY;
    assert_eq!(
        said,
        format!(
            "init 0, rdlock 0, tryrdlock 0, trywrlock {busy}, unlock 0, unlock 0, wrlock 0, unlock 0"
        )
    );
    assert!(
        place.log().contains("rwlock") && place.log().contains("left to libc, not robust"),
        "{}",
        place.log()
    );
}

#[test]
fn nothing_is_left_of_locks_that_nobody_destroyed() {
    let place = Place::new("leftovers", true);
    let files = |place: &Place| std::fs::read_dir(place.path("domain")).expect("there").count();
    for _ in 0..40 {
        // Each initialises a lock anew, and ends with it in hand.
        place.run("init rdlock");
    }
    // The registry, and the eight tables at most.
    assert!(files(&place) <= 9, "{}", files(&place));
}
