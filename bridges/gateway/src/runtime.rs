//! Which threads zenoh works on.
//!
//! By itself it has six: one that connects, one that accepts, two that receive, one that sends, one for the
//! rest. A link's socket belongs to the thread that has made the link, which wakes one of those that receive,
//! which wakes the other one: two threads too many for each message. Here all but the one that sends are
//! two threads of one kind. (Sending stays apart: a thread that receives may wait until something is sent.)

/// zenoh's variable, and what it has.
const VARIABLE: &str = "ZENOH_RUNTIME";
const JOINED: &str =
    "(rx: (handover: app), acc: (handover: app), net: (handover: app), app: (worker_threads: 2))";

/// Joins zenoh's threads, unless the user has said which there are.
///
/// # Safety
/// The process has one thread, and zenoh has not been used.
pub unsafe fn join() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: by the caller no other thread reads the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, JOINED) };
    }
}
