//! Nodes: processes that have a name in a domain; and following what comes and goes there.
//!
//! A process names itself by [`Domain::node`](crate::Domain::node), with a version and free
//! attributes. [`Domain::nodes`](crate::Domain::nodes) lists the living ones,
//! [`Domain::node_of`](crate::Domain::node_of) says which node a token belongs to, and
//! [`Domain::watch`](crate::Domain::watch) follows what appears and vanishes.
//! doc/protocols/nodes.md has the states.

mod list;
#[expect(clippy::module_inception, reason = "the folder's main thing")]
mod node;
mod watch;

pub use list::NodeInfo;
pub use node::{Node, NodeOptions};
pub use watch::{DomainContents, DomainWatch};

/// The word in the names of nodes' files: see `Domain::extension_file`.
const WORD: &str = "node";
