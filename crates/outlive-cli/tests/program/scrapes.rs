//! `metrics` as its clients see it: both forms, hostile names and requests, slow clients, files, and
//! Prometheus itself.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use outlive::Domain;
use outlive::pool::Pool;
use outlive::rpc::Service;
use outlive::sync::Barrier;

use crate::metrics::{Exporter, Samples};
use crate::stage::{LIMIT, Running, Stage, skip, until};

/// Returns a program that is in the path, or says that the calling test is skipped.
fn program(name: &str, package: &str, test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file());
    if found.is_none() {
        skip(&format!("{test}: the program {name} is not there (Debian's package {package})"));
    }
    found
}

#[test]
fn hostile_names_and_labels_are_escaped() {
    let stage = Stage::new();
    let names =
        ["a\"b", "back\\slash", "new\nline", "} 7\nfake_metric 1", "größe", "\u{1b}[31m\r\t"];
    for name in names {
        stage.run(&["state", "set", name, "x"]).expect(0);
    }
    let exporter = Exporter::start(&stage, &[]);
    for accept in ["text/plain", "application/openmetrics-text"] {
        let (_, page) = exporter.scrape(accept);
        for name in names {
            let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let label = "outlive_state_sets_total{domain=";
            let sample = format!(",kind=\"state\",name=\"{escaped}\"}} 1");
            // Not `lines`, which would cut a carriage return off.
            let found =
                page.split('\n').any(|line| line.starts_with(label) && line.ends_with(&sample));
            assert!(found, "{name:?} in {page}");
        }
        assert!(page.split('\n').all(|line| !line.starts_with("fake_metric")), "{page}");
    }
}

#[test]
fn both_forms_are_chosen_by_what_the_client_accepts() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let exporter = Exporter::start(&stage, &[]);
    let (head, text) = exporter.scrape("*/*");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(text.contains("# TYPE outlive_state_sets_total counter\n") && !text.contains("EOF"));
    let (head, open) =
        exporter.scrape("application/openmetrics-text;version=1.0.0, text/plain;q=0.5");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.contains("# TYPE outlive_state_sets counter\n") && open.ends_with("# EOF\n"));
    let told = stage.run(&["metrics", "--once", "--openmetrics"]).expect(0).text();
    assert!(told.ends_with("# EOF\n"));
    let answer = exporter.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn no_client_holds_another_up() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let exporter = Exporter::start(&stage, &[]);
    // More than there is room for: clients that say nothing, that stop in the middle of a request, that
    // do not read, that have gone.
    let mut idle = Vec::new();
    for number in 0..40 {
        let mut stream = exporter.connect();
        match number % 4 {
            0 => {}
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").expect("sent"),
            2 => stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent"),
            _ => continue,
        }
        idle.push(stream);
        assert_eq!(exporter.samples().get("outlive_state_sets_total", &[]), 1.0);
    }
    // A request that comes byte by byte.
    let mut slow = exporter.connect();
    for byte in b"GET /metrics HTTP/1.1\r\nA: b\r\n\r\n" {
        slow.write_all(&[*byte]).expect("sent");
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Several at once.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(exporter.samples().get("outlive_state_sets_total", &[]), 1.0);
                }
            });
        }
    });
    drop(idle);
}

#[test]
fn hostile_requests_are_refused() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let exporter = Exporter::start(&stage, &[]);
    let many_headers = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".to_vec(), vec![b'x'; 1 << 20]].concat();
    let requests: [(&[u8], &str); 9] = [
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
        (b"GET /metrics HTTP/7.7\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\nno header\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\nA: \0\r\n\r\n", "400"),
        (many_headers.as_bytes(), "431"),
        (&long, "431"),
    ];
    for (request, status) in requests {
        let answer = exporter.ask(request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
        assert_eq!(exporter.samples().get("outlive_state_sets_total", &[]), 1.0);
    }
    // A client that sends and sends, and never reads: the others are answered meanwhile.
    let mut endless = exporter.connect();
    endless.set_nonblocking(true).expect("set");
    for _ in 0..200 {
        let _ = endless.write(&[b'x'; 65536]);
        exporter.samples();
    }
}

