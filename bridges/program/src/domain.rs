//! The domain of a program, as `outlive` itself finds it.

use outlive::{Domain, Error};

/// Opens the domain that `--domain` and `--group` name: a name, or a path, which has a '/' in it. Without
/// them, or where they are empty, the environment and the configuration file say which. `creates`: one
/// that is not there is made.
///
/// # Errors
/// Those of opening it; there is no such group; the configuration file is not valid.
pub fn open_domain(
    domain: Option<&str>,
    group: Option<&str>,
    creates: bool,
) -> Result<Domain, Error> {
    let (options, place) = match domain.filter(|domain| !domain.is_empty()) {
        Some(place) => (Domain::options(), place.to_owned()),
        None => Domain::options().default_place()?,
    };
    let options = match group.filter(|group| !group.is_empty()) {
        Some(group) => options.group_named(group)?,
        None => options.group_of_environment()?,
    };
    match (place.contains('/'), creates) {
        (true, true) => options.open_or_create_at(&place),
        (true, false) => options.open_at(&place),
        (false, true) => options.open_or_create(&place),
        (false, false) => options.open(&place),
    }
}
