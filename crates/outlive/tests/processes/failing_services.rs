//! A system call fails where a process looks at a service's memory: no request and no reply is lost
//! by it, and what could not be freed is freed later.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use outlive::rpc::{Call, CallError, Client, Request, Server};
use outlive::wait::WaitSet;
use outlive::{Detail, Domain};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::failing_calls::{LONG, without_fstat};
use crate::limits::set_limit;
use crate::order::{message, read_message};
use crate::rpc::make_limited;
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};

crate::checks!(
    a_long_request_stays,
    a_request_that_cannot_be_looked_at_holds_up_its_client_alone,
    a_slot_that_cannot_be_looked_at_holds_up_its_client_alone,
    a_long_reply_stays,
    what_a_cancelled_call_holds_is_freed_later,
    what_a_dropped_client_could_not_free_is_swept,
    a_slot_that_cannot_be_settled_does_not_hold_up_the_others,
    what_can_be_freed_of_a_place_is_freed,
    a_client_without_memory_frees_what_its_calls_hold,
    a_client_whose_deadline_passes_is_told_what_could_not_be_settled,
    a_client_without_memory_frees_what_it_can_of_nobodys_place,
    a_server_without_memory_frees_what_it_can,
    a_place_that_cannot_be_settled_loses_the_dead_clients_name,
    a_sweep_that_fails_at_a_place_takes_out_the_servers_name,
);

fn a_long_request_stays(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let board = Board::new();
    let client = Child::start(|| {
        let client = client_of(&domain, "s");
        // After this call the server has mapped the slots.
        assert_eq!(*client.call(b"before").expect("answered"), *b"done");
        let pending = client.begin(&message(3, 9, LONG)).expect("sent");
        let later = client.begin(&message(3, 10, 20)).expect("sent");
        board.set(0, 1);
        assert_eq!(*pending.wait().expect("answered"), *b"done");
        assert_eq!(*later.wait().expect("answered"), *b"done");
    });
    server
        .next_timeout(PATIENCE)
        .expect("served")
        .expect("asked")
        .reply(b"done")
        .expect("it waits");
    board.reach(0, 1);
    let told = without_fstat(&domain, "s", || {
        (server.try_next().map(drop), server.next_timeout(PATIENCE).map(drop))
    });
    let is_told =
        matches!(told, (Err(outlive::RecvError::System(_)), Err(outlive::RecvError::System(_))));
    assert!(is_told, "{told:?}");
    for number in [9, 10] {
        let request = server.try_next().expect("served").expect("not begun, and there");
        assert_eq!(
            read_message(&request),
            (3, number),
            "a request that cannot be looked at keeps its turn"
        );
        request.reply(b"done").expect("it waits");
    }
    client.finish();
}

/// A server that answers that many calls with a long reply each, and all others with a short one.
fn long_replies(domain: &Domain, board: &Board, count: u64) {
    let mut server = server_of(domain, "s");
    for number in 0.. {
        let request = match server.next_timeout(PATIENCE) {
            Ok(Some(request)) if &*request == b"end" => {
                return request.reply(b"").expect("it waits");
            }
            request => request.expect("served").expect("asked"),
        };
        let bytes = message(4, number, if number < count { LONG } else { 20 });
        request.reply_with(bytes.len(), |to| to.copy_from_slice(&bytes)).expect("it waits");
        board.add(0, 1);
    }
}

/// What the server takes, one request after the other; an error is `None`.
fn take<const N: usize>(server: &mut Server) -> [Option<Request>; N] {
    std::array::from_fn(|_| match server.try_next() {
        Err(outlive::RecvError::System(_)) => None,
        request => Some(request.expect("served").expect("asked")),
    })
}

fn answer(request: Option<Request>) -> Option<u64> {
    let request = request?;
    let (_, number) = read_message(&request);
    request.reply(b"done").expect("it waits");
    Some(number)
}

/// A client that makes a call for each message, and says so on the board; the first is over before.
fn asks(domain: &Domain, board: Board, stand: u64, messages: &[(u64, usize)]) -> Child {
    Child::start(|| {
        let client = client_of(domain, "s");
        assert_eq!(*client.call(b"before").expect("answered"), *b"done");
        board.reach(0, stand);
        let calls: Vec<_> = messages
            .iter()
            .map(|&(number, len)| client.begin(&message(3, number, len)).expect("sent"))
            .collect();
        board.add(0, 1);
        for call in calls {
            assert_eq!(*call.wait().expect("answered"), *b"done");
        }
    })
}

