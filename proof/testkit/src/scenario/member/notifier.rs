//! Orders about notifiers and listeners: `notifier …`.

use std::collections::BTreeMap;

use outlive::notify::{Listener, Notices, Notifier};
use outlive::wait::WaitSet;
use outlive::{Domain, WaitStrategy};

/// The numbers of the notices that a notifier has come, has left, has died.
pub const CAME: u32 = 61;
pub const LEFT: u32 = 62;
pub const DIED: u32 = 63;

/// A notifier of that name.
///
/// # Errors
/// What opening reports, as text.
pub fn notifier(domain: &Domain, name: &str) -> Result<Notifier, String> {
    let options = Notifier::options().on_created(CAME).on_left(LEFT).on_died(DIED);
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// A listener of that name.
///
/// # Errors
/// What opening reports, as text.
pub fn listener(domain: &Domain, name: &str) -> Result<Listener, String> {
    let options = Listener::options().on_created(CAME).on_left(LEFT).on_died(DIED);
    let options = options.wait_strategy(WaitStrategy::Block);
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// Waits in a set until there are notices, and takes them.
///
/// # Errors
/// What the set or the listener reports, as text.
pub fn wait_in_set(domain: &Domain, listener: &mut Listener) -> Result<Notices, String> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&*listener).map_err(|error| error.to_string())?;
    loop {
        set.wait().map_err(|error| error.to_string())?;
        if let Some(notices) = listener.try_wait().map_err(|error| error.to_string())? {
            return Ok(notices);
        }
    }
}

/// The notifier and the listener of the round that a survivor has, and what the listener was told.
#[derive(Default)]
pub struct Notifiers {
    name: String,
    notifier: Option<Notifier>,
    listener: Option<Listener>,
    told: BTreeMap<u32, u64>,
}

impl Notifiers {
    fn add(&mut self, notices: &Notices) {
        for (id, count) in notices {
            *self.told.entry(id).or_default() += count;
        }
    }

    fn listener(&mut self, domain: &Domain, name: &str) -> Result<&mut Listener, String> {
        if self.listener.is_none() {
            self.listener = Some(listener(domain, name)?);
        }
        self.listener.as_mut().ok_or_else(|| "no listener".to_owned())
    }

    /// Carries out an order; see the match for which there are.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [verb, name, more @ ..] = order else { return Err("unknown order".to_owned()) };
        if self.name != *name {
            *self = Notifiers { name: (*name).to_owned(), ..Notifiers::default() };
        }
        match (*verb, more) {
            ("come", []) => {
                self.notifier = Some(notifier(domain, name)?);
                Ok(String::new())
            }
            ("notify", [id]) => {
                if self.notifier.is_none() {
                    self.notifier = Some(notifier(domain, name)?);
                }
                let notifier = self.notifier.as_ref().ok_or("no notifier")?;
                let told = notifier.notify(super::number(id)?);
                told.map(|told| told.to_string()).map_err(|error| error.to_string())
            }
            ("listen", []) => self.listener(domain, name).map(|_| String::new()),
            ("wait", []) => {
                let told = self.listener(domain, name)?.wait();
                self.add(&told.map_err(|error| error.to_string())?);
                Ok(String::new())
            }
            ("wait-in-set", []) => {
                let told = wait_in_set(domain, self.listener(domain, name)?)?;
                self.add(&told);
                Ok(String::new())
            }
            // How often it was told of that number, all in all.
            ("told", [id]) => {
                let listener = self.listener(domain, name)?;
                if let Some(more) = listener.try_wait().map_err(|error| error.to_string())? {
                    self.add(&more);
                }
                let told = self.told.get(&super::number(id)?).copied().unwrap_or_default();
                Ok(told.to_string())
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
