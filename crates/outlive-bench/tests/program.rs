//! The program: rows, JSON, help and the page. Runs as short as they come: no figure is looked at, only
//! that there is one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A folder for one test's files, in which the program runs.
struct Stage(PathBuf);

impl Stage {
    fn new() -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("outlive-test-bench-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder for the test");
        Stage(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_outlive-bench")));
        command.args(args).current_dir(&self.0);
        command
    }

    /// Runs the program to its end. Each benchmark ends by itself, at its limit at the latest.
    fn run(&self, args: &[&str]) -> Ended {
        Ended(self.command(args).output().expect("the program starts"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a run ended.
struct Ended(Output);

impl Ended {
    #[track_caller]
    fn expect(self, code: i32) -> Ended {
        assert_eq!(self.0.status.code(), Some(code), "{}\n{}", self.text(), self.told());
        self
    }

    /// Insists that it says something on standard error.
    #[track_caller]
    fn says(self, what: &str) -> Ended {
        assert!(self.told().contains(what), "'{what}' is not in: {}", self.told());
        self
    }

    fn told(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}\n{}", self.text(), self.told()))
    }
}

/// One round of very short turns.
const SHORT: [&str; 3] = ["--json", "--rounds=1", "--turn-ms=1"];

fn bench(args: &[&str]) -> Value {
    let stage = Stage::new();
    let words = [args, &SHORT].concat();
    let report = stage.run(&words).expect(0).json();
    for row in report["rows"].as_array().expect("rows") {
        for figure in ["median", "min", "max", "ratio"] {
            assert!(row[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure} in {row}");
        }
        assert_eq!(row["unit"], "ns");
    }
    let crossing = &report["machine"]["crossing_ns"];
    assert!(
        crossing["measured"].as_u64() >= report["rows"].as_array().map(|rows| rows.len() as u64),
        "{crossing}"
    );
    report
}

fn names(list: &Value) -> Vec<String> {
    let name = |entry: &Value| entry["name"].as_str().expect("a name").to_owned();
    list.as_array().map(|list| list.iter().map(name).collect()).unwrap_or_default()
}

/// Not on every machine: what needs a compiler and Boost, and what needs real-time rights.
const PERHAPS: [&str; 4] = ["ceiling", "pthread_protect", "boost_sharable", "boost_exclusive"];

#[track_caller]
fn has_locks(report: &Value, wanted: &str) {
    let present = names(&report["rows"]);
    let absent = names(&report["absent"]);
    for name in wanted.split(' ') {
        let excused = PERHAPS.contains(&name) && absent.iter().any(|absent| absent == name);
        assert!(
            present.iter().any(|present| present == name) || excused,
            "{name} is not in {present:?}"
        );
    }
    assert_eq!(present.len() + absent.len(), 17, "{present:?} and {absent:?}");
    assert!(
        report["rows"]
            .as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["baseline"] == true))
    );
}

const ALONE: &str = "mutex rwlock_write semaphore pi ceiling pthread pthread_robust pthread_pi pthread_protect \
    pthread_rwlock_write sem_t sysv fcntl boost_exclusive";
const SHARED: &str = "rwlock_read pthread_rwlock_read boost_sharable";

#[test]
fn every_lock_is_a_row() {
    for mode in [&["locks"][..], &["locks", "--contended"]] {
        let report = bench(mode);
        has_locks(&report, ALONE);
        has_locks(&report, SHARED);
    }
}

#[test]
fn lockers_compute_inside_and_outside() {
    let report = bench(&["locks", "--contended", "--work=100", "--loops=64"]);
    assert_eq!(report["work_ns"], 100);
    has_locks(&report, ALONE);
    let absent = names(&report["absent"]);
    assert!(SHARED.split(' ').all(|name| absent.iter().any(|absent| absent == name)), "{absent:?}");
    Stage::new().run(&["locks", "--work=100"]).expect(2).says("--contended");
}

#[test]
fn readers_do_not_hand_over_and_are_said_to_be_missing() {
    for (mode, name) in [("--wake", "wake"), ("--sleeper", "sleeper")] {
        let report = bench(&["locks", mode, "--loops=20"]);
        assert_eq!(report["mode"], name);
        has_locks(&report, ALONE);
        let absent = names(&report["absent"]);
        assert!(
            SHARED.split(' ').all(|name| absent.iter().any(|absent| absent == name)),
            "{absent:?}"
        );
    }
    let stage = Stage::new();
    let refused = stage.run(&["locks", "--wake", "--only=pthread_rwlock_read"]).expect(2);
    refused.says("pthread_rwlock_read cannot take part: readers do not hand a lock to each other");
}

#[test]
fn a_lock_that_cannot_be_built_is_left_out_with_the_reason() {
    let stage = Stage::new();
    let mut command = stage.command(&[&["locks"], &SHORT[..], &["--loops=64"]].concat());
    command.env("CXX", "no-such-compiler");
    let report = Ended(command.output().expect("the program starts")).expect(0).json();
    let absent = report["absent"].as_array().expect("absent rows");
    let boost =
        absent.iter().find(|row| row["name"] == "boost_exclusive").expect("Boost's is missing");
    assert!(boost["why"].as_str().is_some_and(|why| why.contains("no-such-compiler")), "{boost}");
    assert!(names(&report["rows"]).contains(&"mutex".to_owned()));
}

#[test]
fn bench_mutex_keeps_its_rows() {
    let rows = "outlive pthread pthread_robust pthread_pi fcntl sysv";
    for (mode, name) in
        [(None, "uncontended"), (Some("--contended"), "contended"), (Some("--wake"), "wake")]
    {
        let mut args = vec!["mutex", "--loops=20"];
        args.extend(mode);
        let report = bench(&args);
        assert_eq!((&report["bench"], &report["mode"]), (&"mutex".into(), &name.into()));
        assert_eq!(names(&report["rows"]).join(" "), rows);
    }
}

#[test]
fn a_crowd_counts_in_threads_and_in_processes() {
    for (option, setting) in [(None, "threads"), (Some("--processes"), "processes")] {
        let mut args = vec!["counter", "--workers=3,1", "--loops=3000"];
        args.extend(option);
        let report = bench(&args);
        let rows = report["rows"].as_array().expect("rows");
        for workers in [1, 3] {
            let of: Vec<_> = rows.iter().filter(|row| row[setting] == workers).cloned().collect();
            let names = names(&of.into()).join(" ");
            assert_eq!(
                names, "mutex pthread sem_t sysv two_state three_state four_state",
                "{setting} {workers}"
            );
        }
        let groups: Vec<_> = report["groups"]
            .as_array()
            .expect("groups")
            .iter()
            .map(|group| &group[setting])
            .collect();
        assert_eq!(serde_json::json!(groups), serde_json::json!([1, 3]));
    }
    let stage = Stage::new();
    stage.run(&["counter", "--workers=0"]).expect(2).says("0");
    stage.run(&["counter", "--workers=17"]).expect(2).says("17");
}

#[test]
fn message_queues_are_compared_at_each_size() {
    let rows = "mu_cv mu_sm posix_mq outlive_queue";
    let alone = bench(&["mq"]);
    assert_eq!(
        (names(&alone["rows"]).join(" ").as_str(), &alone["message_bytes"]),
        (rows, &64.into())
    );
    let several = bench(&["mq", "--size=512,64", "--wait=block"]);
    let sizes: Vec<_> =
        several["rows"].as_array().expect("rows").iter().map(|row| &row["message_bytes"]).collect();
    assert_eq!(serde_json::json!(sizes), serde_json::json!([64, 64, 64, 64, 512, 512, 512, 512]));
    let stage = Stage::new();
    stage.run(&["mq", "--size=7"]).expect(2).says("--size 8 or more");
    stage.run(&["mq", "--size=1000000000"]).expect(2).says("msgsize_max");
}

/// Outlive's own rows.
const POOLS: &str = "outlive outlive_uncached";
/// Rows of memory that one process alone has, and of memory that all have.
const OWN_MEMORY: &str = "no_cache malloc";
const SHARED_MEMORY: &str = "locked";

#[test]
fn every_way_to_get_memory_is_a_row_in_every_pattern() {
    for pattern in ["alloc-free", "batch", "hand-over", "random"] {
        for crowd in ["--threads=2", "--processes=2"] {
            let pattern_is = format!("--pattern={pattern}");
            let report = bench(&["pool", &pattern_is, crowd, "--size=64", "--loops=200"]);
            assert_eq!(report["mode"], pattern);
            assert_eq!(report["object_bytes"], 64);
            let key = if crowd.starts_with("--threads") { "threads" } else { "processes" };
            assert_eq!(report[key], 2);
            let (present, absent) = (names(&report["rows"]), names(&report["absent"]));
            let crosses = pattern == "hand-over" && key == "processes";
            let mut wanted: Vec<&str> =
                POOLS.split_ascii_whitespace().chain([SHARED_MEMORY]).collect();
            let own = OWN_MEMORY.split(' ');
            if crosses {
                assert_eq!(absent, own.collect::<Vec<_>>());
            } else {
                wanted.extend(own);
                assert!(absent.is_empty(), "{absent:?}");
            }
            assert_eq!(present, wanted, "{pattern} {crowd}");
        }
    }
}

#[test]
fn memory_of_every_size_comes_in_a_quick_run() {
    let report = bench(&["pool", "--quick"]);
    let rows = report["rows"].as_array().expect("rows");
    let sizes: Vec<_> = report["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| &group["object_bytes"])
        .collect();
    assert_eq!(serde_json::json!(sizes), serde_json::json!([64, 4096, 49152, 262_144, 2_097_152]));
    for row in rows {
        // From a nanosecond for a small object to a second for 512 pages on a machine that is busy
        // elsewhere.
        assert!(row["median"].as_f64().is_some_and(|ns| (1.0..1e9).contains(&ns)), "{row}");
        assert!(row["operations"].as_u64() > Some(0) && row["turns"].as_u64() > Some(0), "{row}");
    }
    let several = bench(&["pool", "--size=4096", "--threads=4,1", "--touch=first", "--loops=100"]);
    let threads: Vec<_> = several["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| &group["threads"])
        .collect();
    assert_eq!(serde_json::json!(threads), serde_json::json!([1, 4]));
    assert_eq!(several["object_bytes"], 4096);
}

#[test]
fn what_a_pool_cannot_be_asked_is_refused() {
    let stage = Stage::new();
    for (args, says) in [
        (&["--threads=1,2"][..], "add --size"),
        (&["--pattern=hand-over", "--threads=3", "--size=64"], "an even number of workers"),
        (&["--size=1073741824", "--threads=16", "--pattern=batch"], "a smaller --size"),
        (&["--threads=2", "--processes=2"], "--processes"),
        (&["--threads=17"], "17"),
        (&["--size=0"], "0"),
        (&["--size=64", "--only=mimalloc"], "there are "),
    ] {
        stage.run(&[&["pool"], args].concat()).expect(2).says(says);
    }
}

#[test]
fn groups_are_drawn_as_lines_and_one_as_bars() {
    let stage = Stage::new();
    for (args, says) in [
        (&["counter", "--workers=1,2", "--loops=2000"][..], "threads; up: nanoseconds"),
        (&["locks", "--loops=64", "--only=mutex"], "less is better"),
    ] {
        let drawn = stage.path("chart.svg");
        let svg = format!("--svg={}", drawn.display());
        stage.run(&[args, &SHORT, &[&svg]].concat()).expect(0).says("drew");
        let svg = fs::read_to_string(drawn).expect("the chart");
        assert!(svg.starts_with("<svg") && svg.contains(says) && svg.contains("pthread"), "{svg}");
    }
}

/// Most of what is typed in `bench all` runs (the locks have tests above), and the page needs no
/// other file.
#[test]
fn one_page_holds_all_and_needs_no_other_file() {
    let stage = Stage::new();
    let path = stage.path("report.html");
    let html = format!("--html={}", path.display());
    let ended = stage
        .run(
            &[&["all", "--quick", "--benches=liveness,queue,mq,pool"], &SHORT[..], &[&html]]
                .concat(),
        )
        .expect(0)
        .says("wrote");
    let reports = ended.json();
    let mut benches: Vec<_> = reports
        .as_array()
        .expect("reports")
        .iter()
        .map(|report| report["bench"].as_str().expect("a name"))
        .collect();
    benches.dedup();
    assert_eq!(benches, ["liveness", "queue", "mq", "pool"]);
    let page = fs::read_to_string(path).expect("the page");
    assert_eq!(page.matches("<svg ").count(), reports.as_array().map_or(0, Vec::len));
    assert_eq!(page.matches("<section ").count(), page.matches("</section>").count());
    assert!(page.contains("A quick run") && page.contains("prefers-color-scheme: dark"));
    // The name space of SVG is a name, not an address.
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    for other in ["http:", "https:", "<script", "<link", "src=", "url(", "@import"] {
        assert!(!without_names.contains(other), "{other} is on the page");
    }
}

#[test]
fn a_part_of_all_can_be_asked_for() {
    let stage = Stage::new();
    let reports =
        stage.run(&[&["all", "--quick", "--benches=mq"], &SHORT[..]].concat()).expect(0).json();
    assert!(
        reports
            .as_array()
            .is_some_and(|reports| reports.iter().all(|report| report["bench"] == "mq"))
    );
    stage.run(&["all", "--benches=nothing"]).expect(2).says("no benchmark is called nothing");
}

#[test]
fn help_says_what_is_measured() {
    let stage = Stage::new();
    let help = |args: &[&str]| stage.run(&[args, &["--help"]].concat()).expect(0).text();
    let benches = help(&[]);
    assert!(benches.starts_with("Measure what things cost beside their alternatives"), "{benches}");
    for name in
        ["liveness", "locks", "mutex", "counter", "queue", "mq", "copies", "state", "pool", "all"]
    {
        assert!(
            benches.lines().any(|line| line.trim_start().starts_with(name)),
            "{name} in {benches}"
        );
    }
    for (bench, options) in [
        ("locks", &["--contended", "--work", "--wake", "--sleeper", "--only", "--quick"][..]),
        ("counter", &["--processes", "--workers"]),
        ("mq", &["--size", "--wait"]),
        ("pool", &["--size", "--threads", "--processes", "--pattern", "--touch"]),
        ("all", &["--html", "--quick", "--benches"]),
    ] {
        let text = help(&[bench]);
        assert!(options.iter().all(|option| text.contains(option)), "{text}");
    }
}

#[test]
fn json_is_asked_for_before_the_benchmark_or_behind_it() {
    let stage = Stage::new();
    let short = ["--rounds=1", "--turn-ms=1"];
    for words in [["--json", "mutex"], ["mutex", "--json"]] {
        let report = stage.run(&[&words[..], &short].concat()).expect(0).json();
        let members: Vec<&str> = ["bench", "mode", "machine", "rows"]
            .into_iter()
            .filter(|member| report.get(member).is_none())
            .collect();
        assert!(members.is_empty(), "{members:?} are not in {report}");
    }
}

#[test]
fn one_way_to_ask_at_a_time() {
    let stage = Stage::new();
    stage.run(&["locks", "--wake", "--contended"]).expect(2).says("--contended");
    stage
        .run(&["locks", "--only=nothing"])
        .expect(2)
        .says("no row is called nothing; there are mutex,");
}

#[test]
fn a_call_is_compared_with_two_queues_and_sockets() {
    let report = bench(&["calls", "--size", "64,5000"]);
    let rows = "outlive two_queues unix_seqpacket cacheline futex";
    assert_eq!(names(&report["rows"]).join(" "), format!("{rows} {rows}"));
}

#[test]
fn copies_are_compared_with_copying() {
    let report = bench(&["copies", "--size", "64,70000"]);
    let rows = "outlive memcpy memcpy_one";
    assert_eq!(names(&report["rows"]).join(" "), format!("{rows} {rows}"));
}

#[test]
fn the_latest_value_is_read_whole() {
    for mode in [&["state"][..], &["state", "--write"], &["state", "--contended"]] {
        assert_eq!(names(&bench(mode)["rows"]).join(" "), "outlive seqlock rwlock");
    }
}
