//! Making and opening a notifier.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use super::config::NotifierConfig;
use super::ids::IDS;
use super::inner::Inner;
use super::layout::{END, HEAD_AT, INITIAL, NotifierHead};
use super::listener::Listener;
use super::notifier::Notifier;
use crate::domain::{agree, check_range, three_openings};
use crate::segment::{Opening, Spec, note_opened};
use crate::shim::{AtomicU32, Ordering};
use crate::{Domain, Error, Kind, WaitStrategy};

/// Options for opening a notifier or a listener, or for making what both share: the notices by
/// which listeners are told that notifiers come and go.
///
/// An option that is not set takes what is there. [`wait_strategy`](Self::wait_strategy) concerns
/// this handle alone.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-notifier-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::notify::{Listener, Notifier};
///
/// const CAME: u32 = 61;
/// const WENT: u32 = 62;
/// const DIED: u32 = 63;
/// let mut listener =
///     Listener::options().on_created(CAME).on_left(WENT).on_died(DIED).create_new(&domain, "doors")?;
/// drop(Notifier::open(&domain, "doors")?);
/// let notices = listener.wait()?;
/// assert_eq!((notices.count(CAME), notices.count(WENT), notices.count(DIED)), (1, 1, 0));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until they open or make a notifier"]
pub struct NotifierOptions<E: NotifierEnd = Notifier> {
    asked: Asked,
    _end: PhantomData<fn() -> E>,
}

/// What was set.
#[derive(Clone, Debug, Default)]
struct Asked {
    on_created: Option<u32>,
    on_left: Option<u32>,
    on_died: Option<u32>,
    wait: Option<WaitStrategy>,
}

/// An end that [`NotifierOptions`] open: a [`Notifier`] or a [`Listener`]. No other type has it.
pub trait NotifierEnd: Sized {
    #[doc(hidden)]
    fn join(opened: Opened) -> Result<Self, Error>;
}

/// What has been opened, and has not joined yet.
#[doc(hidden)]
pub struct Opened(Arc<Inner>);

impl NotifierEnd for Notifier {
    fn join(opened: Opened) -> Result<Notifier, Error> {
        Notifier::new(opened.0)
    }
}

impl NotifierEnd for Listener {
    fn join(opened: Opened) -> Result<Listener, Error> {
        Listener::new(opened.0)
    }
}

impl<E: NotifierEnd> Clone for NotifierOptions<E> {
    fn clone(&self) -> NotifierOptions<E> {
        NotifierOptions { asked: self.asked.clone(), _end: PhantomData }
    }
}

impl<E: NotifierEnd> fmt::Debug for NotifierOptions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NotifierOptions").field(&self.asked).finish()
    }
}

impl<E: NotifierEnd> NotifierOptions<E> {
    /// Sets the number of a notice, 0 to 63, that all listeners get when a notifier comes. Default
    /// for a new one: none.
    pub fn on_created(mut self, id: u32) -> Self {
        self.asked.on_created = Some(id);
        self
    }

    /// Sets the number of a notice, 0 to 63, that all listeners get when a notifier leaves in
    /// order: it is dropped. Default for a new one: none.
    pub fn on_left(mut self, id: u32) -> Self {
        self.asked.on_left = Some(id);
        self
    }

    /// Sets the number of a notice, 0 to 63, that all listeners get when the process of a notifier
    /// has died: one for each notifier that it had. Default for a new one: none.
    pub fn on_died(mut self, id: u32) -> Self {
        self.asked.on_died = Some(id);
        self
    }

    /// Sets how a listener waits.
    pub fn wait_strategy(mut self, wait: WaitStrategy) -> Self {
        self.asked.wait = Some(wait);
        self
    }

    three_openings!(
        E,
        "notifier",
        "[`Error::TooMany`](crate::Error::TooMany) when it has 64 notifiers, or 64 listeners; \
         [`Error::InvalidOption`](crate::Error::InvalidOption) for a number above 63; \
         [`Error::NoToken`](crate::Error::NoToken)."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<E, Error> {
        let asked = self.asked;
        for id in [asked.on_created, asked.on_left, asked.on_died] {
            check_range("a notice's number", id, 0..=IDS as u32 - 1, "one from 0 to 63")?;
        }
        let spec = Spec {
            kind: Kind::Notifier,
            type_name: String::new(),
            type_size: 0,
            type_align: 1,
            reserve: END,
            max_bytes: END,
            initial: INITIAL,
            description: None,
        };
        let segment = domain.open_as(name, opening, &spec, |segment| {
            let head: &NotifierHead = segment.at(HEAD_AT)?;
            let set = |word: &AtomicU32, id: Option<u32>| {
                word.store(id.map_or(0, |id| id + 1), Ordering::Relaxed);
            };
            set(&head.on_created, asked.on_created);
            set(&head.on_left, asked.on_left);
            set(&head.on_died, asked.on_died);
            Ok(())
        })?;
        segment.expect(Kind::Notifier)?;
        let inner = Arc::new(Inner::new(segment, domain.registry())?);
        let (segment, found) = (&inner.segment, inner.config());
        let said = |id: Option<u32>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let wanted = |id: Option<u32>| id.map(|id| id.to_string());
        agree(segment, "option on_created", said(found.on_created), wanted(asked.on_created))?;
        agree(segment, "option on_left", said(found.on_left), wanted(asked.on_left))?;
        agree(segment, "option on_died", said(found.on_died), wanted(asked.on_died))?;
        if let Some(wait) = asked.wait {
            inner.spin_wait.set(wait);
        }
        note_opened(domain.registry().index, &inner);
        E::join(Opened(inner))
    }
}

impl Inner {
    /// Returns what it was made with.
    pub(super) fn config(&self) -> NotifierConfig {
        let head = self.head();
        NotifierConfig {
            on_created: Inner::made_with(&head.on_created),
            on_left: Inner::made_with(&head.on_left),
            on_died: Inner::made_with(&head.on_died),
        }
    }
}

/// Makes the short forms of opening one of the two ends.
macro_rules! short_openings {
    ($end:ty, $thing:literal) => {
        impl $end {
            /// Returns options, of which none is set.
            pub fn options() -> NotifierOptions<$end> {
                NotifierOptions { asked: Asked::default(), _end: PhantomData }
            }

            #[doc = concat!("Opens a ", $thing, " of the existing notifier of that name.")]
            ///
            /// # Errors
            /// The errors of [`NotifierOptions::open`].
            pub fn open(domain: &Domain, name: &str) -> Result<$end, Error> {
                Self::options().open(domain, name)
            }

            #[doc = concat!("Opens a ", $thing, " of the notifier of that name, and makes that with")]
            /// default options if there is none.
            ///
            /// # Errors
            /// The errors of [`NotifierOptions::open_or_create`].
            ///
            /// # If a process dies
            /// The same as with [`NotifierOptions::open_or_create`].
            pub fn open_or_create(domain: &Domain, name: &str) -> Result<$end, Error> {
                Self::options().open_or_create(domain, name)
            }
        }
    };
}

short_openings!(Notifier, "notifier");
short_openings!(Listener, "listener");