#[test]
fn an_address_in_use_is_told() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let exporter = Exporter::start(&stage, &[]);
    let address = exporter.address.to_string();
    stage
        .run(&["metrics", "--listen", &address])
        .expect(12)
        .says(&format!("another program listens at {address}; choose another port"));
    stage.run(&["metrics", "--listen", "nonsense"]).expect(2).says("--listen nonsense: ");
    stage.run(&["metrics", "--listen", "192.0.2.1:1"]).expect(15).says("listen at 192.0.2.1:1");
    stage.run(&["metrics", "--json", "--once"]).expect(2).says("--json is refused");
    stage.run(&["metrics", "--no-create", "--domain", "/dev/shm/none/x"]).expect(6);
}

#[test]
fn a_domain_may_come_go_and_come_again() {
    let stage = Stage::new();
    let exporter = Exporter::start(&stage, &[]);
    assert_eq!(exporter.samples().get("outlive_domain_up", &[]), 0.0);
    assert!(!stage.domain().exists(), "looking makes no domain");
    for sets in 1..=2 {
        for _ in 0..sets {
            stage.run(&["state", "set", "s", "x"]).expect(0);
        }
        let all = exporter.samples();
        assert_eq!(all.get("outlive_domain_up", &[]), 1.0);
        assert_eq!(all.get("outlive_state_sets_total", &[]), f64::from(sets));
        fs::remove_dir_all(stage.domain()).expect("removed");
        assert_eq!(exporter.samples().get("outlive_domain_up", &[]), 0.0);
    }
}

#[test]
fn a_file_is_written_whole_and_again() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let path = stage.path("outlive.prom");
    let name = path.to_str().expect("text");
    let sets = |page: &str| Samples::of(page).get("outlive_state_sets_total", &[]);
    stage.run(&["metrics", "--once", "--file", name]).expect(0);
    assert_eq!(sets(&fs::read_to_string(&path).expect("there")), 1.0);
    let mut writer = stage.start(&["metrics", "--file", name, "--interval", "60ms"]);
    for count in 2..5 {
        stage.run(&["state", "set", "s", "x"]).expect(0);
        // Whenever it is read, it is whole.
        until("it is written again", || {
            let page = fs::read_to_string(&path).expect("there");
            assert!(page.ends_with('\n'), "{page}");
            sets(&page) == f64::from(count)
        });
    }
    assert!(writer.is_running());
    writer.signal(libc::SIGTERM);
    writer.end().expect(0);
    let left = fs::read_dir(stage.path("")).expect("read").filter_map(Result::ok);
    let left: Vec<_> = left.map(|one| one.file_name()).filter(|name| name != "domain").collect();
    assert_eq!(left, ["outlive.prom"]);
    stage
        .run(&["metrics", "--file", "/none/such/x.prom"])
        .expect(6)
        .says("write /none/such/x.prom");
}

#[test]
fn the_dashboard_is_printed() {
    let stage = Stage::new();
    let board = stage.run(&["metrics", "--dashboard"]).expect(0).json();
    assert_eq!(board["title"], "Outlive");
    stage.run(&["metrics", "--dashboard", "--once"]).expect(2);
}

/// A domain with something of each kind.
fn furnish(stage: &Stage) {
    stage.feed(&["topic", "pub", "t"], b"a\nb\nc\n").expect(0);
    stage.feed(&["queue", "send", "ho\"stile\\\nname"], b"a\n").expect(0);
    stage.run(&["state", "set", "s", "x"]).expect(0);
    stage.run(&["job", "put", "j", "x"]).expect(0);
    stage.run(&["semaphore", "run", "--permits", "3", "sem", "true"]).expect(0);
    stage.run(&["notifier", "notify", "n", "1"]).expect(0);
    let domain = Domain::open_at(stage.domain()).expect("opens");
    Pool::options().open_or_create(&domain, "p").expect("made");
    Barrier::options(4).open_or_create(&domain, "b").expect("made");
    Service::<[u8], [u8]>::open_or_create(&domain, "svc").expect("made");
}

