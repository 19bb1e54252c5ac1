//! What the options of every kind have in common: three ways to open, and a comparison with what is
//! there.
//!
//! | opening | the name exists | it does not |
//! | --- | --- | --- |
//! | `open` | opened, if the options agree | `NotFound` |
//! | `open_or_create` | opened, if the options agree | made |
//! | `create_new` | `AlreadyExists` | made |
//!
//! An option that was not set agrees with everything. One that was set and is not what the file
//! says is `OtherOptions`. Options that concern this process alone (how its handles wait) are never
//! compared.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::Error;
use crate::segment::Segment;

/// Refuses a thing whose option `what` was set to another value than it has.
pub(crate) fn agree<T: PartialEq + Display>(
    segment: &Segment,
    what: &'static str,
    found: T,
    wanted: Option<T>,
) -> Result<(), Error> {
    match wanted {
        Some(wanted) if wanted != found => Err(Error::OtherOptions {
            path: segment.path().into(),
            what,
            found: found.to_string().into(),
            wanted: wanted.to_string().into(),
        }),
        _ => Ok(()),
    }
}

/// The options that were set and are not what the file says: all of them, for one error.
#[derive(Default)]
pub(crate) struct Differ {
    what: Vec<&'static str>,
    found: Vec<String>,
    wanted: Vec<String>,
}

impl Differ {
    /// Compares option `what`.
    pub(crate) fn note<T: PartialEq + Display>(
        &mut self,
        what: &'static str,
        found: T,
        wanted: Option<T>,
    ) {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            self.what.push(what);
            self.found.push(found.to_string());
            self.wanted.push(wanted.to_string());
        }
    }

    /// Returns what was found and what is wanted, each value with its option's name; `None` if nothing
    /// differs.
    pub(crate) fn named(&self) -> Option<(String, String)> {
        let named = |values: &[String]| {
            let pair = |(what, value): (&&str, &String)| {
                format!("{} {value}", what.trim_start_matches("option "))
            };
            self.what.iter().zip(values).map(pair).collect::<Vec<_>>().join(", ")
        };
        (!self.what.is_empty()).then(|| (named(&self.found), named(&self.wanted)))
    }

    /// Refuses the thing if any differs. Of several, `what` is "options", and each value has its
    /// option's name.
    pub(crate) fn finish(self, segment: &Segment) -> Result<(), Error> {
        let Some((found, wanted)) = self.named() else { return Ok(()) };
        let (what, found, wanted) = match (&*self.what, &*self.found, &*self.wanted) {
            ([what], [found], [wanted]) => (*what, (**found).into(), (**wanted).into()),
            _ => ("options", found.into(), wanted.into()),
        };
        Err(Error::OtherOptions { path: segment.path().into(), what, found, wanted })
    }
}

/// Refuses an option that was set to a value outside of `range`; `why` says that range in words.
pub(crate) fn check_range<T: PartialOrd + Display>(
    what: &'static str,
    wanted: Option<T>,
    range: RangeInclusive<T>,
    why: &'static str,
) -> Result<(), Error> {
    match wanted {
        Some(wanted) if !range.contains(&wanted) => {
            Err(Error::InvalidOption { what, wanted: wanted.to_string().into(), why })
        }
        _ => Ok(()),
    }
}

/// Writes the three openings of an options type, which has
/// `fn open_as(self, &Domain, &str, Opening) -> Result<$made, Error>`.
///
/// `$errors` ends the list of errors of all three: what else this kind's opening can return.
macro_rules! three_openings {
    ($made:ty, $thing:literal, $errors:literal) => {
        #[doc = concat!("Sets an attribute that the ", $thing, " carries: a key and any value.")]
        /// The key is not empty. This comes behind the other options; more attributes may follow.
        ///
        /// See [`Domain::with_attributes`](crate::Domain::with_attributes).
        pub fn attribute(self, key: &str, value: &str) -> $crate::WithAttributes<Self, $made> {
            $crate::WithAttributes::new(self, Self::open_as).attribute(key, value)
        }

        #[doc = concat!("Opens the ", $thing, " of that name, or makes it with these options.")]
        ///
        /// # Errors
        /// [`Error::OtherKind`](crate::Error::OtherKind) when the name is in use for something
        /// else, [`Error::OtherOptions`](crate::Error::OtherOptions) when it was made with other
        /// options, [`Error::InvalidName`](crate::Error::InvalidName),
        /// [`Error::NoSpace`](crate::Error::NoSpace), and errors of the system.
        #[doc = $errors]
        ///
        /// # If a process dies
        /// If it dies while it makes the thing, nothing is left of that.
        pub fn open_or_create(
            self,
            domain: &$crate::Domain,
            name: &str,
        ) -> Result<$made, $crate::Error> {
            self.open_as(domain, name, $crate::segment::Opening::OpenOrCreate)
        }

        #[doc = concat!("Opens the existing ", $thing, " of that name.")]
        ///
        /// # Errors
        /// [`Error::NotFound`](crate::Error::NotFound) when nothing has that name; else the errors
        /// of `open_or_create`.
        pub fn open(self, domain: &$crate::Domain, name: &str) -> Result<$made, $crate::Error> {
            self.open_as(domain, name, $crate::segment::Opening::Open)
        }

        #[doc = concat!("Makes a new ", $thing, " of that name with these options.")]
        ///
        /// # Errors
        /// [`Error::AlreadyExists`](crate::Error::AlreadyExists) when the name is in use, for
        /// whatever kind; else those errors of `open_or_create` that are not about an existing
        /// one.
        ///
        /// # If a process dies
        /// If it dies while it makes the thing, nothing is left of that.
        pub fn create_new(
            self,
            domain: &$crate::Domain,
            name: &str,
        ) -> Result<$made, $crate::Error> {
            self.open_as(domain, name, $crate::segment::Opening::CreateNew)
        }
    };
}
pub(crate) use three_openings;
