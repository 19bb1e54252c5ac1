//! Nodes and attributes.

use std::ffi::{c_char, c_int};

use outlive::node::{Node, NodeInfo};

use crate::argument::{borrow, borrow_mut, give, handle_out, items, out, text, text_or_none};
use crate::code::{Failure, entry};
use crate::domain::{close, id, outlive_domain_t};

/// A free pair of a key and a value, both UTF-8.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_attribute_t {
    /// The key; not empty.
    pub key: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// The name that this process has in a domain.
pub struct outlive_node_t {
    _node: Node,
}

/// Returns pairs from C.
///
/// # Safety
/// The C caller passes `count` readable pairs of NUL-terminated texts.
unsafe fn pairs<'a>(
    attributes: *const outlive_attribute_t,
    count: usize,
) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    // SAFETY: the caller guarantees `count` readable pairs of NUL-terminated texts.
    unsafe {
        items(attributes, count, "attributes")?
            .iter()
            .map(|pair| Ok((text(pair.key, "a key")?, text(pair.value, "a value")?)))
            .collect()
    }
}

fn no_attribute(key: &str) -> Failure {
    Failure::new(libc::ENOENT, &format!("it has no attribute '{}'", key.escape_debug()))
}

fn no_more() -> Failure {
    Failure::new(libc::ERANGE, "it has no more attributes")
}

/// Returns a domain like the given one in `*with`, by which things are made that carry those
/// `count` attributes: 4,080 bytes in all, four for each counted. What is there already must have
/// them, or opening it gives EINVAL; so does opening anything by it when a key is empty, or all are
/// too long. The same folder; closing either leaves the other.
///
/// Owner: `*with` is the caller's, until `outlive_domain_close`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_with_attributes(
    domain: *const outlive_domain_t,
    attributes: *const outlive_attribute_t,
    count: usize,
    with: *mut *mut outlive_domain_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `with`, a live domain, and `count` pairs.
        let (out, domain, pairs) =
            unsafe { (handle_out(with)?, borrow(domain, "a domain")?, pairs(attributes, count)?) };
        let domain = outlive_domain_t(domain.0.with_attributes(pairs));
        out.put(Box::into_raw(Box::new(domain)));
        Ok(())
    })
}

/// Writes the value of an attribute, with which the thing of that name was made, into `buffer`.
///
/// Errors: ENOENT: there is no such thing, or it has no such attribute; EMSGSIZE: the value does
/// not fit with its NUL; OUTLIVE_DAMAGED, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_attribute(
    domain: *const outlive_domain_t,
    name: *const c_char,
    key: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and NUL-terminated texts.
        let (domain, name, key) =
            unsafe { (borrow(domain, "a domain")?, text(name, "a name")?, text(key, "a key")?) };
        let attributes = domain.0.attributes(name)?;
        let value = attributes.get(key).ok_or_else(|| no_attribute(key))?;
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { give(value, buffer, capacity) }
    })
}

/// Writes the pair of that number, from 0, of the attributes with which the thing of that name was made,
/// in the order of their keys.
///
/// Errors: ERANGE: it has no pair of that number, nor of a later one; ENOENT: there is no such thing; EMSGSIZE: the key or the value does
/// not fit with its NUL; OUTLIVE_DAMAGED, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_attribute_at(
    domain: *const outlive_domain_t,
    name: *const c_char,
    number: usize,
    key: *mut c_char,
    key_capacity: usize,
    value: *mut c_char,
    value_capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a NUL-terminated text.
        let (domain, name) = unsafe { (borrow(domain, "a domain")?, text(name, "a name")?) };
        let attributes = domain.0.attributes(name)?;
        let pair = attributes.iter().nth(number).ok_or_else(no_more)?;
        // SAFETY: the C caller passes as many writable bytes at each place.
        unsafe { give(pair.0, key, key_capacity).and(give(pair.1, value, value_capacity)) }
    })
}

/// Writes into `buffer` what the payloads of the thing of that name are, as its maker has described
/// them: `Pose { position: f64[3], heading: f32 }`, or `geometry_msgs/msg/Pose (cdr)`.
///
/// Errors: ENOENT: there is no such thing, or it has no description; EMSGSIZE: the text does not fit
/// with its NUL; OUTLIVE_DAMAGED, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_payload(
    domain: *const outlive_domain_t,
    name: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a NUL-terminated text.
        let (domain, name) = unsafe { (borrow(domain, "a domain")?, text(name, "a name")?) };
        let described = domain.0.description(name)?.ok_or_else(|| {
            Failure::new(libc::ENOENT, "the maker of that has not described its payloads")
        })?;
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { give(&described.to_string(), buffer, capacity) }
    })
}

