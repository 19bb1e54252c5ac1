//! Gateways between domains, as processes: what arrives, what is told, and what may not pass.
//!
//! A "machine" is a domain with its gateway. They meet on 127.0.0.1, or in network namespaces.

mod brief;
mod deaths;
mod hostile;
mod loss;
mod networks;
mod others;
mod passing;
mod played;
mod python;
mod services;
mod support;
