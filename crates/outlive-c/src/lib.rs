//! The C ABI of Outlive: what `include/outlive.h` declares. doc/c-abi.md has the rules that all
//! functions keep.
//!
//! | file | for |
//! | --- | --- |
//! | `code` | return codes, the thread's last message; no panic reaches C |
//! | `argument` | pointers from C: NULL, text, bytes |
//! | `opening` | the three openings of what has a name |
//! | `deadline` | deadlines |
//! | `owned` | calls, objects and messages that stay with what they borrow from: the one place where a lifetime is extended |
//! | `place` | from an address in shared memory to this process's handle of the primitive there |
//! | `held` | what a thread holds and C has no handle of: locks, permits, seats |
//! | `gpu`, `pinned`, `device` | what `include/outlive_gpu.h` declares |
//! | `domain`, `mutex`, `queue`, … | the functions, a file for each header section |

// The names are C's.
#![allow(non_camel_case_types)]
// doc/c-abi.md and the head of outlive.h say once what a pointer has to be.
#![allow(clippy::missing_safety_doc)]

mod argument;
mod barrier;
mod ceiling_mutex;
mod client_watch;
mod code;
mod condvar;
mod config;
mod deadline;
mod device;
mod domain;
mod event;
mod gpu;
mod held;
mod jobs;
mod mutex;
mod node;
mod notifier;
mod once;
mod opening;
mod owned;
mod parts;
mod payload;
mod pi_mutex;
mod pinned;
mod place;
mod pool;
mod queue;
mod record;
mod reentrant_mutex;
mod rpc;
mod rwlock;
mod sample;
mod semaphore;
mod server;
mod stand_by;
mod state;
mod stream_loan;
mod subscriber;
mod topic;
mod topic_options;
mod wait;
mod wait_set;
mod wait_sources;
mod wait_told;
mod watch;
