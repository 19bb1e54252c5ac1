//! The configuration file: what it changes, where each value comes from, and faults in it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::stage::{Running, Stage, until};

/// A stage whose user has a configuration file, and no other.
struct Configured {
    stage: Stage,
}

impl Configured {
    fn new(of_the_user: &str) -> Configured {
        let stage = Stage::new();
        fs::create_dir_all(stage.path("home/.config/outlive")).expect("made");
        let configured = Configured { stage };
        fs::write(configured.users(), of_the_user).expect("written");
        configured
    }

    fn users(&self) -> PathBuf {
        self.stage.path("home/.config/outlive/outlive.toml")
    }

    /// The program, told of the domain by the file alone.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stage.command(args);
        self.only_configured(&mut command);
        command
    }

    fn only_configured(&self, command: &mut Command) {
        for name in ["OUTLIVE_DOMAIN", "OUTLIVE_GROUP", "OUTLIVE_CONFIG", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", self.stage.path("home"));
    }

    fn run(&self, args: &[&str]) -> crate::stage::Ended {
        Running::new(self.command(args)).end()
    }
}

/// A file that names the stage's domain, and gives topics a depth.
fn whole(stage: &Stage) -> String {
    format!(
        "domain = {:?}\n[[profile]]\nname = \"camera\"\ntopics = [\"camera.*\"]\ndepth = 4\nstamps = false\ndurability = \"volatile\"\n",
        stage.domain()
    )
}

#[test]
fn the_file_says_which_domain_is_the_default_one() {
    let configured = Configured::new("");
    let stage = &configured.stage;
    fs::write(configured.users(), whole(stage)).expect("written");
    // Not there yet: as the default domain, which no process has used.
    assert!(configured.run(&["ls"]).expect(0).out.is_empty());
    configured.run(&["pub", "camera.front"]).expect(0);
    configured.run(&["state", "set", "mode", "driving"]).expect(0);
    // Another run finds it by its path.
    let listed = stage.run(&["ls", "--json"]).expect(0).json();
    let names: Vec<_> =
        listed["entries"].as_array().expect("a list").iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["camera.front", "mode"]);
    // With the profile's depth.
    let info = stage.run(&["topic", "info", "camera.front", "--json"]).expect(0).json();
    assert_eq!((&info["depth"], &info["durability"]), (&4.into(), &"volatile".into()));
    // What an option says comes first.
    configured.run(&["pub", "camera.back", "--durability", "persistent"]).expect(0);
    let info = stage.run(&["topic", "info", "camera.back", "--json"]).expect(0).json();
    assert_eq!((&info["depth"], &info["durability"]), (&4.into(), &"persistent".into()));
    stage.run(&["rm", "camera.back"]).expect(0);
    // What is there need not be as the profile says, but as the options say.
    configured.run(&["pub", "camera.front", "--depth", "4"]).expect(0);
    configured.run(&["pub", "camera.front", "--depth", "8"]).expect(7);
    // What an option or a variable names comes first, even if the file has a fault.
    fs::write(configured.users(), "domian = 'x'").expect("written");
    let place = stage.domain().display().to_string();
    configured.run(&["-d", &place, "info", "mode"]).expect(0);
    let mut command = configured.command(&["info", "mode"]);
    command.env("OUTLIVE_DOMAIN", stage.domain());
    Running::new(command).end().expect(0);
    let refused = configured.run(&["info", "mode"]).expect(16);
    assert!(refused.err.contains("outlive.toml:1:1: 'domian' is no key here; is 'domain' meant?"));
}

