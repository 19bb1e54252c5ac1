//! Everything that can be done in a domain, each bounded by a deadline of milliseconds, each
//! allowed any error.

use std::fs;
use std::hint::black_box;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use outlive::queue::{Queue, Receiver, Sender};
use outlive::sync::{LockError, Mutex, MutexGuard};
use outlive::{Deadline, Domain, Plain};

use crate::board::Board;
use crate::descriptions;
use crate::locks;
use crate::pools;
use crate::random::Random;
use crate::topics;
use crate::world::{MUTEXES, QUEUES, RECORD, Shared, World};

type Operation = fn(&World, &mut Random);

/// All of them, by name.
pub const ALL: &[(&str, Operation)] = &[
    ("tokens", tokens),
    ("peers", peers),
    ("short-lived threads", short_lived_threads),
    ("lock", lock),
    ("try lock", try_lock),
    ("reset", reset),
    ("record", record),
    ("read", locks::read),
    ("write", locks::write),
    ("wait and notify", locks::wait_and_notify),
    ("events", locks::events),
    ("make once", locks::make_once),
    ("permits", locks::permits),
    ("meet", locks::meet),
    ("take objects", pools::take),
    ("claim offers", pools::claim_offers),
    ("pool's gc", pools::collect),
    ("read descriptions", descriptions::read),
    ("publish", topics::publish),
    ("subscribe", topics::subscribe),
    ("look at a topic", topics::look),
    ("send small", send_small),
    ("send large", send_large),
    ("send batch", send_batch),
    ("receive", receive),
    ("peek", peek),
    ("receive values", receive_values),
    ("look", look),
    ("entries", entries),
    ("sweep dry", sweep_dry),
    ("sweep", sweep),
    ("open anew", open_anew),
    ("open elsewhere", open_elsewhere),
    ("remove elsewhere", remove_elsewhere),
];

/// Returns its name, for a find.
pub fn name(operation: Option<usize>) -> &'static str {
    operation.and_then(|index| ALL.get(index)).map_or("start", |(name, _)| name)
}

/// Does each once, in an order of the seed's.
pub fn all_once(world: &World, board: Board, place: usize, seed: u64) {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..ALL.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    for index in order {
        board.begin(place, index);
        ALL[index].1(world, &mut random);
    }
}

/// Does some again and again until told to stop.
pub fn until_stopped(world: &World, board: Board, place: usize, seed: u64, only: &[&str]) {
    let mut random = Random::new(seed);
    let chosen: Vec<usize> = (0..ALL.len()).filter(|&index| only.contains(&ALL[index].0)).collect();
    while !board.must_stop() {
        let index = *random.pick(&chosen);
        board.begin(place, index);
        ALL[index].1(world, &mut random);
    }
}

pub fn soon() -> Deadline {
    Deadline::after(Duration::from_micros(700))
}

fn tokens(world: &World, _: &mut Random) {
    let _ = black_box(world.domain.token());
    let _ = black_box(world.domain.process_token());
    black_box((world.domain.tokens(), world.domain.stats()));
}

fn peers(world: &World, random: &mut Random) {
    let tokens = world.domain.tokens();
    for _ in 0..tokens.len().min(6) {
        let peer = world.domain.peer(random.pick(&tokens).id);
        black_box((peer.is_alive(), peer.info()));
        let _ = black_box(peer.wait_dead_until(soon()));
    }
}

fn short_lived_threads(world: &World, _: &mut Random) {
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = black_box(world.domain.token());
                let _ = black_box(world.domain.process_token());
            });
        });
    }
}

