//! Clients and servers of a service, for the checks of services.

use outlive::Domain;
use outlive::rpc::{Client, Server, Service};

/// Makes a client of a service with default options.
pub fn client_of(domain: &Domain, name: &str) -> Client {
    let service = Service::<[u8], [u8]>::open_or_create(domain, name).expect("opens");
    service.client().expect("room for one more")
}

/// Makes such a client that waits for a server where there is none.
pub fn waiting_client_of(domain: &Domain, name: &str) -> Client {
    let client = client_of(domain, name);
    client.set_wait_for_server(true);
    client
}

/// Serves a service with default options.
pub fn server_of(domain: &Domain, name: &str) -> Server {
    let service = Service::<[u8], [u8]>::open_or_create(domain, name).expect("opens");
    service.server().expect("none lives")
}
