//! Gateways between domains, as processes: what arrives, what is told, and what may not pass.
//!
//! A "machine" is a domain with its gateway. They meet on 127.0.0.1, or in network namespaces.

mod brief;
mod calls;
mod deaths;
mod hostile;
mod loss;
mod networks;
mod notifiers;
mod others;
mod passing;
mod played;
mod python;
mod secured;
mod services;
mod states;
mod successors;
mod support;
