//! Job queues: `job put`, `work`, `job aside`. A killed worker's jobs go to others.

use std::fs;
use std::process::Stdio;

use crate::held::written_pid;
use crate::stage::{Running, Stage, is_alive, until};

#[test]
fn jobs_are_done_in_order_and_acknowledged() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "one", "two words"]).expect(0);
    stage.feed(&["job", "put", "J", "--json"], b"three\nfour\n").expect(0);
    let ended = stage.run(&["work", "J", "--drain", "echo", "did", "{}!"]).expect(0);
    assert_eq!(ended.text(), "did one!\ndid two words!\ndid three!\ndid four!\n");
    // Without braces the job is the last argument; or it is on standard input.
    stage.run(&["job", "put", "J", "five", "six"]).expect(0);
    assert_eq!(stage.run(&["work", "J", "--drain", "echo"]).expect(0).text(), "five\nsix\n");
    stage.feed(&["job", "put", "J", "--null"], b"se\nven\0").expect(0);
    let ended = stage.run(&["job", "work", "J", "--stdin", "--timeout", "0", "cat"]).expect(0);
    assert_eq!(ended.text(), "se\nven");
    let entry = stage.entry("J").expect("there");
    assert_eq!((&entry["kind"], &entry["figures"]["put"]), (&"job queue".into(), &7.into()));
    assert!(stage.run(&["job", "info", "J"]).expect(0).text().contains("job queue"));
    assert!(stage.run(&["job", "list"]).expect(0).text().contains("0 jobs waiting, 0 taken"));
}

#[test]
fn what_fails_is_tried_again_and_set_aside_in_the_end() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "--max-attempts", "3", "bad", "good"]).expect(0);
    let command = "echo $1 $OUTLIVE_JOB_ATTEMPT; [ $1 = good ]";
    let ended = stage.run(&["work", "J", "--drain", "sh", "-c", command, "x"]).expect(1);
    assert_eq!(ended.text(), "bad 1\nbad 2\nbad 3\ngood 1\n");
    ended.says("job 0, attempt 2: ended by exit status: 1, and is given back").says("is set aside");
    let aside = stage.run(&["job", "aside", "J", "--json", "--retry"]).expect(0).json();
    assert_eq!(
        (&aside["id"], &aside["attempts"], &aside["text"]),
        (&0.into(), &3.into(), &"bad".into())
    );
    assert_eq!(stage.run(&["work", "J", "--drain", "echo"]).expect(0).text(), "bad\n");
    stage.run(&["job", "put", "J", "gone"]).expect(0);
    stage.run(&["work", "J", "--drain", "false"]).expect(1);
    assert!(stage.run(&["job", "aside", "J", "--discard"]).expect(0).text().ends_with(" 3 gone\n"));
    assert_eq!(stage.run(&["job", "aside", "J"]).expect(0).text(), "");
}

/// As `| head -1` does: the commands fail, and the jobs are not to blame.
#[test]
fn a_reader_that_goes_away_sets_no_job_aside() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "one", "two", "three"]).expect(0);
    let mut command = stage.command(&["work", "J", "--drain", "echo"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut work = Running::with_own_streams(command);
    drop(work.child.stdout.take());
    assert_eq!(work.end().expect(0).err, "");
    assert_eq!(stage.run(&["work", "J", "--drain", "echo"]).expect(0).text(), "one\ntwo\nthree\n");
}

#[test]
fn a_command_that_is_not_there_loses_no_job() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "one"]).expect(0);
    stage.run(&["work", "J", "/no/such/program"]).expect(127).says("could not run");
    fs::write(stage.path("text"), "no program").expect("written");
    stage.run(&["work", "J", "./text"]).expect(126);
    assert_eq!(stage.run(&["work", "J", "--drain", "echo"]).expect(0).text(), "one\n");
    stage.run(&["work", "none", "--no-create", "true"]).expect(6);
    for end in [&["--drain"][..], &["--timeout", "0.05"]] {
        let call = [&["work", "K"], end, &["true"]].concat();
        stage.run(&call).expect(6).says("no job queue 'K'");
    }
    assert!(stage.entry("K").is_none(), "a misspelt name makes nothing");
    stage.run(&["work", "J", "--json", "true"]).expect(2).says("standard output belongs");
    stage.run(&["job", "put", "J", &"x".repeat(5000)]).expect(10);
}

