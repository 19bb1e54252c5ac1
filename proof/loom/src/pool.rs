//! The pool's rooms, as far as loom explores them.

mod debug;
mod heap;
mod share;

pub(crate) use heap::{Collected, Heap, HeapHost, Message, ObjectRef, Tag};