#[test]
fn a_profile_says_how_pub_publishes() {
    let configured = Configured::new("");
    let profile = "[[profile]]\nname = \"c\"\ntopics = [\"c*\"]\nmax_blocking = \"never\"\nlifespan = \"1h\"\npublisher_period = \"10ms\"\n";
    let text = format!("domain = {:?}\n{profile}", configured.stage.domain());
    fs::write(configured.users(), text).expect("written");
    let told = |args: &[&str]| {
        let mut publisher = Running::new(configured.command(args));
        let info = ["topic", "info", "c", "--json", "--look", "0"];
        let mut told = serde_json::Value::Null;
        until("it publishes", || {
            let report = configured.run(&info);
            told = if report.code() == 0 { report.json() } else { serde_json::Value::Null };
            told["publishers"][0]["session"].is_u64() && told["publishers"][0]["alive"] == true
        });
        publisher.write(b"x\n");
        let sum = publisher.end().expect(0).json();
        (told["publishers"][0].clone(), sum)
    };
    let (publisher, sum) = told(&["pub", "c", "--json"]);
    assert_eq!(
        (&publisher["max_blocking_seconds"], &publisher["lifespan_seconds"]),
        (&0.0.into(), &3600.0.into())
    );
    assert!(sum["missed"].is_u64());
    // The command line comes before the profile.
    let args = ["pub", "c", "--json", "--max-blocking", "forever", "--lifespan", "forever"];
    let (publisher, _) = told(&args);
    assert_eq!(
        (&publisher["max_blocking_seconds"], &publisher["lifespan_seconds"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
#[ignore = "a part of the next, which starts it as a process"]
fn opens_the_default_domain() {
    let Ok(expected) = std::env::var("EXPECTED") else { return };
    let domain = outlive::Domain::open_default().expect("opens");
    assert_eq!(domain.path().to_str(), Some(&*expected));
    // As the file says; a domain that is named waits as it always does.
    assert_eq!(domain.wait_strategy(), outlive::WaitStrategy::Block);
    let other = format!("{expected}-other");
    let other = outlive::Domain::open_or_create_at(other).expect("opens");
    assert_eq!(other.wait_strategy(), outlive::WaitStrategy::Adaptive);
}

/// The library's default domain is the program's, and waits as the file says.
#[test]
fn the_library_opens_the_same_domain() {
    let configured = Configured::new("");
    let place = configured.stage.domain().display().to_string();
    let text = format!("domain = {place:?}\n[wait]\nstrategy = \"block\"\n");
    fs::write(configured.users(), text).expect("written");
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "config::opens_the_default_domain", "--ignored"]);
    configured.only_configured(&mut command);
    command.env("EXPECTED", &place);
    let ended = Running::new(command).end().expect(0);
    assert!(ended.text().contains("1 passed"), "{}", ended.text());
    assert!(configured.stage.domain().join(".tokens").exists());
}

#[test]
fn show_says_where_each_value_comes_from() {
    let configured =
        Configured::new("group = 7\n[wait]\nstrategy = \"spin\"\n[limits]\nbudget = \"2G\"\n");
    let other = configured.stage.path("other.toml");
    let text = "domain = \"there\"\n\n[[profile]]\nname = \"p.q\"\ntopics = [\"*\"]\n";
    fs::write(&other, text).expect("written");
    let show = |args: &[&str], domain: Option<&str>| {
        let mut command = configured.command(&[&["config", "show", "--json"], args].concat());
        command.env("OUTLIVE_CONFIG", &other);
        if let Some(domain) = domain {
            command.env("OUTLIVE_DOMAIN", domain);
        }
        Running::new(command).end().expect(0).text()
    };
    let other = other.display().to_string();
    let mine = configured.users().display().to_string();
    let wanted = format!(
        r#"{{"key":"domain","value":"there","source":"file","from":"{other}","line":1}}
{{"key":"group","value":null,"source":"default"}}
{{"key":"limits.budget","value":"2G","source":"file","from":"{mine}","line":5}}
{{"key":"wait.strategy","value":"spin","source":"file","from":"{mine}","line":3}}
{{"key":"profile.p.q.topics","value":["*"],"source":"file","from":"{other}","line":5}}
"#
    );
    // A file's group is of that file's domain.
    assert_eq!(show(&[], None), wanted);
    let lines = show(&[], Some("here"));
    assert!(lines.contains(
        r#"{"key":"domain","value":"here","source":"environment","from":"OUTLIVE_DOMAIN"}"#
    ));
    assert!(lines.contains(r#"{"key":"group","value":null,"source":"default"}"#), "{lines}");
    // A budget is of the file's domain, too.
    assert!(
        lines.contains(r#"{"key":"limits.budget","value":null,"source":"default"}"#),
        "{lines}"
    );
    assert!(show(&["-d", "x"], None).contains(r#""value":"x","source":"option"}"#));
    assert_eq!(show(&["--topic", "any"], None).lines().count(), 1);
    // A file that is to be the last.
    fs::write(&other, "root = true").expect("written");
    assert!(!show(&[], None).contains(&mine));
    // As a table.
    let table = configured.run(&["config", "show"]).expect(0).text();
    assert!(table.starts_with("KEY "), "{table}");
    assert!(table.contains(&format!("{mine}:1")), "{table}");
    configured.run(&["config", "show", "--topic", "any"]).expect(6);
}

#[test]
fn check_tells_all_faults() {
    let configured = Configured::new("domain = 'a'\n");
    let mine = configured.users().display().to_string();
    assert_eq!(configured.run(&["config", "check"]).expect(0).text(), format!("{mine}: valid\n"));
    let bad = configured.stage.path("bad.toml");
    fs::write(&bad, "a = 1\n[wait]\nstrategie = 2\n").expect("written");
    let bad = bad.display().to_string();
    let ended = configured.run(&["config", "check", &mine, &bad]).expect(16);
    assert_eq!(ended.text(), format!("{mine}: valid\n"));
    assert!(ended.err.contains(&format!("{bad}:1:1: 'a' is no key here")), "{}", ended.err);
    assert!(ended.err.contains(&format!("{bad}:3:1: 'strategie' is no key here; is 'strategy'")));
    let json = configured.run(&["config", "check", &bad, "--json"]).expect(16).json();
    assert_eq!((&json["ok"], json["faults"][1]["line"].as_u64()), (&false.into(), Some(3)));
    configured.run(&["config", "check", "none.toml"]).expect(6);
    // A group that this machine does not have: told by check, and with its place by all others.
    fs::write(configured.users(), "domain = 'a'\n\ngroup = 'no such group'\n").expect("written");
    for args in [&["config", "check"][..], &["ls"]] {
        let ended = configured.run(args).expect(16);
        let wanted = format!("{mine}:3:1: the group cannot be 'no such group'");
        assert!(ended.err.contains(&wanted), "{args:?}: {}", ended.err);
    }
    // Named by the variable, it must be there.
    for (args, code) in [(&["config", "check"][..], 6), (&["ls"], 16)] {
        let mut command = configured.command(args);
        command.env("OUTLIVE_CONFIG", "/nowhere/at/all.toml");
        Running::new(command).end().expect(code);
    }
    // Any other verb fails with the fault, and those that need no domain do not.
    fs::write(configured.users(), "[limits]\nbudget = -1\n").expect("written");
    let ended = configured.run(&["ls"]).expect(16);
    assert!(
        ended.err.contains("outlive.toml:2:10: limits.budget: a number of bytes"),
        "{}",
        ended.err
    );
    configured.run(&["exit-codes"]).expect(0);
    // With no file at all, check says where it has looked.
    fs::remove_file(configured.users()).expect("removed");
    if !std::path::Path::new("/etc/outlive/outlive.toml").exists() {
        configured.run(&["config", "check"]).expect(0).says("no configuration file is there");
    }
}
