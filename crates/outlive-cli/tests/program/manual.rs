//! Help, completions, man pages: from one definition.

use std::fs;

use crate::stage::Stage;

/// What the help of the program lists, in its order.
const LISTED: [&str; 29] = [
    "topic",
    "queue",
    "job",
    "state",
    "notifier",
    "service",
    "lock",
    "semaphore",
    "pool",
    "domain",
    "node",
    "config",
    "ros1",
    "gateway",
    "record",
    "replay",
    "bag",
    "view",
    "metrics",
    "image",
    "plot",
    "top",
    "doctor",
    "bench",
    "demo",
    "completions",
    "man",
    "exit-codes",
    "help",
];

const SHORT_FORMS: [&str; 17] = [
    "send", "recv", "work", "call", "serve", "pub", "echo", "hz", "bw", "delay", "sem", "wait",
    "ls", "info", "pools", "rm", "gc",
];

/// Verbs of nouns, one of each noun at least.
const NESTED: [&str; 21] = [
    "topic-pub",
    "topic-echo",
    "topic-hz",
    "topic-bw",
    "topic-delay",
    "topic-info",
    "topic-forget",
    "topic-list",
    "queue-send",
    "queue-recv",
    "state-get",
    "state-watch",
    "service-call",
    "service-serve",
    "lock-run",
    "lock-list",
    "semaphore-run",
    "pool-list",
    "domain-waiters",
    "domain-gc",
    "config-show",
];

#[test]
fn help_names_each_verb_and_hides_the_hidden() {
    let stage = Stage::new();
    let help = stage.run(&["--help"]).expect(0).text();
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_ascii_whitespace().next())
        .collect();
    assert_eq!(listed, LISTED);
    for verb in SHORT_FORMS {
        assert!(
            help.lines().any(|line| line.split_ascii_whitespace().next() == Some(verb)),
            "{verb}: {help}"
        );
        stage.run(&["help", verb]).expect(0);
    }
    assert!(help.contains("Exit codes:"));
    assert!(
        stage
            .run(&["help", "exit-codes"])
            .expect(0)
            .text()
            .contains("died and none has taken over")
    );
    let life = stage.run(&["help", "rm"]).expect(0).text();
    assert!(life.contains("The life of a name"), "{life}");
}

#[test]
fn alone_it_shows_its_help_without_what_is_hidden() {
    let stage = Stage::new();
    let help = stage.run(&[]).expect(2).err;
    for verb in LISTED {
        assert!(help.lines().any(|line| line.trim_start().starts_with(verb)), "{verb}: {help}");
    }
    for hidden in ["%under", "%member"] {
        assert!(!help.contains(hidden), "{hidden}: {help}");
    }
    // A misspelt verb is told of none that is hidden.
    let told = stage.run(&["ecko", "x"]).expect(2).says("'echo'");
    assert!(!told.err.contains("%"), "{}", told.err);
    // The environment's domain is no part of the usage.
    let told = stage.run(&["echo"]).expect(2).says("Usage: outlive echo <TOPIC>");
    assert!(!told.err.contains("--domain"), "{}", told.err);
    let topic = stage.run(&["topic"]).expect(2).err;
    assert!(topic.contains("Usage: outlive topic") && topic.contains("  echo "), "{topic}");
    // A short form stands among the short forms only.
    assert_eq!(help.lines().filter(|line| line.trim_start().starts_with("echo ")).count(), 1);
}

#[test]
fn exit_codes_are_listed_for_people_and_programs() {
    let stage = Stage::new();
    let text = stage.run(&["exit-codes"]).expect(0).text();
    let json = stage.run(&["exit-codes", "--json"]).expect(0).json();
    let rows = json.as_array().expect("a list");
    assert!(rows.len() > 15);
    for row in rows {
        let meaning = row["meaning"].as_str().expect("text");
        assert!(
            text.contains(&format!("{:>3}  {meaning}", row["code"].as_u64().expect("a number")))
        );
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stage.run(&["completions", shell]).expect(0).text();
        assert!(script.contains("OUTLIVE_COMPLETE"), "{shell}: {script}");
    }
}