#[test]
fn a_job_queue_that_is_not_there_is_waited_for() {
    let stage = Stage::new();
    let worker = stage.start(&["work", "J", "sh", "-c", "echo $1 > did", "x"]);
    until("it waits", || worker.is_waiting());
    assert!(!stage.domain().exists());
    stage.run(&["job", "put", "J", "one"]).expect(0);
    until("it works", || fs::read_to_string(stage.path("did")).is_ok_and(|did| did == "one\n"));
    worker.kill();
    worker.end().expect(-9).says("waiting for a producer to make 'J'");
}

#[test]
fn a_job_that_is_no_argument_is_set_aside() {
    let stage = Stage::new();
    let long = "x".repeat(200_000);
    let put = ["job", "put", "J", "--job-bytes", "1M", "--max-attempts", "0", "--null"];
    stage.feed(&put, format!("{long}\0small\0").as_bytes()).expect(0);
    let ended = stage.run(&["work", "J", "--drain", "echo"]).expect(1);
    assert_eq!(ended.text(), "small\n");
    ended.says("too long for an argument");
    // By standard input it can be done.
    stage.run(&["job", "aside", "J", "--retry"]).expect(0);
    let ended = stage.run(&["work", "J", "--drain", "--stdin", "cat"]).expect(0);
    assert_eq!(ended.text(), long);
}

#[test]
fn a_damaged_job_is_shown_and_can_be_discarded() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "one", "two"]).expect(0);
    // A stray write hits the first job's length, which is then more than a job can have.
    let file = fs::File::options().write(true).open(stage.domain().join("J")).expect("opens");
    let first_slot = (12_288_u64 + 512 + 1024 * 16).next_multiple_of(4096);
    std::os::unix::fs::FileExt::write_all_at(&file, &5000_u64.to_le_bytes(), first_slot)
        .expect("written");
    stage.run(&["work", "J", "--drain", "echo"]).expect(11).says("a job's length");
    assert_eq!(stage.run(&["work", "J", "--drain", "echo"]).expect(0).text(), "two\n");
    assert_eq!(stage.entry("J").expect("there")["figures"]["damaged"], 1);
    let shown = stage.run(&["job", "aside", "J", "--retry"]).expect(0);
    shown.says("job 0 is damaged, and stays");
    assert_eq!(stage.run(&["job", "aside", "J", "--json"]).expect(0).json()["is_damaged"], true);
    let shown = stage.run(&["job", "aside", "J", "--discard"]).expect(0).text();
    assert!(shown.starts_with("0 1 damaged: one"), "{shown}");
    assert_eq!(stage.run(&["job", "aside", "J"]).expect(0).text(), "");
}

#[test]
fn a_killed_workers_jobs_go_to_another_and_its_commands_die() {
    let stage = Stage::new();
    stage.run(&["job", "put", "J", "one"]).expect(0);
    let first = stage.start(&["work", "J", "sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    let pid = written_pid(&stage, "pid");
    let second =
        stage.start(&["work", "J", "--drain", "sh", "-c", "echo $1 $OUTLIVE_JOB_ATTEMPT", "x"]);
    first.kill();
    assert_eq!(second.end().expect(0).text(), "one 2\n");
    until("its command is gone", || !is_alive(pid));
}

#[test]
fn so_many_run_at_once() {
    let stage = Stage::new();
    fs::create_dir(stage.path("inside")).expect("made");
    let jobs: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let put: Vec<&str> =
        ["job", "put", "J"].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    stage.run(&put).expect(0);
    // Each waits until there are three, or for a while.
    let command = "touch inside/$1; for i in 1 2 3 4 5 6 7 8 9; do [ $(ls inside | wc -l) -ge 3 ] && break; sleep 0.01; done; \
        n=$(ls inside | wc -l); rm inside/$1; [ $n -le 3 ]";
    stage.run(&["work", "J", "-P", "3", "--drain", "sh", "-c", command, "x"]).expect(0);
}
