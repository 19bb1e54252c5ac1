//! The domain of a program, as `outlive` itself finds it, and the exit codes of the library's errors.

use outlive::{Domain, Error, RecvError, SendError};

use crate::exit::{Code, Failure};
use crate::figures::bytes;

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

fn code_of(error: &Error) -> Code {
    match error {
        Error::InvalidName { .. } => Code::BadName,
        Error::NotFound { .. } => Code::NotFound,
        Error::Untrusted { .. } | Error::Permission { .. } => Code::Permission,
        Error::NotAFolder { .. }
        | Error::NotADomain { .. }
        | Error::NotASegment { .. }
        | Error::OtherVersion { .. } => Code::NotOurs,
        Error::OtherKind { .. } | Error::OtherType { .. } | Error::OtherOptions { .. } => {
            Code::Mismatch
        }
        Error::InvalidOption { .. } => Code::Usage,
        Error::InvalidConfig { .. } => Code::BadInput,
        Error::NoSpace { .. }
        | Error::NoAddressSpace { .. }
        | Error::NoToken { .. }
        | Error::TooMany { .. } => Code::NoSpace,
        Error::Damaged { .. } | Error::DeclaredDead { .. } => Code::Damaged,
        Error::Taken { .. } | Error::Ending { .. } | Error::AlreadyExists { .. } => Code::Busy,
        _ => Code::System,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let budget = budget_behind(&error).unwrap_or_default();
        Failure::new(code_of(&error), format!("{error}{budget}"))
    }
}

/// Returns what to say behind an error of no room if the domain's budget is the limit: as 'outlive doctor' says it.
pub fn budget_behind(error: &Error) -> Option<String> {
    let Error::NoSpace { path, wanted } = error else { return None };
    // The file is in the domain's folder, or it is that folder.
    let folder = [path.as_path(), path.parent()?].into_iter().find(|path| path.is_dir())?;
    let domain = Domain::options().open_at(folder).ok()?;
    let (most, taken) = (domain.max_bytes().ok()??, domain.allocated_bytes().ok()?);
    (taken.saturating_add(*wanted) > most).then(|| {
        format!(
            "; of the domain's budget, {} of {} are taken: 'outlive domain create --max-bytes SIZE' gives more",
            bytes(taken),
            bytes(most)
        )
    })
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Failure {
        let code = match &error {
            RecvError::NotOwner => Code::Busy,
            RecvError::Damaged(_) => Code::Damaged,
            RecvError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let code = match &error {
            SendError::TooLarge { .. } | SendError::NoSpace { .. } | SendError::Full { .. } => {
                Code::NoSpace
            }
            SendError::Damaged(_) => Code::Damaged,
            SendError::NotOwner => Code::Busy,
            SendError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error)
    }
}
