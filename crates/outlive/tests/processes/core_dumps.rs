//! Shared memory that core dumps do not have: the kernel says of each mapping whether it is left out.

use std::fs;

use outlive::Domain;
use outlive::queue::Queue;
use outlive::topic::Topic;

use crate::child::Child;
use crate::runner::World;

crate::checks!(
    they_have_it_unless_it_is_left_out: 60,
    the_environment_leaves_it_out: 60,
);

/// Returns for each mapping of a file of the domain whether core dumps leave it out.
fn left_out(domain: &Domain) -> Vec<bool> {
    let folder = domain.path().to_str().expect("a plain path").to_owned();
    let text = fs::read_to_string("/proc/self/smaps").expect("readable");
    let (mut is_ours, mut all) = (false, Vec::new());
    for line in text.lines() {
        match line.strip_prefix("VmFlags:") {
            Some(flags) if is_ours => all.push(flags.split_whitespace().any(|flag| flag == "dd")),
            Some(_) => {}
            // The line with which a mapping begins has its addresses first.
            None if line.split(' ').next().is_some_and(|word| word.contains('-')) => {
                is_ours = line.contains(&folder);
            }
            None => {}
        }
    }
    all
}

/// Uses some kinds of things, of which some have several mappings.
fn use_some(domain: &Domain) -> Vec<bool> {
    let queue = Queue::<[u8]>::open_or_create(domain, "q").expect("made");
    queue.sender().expect("a sender").send(b"x").expect("sent");
    let topic = Topic::<[u8]>::open_or_create(domain, "t").expect("made");
    let _publisher = topic.publisher().expect("a ring");
    let _subscriber = topic.subscriber().expect("a line");
    let all = left_out(domain);
    assert!(all.len() >= 4, "the registry, the queue, and two of the topic: {all:?}");
    all
}

fn they_have_it_unless_it_is_left_out(world: &World) {
    let open = |options: outlive::DomainOptions| {
        options.open_or_create_at(world.folder().join("domain")).expect("opens")
    };
    Child::start(|| {
        let all = use_some(&open(Domain::options()));
        assert!(!all.contains(&true), "{all:?}");
    })
    .finish();
    Child::start(|| {
        let all = use_some(&open(Domain::options().core_dump(false)));
        assert!(!all.contains(&false), "{all:?}");
    })
    .finish();
}

fn the_environment_leaves_it_out(world: &World) {
    for (value, wanted) in [("0", true), ("1", false)] {
        Child::start(|| {
            // SAFETY: the child has one thread.
            unsafe { std::env::set_var("OUTLIVE_CORE_DUMP", value) };
            let options = Domain::options();
            let domain = options.open_or_create_at(world.folder().join("domain")).expect("opens");
            let all = use_some(&domain);
            assert!(!all.contains(&!wanted), "{all:?}");
        })
        .finish();
    }
}
