//! Following what becomes of a service's clients.

use std::ffi::{c_char, c_int};

use outlive::rpc::{ClientEvent, ClientWatch, Service};

use crate::argument::{borrow, borrow_mut, handle_out, out, text};
use crate::code::{entry, entry_or};
use crate::deadline::{in_time, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t, outlive_peer_info_t};
use crate::server::outlive_server_t;

/// The client lives, and has done nothing for a lease.
pub const OUTLIVE_CLIENT_NOT_LIVELY: u32 = 1;
/// The client has done something since it was told as not lively.
pub const OUTLIVE_CLIENT_LIVELY: u32 = 2;
/// The client has ended without leaving in order.
pub const OUTLIVE_CLIENT_DIED: u32 = 3;

/// Tells which clients of a service do nothing, and which have died. One thread at a time may use
/// it.
pub struct outlive_client_watch_t(pub(crate) ClientWatch);

/// Follows what becomes of the clients of a server's service: which have done nothing for `lease`
/// nanoseconds, and which have died. A client does something when it makes a call, sends a part of
/// a request, takes a reply of a stream, or calls `outlive_client_assert_liveliness`.
///
/// Owner: `*watch` is the caller's, until `outlive_client_watch_close`; it may outlive the server.
///
/// Errors: EINVAL, EUSERS, OUTLIVE_DAMAGED.
///
/// If a client dies, that is told at once. Of those that are dead by now nothing is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_server_watch_clients(
    server: *const outlive_server_t,
    lease: u64,
    watch: *mut *mut outlive_client_watch_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `watch` and a live server.
        let (out, server) = unsafe { (handle_out(watch)?, borrow(server, "a server")?) };
        let watch = server.0.watch_clients(std::time::Duration::from_nanos(lease))?;
        out.put(Box::into_raw(Box::new(outlive_client_watch_t(watch))));
        Ok(())
    })
}

/// Follows what becomes of the clients of the service of that name, as
/// `outlive_server_watch_clients`, from a process that is neither its server nor a client of it.
///
/// Owner: `*watch` is the caller's, until `outlive_client_watch_close`; it may outlive the domain.
///
/// Errors: ENOENT: there is no such service. OUTLIVE_OTHER_KIND, EINVAL, EUSERS, OUTLIVE_DAMAGED.
///
/// If a client dies, that is told at once. Of those that are dead by now nothing is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_watch_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    lease: u64,
    watch: *mut *mut outlive_client_watch_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `watch`, a live domain, and a NUL-terminated name.
        let (out, domain, name) =
            unsafe { (handle_out(watch)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        let service = Service::<[u8], [u8]>::options().open_as_bytes(&domain.0, name)?;
        let watch = service.watch_clients(std::time::Duration::from_nanos(lease))?;
        out.put(Box::into_raw(Box::new(outlive_client_watch_t(watch))));
        Ok(())
    })
}

/// Closes a watch. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_watch_close(watch: *mut outlive_client_watch_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(watch) }
}

/// Waits until something has become of a client, or until the deadline. `*event` is one of the
/// OUTLIVE_CLIENT numbers, `*client` the process.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: there is nothing to tell; EINVAL, EUSERS,
/// OUTLIVE_DAMAGED, and errors of the system.
///
/// If a client dies, that is told at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_watch_next(
    watch: *mut outlive_client_watch_t,
    deadline: outlive_deadline_t,
    event: *mut u32,
    client: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live watch that no other thread uses, and two places.
        let (watch, event, client) =
            unsafe { (borrow_mut(watch, "a watch")?, out(event)?, out(client)?) };
        let told = in_time(watch.0.next_until(moment_or_past(deadline))?, deadline, libc::EAGAIN)?;
        client.put(outlive_peer_info_t::of_holder(told.client()));
        event.put(match told {
            ClientEvent::NotLively(_) => OUTLIVE_CLIENT_NOT_LIVELY,
            ClientEvent::Lively(_) => OUTLIVE_CLIENT_LIVELY,
            _ => OUTLIVE_CLIENT_DIED,
        });
        Ok(())
    })
}

/// Returns how often a client's lease has passed. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_watch_lapses(watch: *const outlive_client_watch_t) -> u64 {
    // SAFETY: the C caller passes NULL or a live watch.
    entry_or(0, || Ok(unsafe { borrow(watch, "a watch") }?.0.lapses()))
}

/// Returns how many clients have died. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_client_watch_deaths(watch: *const outlive_client_watch_t) -> u64 {
    // SAFETY: the C caller passes NULL or a live watch.
    entry_or(0, || Ok(unsafe { borrow(watch, "a watch") }?.0.deaths()))
}