fn a_request_that_cannot_be_looked_at_holds_up_its_client_alone(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let board = Board::new();
    let one = asks(&domain, board, 1, &[(1, LONG), (2, 20)]);
    let other = asks(&domain, board, 2, &[(3, 20), (4, 20)]);
    for _ in 0..2 {
        server
            .next_timeout(PATIENCE)
            .expect("served")
            .expect("asked")
            .reply(b"done")
            .expect("it waits");
    }
    board.set(0, 1);
    board.reach(0, 3);
    // The error is told once for each time that all the others' requests have been taken.
    let told = without_fstat(&domain, "s", || take::<4>(&mut server));
    assert_eq!(told.map(answer), [None, Some(3), Some(4), None]);
    assert_eq!(
        take::<2>(&mut server).map(answer),
        [Some(1), Some(2)],
        "its client's order is kept"
    );
    one.finish();
    other.finish();
}

fn a_slot_that_cannot_be_looked_at_holds_up_its_client_alone(world: &World) {
    let domain = world.domain();
    let mut server = server_of(&domain, "s");
    let board = Board::new();
    let one = asks(&domain, board, 1, &[(2, 20)]);
    server
        .next_timeout(PATIENCE)
        .expect("served")
        .expect("asked")
        .reply(b"done")
        .expect("it waits");
    // Its place is new, and the server has not looked there.
    let other = Child::start(|| {
        let client = client_of(&domain, "s");
        let call = client.begin(&message(3, 1, 20)).expect("sent");
        board.add(0, 1);
        assert_eq!(*call.wait().expect("answered"), *b"done");
    });
    board.reach(0, 2);
    let told = without_fstat(&domain, "s", || take::<3>(&mut server));
    assert_eq!(told.map(answer), [None, Some(2), None]);
    assert_eq!(take::<1>(&mut server).map(answer), [Some(1)]);
    one.finish();
    other.finish();
}

fn a_long_reply_stays(world: &World) {
    let domain = world.domain();
    let client = waiting_client_of(&domain, "s");
    let board = Board::new();
    let server = Child::start(|| long_replies(&domain, &board, 1));
    let mut pending = client.begin_timeout(b"x", PATIENCE).expect("sent");
    board.reach(0, 1);
    let told = without_fstat(&domain, "s", || {
        (pending.try_next().map(drop), pending.next_timeout(PATIENCE).map(drop))
    });
    assert!(matches!(told, (Err(CallError::System(_)), Err(CallError::System(_)))), "{told:?}");
    assert_eq!(read_message(&pending.wait().expect("there")), (4, 0));
    client.call(b"end").expect("answered");
    server.finish();
}

/// What could not be looked at when the call was let go of stays with its slot, until that is
/// settled.
fn what_a_cancelled_call_holds_is_freed_later(world: &World) {
    const CALLS: u64 = 3;
    let domain = world.domain();
    let client = waiting_client_of(&domain, "s");
    let board = Board::new();
    let server = Child::start(|| long_replies(&domain, &board, CALLS));
    let calls: Vec<_> =
        (0..CALLS).map(|_| client.begin_timeout(b"x", PATIENCE).expect("sent")).collect();
    board.reach(0, CALLS);
    without_fstat(&domain, "s", || drop(calls));
    // These calls go through the slots that are free, and write over what was there.
    for number in CALLS..CALLS + 20 {
        assert_eq!(read_message(&client.call(b"x").expect("answered")), (4, number));
    }
    client.call(b"end").expect("answered");
    server.finish();
    drop(client);
    domain.sweep(false).expect("sweeps");
    let bytes = domain.entry("s").expect("there").bytes;
    assert!(bytes < LONG as u64, "{bytes} bytes are left of replies that nobody wanted");
}

/// A server that replies with as many bytes as a request asks for. It ends when a request asks for
/// none.
fn replies_as_asked(domain: &Domain, board: &Board) {
    let mut server = server_of(domain, "s");
    loop {
        let request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        let len = u64::from_le_bytes(request[..8].try_into().expect("eight bytes")) as usize;
        if len == 0 {
            return request.reply(b"").expect("it waits");
        }
        request.reply_with(len, |to| to.fill(7)).expect("it waits");
        board.add(0, 1);
    }
}

/// A request for so many bytes, for [`replies_as_asked`].
fn bytes(len: usize) -> [u8; 8] {
    (len as u64).to_le_bytes()
}

