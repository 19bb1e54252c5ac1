//! Attributes of things: set when they are made, by whatever kind's options; read by name.
//!
//! They travel with the handle of the domain, so that one place ([`Domain::open_prepared`]) writes
//! and compares them for all kinds and all languages.

use std::sync::Arc;

use super::Domain;
use crate::describe::Description;
use crate::segment::{Attributes, Opening, Segment, check_name};
use crate::sys::file::Rights;
use crate::{Error, Kind};

impl Domain {
    /// Returns this domain as a handle by which things are made that carry those attributes: free
    /// pairs of a key and a value, of 4,080 bytes in all, four for each pair counted. What is there
    /// already must have them, among others: else opening it is [`Error::OtherOptions`]. If a key is
    /// empty, or all are too long, opening anything by the handle is [`Error::InvalidOption`].
    ///
    /// It replaces attributes that the handle had. An options' `attribute` does the same for one
    /// thing.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-with-attributes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{Error, state::State, sync::Mutex};
    /// let speed = State::<f64>::options().attribute("unit", "m/s").open_or_create(&domain, "speed")?;
    /// assert_eq!(domain.attributes("speed")?.get("unit"), Some("m/s"));
    /// assert_eq!(speed.attributes()?.len(), 1);
    /// State::<f64>::open(&domain, "speed")?;                  // it takes what is there
    /// let other = State::<f64>::options().attribute("unit", "km/h").open(&domain, "speed");
    /// assert!(matches!(other, Err(Error::OtherOptions { what: "attribute", .. })));
    ///
    /// let of_the_arm = domain.with_attributes([("part", "arm"), ("side", "left")]);
    /// Mutex::<u64>::options(0).open_or_create(&of_the_arm, "grip")?;
    /// assert_eq!(domain.entry("grip")?.attributes.get("side"), Some("left"));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_attributes<'a>(
        &self,
        attributes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Domain {
        let mut all = Attributes::default();
        attributes.into_iter().for_each(|(key, value)| all.set(key, value));
        self.carrying(all)
    }

    fn carrying(&self, attributes: Attributes) -> Domain {
        let attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
        Domain { inner: Arc::clone(&self.inner), attributes }
    }

    /// Returns the attributes with which a thing was made.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Damaged`] when a process wrote over them; any other error that
    /// keeps the thing from being opened.
    pub fn attributes(&self, name: &str) -> Result<Attributes, Error> {
        check_name(name)?;
        Segment::open_with(self.folder(), name, Rights::Read)?.attributes()
    }

    /// Returns what kind of thing has that name.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-kind-of-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// outlive::sync::Mutex::<u64>::options(0).open_or_create(&domain, "total")?;
    /// assert_eq!(domain.kind_of("total")?, outlive::Kind::Mutex);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`], and any other error that keeps the thing from being opened.
    pub fn kind_of(&self, name: &str) -> Result<Kind, Error> {
        check_name(name)?;
        let segment = Segment::open_with(self.folder(), name, Rights::Read)?;
        segment.header().check(segment.path())
    }

    /// Returns the name of a thing's type, as its maker gave it. Of all that [`Domain::entry`] tells, this
    /// costs no look at other processes.
    ///
    /// # Errors
    /// As [`Domain::kind_of`].
    #[doc(hidden)]
    pub fn type_name_of(&self, name: &str) -> Result<String, Error> {
        check_name(name)?;
        let segment = Segment::open_with(self.folder(), name, Rights::Read)?;
        segment.header().check(segment.path())?;
        Ok(segment.header().type_name())
    }

    /// Returns the description that the maker of a thing gave of its payloads: see
    /// [`describe`](crate::describe). `None`: it gave none.
    ///
    /// # Errors
    /// As [`Domain::attributes`].
    pub fn description(&self, name: &str) -> Result<Option<Description>, Error> {
        check_name(name)?;
        Segment::open_with(self.folder(), name, Rights::Read)?.description()
    }
}

/// Holds the options of a thing, and the attributes that it is to carry.
///
/// The `attribute` of any options makes one.
#[derive(Clone)]
#[must_use = "options do nothing until they open or make a thing"]
pub struct WithAttributes<O, K> {
    options: O,
    attributes: Attributes,
    open: fn(O, &Domain, &str, Opening) -> Result<K, Error>,
}

impl<O, K> WithAttributes<O, K> {
    pub(crate) fn new(
        options: O,
        open: fn(O, &Domain, &str, Opening) -> Result<K, Error>,
    ) -> WithAttributes<O, K> {
        WithAttributes { options, attributes: Attributes::default(), open }
    }

    /// Sets one more attribute; the value of a key that is set twice is the later one.
    pub fn attribute(mut self, key: &str, value: &str) -> WithAttributes<O, K> {
        self.attributes.set(key, value);
        self
    }

    /// Opens the thing of that name, or makes it with these options and attributes.
    ///
    /// # Errors
    /// As the options' own `open_or_create`; [`Error::OtherOptions`] also when an attribute is
    /// another one there; [`Error::InvalidOption`] when a key is empty, or all are too long.
    ///
    /// # If a process dies
    /// If this process dies while it makes the thing, nothing is left of that.
    pub fn open_or_create(self, domain: &Domain, name: &str) -> Result<K, Error> {
        self.open_as(domain, name, Opening::OpenOrCreate)
    }

    /// Opens the existing thing of that name.
    ///
    /// # Errors
    /// [`Error::NotFound`]; else as [`WithAttributes::open_or_create`].
    pub fn open(self, domain: &Domain, name: &str) -> Result<K, Error> {
        self.open_as(domain, name, Opening::Open)
    }

    /// Makes a new thing of that name.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; else as [`WithAttributes::open_or_create`].
    ///
    /// # If a process dies
    /// If this process dies while it makes the thing, nothing is left of that.
    pub fn create_new(self, domain: &Domain, name: &str) -> Result<K, Error> {
        self.open_as(domain, name, Opening::CreateNew)
    }

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<K, Error> {
        // Those of the handle, too.
        let mut all = domain.attributes.as_deref().cloned().unwrap_or_default();
        self.attributes.iter().for_each(|(key, value)| all.set(key, value));
        (self.open)(self.options, &domain.carrying(all), name, opening)
    }
}

impl<O: std::fmt::Debug, K> std::fmt::Debug for WithAttributes<O, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithAttributes")
            .field("options", &self.options)
            .field("attributes", &self.attributes)
            .finish()
    }
}