#[test]
fn promtool_finds_no_fault() {
    let Some(promtool) = program("promtool", "prometheus", "promtool_finds_no_fault") else {
        return;
    };
    let stage = Stage::new();
    furnish(&stage);
    for more in [&[][..], &["--endpoints"]] {
        let page = stage.run(&[&["metrics", "--once"][..], more].concat()).expect(0).out;
        let mut command = Command::new(&promtool);
        command.args(["check", "metrics"]);
        let mut running = Running::new(command);
        running.write(&page);
        let ended = running.end().expect(0);
        assert_eq!((ended.text().as_str(), ended.err.as_str()), ("", ""));
    }
}

#[test]
fn prometheus_scrapes_it() {
    let name = "prometheus_scrapes_it";
    let Some(prometheus) = program("prometheus", "prometheus", name) else { return };
    let stage = Stage::new();
    furnish(&stage);
    let exporter = Exporter::start(&stage, &["--endpoints"]);
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
    let at = free.expect("a port").to_string();
    let target = exporter.address;
    let config = format!(
        "scrape_configs:\n- job_name: outlive\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  \
         static_configs:\n  - targets: ['{target}']\n"
    );
    fs::write(stage.path("prometheus.yml"), config).expect("written");
    let mut command = Command::new(prometheus);
    command
        .arg(format!("--config.file={}", stage.path("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", stage.path("data").display()))
        .arg(format!("--web.listen-address={at}"))
        .current_dir(stage.path(""));
    let mut running = Running::new(command);
    let query = |what: &str| -> Option<serde_json::Value> {
        let mut stream = TcpStream::connect(&at).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        let request = format!("GET /api/v1/query?query={what} HTTP/1.0\r\nHost: {at}\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: serde_json::Value = serde_json::from_str(body).ok()?;
        answer["data"]["result"].as_array()?.first().cloned()
    };
    let value = |what: &str| Some(query(what)?["value"][1].as_str()?.to_owned());
    until("it has scraped", || {
        assert!(running.is_running(), "prometheus has ended");
        value("up") == Some("1".to_owned())
            && value("messaging_client_sent_messages_total%7Bkind=%22topic%22%7D").is_some()
    });
    let sent = "messaging_client_sent_messages_total%7Bkind=%22topic%22%7D";
    assert_eq!(value(sent).as_deref(), Some("3"));
    // The hostile name has come through as it is.
    let pending = query("outlive_queue_pending_messages").expect("there");
    assert_eq!(pending["metric"]["name"], "ho\"stile\\\nname");
    stage.feed(&["topic", "pub", "t"], b"d\n").expect(0);
    until("it has scraped again", || value(sent).as_deref() == Some("4"));
    // Removed: its series end.
    stage.run(&["rm", "ho\"stile\\\nname"]).expect(0);
    until("it is gone", || query("outlive_queue_pending_messages").is_none());
    running.signal(libc::SIGTERM);
    running.end().expect(0);
}

/// Returns what is below a folder, with the times of the last changes.
fn facts(folder: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let mut all: Vec<_> = fs::read_dir(folder)
        .expect("read")
        .map(|one| one.expect("read"))
        .map(|one| (one.path(), one.metadata().expect("there")))
        .map(|(path, facts)| (path, facts.len(), facts.mtime(), facts.mtime_nsec()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_scrape_changes_no_thing() {
    let stage = Stage::new();
    furnish(&stage);
    let exporter = Exporter::start(&stage, &[]);
    exporter.samples();
    let bytes = |name: &str| fs::read(stage.domain().join(name)).expect("read");
    let names = ["t", "s", "j", "sem", "n", "p", "b", "svc", "ho\"stile\\\nname"];
    let before: Vec<_> = names.iter().map(|name| bytes(name)).collect();
    let facts_before = facts(&stage.domain());
    for _ in 0..5 {
        exporter.samples();
    }
    assert_eq!(facts(&stage.domain()), facts_before);
    for (name, before) in names.iter().zip(before) {
        assert!(bytes(name) == before, "{name} was changed");
    }
}
