//! What a node's file says, and which nodes there are.
//!
//! The file: eight bytes that tell its form, a checksum of what follows (FNV-1a, eight bytes), then
//! a pair of the name and the version, then the attributes (segment/attributes.rs).

use super::WORD;
use crate::domain::owner_of_extension;
use crate::segment::{Attributes, MOST_ATTRIBUTES, fnv_1a, put_pair, take_pair};
use crate::sys::{Errno, file};
use crate::{Domain, Error, Peer, TokenId};

/// `OUTLIVE` and the version of the form.
const FORM: &[u8; 8] = b"OUTLIVE\x01";
const HEAD: usize = FORM.len() + 8;

/// Describes a process that has a name in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its name; empty if its file is damaged or cannot be read.
    pub name: String,
    /// The version of its program, as the process gave it.
    pub version: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its process's token.
    pub token: TokenId,
    /// Its process, as a pid of its own pid namespace.
    pub pid: u32,
    /// Its program's short name, at most 15 bytes.
    pub program: String,
    /// Whether it is known to belong to the caller's pid namespace, so that `pid` means something
    /// here.
    pub same_namespace: bool,
    /// Whether a process wrote over its file or took away the right to read it, so that only the
    /// token is known.
    pub is_damaged: bool,
}

/// Returns the bytes of a node's file.
pub(super) fn encode(name: &str, version: &str, attributes: &Attributes) -> Result<Vec<u8>, Error> {
    if name.is_empty() {
        return Err(Error::InvalidOption {
            what: "a node's name",
            wanted: "empty".into(),
            why: "one of a letter or more",
        });
    }
    let mut body = Vec::new();
    put_pair(&mut body, name, version)?;
    body.extend(attributes.to_bytes()?);
    if body.len() > MOST_ATTRIBUTES {
        return Err(Error::InvalidOption {
            what: "a node's name, version and attributes",
            wanted: format!("of {} bytes", body.len()).into(),
            why: "up to 4,080 bytes in all, four for each pair counted",
        });
    }
    let sum = fnv_1a(body.iter().copied());
    Ok([&FORM[..], &sum.to_le_bytes(), &body].concat())
}

/// Reads the bytes of a node's file: name, version, attributes. `None` if a process wrote over them.
fn decode(bytes: &[u8]) -> Option<(String, String, Attributes)> {
    let (form, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, body) = rest.split_first_chunk::<8>()?;
    if form != FORM || u64::from_le_bytes(*sum) != fnv_1a(body.iter().copied()) {
        return None;
    }
    let (name, version, rest) = take_pair(body)?;
    let attributes = Attributes::from_bytes(rest)?;
    (!name.is_empty()).then(|| (name.to_owned(), version.to_owned(), attributes))
}

impl Domain {
    /// Returns the living processes that have a name in the domain, sorted by name, then by token. It
    /// only looks: what dead ones have left goes when a process takes a name, or
    /// [sweeps](Domain::sweep).
    ///
    /// # Errors
    /// The system's error when the folder cannot be read.
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        let folder = self.folder();
        let failed = |errno| Error::from_errno("list", folder.path(), errno);
        self.nodes_among(&file::names(folder.fd()?).map_err(failed)?)
    }

    /// Returns the nodes whose files are among those names.
    pub(super) fn nodes_among(&self, names: &[String]) -> Result<Vec<NodeInfo>, Error> {
        let mut nodes = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(".node-")) {
            let Some(token) = owner_of_extension(name) else { continue };
            if *name != Domain::extension_file(WORD, token) {
                continue;
            }
            if !self.registry().is_alive(token) {
                continue;
            }
            match self.read_node(token) {
                Ok(node) => nodes.push(node),
                // It has gone meanwhile.
                Err(Error::NotFound { .. }) => {}
                // Its bytes are no node's, or this process may not read it: the other nodes are to be
                // found all the same.
                Err(Error::Damaged { .. } | Error::Permission { .. }) => {
                    nodes.push(self.damaged_node(token));
                }
                Err(error) => return Err(error),
            }
        }
        nodes.sort_by(|one, other| {
            (&one.name, one.token.as_u32()).cmp(&(&other.name, other.token.as_u32()))
        });
        Ok(nodes)
    }

    /// Removes what dead nodes have left.
    pub(super) fn remove_dead_nodes(&self) -> Result<(), Error> {
        let folder = self.folder().fd()?;
        let failed = |errno| Error::from_errno("list", self.folder().path(), errno);
        for name in
            file::names(folder).map_err(failed)?.iter().filter(|name| name.starts_with(".node-"))
        {
            if owner_of_extension(name).is_some_and(|token| !self.registry().is_alive(token)) {
                // Failed: another process has removed it.
                let _ = file::unlink(folder, name);
            }
        }
        Ok(())
    }

    /// Returns the node of the process that a token belongs to: its own, or one of a thread of it.
    ///
    /// # Errors
    /// As [`Domain::nodes`].
    pub fn node_of(&self, token: TokenId) -> Result<Option<NodeInfo>, Error> {
        let registry = self.registry();
        let Some(owner) = Peer::new(registry, token).info() else { return Ok(None) };
        let nodes = self.nodes()?;
        Ok(nodes.into_iter().find(|node| {
            node.token == token
                || Peer::new(registry, node.token).info().is_some_and(|of_node| {
                    (of_node.pid, of_node.start_time) == (owner.pid, owner.start_time)
                        && registry.are_of_one_namespace(of_node.id, owner.id)
                })
        }))
    }

    /// Reads the file of a node.
    pub(super) fn read_node(&self, token: TokenId) -> Result<NodeInfo, Error> {
        let name = Domain::extension_file(WORD, token);
        let path = self.folder().file_path(&name);
        let damaged = || Error::Damaged { path: path.clone(), what: "a node" };
        let bytes = match file::read_small(self.folder().fd()?, &name, HEAD + MOST_ATTRIBUTES) {
            Ok(bytes) => bytes,
            // A link, a folder: no process that registers a node makes these.
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::FBIG) => return Err(damaged()),
            Err(errno) => return Err(Error::from_errno("read", &path, errno)),
        };
        let (name, version, attributes) = decode(&bytes).ok_or_else(damaged)?;
        Ok(NodeInfo { name, version, attributes, is_damaged: false, ..self.damaged_node(token) })
    }

    fn damaged_node(&self, token: TokenId) -> NodeInfo {
        let info = Peer::new(self.registry(), token).info();
        NodeInfo {
            name: String::new(),
            version: String::new(),
            attributes: Attributes::default(),
            token,
            pid: info.as_ref().map_or(0, |info| info.pid),
            same_namespace: info.as_ref().is_some_and(|info| info.same_namespace),
            program: info.map_or_else(String::new, |info| info.program),
            is_damaged: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_written_over_is_refused() {
        let mut attributes = Attributes::default();
        attributes.set("host", "arm-7");
        let bytes = encode("planner", "1.4", &attributes).expect("fits");
        let back = decode(&bytes);
        assert_eq!(back, Some(("planner".to_owned(), "1.4".to_owned(), attributes.clone())));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x20;
            assert_eq!(decode(&other), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
        // With a right checksum, too.
        for body in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 0xff], &[1, 0, 0, 0, b'a', 7]] {
            let sum = fnv_1a(body.iter().copied()).to_le_bytes();
            assert_eq!(decode(&[&FORM[..], &sum, body].concat()), None, "{body:?}");
        }
        assert!(encode("", "1", &attributes).is_err());
        attributes.set("long", &"x".repeat(MOST_ATTRIBUTES - 30));
        assert!(encode(&"n".repeat(40), "1", &attributes).is_err());
    }
}
