//! Which process has exited: none, here.

use super::TokenId;

pub(crate) enum End {
    Lives,
    Ending,
    Ended,
}

pub(crate) struct Ends;

impl Ends {
    pub(crate) fn new(_registry: &super::Registry, _file_id: (u64, u64)) -> Ends {
        Ends
    }

    pub(crate) fn of(&self, _: TokenId) -> End {
        End::Lives
    }
}
