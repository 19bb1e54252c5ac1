//! Queues as sources: messages for a receiver.

use std::sync::Arc;

use super::source::{Announced, Look, Readiness, Source, Waited, Watched};
use crate::Error;
use crate::queue::{QueueReadiness, Receivable, Receiver, TypedReceiver};
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// Ready when a receive is worth a try, or would be told that the senders have gone (`end_when_senders_gone`, as it is set
/// when the receiver is added).
impl Source for Receiver {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = Some(readiness.registry());
        Ok(Watched { waited: Arc::new(readiness), registry })
    }
}

impl<T: crate::sync::Plain> Source for TypedReceiver<T> {
    fn watched(&self) -> Result<Watched, Error> {
        self.bytes().watched()
    }
}

impl Waited for QueueReadiness {
    fn look(&self) -> Look {
        match QueueReadiness::look(self) {
            Receivable::Something => Look::Ready(Readiness::Readable),
            Receivable::SendersGone => Look::Ready(Readiness::Ended),
            Receivable::Nothing(Some(owner)) => Look::Owner(owner),
            Receivable::Nothing(None) => Look::Nothing,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.messages())
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        words.add(&[self.messages().watch(announced.ticket)]);
    }

    fn needs_recheck(&self, _: &Announced) -> bool {
        true
    }
}
