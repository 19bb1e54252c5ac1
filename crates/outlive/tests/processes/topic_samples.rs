//! Samples: a subscriber reads them in place and holds them for as long as it likes; no process
//! writes to them.

use outlive::topic::Subscriber;

use crate::board::Board;
use crate::child::{Child, End, PATIENCE};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::topics::{drain, held, open, reliable, usage};

crate::checks!(
    a_subscriber_cannot_write,
    forked_children_release_nothing,
    samples_outlive_their_subscriber,
    samples_go_to_other_threads,
    nobody_takes_more_than_a_line_holds,
);

fn a_subscriber_cannot_write(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&message(1, 1, 5000)).expect("published");
    for also_publishes in [false, true] {
        let mut child = Child::start(|| {
            let topic = open(&domain, 4);
            let own = also_publishes.then(|| topic.publisher().expect("a ring"));
            if let Some(own) = &own {
                own.publish(&message(2, 2, 5000)).expect("published");
            }
            let mut subscriber =
                topic.subscriber_with(Subscriber::options().history(1)).expect("a line");
            let sample = subscriber.try_recv().expect("ours").expect("published");
            assert_eq!(read_message(&sample), (1, 1));
            // SAFETY: none: that it does not work is what is shown.
            unsafe { sample.as_ptr().cast_mut().write_volatile(0) };
        });
        assert_eq!(child.wait(), End::Signal(libc::SIGSEGV));
    }
    let mut subscriber = topic.subscriber().expect("a line");
    assert_eq!(
        read_message(&subscriber.latest().expect("ours").expect("there")).0,
        2,
        "nothing was written"
    );
}

fn forked_children_release_nothing(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let mut subscriber = Some(topic.subscriber().expect("a line"));
    let mut publisher = Some(topic.publisher().expect("a ring"));
    let mut samples = Vec::new();
    for number in 0..2 {
        publisher.as_ref().expect("there").publish(&message(1, number, 3000)).expect("published");
        samples.push(subscriber.as_mut().expect("there").recv().expect("published"));
    }
    let mut topic = Some(topic);
    Child::start(|| {
        let ours = publisher.take().expect("there");
        assert_eq!(ours.publish(b"x").map(drop), Err(outlive::SendError::NotOwner));
        assert_eq!(ours.loan(3000).map(drop), Err(outlive::SendError::NotOwner));
        assert_eq!(ours.subscriber_count(), 1);
        let theirs = subscriber.as_mut().expect("there");
        assert_eq!(theirs.try_recv().map(drop), Err(outlive::RecvError::NotOwner));
        assert_eq!(theirs.latest().map(drop), Err(outlive::RecvError::NotOwner));
        drop(samples.remove(0));
        drop((ours, subscriber.take(), topic.take()));
        // Nothing of the topic is open here any more, but for this copy.
        assert_eq!(read_message(&samples[0]), (1, 1));
        let own = open(&domain, 2);
        drop(own.subscriber().expect("a line"));
        own.publisher().expect("a ring").publish(&message(2, 0, 3000)).expect("published");
        drop(own);
        assert_eq!(read_message(&samples[0]), (1, 1));
    })
    .finish();
    assert_eq!(held(&domain), 2, "dropped there, held here");
    let ours = publisher.as_ref().expect("there");
    for number in 2..200 {
        ours.publish(&message(1, number, 3000)).expect("still ours");
    }
    assert!(samples.iter().zip(0..).all(|(sample, number)| read_message(sample) == (1, number)));
    assert_eq!(
        (ours.subscriber_count(), subscriber.as_ref().expect("there").publisher_count()),
        (1, 1)
    );
}

fn samples_outlive_their_subscriber(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let board = Board::new();
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        board.reach(0, 1);
        for number in 0..3 {
            publisher.publish_timeout(&message(1, number, 70_000), PATIENCE).expect("taken");
        }
        board.reach(0, 2);
        for number in 3..100 {
            publisher
                .publish_timeout(&message(1, number, 70_000), PATIENCE)
                .expect("nobody is left");
        }
        board.set(1, 1);
        std::thread::sleep(PATIENCE);
    });
    let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
    board.set(0, 1);
    let samples: Vec<_> = (0..3)
        .map(|_| subscriber.recv_timeout(PATIENCE).expect("no error").expect("published"))
        .collect();
    drop(subscriber);
    drop(topic);
    board.set(0, 2);
    board.reach(1, 1);
    let left = usage(&domain).subscribers;
    assert!(
        left.len() == 1 && left[0].leaving && !left[0].reliable && left[0].held == 3,
        "{left:?}"
    );
    child.kill();
    let topic = open(&domain, 2);
    let publisher = topic.publisher().expect("the dead one's ring");
    for number in 100..200 {
        publisher.publish(&message(1, number, 70_000)).expect("published");
    }
    for (sample, number) in samples.iter().zip(0..) {
        assert_eq!(read_message(sample), (1, number), "held, although its publisher is gone");
    }
    drop(samples);
    // The next process that comes or goes frees the subscriber slot.
    drop(topic.subscriber().expect("a line"));
    assert_eq!(usage(&domain).subscribers, []);
}

fn samples_go_to_other_threads(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
    let child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..500 {
            publisher.publish_timeout(&message(1, number, 5000), PATIENCE).expect("taken");
        }
    });
    let (give, get) = std::sync::mpsc::sync_channel(50);
    let reader = std::thread::spawn(move || {
        for number in 0..500 {
            let sample: outlive::topic::Sample = get.recv().expect("more come");
            assert_eq!(read_message(&sample), (1, number));
        }
    });
    for _ in 0..500 {
        give.send(subscriber.recv_timeout(PATIENCE).expect("no error").expect("published"))
            .expect("it reads");
    }
    reader.join().expect("all were whole");
    child.finish();
    assert_eq!((held(&domain), subscriber.lost()), (0, 0));
}

fn nobody_takes_more_than_a_line_holds(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 512);
    let publisher = topic.publisher().expect("a ring");
    let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
    for number in 0..300 {
        publisher.publish(&message(1, number, 200)).expect("published");
    }
    let mut samples: Vec<_> = (0..256).map(|_| subscriber.recv().expect("published")).collect();
    assert_eq!(subscriber.recv_timeout(PATIENCE).map(drop), Err(outlive::RecvError::TooManyHeld));
    assert_eq!(held(&domain), 256);
    drop(samples.remove(100));
    samples
        .push(subscriber.recv_timeout(PATIENCE).expect("no error").expect("there is a free one"));
    assert_eq!(read_message(&samples[255]), (1, 256), "nothing was passed over");
    samples.clear();
    assert_eq!(drain(&mut subscriber, 1), (257..300).collect::<Vec<_>>());
}
