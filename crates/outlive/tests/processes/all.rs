//! What only real processes can show: deaths, forks, execs, namespaces, full file systems.
//!
//! An own main instead of libtest's, because a check forks, and only a process of one thread may do
//! that and go on as it likes. Each check runs in a child of its own with a domain folder of its
//! own and a deadline: whatever hangs is killed, with all that it started, and has failed. Run some
//! of them by `cargo test -p outlive-processes -- FILTER`.

#![no_main]

mod access;
mod access_lists;
mod asleep;
mod attributes;
mod bad_files;
mod barrier;
mod batches;
mod board;
mod bounded;
mod budgets;
mod ceiling_mutex;
mod child;
mod closed_numbers;
mod condvar_deaths;
mod condvar_kinds;
mod condvars;
mod core_dumps;
mod counted;
mod damaged_registries;
mod declared_dead;
mod denied;
mod doorbells;
mod ends;
mod events;
mod every_length;
mod failing_calls;
mod failing_services;
mod forge;
mod full_pools;
mod generations;
mod growth;
mod idle;
mod inversion;
mod job_ends;
mod jobs;
mod keeper;
mod keeping;
mod killed_receivers;
mod killed_senders;
mod large;
mod large_sets;
mod leftovers;
mod libc_mutexes;
mod limits;
mod little_space;
mod living;
mod lock_orders;
mod mutex;
mod mutex_deaths;
mod mutex_stress;
mod namespaces;
mod nodes;
mod notifiers;
mod onces;
mod order;
mod owned_guards;
mod panics;
mod passed_deadlines;
mod pi_mutex;
mod pi_mutex_deaths;
mod pool_guard_pages;
mod pool_kills;
mod pool_mode_kills;
mod pool_modes;
mod pool_pages;
mod pool_patterns;
mod pool_redzones;
mod pools;
mod prefault;
mod publishers_in_turn;
mod random;
mod realtime;
mod receivers;
mod records;
mod reentrant_mutex;
mod refusals;
mod rpc;
mod rpc_alive;
mod rpc_deaths;
mod rpc_failures;
mod rpc_in_place;
mod rpc_parts;
mod rpc_parts_in_sets;
mod rpc_servers;
mod rpc_tasks;
mod rpc_values;
mod runner;
mod rw_lock;
mod rw_lock_deaths;
mod segments;
mod semaphore;
mod services;
mod several;
mod several_permits;
mod share_kills;
mod shares;
mod sleepers;
mod slots;
mod small_disk;
mod standing_by;
mod state_waits;
mod state_words;
mod states;
mod stopped;
mod stopped_notifiers;
mod store;
mod tasks;
mod tokens;
mod topic_alive;
mod topic_churn;
mod topic_crowd;
mod topic_damage;
mod topic_deaths;
mod topic_kept;
mod topic_patience;
mod topic_readers;
mod topic_reliable;
mod topic_samples;
mod topic_sessions;
mod topics;
mod upgradable_reads;
mod wait_bridges;
mod wait_sets;
mod wait_sources;
mod waiting;

use std::ffi::{CStr, c_char, c_int};

