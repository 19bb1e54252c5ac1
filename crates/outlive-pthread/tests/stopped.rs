//! A process that is stopped while it gives a mutex back: libc frees the mutex in one step, and
//! wakes a sleeper in another.

mod programs;

use programs::{Place, Running, compile, stretch};

/// Returns what `everywhere` says of a process that is stopped at each instruction of its unlock,
/// another asleep beside it, which has so many milliseconds where the mutex is free.
fn stopped_in(operation: &str, recheck: &str, patience: &str) -> String {
    let place =
        Place::new(&format!("{operation}-{recheck}"), true).set("OUTLIVE_PTHREAD_RECHECK", recheck);
    let mut command = place.command(&compile("cc", "everywhere.c"));
    command.arg(place.path("locks")).args([operation, "1000", patience]);
    command.env("OUTLIVE_TEST_STRETCH", stretch().to_string());
    Running::start(command, operation).last_line()
}

mod by_steps {
    use super::stopped_in;

    #[test]
    fn who_sleeps_beside_a_free_mutex_looks_by_itself() {
        for operation in ["mutex-unlock", "mutex-unlock-timed"] {
            let said = stopped_in(operation, "100", "20000");
            println!("{said}");
            assert!(said.starts_with(operation), "{said}");
        }
    }

    /// The test above can fail.
    #[test]
    fn without_the_look_it_sleeps_on() {
        for operation in ["mutex-unlock", "mutex-unlock-timed"] {
            let said = stopped_in(operation, "0", "1000");
            assert!(said.contains("HANG: the other sleeps beside a free mutex"), "{said}");
        }
    }
}
