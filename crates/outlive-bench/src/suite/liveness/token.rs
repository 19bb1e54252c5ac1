//! Outlive's way: `Peer::is_alive`.

use super::Question;
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::scratch::Scratch;
use outlive::{Domain, Peer};

/// A peer's token.
pub(super) struct Token {
    peer: Peer,
    _domain: Domain,
}

impl Question for Token {
    const NAME: &'static str = "token";
    type Place = Scratch;

    fn place(stage: &Stage) -> Result<Scratch, Error> {
        stage.scratch.inner("token")
    }

    fn hold(place: &Scratch) -> Result<impl Sized, Error> {
        let domain = Domain::open_or_create_at(place.path())
            .map_err(|error| Error::told("opening a domain", error))?;
        domain.token().map_err(|error| Error::told("claiming a token", error))?;
        Ok(domain)
    }

    fn prepare(place: &Scratch, watched: libc::pid_t) -> Result<Self, Error> {
        let domain = Domain::open_or_create_at(place.path())
            .map_err(|error| Error::told("opening a domain", error))?;
        let info =
            domain.tokens().into_iter().find(|info| info.pid == watched as u32 && info.alive);
        let id = info
            .ok_or_else(|| {
                Error::Wrong("the watched process's token is not in the registry".into())
            })?
            .id;
        Ok(Self { peer: domain.peer(id), _domain: domain })
    }

    #[inline]
    fn ask(&self) -> bool {
        self.peer.is_alive()
    }
}
