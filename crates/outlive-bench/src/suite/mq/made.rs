//! The queues that are made of a lock: [`crate::lock_queues`].

use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::scratch::Scratch;
use crate::lock_queues::{MOST_BYTES, MuCv, MuSm};
use crate::suite::queue::{Channel, Receive, Send};
use ::outlive::{Domain, WaitStrategy};

/// A domain's folder, and how its users wait.
pub(super) struct Place {
    scratch: Scratch,
    wait: WaitStrategy,
}

fn refuses(bytes: usize) -> Option<String> {
    (bytes > MOST_BYTES)
        .then(|| format!("the example's messages have {} bytes at most", MOST_BYTES))
}

macro_rules! made {
    ($(#[$doc:meta])* $row:ident, $name:literal, $queue:path) => {
        $(#[$doc])*
        pub(super) struct $row;

        impl Channel for $row {
            const NAME: &'static str = $name;
            type Place = Place;
            type Sender = $queue;
            type Receiver = $queue;

            fn place(stage: &Stage, name: &'static str, _: usize) -> Result<Place, Error> {
                Ok(Place { scratch: stage.scratch.inner(name)?, wait: stage.wait })
            }

            fn sender(place: &Place) -> Result<$queue, Error> {
                let domain = Domain::open_or_create_at(place.scratch.path());
                let domain = domain.map_err(|error| Error::told("opening a domain", error))?;
                let queue = <$queue>::open(&domain, "queue").map_err(|error| Error::told("opening a queue", error))?;
                queue.set_wait_strategy(place.wait);
                Ok(queue)
            }

            fn receiver(place: &Place) -> Result<$queue, Error> {
                Self::sender(place)
            }

            fn refuses(bytes: usize) -> Option<String> {
                refuses(bytes)
            }
        }

        impl Send for $queue {
            #[inline]
            fn send(&mut self, message: &[u8]) -> Result<(), Error> {
                <$queue>::send(self, message).map_err(|why| Error::Wrong(format!("{}: {why}", $name)))
            }
        }

        impl Receive for $queue {
            #[inline]
            fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
                <$queue>::receive(self, message).map_err(|why| Error::Wrong(format!("{}: {why}", $name)))
            }
        }
    };
}

made! {
    /// A mutex and semaphores.
    MadeOfSemaphores, "mu_sm", MuSm
}

made! {
    /// A mutex and condition variables.
    MadeOfCondvars, "mu_cv", MuCv
}
