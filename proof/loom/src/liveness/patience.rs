//! Patience where loom runs: nobody spins. Loom explores every moment at which a spin could have ended as a sleep.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Adaptive,
    Block,
    Spin,
}

pub(crate) struct Patience;

impl Patience {
    pub(crate) const fn new() -> Patience {
        Patience
    }

    pub(crate) fn set(&self, _: Wait) {}

    pub(crate) fn spin(&self, _done: impl FnMut() -> bool) -> bool {
        false
    }
}