pub fn use_guard<T: Plain>(
    result: Result<Option<MutexGuard<'_, T>>, LockError<MutexGuard<'_, T>>>,
    repair: bool,
) {
    match result {
        Ok(guard) => drop(black_box(guard)),
        Err(LockError::OwnerDied(mut guard)) => {
            if repair {
                guard.mark_consistent();
            }
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

fn lock(world: &World, random: &mut Random) {
    for mutex in &world.mutexes {
        use_guard(mutex.lock_until(soon()), random.below(2) == 0);
        black_box(mutex.holder());
    }
}

fn try_lock(world: &World, random: &mut Random) {
    for mutex in &world.mutexes {
        use_guard(mutex.try_lock(), random.below(2) == 0);
    }
}

fn reset(world: &World, random: &mut Random) {
    for mutex in &world.mutexes {
        if let Ok(Some(mut guard)) = black_box(mutex.lock_to_reset_until(soon())) {
            *guard = random.next();
            guard.mark_consistent();
        }
    }
}

fn record(world: &World, random: &mut Random) {
    for n in 0..3 {
        let lock = world.record.lock_until(|record: &Shared| &record.locks[n], soon());
        use_guard(lock, random.below(2) == 0);
    }
}

/// Returns a sender of each queue that gives one.
fn senders(world: &World) -> impl Iterator<Item = Sender> + '_ {
    world.queues.iter().filter_map(|queue| queue.sender().ok())
}

fn receivers(world: &World) -> impl Iterator<Item = Receiver> + '_ {
    world.queues.iter().filter_map(|queue| queue.receiver().ok())
}

fn send_small(world: &World, random: &mut Random) {
    for sender in senders(world) {
        for _ in 0..random.below(20) {
            let bytes = vec![1; random.below(200) as usize];
            if let Err(error) = sender.try_send(&bytes) {
                black_box(error.to_string());
                break;
            }
        }
        let _ = black_box(sender.send_until(&[2; 30], soon()));
    }
}

fn send_large(world: &World, random: &mut Random) {
    for sender in senders(world) {
        for power in [9, 12, 16, 20, 22] {
            let bytes = vec![3; random.below(1 << power) as usize];
            let _ = black_box(sender.try_send(&bytes));
        }
        let _ = black_box(sender.send_until(&[4; 9_000], soon()));
    }
}

fn send_batch(world: &World, random: &mut Random) {
    for sender in senders(world) {
        let batch = vec![[5u8; 24]; random.below(300) as usize];
        let _ = black_box(sender.send_batch_until(&batch, soon()));
    }
}

fn receive(world: &World, random: &mut Random) {
    for mut receiver in receivers(world) {
        receiver.end_when_senders_gone(random.below(2) == 0);
        for _ in 0..random.below(300) {
            match receiver.try_recv() {
                Ok(Some(message)) => drop(black_box(message)),
                Ok(None) => break,
                Err(error) => {
                    black_box(error.to_string());
                    break;
                }
            }
        }
        let _ = black_box(receiver.recv_until(soon()));
    }
}

fn peek(world: &World, random: &mut Random) {
    for mut receiver in receivers(world) {
        for _ in 0..random.below(40) {
            let Ok(Some(peeked)) = receiver.try_peek() else { break };
            let sum: u64 = peeked.iter().map(|&byte| u64::from(byte)).sum();
            black_box((sum, peeked.redelivered()));
            if random.below(3) > 0 {
                peeked.commit();
            }
        }
        let _ =
            black_box(receiver.peek_until(soon()).map(|peeked| peeked.map(|peeked| peeked.len())));
    }
}

fn receive_values(world: &World, _: &mut Random) {
    let Ok(mut receiver) = world.values.receiver() else { return };
    for _ in 0..8 {
        let _ = black_box(receiver.try_peek().map(|peeked| peeked.map(|peeked| *peeked)));
        let _ = black_box(receiver.recv_timeout(Duration::ZERO));
    }
}

fn look(world: &World, _: &mut Random) {
    for queue in &world.queues {
        let _ = black_box(queue.counters());
        black_box((queue.current_receiver(), queue.senders(), queue.is_removed()));
    }
}

fn entries(world: &World, random: &mut Random) {
    // Each reads what /proc knows of every process of the machine: not for every round.
    match random.below(6) {
        0 => drop(black_box(world.domain.entries().map(|entries| format!("{entries:?}")))),
        1 => {
            let names: Vec<&str> = MUTEXES
                .into_iter()
                .chain(QUEUES)
                .chain(locks::NAMES)
                .chain([RECORD, pools::NAME, topics::NAME])
                .collect();
            drop(black_box(world.domain.entry(random.pick::<&str>(&names))));
        }
        _ => {}
    }
}

fn sweep_dry(world: &World, _: &mut Random) {
    let _ = black_box(world.domain.sweep(true));
}

fn sweep(world: &World, _: &mut Random) {
    let _ = black_box(world.domain.sweep(false));
}

/// Opens what can be opened by name, and uses it a little.
fn open_and_use(domain: &Domain) {
    for name in MUTEXES {
        if let Ok(mutex) = Mutex::<u64>::options(0).open_or_create(domain, name) {
            use_guard(mutex.try_lock(), true);
        }
        let _ = black_box(
            Mutex::<[u32; 2]>::options([0; 2])
                .open_or_create(domain, name)
                .err()
                .map(|error| error.to_string()),
        );
    }
    locks::open_and_use(domain);
    pools::open_and_use(domain);
    topics::open_and_use(domain);
    if let Ok(record) = outlive::sync::Record::<Shared>::open_or_create(domain, RECORD) {
        use_guard(record.lock_until(|record| &record.locks[0], soon()), true);
    }
    for name in QUEUES {
        let Ok(queue) = Queue::<[u8]>::open(domain, name) else { continue };
        let _ = black_box(queue.counters());
        if let Ok(sender) = queue.sender() {
            let _ = black_box(sender.try_send(&[6; 10]));
            let _ = black_box(sender.try_send(&[6; 2_000]));
        }
        if let Ok(mut receiver) = queue.receiver() {
            for _ in 0..10 {
                let _ = black_box(receiver.try_recv());
            }
        }
    }
}

fn open_anew(world: &World, _: &mut Random) {
    open_and_use(&world.domain);
}

/// Returns the same bytes under another path: a registry that this process has not seen.
fn copy(world: &World) -> Option<Domain> {
    let folder = world.beside();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).ok()?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).ok()?;
    for file in &world.files {
        file.copy_to(&folder.join(&file.name)).ok()?;
    }
    Domain::options().recheck(None).open_or_create_at(&folder).ok()
}

fn open_elsewhere(world: &World, _: &mut Random) {
    if let Some(domain) = copy(world) {
        black_box(domain.tokens());
        let _ = black_box(domain.token());
        let _ = black_box(domain.process_token());
        open_and_use(&domain);
        let _ = black_box(domain.sweep(false));
    }
    let _ = fs::remove_dir_all(world.beside());
}

fn remove_elsewhere(world: &World, _: &mut Random) {
    if let Some(domain) = copy(world) {
        for name in MUTEXES.into_iter().chain(QUEUES).chain(locks::NAMES).chain([
            RECORD,
            pools::NAME,
            topics::NAME,
        ]) {
            let _ = black_box(domain.remove(name));
        }
        // What would not go is in the way of what is made now.
        for name in QUEUES {
            let _ = black_box(Queue::<[u8]>::open_or_create(&domain, name));
        }
    }
    let _ = fs::remove_dir_all(world.beside());
}