/// Keeps the service's file open by a wait set: a client that is dropped while `fstat` fails must
/// not close the file.
fn kept_open(domain: &Domain, call: &Call<'_>) -> WaitSet {
    let mut set = WaitSet::new(domain);
    set.add(call).expect("added");
    set
}

/// After the client is dropped, its place belongs to no client and its calls are over: only an
/// object's tag says that the object lies there.
fn what_a_dropped_client_could_not_free_is_swept(world: &World) {
    let domain = world.domain();
    let (client, other) = (client_of(&domain, "s"), client_of(&domain, "s"));
    client.set_wait_for_server(true);
    let board = Board::new();
    let server = Child::start(|| replies_as_asked(&domain, &board));
    let call = client.begin_timeout(&bytes(LONG), PATIENCE).expect("sent");
    board.reach(0, 1);
    let kept = kept_open(&domain, &call);
    without_fstat(&domain, "s", || drop(call));
    without_fstat(&domain, "s", || drop(client));
    drop(kept);
    other.call(&bytes(0)).expect("answered");
    server.finish();
    drop(other);
    domain.sweep(false).expect("sweeps");
    let bytes = domain.entry("s").expect("there").bytes;
    assert!(bytes < LONG as u64, "{bytes} bytes are left, of a reply that was let go of");
    assert!(domain.sweep(true).expect("sweeps").is_clean());
}

fn a_slot_that_cannot_be_settled_does_not_hold_up_the_others(world: &World) {
    /// How many slots a place has.
    const SLOTS: usize = 16;
    let domain = world.domain();
    let client = waiting_client_of(&domain, "s");
    let board = Board::new();
    let server = Child::start(|| replies_as_asked(&domain, &board));
    // The server counts a reply after its client may have it: the count before a call may be too
    // low.
    let let_go = |len: usize, replies: u64| {
        let call = client.begin_timeout(&bytes(len), PATIENCE).expect("sent");
        board.reach(0, replies);
        without_fstat(&domain, "s", || drop(call));
    };
    let_go(LONG, 1);
    // When it takes this reply, the client sees how long the file is: long enough for the first
    // reply, of which it has let go.
    assert_eq!(client.call(&bytes(LONG)).expect("answered").len(), LONG);
    let_go(4 * LONG, 3);
    let calls: Vec<_> = (0..SLOTS - 2).map(|_| client.begin(&bytes(20)).expect("sent")).collect();
    let last = without_fstat(&domain, "s", || client.begin(&bytes(20)));
    assert_eq!(last.expect("a slot has become free").wait().expect("answered").len(), 20);
    for call in calls {
        assert_eq!(call.wait().expect("answered").len(), 20);
    }
    client.call(&bytes(0)).expect("answered");
    server.finish();
}

fn what_can_be_freed_of_a_place_is_freed(world: &World) {
    let domain = world.domain();
    let (client, other) = (client_of(&domain, "s"), client_of(&domain, "s"));
    client.set_wait_for_server(true);
    let board = Board::new();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut next = || server.next_timeout(PATIENCE).expect("served").expect("asked");
        let (first, second, third) = (next(), next(), next());
        second.reply(&message(4, 2, LONG)).expect("it waits");
        third.reply(&message(4, 3, LONG)).expect("it waits");
        board.reach(0, 1);
        first.reply(&message(4, 1, 4 * LONG)).expect("it waits");
        board.set(1, 1);
        for _ in 0..2 {
            next().reply(&message(4, 4, LONG)).expect("it waits");
            board.add(1, 1);
        }
    });
    let [first, second, third] =
        [1, 2, 3].map(|n: u8| client.begin_timeout(&[n], PATIENCE).expect("sent"));
    // When it takes this reply, the client sees how long the file is: long enough for the second
    // reply.
    assert_eq!(read_message(&third.wait().expect("answered")), (4, 3));
    board.set(0, 1);
    board.reach(1, 1);
    let kept = kept_open(&domain, &first);
    // The calls are not let go of before the client leaves.
    core::mem::forget((first, second));
    without_fstat(&domain, "s", || drop(client));
    drop(kept);
    let before = domain.entry("s").expect("there").bytes;
    for call in [1, 2].map(|n: u8| other.begin(&[n]).expect("sent")) {
        board.reach(1, 3);
        assert_eq!(read_message(&call.wait().expect("answered")), (4, 4));
    }
    let after = domain.entry("s").expect("there").bytes;
    assert_eq!(before, after, "the second reply's memory, and the third's, were free");
    server.finish();
}

