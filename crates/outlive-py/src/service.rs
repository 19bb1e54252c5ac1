//! What a client and a server have in common: how the service is made.

use outlive::{Domain, rpc};
use pyo3::prelude::*;

use crate::described;
use crate::named::{GivenDomain, Named};

/// What the constructors of a client and a server are told of the service.
pub(crate) struct Asked<'a, 'py> {
    pub(crate) max_bytes: Option<u64>,
    pub(crate) max_servers: Option<u32>,
    pub(crate) request: Option<&'a Bound<'py, PyAny>>,
    pub(crate) reply: Option<&'a Bound<'py, PyAny>>,
}

impl Asked<'_, '_> {
    /// Opens or makes the service, by `open`: one of the openings of its options.
    pub(crate) fn make(
        self,
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        open: fn(rpc::ServiceOptions, &Domain, &str) -> Result<rpc::Service, outlive::Error>,
    ) -> PyResult<(rpc::Service, Named)> {
        let types = described::given_pair(self.request, self.reply)?;
        Named::make(py, name, domain, |domain, name| {
            ready(domain)?;
            let mut options = rpc::Service::<[u8], [u8]>::options();
            if let Some(servers) = self.max_servers {
                options = options.max_servers(servers);
            }
            if let Some(types) = types {
                options = options.description(types);
            }
            if let Some(bytes) = self.max_bytes {
                options = options.max_bytes(bytes);
            }
            open(options, domain, name)
        })
    }
}

/// Asks for what a client and a server need besides the service: a process that cannot have it
/// makes none.
fn ready(domain: &Domain) -> Result<(), outlive::Error> {
    domain.token()?;
    domain.process_token().map(drop)
}