/// All checks, by subject.
const ALL: &[&[runner::Check]] = &[
    tokens::CHECKS,
    waiting::CHECKS,
    several::CHECKS,
    stopped::CHECKS,
    keeper::CHECKS,
    living::CHECKS,
    damaged_registries::CHECKS,
    declared_dead::CHECKS,
    slots::CHECKS,
    sleepers::CHECKS,
    lock_orders::CHECKS,
    generations::CHECKS,
    libc_mutexes::CHECKS,
    namespaces::CHECKS,
    mutex::CHECKS,
    mutex_deaths::CHECKS,
    mutex_stress::CHECKS,
    semaphore::CHECKS,
    several_permits::CHECKS,
    barrier::CHECKS,
    panics::CHECKS,
    pi_mutex::CHECKS,
    pi_mutex_deaths::CHECKS,
    ceiling_mutex::CHECKS,
    inversion::CHECKS,
    rw_lock::CHECKS,
    rw_lock_deaths::CHECKS,
    upgradable_reads::CHECKS,
    records::CHECKS,
    refusals::CHECKS,
    condvars::CHECKS,
    condvar_deaths::CHECKS,
    condvar_kinds::CHECKS,
    condvar_kinds::pi::CHECKS,
    condvar_kinds::ceiling::CHECKS,
    reentrant_mutex::CHECKS,
    events::CHECKS,
    every_length::CHECKS,
    failing_calls::CHECKS,
    failing_services::CHECKS,
    closed_numbers::CHECKS,
    nodes::CHECKS,
    notifiers::CHECKS,
    attributes::CHECKS,
    onces::CHECKS,
    order::CHECKS,
    owned_guards::CHECKS,
    batches::CHECKS,
    large::CHECKS,
    large_sets::CHECKS,
    doorbells::CHECKS,
    receivers::CHECKS,
    keeping::CHECKS,
    denied::CHECKS,
    ends::CHECKS,
    growth::CHECKS,
    bounded::CHECKS,
    tasks::CHECKS,
    killed_senders::CHECKS,
    killed_receivers::CHECKS,
    rpc::CHECKS,
    rpc_alive::CHECKS,
    rpc_deaths::CHECKS,
    rpc_failures::CHECKS,
    rpc_in_place::CHECKS,
    rpc_parts::CHECKS,
    rpc_parts_in_sets::CHECKS,
    rpc_servers::CHECKS,
    rpc_tasks::CHECKS,
    rpc_values::CHECKS,
    leftovers::CHECKS,
    segments::CHECKS,
    small_disk::CHECKS,
    budgets::CHECKS,
    core_dumps::CHECKS,
    access_lists::CHECKS,
    standing_by::CHECKS,
    state_waits::CHECKS,
    state_words::CHECKS,
    states::CHECKS,
    stopped_notifiers::CHECKS,
    limits::CHECKS,
    little_space::CHECKS,
    access::CHECKS,
    bad_files::CHECKS,
    pool_modes::CHECKS,
    pool_redzones::CHECKS,
    pool_patterns::CHECKS,
    pool_guard_pages::CHECKS,
    pool_mode_kills::CHECKS,
    pools::CHECKS,
    prefault::CHECKS,
    pool_pages::CHECKS,
    pool_kills::CHECKS,
    full_pools::CHECKS,
    shares::CHECKS,
    share_kills::CHECKS,
    topics::CHECKS,
    publishers_in_turn::CHECKS,
    topic_readers::CHECKS,
    topic_kept::CHECKS,
    topic_patience::CHECKS,
    topic_reliable::CHECKS,
    topic_samples::CHECKS,
    topic_sessions::CHECKS,
    topic_deaths::CHECKS,
    topic_alive::CHECKS,
    topic_churn::CHECKS,
    topic_crowd::CHECKS,
    topic_damage::CHECKS,
    wait_sets::CHECKS,
    wait_bridges::CHECKS,
    wait_sources::CHECKS,
    idle::CHECKS,
    passed_deadlines::CHECKS,
    job_ends::CHECKS,
    jobs::CHECKS,
];

/// C's own main, so that no frame of Rust's start code lies below: `pthread_exit` of the main
/// thread has to get past every frame on its way out.
///
/// # Safety
/// As the C standard says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let argument = |n: c_int| {
        // SAFETY: n is below argc, and arguments are strings for as long as the process lives.
        let text = unsafe { CStr::from_ptr(*argv.add(n as usize)) };
        text.to_string_lossy().into_owned()
    };
    let arguments: Vec<String> = (1..argc).map(argument).collect();
    match arguments.first().map(String::as_str) {
        Some("--role") => keeper::play(&arguments[1..]),
        _ => runner::run(ALL, &arguments),
    }
}
