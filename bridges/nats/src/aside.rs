//! Messages that the other side refuses for good, as too large: put aside into another queue, or the
//! bridge stops before them.

use std::time::Duration;

use outlive::queue::Sender;
use outlive::{Domain, SendError};

use crate::args::Args;
use crate::told::Teller;
use outlive_program::exit::{Code, Failure};

/// What happens to a message that is refused.
pub struct Aside {
    name: String,
    sender: Option<Sender>,
}

impl Aside {
    /// Opens the queue, if there is to be one; makes it if need be.
    pub fn open(args: &Args, domain: &Domain) -> Result<Aside, Failure> {
        let Some(name) = &args.set_aside else {
            return Ok(Aside { name: String::new(), sender: None });
        };
        let sender = crate::args::open_queue(args, domain, name)?.sender()?;
        Ok(Aside { name: name.clone(), sender: Some(sender) })
    }

    /// Puts a message aside; waits while the queue for that is full. Without one: a failure.
    pub async fn put(&self, what: &str, bytes: &[u8], told: &Teller) -> Result<(), Failure> {
        let Some(sender) = &self.sender else {
            let text = format!(
                "{what} ({} bytes) is too large for the other side; it stays where it is, and so \
                 does all behind it. With --set-aside QUEUE such messages go to that queue",
                bytes.len()
            );
            return Err(Failure::new(Code::NoSpace, text));
        };
        loop {
            match sender.try_send(bytes) {
                Ok(()) => break,
                Err(
                    error @ (SendError::Full { .. }
                    | SendError::ReceiverDied
                    | SendError::NoReceiver),
                ) => {
                    told.trouble(format_args!(
                        "cannot put {what} aside into {}: {error}",
                        self.name
                    ));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let len = bytes.len();
        told.talk(format_args!("{what} ({len} bytes) is too large: put aside into {}", self.name));
        told.count(|counts| counts.set_aside += 1);
        Ok(())
    }
}
