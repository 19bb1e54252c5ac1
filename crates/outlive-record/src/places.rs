//! The places that topics keep for a recorder of a name.

use outlive::topic::Topic;
use outlive::{Domain, Kind};

use crate::error::Error;

/// Gives up the places that topics keep for that recorder, which records none of them now; publishers wait for
/// no successor any more. Returns in how many topics there was one.
///
/// `service` is the name of its service, by which topics know it. What cannot be read is passed over: it is of another
/// layout, or another user's, and no place in it can be given up.
///
/// # Errors
/// A topic's, if its place could not be given up: the others are given up all the same.
///
/// # If a process dies
/// The places that were not given up yet stay.
pub fn give_up(domain: &Domain, service: &str) -> Result<u64, Error> {
    let (mut count, mut failed) = (0, None);
    for name in domain.contents()?.names {
        if !matches!(domain.kind_of(&name), Ok(Kind::Topic)) {
            continue;
        }
        match of_topic(domain, &name, service) {
            Ok(was_there) => count += u64::from(was_there),
            Err(outlive::Error::NotFound { .. } | outlive::Error::NotASegment { .. }) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(count), |error| Err(error.into()))
}

fn of_topic(domain: &Domain, name: &str, service: &str) -> Result<bool, outlive::Error> {
    let topic = Topic::open_as_bytes(domain, name)?;
    match topic.kept().iter().any(|kept| kept.name == service) {
        true => topic.forget(service),
        false => Ok(false),
    }
}
