//! Outlive for Python: the extension module `outlive._outlive`. doc/python.md has the design: what
//! keeps what alive, threads, fork, signals.
//!
//! | file | |
//! | --- | --- |
//! | `named` | the three ways to open a thing by its name, and pickling |
//! | `waiting` | waits without the interpreter, in slices, so that Ctrl-C works |
//! | `handle_mutex` | handles of the core's that one thread at a time may use |
//! | `open` | handles that all threads share; `close` |
//! | `held` | guards, permits and seats, each for the thread that got it |
//! | `lender` | clients, whose calls are objects of their own; the one place where a lifetime is extended |
//! | `writable` | lent memory as a `with` block gets it |
//! | `errors` | the core's errors as Python's |
//! | `layout`, `record`, `bytes`, `dlpack`, `msgpack` | a message's layout besides its bytes, and how bytes come and go |
//! | `gpu`, `gpu_topic`, `gpu_array`, `gpu_loan`, `gpu_library` | GPUs, streams; what a topic has for them; arrays in their memory |
//! | `bag_file`, `bag_walk`, `bag_channel`, `bag_message`, `bag_columns`, `bag_writer` | recordings: `outlive.bag` |
//! | the others | a class or two each, named as in the core |

// Users read the docstrings of the classes.
#![allow(missing_docs, clippy::needless_pass_by_value)]

mod bag_bytes;
mod bag_channel;
mod bag_columns;
mod bag_errors;
mod bag_file;
mod bag_message;
mod bag_walk;
mod bag_writer;
mod barrier;
mod bytes;
mod call;
mod client;
mod client_watch;
mod condition;
mod config;
mod counting_semaphore;
mod described;
mod device_topic;
mod dlpack;
mod domain;
mod errors;
mod event;
mod gpu;
mod gpu_array;
mod gpu_library;
mod gpu_loan;
mod gpu_topic;
mod handle_mutex;
mod held;
mod in_place;
mod jobs;
mod latch;
mod layout;
mod lender;
mod lent;
mod levels;
mod loan;
mod lock;
mod msgpack;
mod named;
mod node;
mod notifier;
mod open;
mod part;
mod peeked;
mod pool;
mod publisher;
mod queue;
mod queue_ends;
mod record;
mod reply;
mod request;
mod requests;
mod rlock;
mod rpc_loan;
mod rw_lock;
mod sample;
mod semaphore;
mod server;
mod service;
mod stand_by;
mod state;
mod stream;
mod stream_loan;
mod subscriber;
mod topic;
mod wait_set;
mod waiting;
mod writable;

use pyo3::prelude::*;

/// The classes; users import `outlive/__init__.py`.
///
/// The module also works without the interpreter's lock: every class is Sync by its parts, see
/// `handle_mutex` and `held`.
#[pymodule(gil_used = false)]
mod _outlive {
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::bag_file::BagFile;
    #[pymodule_export]
    use crate::bag_message::BagMessage;
    #[pymodule_export]
    use crate::bag_walk::BagMessages;
    #[pymodule_export]
    use crate::bag_writer::BagWriter;
    #[pymodule_export]
    use crate::barrier::Barrier;
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::client_watch::ClientWatch;
    #[pymodule_export]
    use crate::condition::Condition;
    #[pymodule_export]
    use crate::config::Config;
    #[pymodule_export]
    use crate::counting_semaphore::CountingSemaphore;
    #[pymodule_export]
    use crate::device_topic::{DeviceSample, DeviceSubscriber, DeviceTopic};
    #[pymodule_export]
    use crate::domain::{Domain, Peer};
    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::gpu_array::GpuArray;
    #[pymodule_export]
    use crate::gpu_loan::GpuLoan;
    #[pymodule_export]
    use crate::handle_mutex::_after_fork;
    #[pymodule_export]
    use crate::jobs::{Job, JobQueue, SetAside};
    #[pymodule_export]
    use crate::latch::Latch;
    #[pymodule_export]
    use crate::loan::Loan;
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::node::{DomainWatch, Node, NodeInfo};
    #[pymodule_export]
    use crate::notifier::{Listener, Notifier};
    #[pymodule_export]
    use crate::part::Part;
    #[pymodule_export]
    use crate::peeked::Peeked;
    #[pymodule_export]
    use crate::pool::{Block, Pool, SharedObject};
    #[pymodule_export]
    use crate::publisher::Publisher;
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::reply::Reply;
    #[pymodule_export]
    use crate::request::Request;
    #[pymodule_export]
    use crate::rlock::RLock;
    #[pymodule_export]
    use crate::rpc_loan::{ReplyLoan, RequestLoan};
    #[pymodule_export]
    use crate::rw_lock::{RwHold, RwLock};
    #[pymodule_export]
    use crate::sample::Sample;
    #[pymodule_export]
    use crate::semaphore::Semaphore;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::stand_by::StandBy;
    #[pymodule_export]
    use crate::state::State;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::stream_loan::{PartLoan, StreamLoan};
    #[pymodule_export]
    use crate::subscriber::Subscriber;
    #[pymodule_export]
    use crate::topic::Topic;
    #[pymodule_export]
    use crate::wait_set::WaitSet;
}