/// The client let go of a call, which could not be settled then. It settles the call when it needs
/// memory.
fn a_client_without_memory_frees_what_its_calls_hold(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 8 << 20);
    let client = waiting_client_of(&domain, "s");
    let board = Board::new();
    let server = Child::start(|| replies_as_asked(&domain, &board));
    let call = client.begin_timeout(&bytes(LONG), PATIENCE).expect("sent");
    board.reach(0, 1);
    without_fstat(&domain, "s", || drop(call));
    let mut request = vec![0; LONG];
    request[..8].copy_from_slice(&bytes(20));
    let call =
        client.begin_timeout(&request, PATIENCE).expect("there is memory once the call is settled");
    assert_eq!(call.wait().expect("answered").len(), 20);
    client.call(&bytes(0)).expect("answered");
    server.finish();
}

/// Room for three long messages and one of four times their length, and less than another long one.
const ROOM: u64 = 38 << 20;

fn a_client_without_memory_frees_what_it_can_of_nobodys_place(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", ROOM);
    let client = client_of(&domain, "s");
    let other = client_of(&domain, "s");
    client.set_wait_for_server(true);
    let board = Board::new();
    let server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let mut next = || server.next_timeout(PATIENCE).expect("served").expect("asked");
        let (first, second) = (next(), next());
        second.reply(&message(4, 2, LONG)).expect("it waits");
        board.set(0, 1);
        next().reply(&message(4, 3, LONG)).expect("it waits");
        board.reach(0, 2);
        first.reply(&message(4, 1, 4 * LONG)).expect("it waits");
        board.set(0, 3);
        board.reach(0, 4);
        for _ in 0..3 {
            next().reply(b"done").expect("it waits");
        }
    });
    let [first, second] = [1, 2].map(|n: u8| client.begin_timeout(&[n], PATIENCE).expect("sent"));
    board.reach(0, 1);
    // When it takes this reply, it sees how long the file is: long enough for the second reply.
    assert_eq!(read_message(&other.call(b"x").expect("answered")), (4, 3));
    board.set(0, 2);
    board.reach(0, 3);
    let kept = kept_open(&domain, &first);
    core::mem::forget((first, second));
    // Both replies stay in a place that belongs to no client.
    without_fstat(&domain, "s", || drop(client));
    drop(kept);
    let request = message(5, 0, LONG);
    let mut calls: Vec<_> =
        (0..2).map(|_| other.begin_timeout(&request, PATIENCE).expect("room")).collect();
    calls.push(
        without_fstat(&domain, "s", || other.begin_timeout(&request, PATIENCE))
            .expect("the second reply's memory"),
    );
    board.set(0, 4);
    for call in calls {
        assert_eq!(*call.wait().expect("answered"), *b"done");
    }
    server.finish();
}

fn a_server_without_memory_frees_what_it_can(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", ROOM);
    let mut server = server_of(&domain, "s");
    let board = Board::new();
    let asking = Child::start(|| {
        let client = client_of(&domain, "s");
        board.set(0, 1);
        board.reach(0, 4);
        let calls = [(); 3].map(|()| client.begin(b"x").expect("sent"));
        board.reach(0, 5);
        for call in calls {
            assert_eq!(read_message(&call.wait().expect("answered")), (4, 0));
        }
    });
    board.reach(0, 1);
    let mut dead = Child::start(|| {
        let client = client_of(&domain, "s");
        let first = client.begin(b"first").expect("sent");
        let second = client.begin(&message(1, 2, LONG)).expect("room");
        board.set(0, 2);
        assert_eq!(read_message(&first.wait().expect("answered")), (4, 0));
        // In the first call's slot.
        let third = client.begin(&message(1, 3, 4 * LONG)).expect("room");
        board.set(0, 3);
        loop {
            std::thread::park();
            core::hint::black_box((&second, &third));
        }
    });
    let reply = message(4, 0, LONG);
    board.reach(0, 2);
    // With this reply's memory, the server sees how long the file is: long enough for the second
    // request.
    server.next_timeout(PATIENCE).expect("served").expect("asked").reply(&reply).expect("room");
    board.reach(0, 3);
    dead.kill();
    board.set(0, 4);
    let [first, second, third] =
        [(); 3].map(|()| server.next_timeout(PATIENCE).expect("served").expect("asked"));
    first.reply(&reply).expect("room");
    second.reply(&reply).expect("room");
    without_fstat(&domain, "s", || third.reply(&reply))
        .expect("the dead client's second request's memory");
    board.set(0, 5);
    asking.finish();
}