/// Names this process in the domain, until the node is closed or the process ends; `version` NULL:
/// none.
///
/// Owner: `*node` is the caller's, until `outlive_node_close`.
///
/// Errors: EEXIST: the process has a name in this domain; EINVAL: the name is empty, or all is
/// longer than 4,080 bytes; EUSERS, ENOSPC.
///
/// If the process dies, its name goes with it. A forked child has no name until it takes one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_node_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    version: *const c_char,
    attributes: *const outlive_attribute_t,
    count: usize,
    node: *mut *mut outlive_node_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `node`, a live domain, a NUL-terminated name, NULL
        // or a NUL-terminated version, and `count` pairs.
        let (out, domain, name, version, pairs) = unsafe {
            (
                handle_out(node)?,
                borrow(domain, "a domain")?,
                text(name, "a name")?,
                text_or_none(version)?,
                pairs(attributes, count)?,
            )
        };
        let mut options = domain.0.node(name).version(version.unwrap_or_default());
        for (key, value) in pairs {
            options = options.attribute(key, value);
        }
        out.put(Box::into_raw(Box::new(outlive_node_t { _node: options.register()? })));
        Ok(())
    })
}

/// Gives the process's name up. Passing NULL has no effect; in a forked child, the parent's node
/// keeps its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_node_close(node: *mut outlive_node_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(node) }
}

/// Writes the tokens of the living processes that have a name to `tokens`, as many as fit into
/// `capacity`; `*count` is how many there are. `outlive_peer_info` says more about each.
///
/// Errors: EINVAL, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_nodes(
    domain: *const outlive_domain_t,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a place for `count`.
        let (domain, out) = unsafe { (borrow(domain, "a domain")?, out(count)?) };
        let nodes = domain.0.nodes()?;
        for (at, node) in nodes.iter().take(capacity).enumerate() {
            // SAFETY: `at` is below `capacity`, for which the C caller guarantees room.
            *unsafe { borrow_mut(tokens.wrapping_add(at), "an array") }? = node.token.as_u32();
        }
        out.put(nodes.len());
        Ok(())
    })
}

/// Returns the node of the process that a token belongs to.
///
/// # Safety
/// The C caller passes a live domain.
unsafe fn node_of(domain: *const outlive_domain_t, token: u32) -> Result<NodeInfo, Failure> {
    // SAFETY: the caller guarantees a live domain.
    let found = unsafe { borrow(domain, "a domain") }?.0.node_of(id(token)?)?;
    found.ok_or_else(|| Failure::new(libc::ESRCH, "the process of that token has no name here"))
}

/// Writes the name of the process that a token belongs to, its own or that of one of its threads,
/// into `buffer`; `version` (may be NULL): the same for its version.
///
/// Errors: ESRCH: the process has no name, or is dead; EMSGSIZE: one does not fit with its NUL;
/// EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_node_name(
    domain: *const outlive_domain_t,
    token: u32,
    buffer: *mut c_char,
    capacity: usize,
    version: *mut c_char,
    version_capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain.
        let node = unsafe { node_of(domain, token) }?;
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { give(&node.name, buffer, capacity) }?;
        if version.is_null() {
            return Ok(());
        }
        // SAFETY: the C caller passes `version_capacity` writable bytes at `version`.
        unsafe { give(&node.version, version, version_capacity) }
    })
}

/// Writes the value of an attribute of the process that a token belongs to into `buffer`.
///
/// Errors: as `outlive_node_name`; ENOENT: it has no such attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_node_attribute(
    domain: *const outlive_domain_t,
    token: u32,
    key: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a NUL-terminated key.
        let (node, key) = unsafe { (node_of(domain, token)?, text(key, "a key")?) };
        let value = node.attributes.get(key).ok_or_else(|| no_attribute(key))?;
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { give(value, buffer, capacity) }
    })
}

/// Writes the pair of that number, from 0, of the attributes of the process that a token belongs to, in
/// the order of their keys.
///
/// Errors: as `outlive_node_name`; ERANGE: it has no pair of that number, nor of a later one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_node_attribute_at(
    domain: *const outlive_domain_t,
    token: u32,
    number: usize,
    key: *mut c_char,
    key_capacity: usize,
    value: *mut c_char,
    value_capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain.
        let node = unsafe { node_of(domain, token) }?;
        let pair = node.attributes.iter().nth(number).ok_or_else(no_more)?;
        // SAFETY: the C caller passes as many writable bytes at each place.
        unsafe { give(pair.0, key, key_capacity).and(give(pair.1, value, value_capacity)) }
    })
}
