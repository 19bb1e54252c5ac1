//! Processes with names: others see them until they end, in whatever way; and watchers of a domain
//! learn what comes and goes there.

use std::fs;
use std::os::fd::AsRawFd;

use outlive::node::DomainContents;
use outlive::state::State;
use outlive::topic::{Durability, Subscriber, Topic};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error};

use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::runner::World;

crate::checks!(
    a_killed_process_loses_its_name,
    errors_say_what_to_do,
    a_forked_child_has_no_name,
    a_node_is_seen_whole_or_not_at_all: 60,
    a_file_that_was_written_over_is_told,
    a_watcher_is_woken_by_all_that_happens,
    a_change_that_was_not_told_is_found_at_the_recheck,
    the_end_of_a_node_wakes_wait_sets_and_futures,
);

fn pause() {
    loop {
        std::thread::park();
    }
}

fn names(domain: &Domain) -> Vec<String> {
    domain.nodes().expect("listed").into_iter().map(|node| node.name).collect()
}

/// The files of nodes in a domain's folder.
fn files(domain: &Domain) -> usize {
    let all = fs::read_dir(domain.path()).expect("readable").flatten();
    all.filter(|file| file.file_name().to_string_lossy().starts_with(".node-")).count()
}

/// A child that has a name until it is killed.
fn named(world: &World, name: &'static str, board: Board) -> Child {
    let domain = world.domain();
    Child::start(move || {
        let _node =
            domain.node(name).version("2").attribute("k", "v").register().expect("registered");
        board.add(0, 1);
        pause();
    })
}

fn a_killed_process_loses_its_name(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let mut child = named(world, "victim", board);
    board.reach(0, 1);
    let nodes = domain.nodes().expect("listed");
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!((&*node.name, &*node.version), ("victim", "2"));
    assert_eq!((node.attributes.get("k"), node.pid as i32), (Some("v"), child.pid()));
    assert!(node.same_namespace && !node.is_damaged);
    let found = domain.node_of(node.token).expect("looked for");
    assert_eq!(found.as_ref(), Some(node));
    let peer = domain.peer(node.token);
    child.kill();
    peer.wait_dead_timeout(PATIENCE).expect("told");
    assert!(names(&domain).is_empty());
    assert_eq!(files(&domain), 1, "to look removes nothing");
    // The next node does, and so does a sweep.
    let mut child = named(world, "victim", board);
    board.reach(0, 2);
    assert_eq!(files(&domain), 1);
    let peer = domain.peer(domain.nodes().expect("listed")[0].token);
    child.kill();
    peer.wait_dead_timeout(PATIENCE).expect("told");
    assert_eq!(files(&domain), 1);
    domain.sweep(false).expect("swept");
    assert_eq!(files(&domain), 0);
}

fn a_forked_child_has_no_name(world: &World) {
    let domain = world.domain();
    let node = domain.node("parent").register().expect("registered");
    let again = domain.node("again").register();
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    // Not moved there: this process keeps it.
    let node = std::cell::RefCell::new(Some(node));
    let child = Child::start(|| {
        let me = domain.token().expect("a token");
        assert!(domain.node_of(me).expect("looked for").is_none(), "the parent's name is not its");
        let own = domain.node("child").register().expect("registered");
        assert_eq!(names(&domain), ["child", "parent"]);
        assert_eq!(domain.node_of(me).expect("looked for").expect("named").name, "child");
        drop(own);
        // The parent's, which is not the child's to give up.
        drop(node.take());
        assert_eq!(names(&domain), ["parent"]);
    });
    child.finish();
    assert_eq!(names(&domain), ["parent"]);
    drop(node.take());
    assert!(names(&domain).is_empty());
}

/// Processes are killed while they take a name. Whatever is listed is whole, and in the end nothing
/// is left.
fn a_node_is_seen_whole_or_not_at_all(world: &World) {
    let domain = world.domain();
    for round in 0..60u64 {
        let board = Board::new();
        let their = domain.clone();
        let mut child = Child::start(move || {
            their.process_token().expect("a token");
            board.set(0, 1);
            loop {
                let long = "x".repeat(3000);
                let node = their.node("victim").attribute("long", &long).register();
                drop(node.expect("registered"));
            }
        });
        board.reach(0, 1);
        for _ in 0..round % 7 * 20 {
            for node in domain.nodes().expect("listed") {
                assert!(!node.is_damaged && node.name == "victim", "{node:?}");
                assert_eq!(node.attributes.get("long").map(str::len), Some(3000));
            }
        }
        child.kill();
        wait_until("no node is left", || names(&domain).is_empty());
        // To look removes nothing; the next node removes what the dead one has left.
        drop(domain.node("next").register().expect("registered"));
        assert_eq!(files(&domain), 0);
    }
}

