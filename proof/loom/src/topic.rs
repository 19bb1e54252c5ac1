//! What of topics loom runs: slots and holds, loans, and which message is the newest.

#[path = "../../../crates/outlive/src/topic/hazard.rs"]
mod hazard;
#[cfg(test)]
mod litmus;
#[path = "../../../crates/outlive/src/topic/loan.rs"]
mod loan;
#[path = "../../../crates/outlive/src/topic/newest.rs"]
mod newest;
#[path = "../../../crates/outlive/src/topic/slot.rs"]
mod slot;

/// What a loan carries.
mod header {
    #[derive(Clone, Copy)]
    pub struct Header;
}

/// A topic that no process has open.
mod mapping {
    use crate::liveness::TokenId;

    pub struct Inner {
        pub registry: Registry,
    }

    pub struct Registry;

    impl Inner {
        pub fn note_publisher_change(&self) {}
    }

    impl Registry {
        pub fn process_token_if_any(&self) -> Option<TokenId> {
            None
        }
    }
}

/// A publisher's ring, as its last loan leaves it.
mod ring {
    use super::mapping::Inner;
    use crate::liveness::TokenId;
    use crate::pool::ObjectRef;

    pub struct Ring {
        pub process: TokenId,
        pub free_list: FreeList,
    }

    pub struct FreeList;

    impl Ring {
        pub fn leave(&mut self, _: &Inner) {}
    }

    impl FreeList {
        pub fn put_back(&mut self, _: ObjectRef) {}
    }
}
