//! Small queues, topics and services: what is no longer than the longest message that fits, fits,
//! whatever its length. A sender whose message never fits would wait for ever beside an empty
//! queue.

use outlive::queue::{Queue, Receiver, Sender};
use outlive::rpc::{CallError, Service};
use outlive::topic::Topic;
use outlive::{Deadline, Domain, SendError};

use crate::asleep::wait_asleep;
use crate::child::{Child, PATIENCE, wait_until};
use crate::rpc::await_server;
use crate::runner::World;
use crate::services::client_of;

crate::checks!(
    a_queue_takes_every_length: 60,
    a_queue_without_room_for_objects_takes_what_a_slot_holds,
    a_topic_takes_every_length: 60,
    a_service_takes_every_length: 120,
    who_waits_while_the_rings_grow_is_told: 60,
);

const MAX_BYTES: [u64; 5] = [64 << 10, 96 << 10, 128 << 10, 1 << 20, 4 << 20];

/// Lengths up to `most`, the shortest first: each class's, and some between.
fn lengths(most: u64) -> Vec<u64> {
    let next = |&len: &u64| Some(len + (len / 16).max(9));
    let mut lengths: Vec<u64> =
        std::iter::successors(Some(1), next).take_while(|&len| len <= most).collect();
    for power in 7..most.ilog2() + 1 {
        let quarters = (4..8).map(|quarter| (1 << power) / 4 * quarter);
        lengths.extend(quarters.flat_map(|len| [len, len + 1]).filter(|&len| len <= most));
    }
    lengths.push(most);
    lengths.sort_unstable();
    lengths
}

fn bytes(len: u64) -> Vec<u8> {
    vec![len as u8; len as usize]
}

/// The longest message that the queue says it can take now.
fn most(sender: &Sender, max_bytes: u64) -> u64 {
    match sender.try_send(&bytes(max_bytes)) {
        Err(SendError::TooLarge { max: most, .. }) => most,
        other => panic!("{other:?}"),
    }
}

fn each_is_sent_and_received(sender: &Sender, receiver: &mut Receiver, max_bytes: u64) {
    let most = most(sender, max_bytes);
    assert!(most >= 8 << 10 && most >= max_bytes / 8, "{most} of {max_bytes}");
    // From the longest on as well: what one length leaves must not keep the next from its memory.
    let lengths = lengths(most);
    for &len in lengths.iter().chain(lengths.iter().rev()) {
        let sent = sender.try_send(&bytes(len));
        assert_eq!(sent, Ok(()), "{len} of {most} bytes, {max_bytes}");
        assert_eq!(receiver.try_recv(), Ok(Some(bytes(len))));
    }
    let over = sender.send_timeout(&bytes(most + 1), PATIENCE);
    assert_eq!(over, Err(SendError::TooLarge { len: most + 1, max: most }));
}