/// The clients that a look at the service finds.
fn clients(domain: &Domain) -> usize {
    match domain.entry("s").expect("there").detail {
        Detail::Service(overview) => overview.clients.len(),
        other => panic!("{other:?}"),
    }
}

fn a_place_that_cannot_be_settled_loses_the_dead_clients_name(world: &World) {
    let domain = world.domain();
    make_limited(&domain, "s", 8 << 20);
    let other = waiting_client_of(&domain, "s");
    let board = Board::new();
    let server = Child::start(|| replies_as_asked(&domain, &board));
    let mut dead = Child::start(|| {
        let client = waiting_client_of(&domain, "s");
        let call = client.begin_timeout(&bytes(LONG), PATIENCE).expect("sent");
        board.reach(1, 1);
        drop(call);
    });
    board.reach(0, 1);
    dead.kill();
    assert_eq!(clients(&domain), 2);
    let told =
        without_fstat(&domain, "s", || other.begin_timeout(&vec![0; LONG], PATIENCE).map(drop));
    assert!(matches!(told, Err(CallError::System(_))), "{told:?}");
    assert_eq!(clients(&domain), 1, "the dead client's token may be retired by now");
    other.call(&bytes(0)).expect("answered");
    server.finish();
    domain.sweep(false).expect("sweeps");
    let bytes = domain.entry("s").expect("there").bytes;
    assert!(bytes < LONG as u64, "{bytes} bytes are left of the dead client's reply");
}

/// The first two clients of a service, and what forges its count of places: no process can look at
/// a place that lies where the file has ended.
fn clients_and_their_count(domain: &Domain) -> ([Client; 2], impl Fn(u32)) {
    let path = domain.path().join("s");
    let read = || fs::read(&path).expect("readable");
    let open = || client_of(domain, "s");
    let (first, one) = (open(), read());
    let (second, two) = (open(), read());
    let word = |bytes: &[u8], at: usize| {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let counts: Vec<usize> = (0..one.len())
        .step_by(4)
        .filter(|&at| (word(&one, at), word(&two, at)) == (1, 2))
        .collect();
    // Behind it lies how many clients have come and gone, which a watch of the clients looks at.
    let &[count, _changes] = &counts[..] else { panic!("the count is one of {counts:x?}") };
    let forge = move |places: u32| {
        let file = fs::File::options().write(true).open(&path).expect("writable");
        file.write_all_at(&places.to_ne_bytes(), count as u64).expect("written");
    };
    ([first, second], forge)
}

fn a_client_whose_deadline_passes_is_told_what_could_not_be_settled(world: &World) {
    /// Ends before the client settles anything for the second time.
    const SOON: Duration = Duration::from_millis(20);
    let domain = world.domain();
    let _server = server_of(&domain, "s");
    Child::start(|| {
        let ([client, _], forge) = clients_and_their_count(&domain);
        let len = fs::metadata(domain.path().join("s")).expect("there").len();
        set_limit(libc::RLIMIT_FSIZE, len);
        let ask = || client.begin_timeout(&[0; LONG], SOON).map(drop);
        assert_eq!(ask(), Err(CallError::TimedOut { begun: false }));
        forge(1024);
        let told = ask();
        assert!(matches!(told, Err(CallError::Damaged(_))), "{told:?}");
        forge(2);
        assert_eq!(ask(), Err(CallError::TimedOut { begun: false }));
    })
    .finish();
}

fn a_sweep_that_fails_at_a_place_takes_out_the_servers_name(world: &World) {
    let domain = world.domain();
    let ([client, _other], forge) = clients_and_their_count(&domain);
    client.set_wait_for_server(true);
    let board = Board::new();
    let mut server = Child::start(|| {
        let mut server = server_of(&domain, "s");
        let _request = server.next_timeout(PATIENCE).expect("served").expect("asked");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    let call = client.begin_timeout(b"x", PATIENCE).expect("sent");
    board.reach(0, 1);
    server.kill();
    forge(1024);
    let report = domain.sweep(false).expect("sweeps");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    forge(2);
    let report = domain.sweep(true).expect("sweeps");
    assert_eq!((report.claims, report.failed.len()), (0, 0), "{report:?}");
    assert_eq!(call.wait().expect_err("dead"), CallError::ServerDied { begun: true });
}
