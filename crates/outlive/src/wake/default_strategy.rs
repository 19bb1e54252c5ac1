//! How handles of a domain wait that nothing else is said of: what the domain was opened with, in this
//! process.

use super::strategy::{SpinWait, WaitStrategy};
use crate::liveness::Registry;

impl Registry {
    /// Returns how a new handle of this domain waits.
    pub(crate) fn wait_strategy(&self) -> WaitStrategy {
        let number = self.wait_strategy_number();
        let all = [WaitStrategy::Adaptive, WaitStrategy::Block, WaitStrategy::Spin];
        all.into_iter().find(|one| *one as u32 == number).unwrap_or_default()
    }

    /// Sets how handles wait that this process makes from now on.
    pub(crate) fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.set_wait_strategy_number(wait as u32);
    }

    /// Returns how a new handle of this domain spins before it sleeps.
    pub(crate) fn spin_wait(&self) -> SpinWait {
        let spin_wait = SpinWait::new();
        spin_wait.set(self.wait_strategy());
        spin_wait
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::Queue;
    use crate::{Domain, sync::Mutex, topic::Topic};

    #[test]
    fn handles_wait_as_their_domain_says_unless_they_are_told_otherwise() {
        let name = format!("outlive-test-default-strategy-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let adaptive = Domain::open_or_create_at(&folder).expect("opens");
        assert_eq!(adaptive.wait_strategy(), WaitStrategy::Adaptive);
        for wait in [WaitStrategy::Spin, WaitStrategy::Block, WaitStrategy::Adaptive] {
            let options = Domain::options().wait_strategy(wait);
            let domain = options.open_or_create_at(&folder).expect("opens");
            assert_eq!((domain.wait_strategy(), adaptive.wait_strategy()), (wait, wait));
            assert!(domain.registry().spin_wait().is(wait));
            let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
            assert!(queue.spin_wait().is(wait));
            let own = Queue::<[u8]>::options().wait_strategy(WaitStrategy::Block);
            let own = own.open_or_create(&domain, "q").expect("there");
            assert!(own.spin_wait().is(WaitStrategy::Block));
            drop(Topic::<u64>::open_or_create(&domain, "t").expect("made"));
            drop(Mutex::options(0_u64).open_or_create(&domain, "m").expect("made"));
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