/// Returns what bash would offer behind these words.
fn completed(stage: &Stage, words: &[&str]) -> Vec<String> {
    let script = stage.run(&["completions", "bash"]).expect(0).text();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let asks = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\nCOMP_TYPE=9\n\
         _clap_complete_outlive outlive \"${{COMP_WORDS[COMP_CWORD]}}\" ''\n\
         IFS=$'\\n'\necho \"${{COMPREPLY[*]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_outlive"));
    let folder = program.parent().expect("it lies in a folder").display().to_string();
    let mut command = std::process::Command::new("bash");
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    command.args(["--norc", "-c", &asks]).env("PATH", path).env("OUTLIVE_DOMAIN", stage.domain());
    let ended = crate::stage::Running::new(command).end().expect(0);
    assert_eq!(ended.err, "");
    ended.text().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn completions_know_the_verbs_and_the_names_of_things() {
    let stage = Stage::new();
    if std::process::Command::new("bash").arg("--version").output().is_err() {
        crate::stage::skip("there is no bash here");
        return;
    }
    let offers = |words: &[&str]| completed(&stage, words);
    // Nothing is there, and asking makes nothing.
    assert!(offers(&["outlive", "echo", ""]).iter().all(|word| word.starts_with('-')));
    assert!(!stage.domain().exists());
    for topic in ["camera", "camera-left", "pose"] {
        stage.feed(&["topic", "pub", topic], b"x\n").expect(0);
    }
    stage.feed(&["queue", "send", "log"], b"x\n").expect(0);
    stage.run(&["lock", "backup", "true"]).expect(0);
    // Options are not among the names, so that the only name is completed at once.
    let names = offers;
    assert_eq!(names(&["outlive", "echo", ""]), ["camera", "camera-left", "pose"]);
    assert_eq!(names(&["outlive", "topic", "hz", "cam"]), ["camera", "camera-left"]);
    assert_eq!(names(&["outlive", "recv", ""]), ["log"]);
    assert_eq!(names(&["outlive", "image", "cam"]), ["camera", "camera-left"]);
    assert_eq!(names(&["outlive", "plot", "camera", "po"]), ["pose"]);
    assert_eq!(names(&["outlive", "lock", "info", ""]), ["backup"]);
    assert_eq!(names(&["outlive", "rm", "pose", "lo"]), ["log"]);
    assert!(names(&["outlive", "lock", ""]).contains(&"backup".to_owned()));
    assert_eq!(names(&["outlive", "topic", "ec"]), ["echo"]);
    assert_eq!(names(&["outlive", "ec"]), ["echo"]);
    assert!(offers(&["outlive", "recv", "--until"]).contains(&"--until-idle".to_owned()));
    let other = stage.path("other").display().to_string();
    stage.feed(&["topic", "pub", "elsewhere", "--domain", &other], b"x\n").expect(0);
    assert_eq!(names(&["outlive", "--domain", &other, "echo", ""]), ["elsewhere"]);
    assert_eq!(names(&["outlive", "echo", "-d", &other, ""]), ["elsewhere"]);
}

#[test]
fn man_pages_are_made_for_each_verb() {
    let stage = Stage::new();
    let listed = stage.run(&["man", "pages/man1"]).expect(0).text();
    let all = LISTED.iter().chain(&SHORT_FORMS).chain(&NESTED);
    for verb in all.filter(|verb| **verb != "help") {
        let name = format!("pages/man1/outlive-{verb}.1");
        assert!(listed.lines().any(|line| line == name), "{name} is not in {listed}");
        let page = fs::read_to_string(stage.path(&name)).expect("written");
        assert!(
            page.contains(&format!(".TH outlive-{verb} ")) && page.contains(".SH SYNOPSIS"),
            "{page}"
        );
    }
    let page = |name: &str| {
        fs::read_to_string(stage.path(&format!("pages/man1/{name}.1"))).expect("written")
    };
    let main = page("outlive");
    for section in ["OPTIONS OF ALL VERBS", "COMMANDS", "SHORT FORMS", "EXIT STATUS", "EXAMPLES"] {
        assert!(
            main.contains(&format!("\n.SH {section}\n"))
                || main.contains(&format!("\n.SH \"{section}\"\n")),
            "{section}: {main}"
        );
    }
    // The synopsis says what takes a value, and how often.
    assert!(page("outlive-topic-pub").contains("outlive topic pub [OPTIONS] <TOPIC> [FILE]..."));
    // A verb's page has the exit codes of that verb, its examples line by line, and where to read on.
    let send = page("outlive-send");
    let status = send.split("EXIT STATUS").nth(1).expect("the section is there");
    assert!(status.contains("\\fB3\\fR\n") && !status.contains("\\fB124\\fR"), "{status}");
    assert!(send.contains(".nf\noutlive queue send jobs < list.txt\n"), "{send}");
    assert!(send.contains(".SH \"SEE ALSO\"\noutlive\\-queue\\-send(1), outlive(1)"), "{send}");
    assert!(page("outlive-lock").contains("\\fB124\\fR"));
    assert!(page("outlive-queue-recv").contains("SEE ALSO\"\noutlive\\-queue(1), outlive(1)"));
    assert!(!listed.contains('%'));
    fs::write(stage.path("file"), "").expect("written");
    stage.run(&["man", "file"]).expect(15).says("file");
}