fn a_file_that_was_written_over_is_told(world: &World) {
    let domain = world.domain();
    let node = domain.node("mine").attribute("a", "b").register().expect("registered");
    let file = fs::read_dir(domain.path()).expect("readable").flatten();
    let file = file.map(|file| file.path());
    let path =
        file.into_iter().find(|path| path.to_string_lossy().contains(".node-")).expect("there");
    let whole = fs::read(&path).expect("read");
    for bytes in [&b""[..], &b"OUTLIVE"[..], &[0xff; 5000], &[whole.clone(), vec![0; 5]].concat()] {
        fs::write(&path, bytes).expect("written");
        assert!(matches!(node.info(), Err(Error::Damaged { .. })), "{} bytes", bytes.len());
        let nodes = domain.nodes().expect("listed");
        assert!(nodes.len() == 1 && nodes[0].is_damaged && nodes[0].name.is_empty());
        assert_eq!(nodes[0].token, node.token());
    }
    // What is no file, and names that are no node's.
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", &path).expect("made");
    assert!(domain.nodes().expect("listed")[0].is_damaged);
    fs::remove_file(&path).expect("removed");
    for name in [".node-", ".node-12", ".node-zzzzzzzz", ".node", ".nodes-00000001"] {
        fs::write(domain.path().join(name), "x").expect("written");
    }
    assert!(domain.nodes().expect("listed").is_empty());
    assert!(matches!(node.info(), Err(Error::NotFound { .. })));
    drop(node);
}

fn a_watcher_is_woken_by_all_that_happens(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let their = domain.clone();
    // The world's domains make no recheck: each change must wake.
    let watcher = Child::start(move || {
        let mut watch = their.watch();
        let mut seen = |wanted: u64| -> DomainContents {
            let contents = watch.changed_timeout(PATIENCE).expect("watched").expect("in time");
            board.set(0, wanted);
            contents
        };
        assert_eq!(seen(1), DomainContents::default());
        assert_eq!(seen(2).names, ["level"]);
        assert_eq!(seen(3).nodes[0].name, "victim");
        let contents = seen(4);
        assert!(contents.nodes.is_empty() && contents.names == ["level"]);
        assert_eq!(seen(5), DomainContents::default());
    });
    let asleep_at = |step: u64| {
        board.reach(0, step);
        crate::asleep::wait_asleep(watcher.pid());
    };
    asleep_at(1);
    drop(State::<u64>::open_or_create(&domain, "level").expect("made"));
    asleep_at(2);
    let mut child = named(world, "victim", Board::new());
    asleep_at(3);
    child.kill();
    asleep_at(4);
    domain.remove("level").expect("removed");
    board.reach(0, 5);
    watcher.finish();
}

fn a_change_that_was_not_told_is_found_at_the_recheck(world: &World) {
    let domain = Domain::open_or_create_at(world.folder().join("domain")).expect("opens");
    drop(State::<u64>::open_or_create(&domain, "level").expect("made"));
    let mut watch = domain.watch();
    assert_eq!(watch.changed().expect("watched").names, ["level"]);
    // As `rm` does it: no process tells.
    fs::remove_file(domain.path().join("level")).expect("removed");
    let contents = watch.changed_timeout(PATIENCE).expect("watched").expect("in time");
    assert!(contents.names.is_empty());
    let mut set = WaitSet::new(&domain);
    set.add(&watch).expect("added");
    fs::write(domain.path().join("foreign"), "x").expect("written");
    assert_eq!(set.wait_timeout(PATIENCE).expect("waited").count(), 1);
    assert_eq!(watch.try_changed().expect("watched").expect("changed").names, ["foreign"]);
}

fn the_end_of_a_node_wakes_wait_sets_and_futures(world: &World) {
    let (domain, board) = (world.domain(), Board::new());
    let mut first = named(world, "a", board);
    let mut second = named(world, "b", board);
    board.reach(0, 2);
    let mut watch = domain.watch();
    assert_eq!(watch.changed().expect("watched").nodes.len(), 2);
    let mut set = WaitSet::new(&domain);
    let key = set.add(&watch).expect("added");
    assert_eq!(set.try_wait().expect("looked").count(), 0);
    first.kill();
    let ready: Vec<_> = set.wait_timeout(PATIENCE).expect("waited").collect();
    assert_eq!(ready, [(key, Readiness::Changed)]);
    assert!(set.as_fd().expect("a descriptor").as_raw_fd() > 0);
    let contents = watch.try_changed().expect("watched").expect("changed");
    assert_eq!(contents.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["b"]);
    second.kill();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("built");
    let contents = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, watch.changed_async())
            .await
            .expect("in time")
            .expect("watched")
    });
    assert!(contents.nodes.is_empty());
}

fn errors_say_what_to_do(world: &World) {
    let domain = world.domain();
    let _node = domain.node("a").register().expect("named");
    let second = domain.node("b").register().map(drop).expect_err("one name").to_string();
    assert!(
        second.contains("this process has a name in ") && !second.contains(".node"),
        "{second}"
    );
    let long = domain.with_attributes([("a", &*"x".repeat(5000))]);
    let told =
        State::<u64>::open_or_create(&long, "s").map(drop).expect_err("too long").to_string();
    assert!(told.contains("attributes cannot be of 5005 bytes; choose up to 4,080"), "{told}");
    Topic::<u64>::open_or_create(&domain, "typed").expect("made");
    let told = Topic::<[u8]>::open_or_create(&domain, "typed").map(drop).expect_err("a type");
    assert!(
        told.to_string().contains("this program gave no type; give that one, or open"),
        "{told}"
    );
    let options = Topic::<u64>::options().durability(Durability::Volatile);
    let volatile = options.open_or_create(&domain, "volatile").expect("made");
    let told = volatile.subscriber_with(Subscriber::options().history(1)).map(drop);
    let told = told.expect_err("no history").to_string();
    assert!(told.contains("wants transient_local, for a history of 1"), "{told}");
}
