//! Wait strategies where loom runs: no waiter spins. Loom explores every moment at which a spin
//! could have ended as a sleep.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    #[default]
    Adaptive,
    Block,
    Spin,
}

pub(crate) struct SpinWait;

impl SpinWait {
    pub(crate) const fn new() -> SpinWait {
        SpinWait
    }

    pub(crate) fn set(&self, _: WaitStrategy) {}

    pub(crate) fn spin(&self, _done: impl FnMut() -> bool) -> bool {
        false
    }

    pub(crate) fn spin_until(&self, _: crate::Deadline, _done: impl FnMut() -> bool) -> bool {
        false
    }
}
