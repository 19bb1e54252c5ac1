//! Taking a name, and giving it up.
//!
//! A node is a small file in the domain's folder, whose name has the token of its process. It is
//! written while it has no name, and linked in one step.
//!
//! | state | how it got there | the process dies here | stops here |
//! | --- | --- | --- | --- |
//! | no file | | | |
//! | file without a name | `O_TMPFILE` | the kernel drops it | no process sees it |
//! | named | `linkat` | its token is dead: the next process that lists nodes, or sweeps, removes it | seen by those that look, and by watchers at their recheck |
//! | told | `changes` + 1, wake all | the same, and watchers wake by the token | a node like any other |
//! | gone | `unlinkat` | watchers find it gone at their recheck | the same |

use std::os::fd::AsFd;

use super::WORD;
use super::list::{NodeInfo, encode};
use crate::segment::Attributes;
use crate::sys::{Errno, file, identity};
use crate::{Domain, Error, TokenId};

/// Says which name, version and attributes a process takes in a domain: [`Domain::node`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they register a node"]
pub struct NodeOptions {
    domain: Domain,
    name: String,
    version: String,
    attributes: Attributes,
}

/// Keeps the name that this process has in a domain, until it is dropped.
///
/// # If a process dies
/// Its name goes with it: no process lists a node whose process is dead. A forked child is another
/// process: it has no name until it takes one, and dropping its copy of this changes nothing.
#[derive(Debug)]
#[must_use = "the process loses the name when this is dropped"]
pub struct Node {
    domain: Domain,
    token: TokenId,
    /// The process's number: a forked child has another.
    owner: u64,
}

impl Domain {
    /// Returns options for naming this process in the domain; [`NodeOptions::register`] does it.
    /// Several processes may have one name: it says what a process is, and keeps no other away.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-node-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// let node = domain.node("planner").version("1.4").attribute("host", "arm-7").register()?;
    /// let nodes = domain.nodes()?;
    /// assert_eq!((&*nodes[0].name, &*nodes[0].version), ("planner", "1.4"));
    /// assert_eq!(nodes[0].pid, std::process::id());
    /// // Every thread of the process belongs to it.
    /// let mine = domain.node_of(domain.token()?)?.expect("it has a name");
    /// assert_eq!(mine.name, "planner");
    /// drop(node);
    /// assert!(domain.nodes()?.is_empty());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    pub fn node(&self, name: &str) -> NodeOptions {
        NodeOptions {
            domain: self.clone(),
            name: name.to_owned(),
            version: String::new(),
            attributes: Attributes::default(),
        }
    }
}

impl NodeOptions {
    /// Sets the version of the program, in whatever form. Default: empty.
    pub fn version(mut self, version: &str) -> NodeOptions {
        self.version = version.to_owned();
        self
    }

    /// Sets an attribute: any key, and any value. All keys and values together, with the name and
    /// the version, may have 4,080 bytes, four for each pair counted.
    pub fn attribute(mut self, key: &str, value: &str) -> NodeOptions {
        self.attributes.set(key, value);
        self
    }

    /// Gives the process the name, until the [`Node`] is dropped or the process ends.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the process has a name in this domain already;
    /// [`Error::InvalidOption`] when the name or a key is empty, or all is too long; as
    /// [`Domain::process_token`]; [`Error::NoSpace`], and errors of the system.
    ///
    /// # If a process dies
    /// If this process dies during the call, no process sees the node, or some see for a moment a node
    /// that is dead.
    pub fn register(self) -> Result<Node, Error> {
        let NodeOptions { domain, name, version, attributes } = self;
        let bytes = encode(&name, &version, &attributes)?;
        let token = domain.process_token()?;
        let folder = domain.folder();
        let failed = |errno| match errno {
            errno if file::is_no_space(errno) => {
                Error::NoSpace { path: folder.path().to_path_buf(), wanted: bytes.len() as u64 }
            }
            errno => Error::from_errno("name a process in", folder.path(), errno),
        };
        let owner = identity::this_process().map_err(failed)?;
        let access = folder.access();
        let unnamed = file::create_unnamed(folder.fd()?, access.file_mode(), access.group())
            .map_err(failed)?;
        file::write(unnamed.as_fd(), 0, &bytes).map_err(failed)?;
        let name = Domain::extension_file(WORD, token);
        domain.remove_dead_nodes()?;
        // Died before: the kernel drops the file. Just after: the token is dead, and the file goes
        // when another process takes a name, or sweeps.
        match file::link(unnamed.as_fd(), folder.fd()?, &name) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                return Err(Error::AlreadyExists { path: folder.file_path(&name) });
            }
            Err(errno) => return Err(failed(errno)),
        }
        domain.registry().note_change();
        Ok(Node { domain, token, owner })
    }
}

impl Node {
    /// Returns the process's token.
    pub fn token(&self) -> TokenId {
        self.token
    }

    /// Returns what other processes see of it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when a process has removed its file, [`Error::Damaged`], and errors of the
    /// system.
    pub fn info(&self) -> Result<NodeInfo, Error> {
        self.domain.read_node(self.token)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // In a forked child it is the parent's.
        if identity::this_process() != Ok(self.owner) {
            return;
        }
        let name = Domain::extension_file(WORD, self.token);
        // Failed: it is gone, or goes with the process.
        if let Ok(folder) = self.domain.folder().fd()
            && file::unlink(folder, &name).is_ok()
        {
            self.domain.registry().note_change();
        }
    }
}
