//! What a client and a server have in common: the service's options.

use outlive::describe::Description;
use outlive::rpc;

/// Asks for what a client and a server need besides the service: a process that cannot have it
/// makes none.
pub(crate) fn ready(domain: &outlive::Domain) -> Result<(), outlive::Error> {
    domain.token()?;
    domain.process_token().map(drop)
}

pub(crate) fn options(
    max_bytes: Option<u64>,
    max_servers: Option<u32>,
    types: Option<Description>,
) -> rpc::ServiceOptions {
    let mut options = rpc::Service::<[u8], [u8]>::options();
    if let Some(servers) = max_servers {
        options = options.max_servers(servers);
    }
    if let Some(types) = types {
        options = options.description(types);
    }
    match max_bytes {
        None => options,
        Some(bytes) => options.max_bytes(bytes),
    }
}