fn a_queue_takes_every_length(world: &World) {
    let domain = world.domain();
    for max_bytes in MAX_BYTES {
        let queue = Queue::<[u8]>::options()
            .max_bytes(max_bytes)
            .open_or_create(&domain, &format!("q{max_bytes}"))
            .expect("made");
        let (sender, mut receiver) =
            (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        each_is_sent_and_received(&sender, &mut receiver, max_bytes);
        // Slots take as much as they may, and keep it.
        while sender.try_send(b"a slot").is_ok() {}
        while receiver.try_recv().is_ok_and(|message| message.is_some()) {}
        assert_eq!(receiver.try_recv(), Ok(None));
        each_is_sent_and_received(&sender, &mut receiver, max_bytes);
        // As many short ones as fit: memory for the tags comes along.
        let mut sent = 0;
        while sender.try_send(&bytes(200)).is_ok() {
            sent += 1;
        }
        assert!(sent * 256 > max_bytes / 16, "{sent} of {max_bytes}");
        (0..sent).for_each(|_| assert_eq!(receiver.try_recv(), Ok(Some(bytes(200)))));
        assert!(queue.counters().expect("counts").bytes <= max_bytes);
    }
}

/// Its first slots take all that it may have.
fn a_queue_without_room_for_objects_takes_what_a_slot_holds(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options()
        .max_bytes(64 << 10)
        .slots(1024)
        .open_or_create(&domain, "q")
        .expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    let most = most(&sender, 64 << 10);
    assert_ne!(most, 0, "short messages fit");
    for len in lengths(most) {
        assert_eq!(sender.try_send(&bytes(len)), Ok(()), "{len} of {most} bytes");
        assert_eq!(receiver.try_recv(), Ok(Some(bytes(len))));
    }
    assert_eq!(
        sender.try_send(&bytes(most + 1)),
        Err(SendError::TooLarge { len: most + 1, max: most })
    );
}

fn a_topic_takes_every_length(world: &World) {
    let domain = world.domain();
    for max_bytes in MAX_BYTES {
        let options = || Topic::<[u8]>::options().depth(2).max_bytes(max_bytes);
        let mut longest = 0;
        // Each in a topic of its own: a topic keeps its last message.
        for &len in lengths(max_bytes).iter().rev() {
            let topic =
                options().open_or_create(&domain, &format!("t{max_bytes}.{len}")).expect("opens");
            let mut subscriber = topic.subscriber().expect("a line");
            match topic.publisher().expect("a ring").publish(&bytes(len)) {
                Ok(_) => {
                    longest = longest.max(len);
                    let sample = subscriber.try_recv().expect("received").expect("published");
                    assert_eq!(*sample, *bytes(len));
                }
                Err(SendError::TooLarge { max: most, .. }) if longest == 0 => {
                    assert!(most < len, "{len} bytes, and {most} are told to fit");
                }
                Err(SendError::NoSpace { .. }) if longest == 0 => {}
                Err(error) => panic!("{len} bytes, where {longest} fit: {error}"),
            }
        }
        assert!(longest > max_bytes / 8, "{longest} of {max_bytes}");
    }
}

fn serve(domain: &Domain, name: &str, max_bytes: u64) {
    let mut server = Service::<[u8], [u8]>::options()
        .max_bytes(max_bytes)
        .open_or_create(domain, name)
        .and_then(|service| service.server())
        .expect("none lives");
    loop {
        let request = server.next().expect("served");
        // The request's object is in use as long as the request is there: so a byte back, or as
        // many as a short one says.
        let reply = match *request {
            [b'l', ref len @ ..] if len.len() == 8 => {
                bytes(u64::from_le_bytes(len.try_into().expect("eight")))
            }
            _ => vec![request.len() as u8],
        };
        request.reply(&reply).expect("room for the reply");
    }
}

fn a_service_takes_every_length(world: &World) {
    let domain = world.domain();
    for max_bytes in MAX_BYTES {
        let name = format!("s{max_bytes}");
        let mut server = Child::start(|| serve(&domain, &name, max_bytes));
        // The process that comes first makes the service, and says how large it may grow.
        wait_until("there is a service", || domain.entry(&name).is_ok());
        let client = client_of(&domain, &name);
        await_server(&client);
        let call =
            |request: &[u8]| client.call_timeout(request, PATIENCE).map(|reply| reply.to_vec());
        let most = match call(&bytes(max_bytes)) {
            Err(CallError::TooLarge { max: most, .. }) => most,
            other => panic!("{other:?}"),
        };
        let lengths = lengths(most);
        for &len in lengths.iter().chain(lengths.iter().rev()) {
            assert_eq!(
                call(&bytes(len)),
                Ok(vec![len as u8]),
                "a request of {len} of {most} bytes, {max_bytes}"
            );
            let request = [&b"l"[..], &len.to_le_bytes()].concat();
            assert_eq!(
                call(&request),
                Ok(bytes(len)),
                "a reply of {len} of {most} bytes, {max_bytes}"
            );
        }
        server.kill();
    }
}

/// It fitted when it began to wait. Then other senders' messages made the rings grow.
fn who_waits_while_the_rings_grow_is_told(world: &World) {
    const MAX: u64 = 1 << 20;
    let domain = world.domain();
    let queue = Queue::<[u8]>::options().max_bytes(MAX).open_or_create(&domain, "q").expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    let len = most(&sender, MAX);
    sender.try_send(&bytes(len / 2)).expect("fits");
    let child = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        match sender.send_until(&bytes(len), Deadline::NEVER) {
            Err(SendError::TooLarge { max: most, .. }) => assert!(most < len, "{most}"),
            other => panic!("{other:?}"),
        }
    });
    wait_asleep(child.pid());
    while sender.try_send(b"a slot").is_ok() {}
    while receiver.try_recv().is_ok_and(|message| message.is_some()) {}
    child.finish();
}
