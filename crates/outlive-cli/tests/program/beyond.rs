//! Verbs that other programs carry out: what they are told, and what a user is told where one is missing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::stage::{Ended, Running, Stage};

/// The verbs, the programs, and what installs each.
const VERBS: [(&[&str], &str, &str); 8] = [
    (&["gateway"], "outlive-gateway", "cargo install --path bridges/gateway"),
    (&["record"], "outlive-record", "cargo install --path crates/outlive-record"),
    (&["replay"], "outlive-replay", "cargo install --path crates/outlive-record"),
    (&["bag"], "outlive-bag", "cargo install --path crates/outlive-bag"),
    (&["view"], "outlive-view", "cargo install --path bridges/view"),
    (&["bench"], "outlive-bench", "cargo install --profile dist --path crates/outlive-bench"),
    (&["queue", "bridge"], "outlive-queue-bridge", "cargo install --path bridges/nats"),
    (&["ros1", "bridge"], "outlive-ros1-bridge", "pip install ./crates/outlive-py"),
];

/// Installs, in the stage's own folder, a program that prints its name, its domain and its arguments.
fn install(stage: &Stage, program: &str) {
    let script = "#!/bin/sh\necho \"$0 in $OUTLIVE_DOMAIN of $OUTLIVE_GROUP\"\nprintf '<%s>' \"$@\"\n\
                  exit ${EXITS:-0}\n";
    fs::write(stage.path(program), script).expect("written");
    fs::set_permissions(stage.path(program), Permissions::from_mode(0o755)).expect("set");
}

/// Runs the program with no folder in PATH but the stage's own, and that setting. It is a copy, since the
/// other programs may lie beside the original.
fn ask(stage: &Stage, path: &str, exits: &str, words: &[&str]) -> Ended {
    // Beside it, where it is built, other programs of the workspace may be.
    let alone = stage.path("alone/outlive");
    if !alone.exists() {
        fs::create_dir_all(stage.path("alone")).expect("made");
        let program = env!("CARGO_BIN_EXE_outlive");
        fs::hard_link(program, &alone)
            .or_else(|_| fs::copy(program, &alone).map(drop))
            .expect("copied");
    }
    let mut command = stage.command_of(&alone, words);
    command.env("PATH", path).env("EXITS", exits);
    Running::new(command).end()
}

#[test]
fn the_program_is_told_the_domain_and_all_that_follows() {
    let stage = Stage::new();
    let path = stage.path(".").display().to_string();
    for (verb, program, installs) in VERBS {
        let ask = |exits: &str, before: &[&str], after: &[&str]| {
            ask(&stage, &path, exits, &[before, verb, after].concat())
        };
        ask("0", &[], &["--x"]).expect(6).says(program).says(installs);
        install(&stage, program);
        let said = ask("0", &["--json"], &["--x", "a b", "", "-y"]).expect(0).text();
        assert!(said.contains(&format!("{program} in {} of ", stage.domain().display())), "{said}");
        assert!(said.ends_with("\n<--json><--x><a b><><-y>"), "{said}");
        // An option names another domain than the environment does.
        let before = ["--group", "7", "--domain=./o"];
        let said = ask("0", &before, &[]).expect(0).text();
        assert!(said.contains(" in ./o of 7\n"), "{said}");
        let said = ask("0", &["-d", "o", "--group=g", "--json"], &["--json"]).expect(0).text();
        assert!(said.contains(" in o of g\n") && said.ends_with("\n<--json>"), "{said}");
        // All that follows is the program's own, also what is an option of every verb.
        for own in [
            &["--domain", "o"][..],
            &["--domain=o"],
            &["-d", "o"],
            &["--no-create"],
            &["--help"],
            &["-h"],
            &["help"],
            &["--version"],
            &["-V"],
            &["--", "stop"],
            &["--", "--", "--help"],
            &["x", "--", "-d"],
        ] {
            let said = ask("0", &[], own).expect(0).text();
            assert!(said.ends_with(&format!("\n<{}>", own.join("><"))), "{said}");
        }
        let said = ask("0", &["help"], &["stop"]).expect(0).text();
        assert!(said.ends_with("\n<stop><--help>"), "{said}");
        let said = ask("0", &["--json", "-d", "o", "help"], &["stop"]).expect(0).text();
        assert!(said.contains(" in o of") && said.ends_with("\n<--json><stop><--help>"), "{said}");
        ask("7", &[], &["--x"]).expect(7);
        ask("0", &["--no-create"], &[]).expect(2).says("--no-create");
        // Help of the verb itself needs no other program, and names it.
        fs::remove_file(stage.path(program)).expect("removed");
        ask("0", &[], &["--help"]).expect(6).says(installs);
        let help = ask("0", &["help"], &[]).expect(0).text();
        // However its lines are broken.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let own = format!("'outlive {} --help'", verb.join(" "));
        assert!(help.contains(&own) && help.contains(installs), "{help}");
    }
    // Between a noun and its verb.
    install(&stage, "outlive-queue-bridge");
    let between = ["queue", "--domain", "bridge", "--json", "bridge", "-d"];
    let said = ask(&stage, &path, "0", &between).expect(0).text();
    assert!(said.contains(" in bridge of") && said.ends_with("\n<--json><-d>"), "{said}");
}

#[test]
fn what_cannot_be_run_is_passed_over_or_told() {
    let stage = Stage::new();
    let (_, program, _) = VERBS[0];
    // In the folder that it is started in, which an empty part of PATH means to a shell: not looked at.
    install(&stage, program);
    for path in ["", ":", ".", "/nowhere::"] {
        ask(&stage, path, "0", &["gateway"]).expect(6);
    }
    let path = stage.path(".").display().to_string();
    fs::set_permissions(stage.path(program), Permissions::from_mode(0o644)).expect("set");
    ask(&stage, &path, "0", &["gateway"]).expect(6);
    fs::write(stage.path(program), "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(stage.path(program), Permissions::from_mode(0o755)).expect("set");
    ask(&stage, &path, "0", &["gateway"]).expect(6).says(program);
}

#[test]
fn a_lock_of_several_machines_is_another_programs() {
    let stage = Stage::new();
    let cluster = ["--cluster", "etcd://127.0.0.1:1?ttl=5"];
    for (noun, program) in [("lock", "outlive-lock-cluster"), ("sem", "outlive-semaphore-cluster")]
    {
        let ask = |more: &[&str], words: &[&str]| {
            let all = [&[noun][..], &cluster, more, &["L"], words].concat();
            let mut command = stage.command(all);
            command.env("PATH", stage.path("."));
            Running::new(command).end()
        };
        ask(&[], &["true"]).expect(125).says("cargo install --path bridges/cluster");
        install(&stage, program);
        let said = ask(&["-w", "1500ms", "-E", "7"], &["cmd", "-x", "a b"]).expect(0).text();
        for part in [
            program,
            "<--cluster><etcd://127.0.0.1:1?ttl=5>",
            "<--domain>",
            "<--timeout><1.5>",
            "<-E><7>",
            "<L><cmd><-x><a b>",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        ask(&["--attribute", "a=b"], &["true"]).expect(2);
    }
    let shared = ["lock", "--shared", cluster[0], cluster[1], "L", "true"];
    stage.run(&shared).expect(2).says("held alone");
    let several = ["sem", "--take", "2", "--permits", "3", cluster[0], cluster[1], "L", "true"];
    stage.run(&several).expect(2).says("holds one");
}
