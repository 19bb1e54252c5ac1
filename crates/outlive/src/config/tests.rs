//! What a configuration file says, and what is refused in it.

use super::*;

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(of: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("outlive-config-{of}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const WHOLE: &str = r#"
domain = "robot"
group = 2000
[limits]
budget = "2G"
[wait]
strategy = "spin"
[[profile]]
name = "camera"
topics = ["camera.*",
          "depth.*"]
depth = 4
max_bytes = "256M"
max_publishers = 200
max_subscribers = 1_024
max_samples = 8
stamps = false
wait_strategy = "block"
durability = "volatile"
reliable = true
max_blocking = "2s"
lifespan = "1h"
publisher_period = "20ms"
mode = "0640"
keys = [1, 0x10]
history = 0
keep_last = 2
period = "100ms"
sessions = true
max_age = "3s"
liveliness = "50ms"
[[profile]]
name = "all"
topics = ["*"]
max_bytes = 65_536
max_blocking = "never"
lifespan = "forever"
max_age = "forever"
mode = 0o600
[[profile]]
name = "waits"
max_blocking = "forever"
"#;

#[test]
fn all_that_a_file_may_say_is_read() {
    let folder = Folder::new("whole");
    let config = Config::load_file(folder.file("a.toml", WHOLE)).expect("valid");
    assert_eq!((config.domain(), config.group()), (Some("robot"), Some("2000")));
    assert_eq!(config.budget(), Some(2 << 30));
    assert_eq!(config.wait_strategy(), Some(WaitStrategy::Spin));
    let camera = config.profile_for("camera.front").expect("fits");
    let wanted = Profile {
        name: "camera".into(),
        topics: vec!["camera.*".into(), "depth.*".into()],
        depth: Some(4),
        max_bytes: Some(256 << 20),
        max_publishers: Some(200),
        max_subscribers: Some(1024),
        max_samples: Some(8),
        stamps: Some(false),
        wait_strategy: Some(WaitStrategy::Block),
        durability: Some(Durability::Volatile),
        reliable: Some(true),
        max_blocking: Some(Duration::from_secs(2)),
        lifespan: Some(Duration::from_secs(3600)),
        publisher_period: Some(Duration::from_millis(20)),
        mode: Some(0o640),
        keys: Some(vec![1, 16]),
        history: Some(0),
        keep_last: Some(2),
        period: Some(Duration::from_millis(100)),
        sessions: Some(true),
        max_age: Some(Duration::from_secs(3)),
        liveliness: Some(Duration::from_millis(50)),
    };
    assert_eq!(*camera, wanted);
    assert_eq!(config.profile_for("lidar").map(|profile| &*profile.name), Some("all"));
    let all = config.profile("all").expect("there");
    assert_eq!((all.max_blocking, all.mode), (Some(Duration::ZERO), Some(0o600)));
    assert_eq!((all.lifespan, all.max_age), (Some(Duration::MAX), Some(Duration::MAX)));
    let waits = config.profile("waits").expect("there");
    assert_eq!(waits.max_blocking, Some(Duration::MAX));
    let at = |key: &str| {
        let found = config.settings().iter().find(|one| one.key == key);
        found.map(|one| (&*one.value, one.line))
    };
    assert_eq!(at("profile.camera.topics"), Some((r#"["camera.*", "depth.*"]"#, 10)));
    assert_eq!(at("limits.budget"), Some((r#""2G""#, 5)));
}

/// Each file, where its fault is, and what is told.
const FAULTS: &[(&str, (u32, u32), &str)] = &[
    ("domian = 'x'", (1, 1), "is 'domain' meant?"),
    ("\n  xyzzy = 1", (2, 3), "known are root, domain,"),
    ("[limits]\nbugdet = 1", (2, 1), "is 'budget' meant?"),
    ("[[profile]]\nname = 'a'\ndepht = 3", (3, 1), "is 'depth' meant?"),
    ("[[profile]]\nname = 'a'\ndepth = 0", (3, 9), "from 1 to 65,536"),
    ("[[profile]]\nname = 'a'\ndepth = 'ö'", (3, 9), "from 1 to 65,536"),
    ("[[profile]]\nname = 'a'\nperiod = 100", (3, 10), "\"250ms\""),
    ("[[profile]]\nname = 'a'\nmax_bytes = '1K'", (3, 13), "from \"64K\""),
    ("[[profile]]\nname = 'a'\nmax_publishers = 1025", (3, 18), "from 1 to 1,024"),
    ("[[profile]]\nname = 'a'\nmax_samples = 7", (3, 15), "from 8 to 65,536"),
    ("[[profile]]\nname = 'a'\ndurability = 'for ever'", (3, 14), "\"transient_local\""),
    ("[[profile]]\nname = 'a'\ntopics = 'a'", (3, 10), "patterns"),
    ("[[profile]]\nname = 'a'\nmax_blocking = 'always'", (3, 16), "\"never\", or \"forever\""),
    ("[[profile]]\nname = 'a'\nlifespan = 'never'", (3, 12), "or \"forever\""),
    ("[[profile]]\nname = 'a'\nmode = 640", (3, 8), "\"0640\""),
    ("[[profile]]\nname = 'a'\nmode = '0777'", (3, 8), "\"0640\""),
    ("[[profile]]\nname = 'a'\nkeys = [-1]", (3, 8), "as in [1, 2]"),
    ("[[profile]]\ndepth = 3", (1, 1), "needs a name"),
    ("[[profile]]\nname='a'\n[[profile]]\nname='a'", (4, 6), "already"),
    ("[profile]\nname = 'a'", (1, 1), "[[profile]]"),
    ("domain = 'a/b'", (1, 10), "absolute path"),
    ("domain = '.a'", (1, 10), "a domain's name"),
    ("wait = 'spin'", (1, 8), "[wait]"),
    ("[wait]\nstrategy = 'quick'", (2, 12), "\"adaptive\", \"spin\" or \"block\""),
    ("root = 1", (1, 8), "true or false"),
    ("domain = ", (1, 10), ""),
    ("ü = [\n", (1, 1), ""),
    ("domain = 'a'\ndomain = 'b'", (2, 1), ""),
];

#[test]
fn a_fault_is_told_with_its_line_and_column() {
    let folder = Folder::new("faults");
    for (text, place, told) in FAULTS {
        let path = folder.file("a.toml", text);
        let error = Config::load_file(&path).expect_err(text);
        let Error::InvalidConfig { line, column, ref why, .. } = error else { panic!("{error}") };
        // Where the grammar's own faults stand is the parser's affair.
        if !told.is_empty() {
            assert_eq!((line, column), *place, "{text}: {error}");
        }
        assert!(line > 0 && why.contains(told), "{text}: {error}");
        assert!(error.to_string().contains(&format!("a.toml:{line}:{column}: ")), "{error}");
    }
    let path = folder.file("a.toml", "c = 1\nb = 2\na = 3");
    let faults = check_file(&path).expect("read");
    let lines = faults.iter().map(|fault| match fault {
        Error::InvalidConfig { line, .. } => *line,
        other => panic!("{other}"),
    });
    assert_eq!(lines.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn what_is_no_file_of_text_is_refused() {
    let folder = Folder::new("no-text");
    let refused = |path: &Path| match Config::load_file(path) {
        Err(Error::InvalidConfig { line: 0, why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&folder.0).contains("no ordinary file"));
    assert!(refused(Path::new("/dev/zero")).contains("no ordinary file"));
    let path = folder.0.join("b.toml");
    std::fs::write(&path, b"\xff").expect("written");
    assert!(refused(&path).contains("UTF-8"));
    std::fs::write(&path, vec![b'#'; 1 << 21]).expect("written");
    assert!(refused(&path).contains("1 MiB"));
    let missing = Config::load_file(folder.0.join("none"));
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}

#[test]
fn the_first_file_that_sets_a_value_wins() {
    let folder = Folder::new("order");
    let first = folder
        .file("first.toml", "domain = 'mine'\n[[profile]]\nname = 'p'\ntopics = ['a']\ndepth = 1");
    let then = folder.file(
        "then.toml",
        "domain = 'other'\ngroup = 'robots'\n[[profile]]\nname = 'p'\ntopics = ['*']\nhistory = 9\n\
         [[profile]]\nname = 'q'\ntopics = ['*']",
    );
    let mut config = Config::load_file(&first).expect("valid");
    config.add(read::file(&then).expect("valid"), &then);
    // The group is of the other file's domain, not of this user's own.
    assert_eq!((config.domain(), config.group()), (Some("mine"), None));
    // A profile is one file's, whole.
    assert_eq!(config.profile("p").map(|p| (p.depth, p.history)), Some((Some(1), None)));
    assert_eq!(config.profile_for("b").map(|profile| &*profile.name), Some("q"));
    let from: Vec<_> = config.settings().iter().map(|one| (&*one.key, one.path == first)).collect();
    let wanted = [
        ("domain", true),
        ("profile.p.topics", true),
        ("profile.p.depth", true),
        ("profile.q.topics", false),
    ];
    assert_eq!(from, wanted);
    assert_eq!(config.files(), [first, then]);
}

#[test]
fn a_group_shares_the_domain_of_its_own_file_alone() {
    let folder = Folder::new("groups");
    for (first, then, wanted) in [
        ("domain = 'mine'", "group = 'robots'", None),
        ("domain = 'mine'", "domain = 'mine'\ngroup = 'robots'", Some("robots")),
        ("domain = 'default'", "group = 'robots'", Some("robots")),
        ("", "domain = 'other'\ngroup = 'robots'", Some("robots")),
        ("group = 'a'", "domain = 'other'\ngroup = 'b'", Some("a")),
    ] {
        let mut config = Config::load_file(folder.file("a.toml", first)).expect("valid");
        let then = folder.file("b.toml", then);
        config.add(read::file(&then).expect("valid"), &then);
        assert_eq!(config.group(), wanted, "{first}");
    }
}
