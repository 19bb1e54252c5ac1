//! Killed at every instruction, and at random.

mod programs;

use programs::{Place, Running, compile, stretch};

/// Everything a survivor may wait for, with the recheck of waits off: it must not be needed.
fn everywhere(operation: &str, most: u32) {
    let place =
        Place::new(&format!("everywhere-{operation}"), true).set("OUTLIVE_PTHREAD_RECHECK", "0");
    // `OUTLIVE_PTHREAD_KILLS=1000000` kills at each one.
    let most = std::env::var("OUTLIVE_PTHREAD_KILLS").unwrap_or_else(|_| most.to_string());
    let mut command = place.command(&compile("cc", "everywhere.c"));
    command
        .arg(place.path("locks"))
        .arg(operation)
        .arg(&most)
        .env("OUTLIVE_TEST_STRETCH", stretch().to_string());
    let running = Running::start(command, operation);
    let said = running.last_line();
    println!("{said}");
    let mut words = said.split(' ').skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (length, kills) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    assert!(said.starts_with(operation) && length >= 20 && kills >= 20, "{said}");
}

macro_rules! everywhere {
    ($($name:ident: $operation:literal, $most:literal;)*) => {
        // Each step waits behind whatever load there is, so a run under a load leaves these out by
        // their module's name.
        mod by_steps {
            $(#[test]
            fn $name() {
                super::everywhere($operation, $most);
            })*
        }
    };
}

everywhere! {
    mutex: "mutex", 400;
    mutex_unlock: "mutex-unlock", 400;
    mutex_wait: "mutex-wait", 100;
    read: "read", 50;
    write: "write", 50;
    read_unlock: "read-unlock", 50;
    write_unlock: "write-unlock", 50;
    read_wait: "read-wait", 30;
    write_wait: "write-wait", 30;
    signal: "signal", 100;
    cond_wait: "cond-wait", 100;
}

/// Without the shim it finds what is lost: it can fail.
#[test]
fn without_the_shim_survivors_hang() {
    for operation in ["mutex", "write"] {
        let place = Place::new(&format!("everywhere-{operation}"), false);
        let mut command = place.command(&compile("cc", "everywhere.c"));
        command.arg(place.path("locks")).arg(operation).arg("400");
        let said = Running::start(command, operation).last_line();
        assert!(said.starts_with("FAILED") && said.contains("HANG"), "{said}");
    }
}

fn storm(place: &Place, kills: u32, patience: u32) -> String {
    let mut command = place.command(&compile("cc", "storm.c"));
    command.arg(place.path("locks")).args([kills.to_string(), patience.to_string()]);
    Running::start(command, "storm").last_line()
}

#[test]
fn five_hundred_killed_at_random() {
    let place = Place::new("storm", true);
    let said = storm(&place, 500, 20 * stretch());
    println!("{said}");
    assert!(said.starts_with("500 "), "{said}");
}

#[test]
fn without_the_shim_the_storm_ends_soon() {
    let place = Place::new("storm", false);
    let said = storm(&place, 500, 3);
    assert_eq!(said, "FAILED HANG");
}
