//! What can be published: a loan, a reference, or either with a header.

use core::borrow::Borrow;

use super::header::Header;
use super::loan::Loan;
use super::publisher::Publisher;
use crate::liveness::Me;
use crate::{Payload, SendError};

/// What [`Publisher::publish`] takes: a [`Loan`] of that publisher's, which is published where it
/// was written, or a reference, whose message is copied, or an [`Outgoing`]. A loan of another
/// publisher is refused with [`SendError::NotOwner`].
///
/// A topic of slices takes references to slices, arrays and `Vec`s.
#[diagnostic::on_unimplemented(
    message = "a publisher of `{M}` cannot publish a `{Self}`",
    note = "publish a loan of the publisher, or a reference to a message: `&value`, `&values[..]`, `&*sample`"
)]
pub trait Publishable<M: Payload + ?Sized> {
    /// Publishes it. It calls `room` when all that runs the caller's code has been done, since that
    /// code may publish itself; `room` waits until there is room for one message.
    #[doc(hidden)]
    fn publish_by(
        self,
        publisher: &Publisher<M>,
        room: impl Fn() -> Result<Entered, SendError>,
    ) -> Result<(), SendError>;
}

/// Shows that the calling thread belongs to the publisher's process.
#[doc(hidden)]
pub struct Entered(pub(super) Me);

/// A message that is copied when it is published, with a header.
///
/// A loan gets its header by [`Loan::set_header`].
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-outgoing-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::topic::{Header, Outgoing, Topic};
/// let topic = Topic::<[f32; 2]>::open_or_create(&domain, "position")?;
/// let (mut subscriber, publisher) = (topic.subscriber()?, topic.publisher()?);
/// let header = Header { frame: 3, ..Header::default() };
/// publisher.publish(Outgoing::new(&[1.0, 2.0]).header(header))?;
/// assert_eq!(subscriber.recv()?.header().frame, 3);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it has to be published"]
pub struct Outgoing<'m, M: ?Sized> {
    message: &'m M,
    header: Option<Header>,
}

impl<'m, M: ?Sized> Outgoing<'m, M> {
    /// Makes one without a header.
    pub fn new(message: &'m M) -> Outgoing<'m, M> {
        Outgoing { message, header: None }
    }

    /// Sets the header that is published with the message.
    pub fn header(mut self, header: Header) -> Outgoing<'m, M> {
        self.header = Some(header);
        self
    }
}

impl<M: Payload + ?Sized> Publishable<M> for Loan<M> {
    #[inline]
    fn publish_by(
        mut self,
        publisher: &Publisher<M>,
        room: impl Fn() -> Result<Entered, SendError>,
    ) -> Result<(), SendError> {
        let Entered(me) = room()?;
        if !self.is_of(publisher.lender()) {
            // Its memory is another publisher's, which may be gone.
            return Err(SendError::NotOwner);
        }
        let header = self.header();
        match self.take_object() {
            Some((block, len)) => publisher.put(me, len, Some(block), header.as_ref(), |_| {}),
            // Short: it lies in the loan.
            None => publisher.write(me, self.bytes(), header.as_ref())?,
        }
        self.end_published();
        Ok(())
    }
}

/// An array or a `Vec` is borrowed as a slice.
impl<M: Payload + ?Sized, B: Borrow<M> + ?Sized> Publishable<M> for Outgoing<'_, B> {
    #[inline]
    fn publish_by(
        self,
        publisher: &Publisher<M>,
        room: impl Fn() -> Result<Entered, SendError>,
    ) -> Result<(), SendError> {
        let Entered(me) = room()?;
        publisher.write(me, self.message.borrow().bytes(), self.header.as_ref())
    }
}

impl<M: Payload + ?Sized, B: Borrow<M> + ?Sized> Publishable<M> for &B {
    #[inline]
    fn publish_by(
        self,
        publisher: &Publisher<M>,
        room: impl Fn() -> Result<Entered, SendError>,
    ) -> Result<(), SendError> {
        Outgoing::new(self).publish_by(publisher, room)
    }
}
