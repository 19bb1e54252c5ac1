//! The metrics, each once: its name, its type, its labels and what it says.
//!
//! A counter only grows as long as its thing lives, also when processes are killed: it is read from words
//! of shared memory that only grow. What can fall is a gauge, such as the losses of present subscribers.
//! `doc/how-to/metrics.md` shows the same table, which a test below compares.

/// What a metric is about, and so which labels it has first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The domain: `domain`.
    Domain,
    /// A thing in it: `domain`, `kind`, `name`.
    Thing,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, without the suffix `_total` of a counter.
    pub name: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    pub of: Of,
    /// Its labels after those.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    /// Returns the name by which it is asked for.
    #[cfg(test)]
    pub fn full_name(&self) -> String {
        format!("{}{}", self.name, if self.is_counter { "_total" } else { "" })
    }

    /// Returns its unit, by which its name ends.
    #[cfg(test)]
    pub fn unit(&self) -> &'static str {
        let last = self.name.rsplit('_').next().unwrap_or_default();
        if ["bytes", "seconds"].contains(&last) { last } else { "" }
    }
}

/// Makes a name for each metric, by which it is found in the table.
macro_rules! metrics {
    ($($id:ident: $of:ident $type:ident $name:literal [$($label:literal)*] $help:literal;)*) => {
        /// The metrics by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Id { $($id),* }

        /// All metrics, in the order in which they are printed.
        pub const ALL: &[Metric] = &[$(Metric {
            name: $name,
            is_counter: metrics!($type),
            of: Of::$of,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
    (counter) => { true };
    (gauge) => { false };
}

metrics! {
    Up: Domain gauge "outlive_domain_up" []
        "1 if the domain was read, 0 if it is not there or could not be read";
    Build: Domain gauge "outlive_build_info" ["version"]
        "Always 1; the version of the program that reads the domain";
    Took: Domain gauge "outlive_scrape_duration_seconds" []
        "How long it took to read the domain";
    Things: Domain gauge "outlive_things" ["kind"]
        "Things in the domain that were read";
    Unreadable: Domain gauge "outlive_unreadable_things" ["reason"]
        "Files in the domain's folder that were not read: made by another version, damaged, without permission, not of Outlive, or for another reason";
    FileSystemSize: Domain gauge "outlive_filesystem_size_bytes" []
        "Size of the file system that holds the domain, or its budget, if it has one";
    FileSystemFree: Domain gauge "outlive_filesystem_avail_bytes" []
        "Free bytes of that file system, or what is left of the budget";
    Tokens: Domain gauge "outlive_tokens" ["holder" "state"]
        "Tokens of processes and threads, alive or dead and not retired yet";
    TokenSlots: Domain gauge "outlive_token_slots" []
        "Slots for tokens in the registry's file, used or not";
    OwnerDeaths: Domain counter "outlive_owner_deaths" []
        "How often a process took over what a dead owner had: a lock, a permit, a job";
    Rescues: Domain counter "outlive_rescued_waits" []
        "Sleepers that found by their own recheck what a lost wake-up should have told them; should be 0";
    Deadlocks: Domain gauge "outlive_deadlocks" []
        "Cycles of threads that wait for each other's locks, at least one of them for a second";

    Memory: Thing gauge "outlive_memory_bytes" []
        "Memory that the thing takes";
    MemoryLimit: Thing gauge "outlive_memory_limit_bytes" []
        "The most memory that it may take";
    Users: Thing gauge "outlive_users" []
        "Processes that have it open, as far as the reader may see them";
    Waiters: Thing gauge "outlive_waiters" []
        "Threads that sleep until something in it changes, as far as the reader may see them";
    LongestWait: Thing gauge "outlive_longest_wait_seconds" []
        "How long the waiter that came first has slept; 0 without waiters";
    DeadClaims: Thing gauge "outlive_dead_claims" []
        "Claims in it whose owners are dead, and which no process has taken over or cleared yet";

    Sent: Thing counter "messaging_client_sent_messages"
        ["messaging_system" "messaging_destination_name" "messaging_operation_name"]
        "Messages that were published in a topic, or sent to a queue and acknowledged";
    Consumed: Thing counter "messaging_client_consumed_messages"
        ["messaging_system" "messaging_destination_name" "messaging_operation_name"]
        "Messages that a queue's receivers have received for good";

    Publishers: Thing gauge "outlive_topic_publishers" []
        "Living publishers";
    Subscribers: Thing gauge "outlive_topic_subscribers" []
        "Living subscribers";
    MaxPublishers: Thing gauge "outlive_topic_max_publishers" []
        "The most publishers at a time";
    MaxSubscribers: Thing gauge "outlive_topic_max_subscribers" []
        "The most subscribers at a time";
    Depth: Thing gauge "outlive_topic_depth_messages" []
        "Messages of each publisher that are kept: the maximum lag of a subscriber, in messages";
    Kept: Thing gauge "outlive_topic_kept_messages" []
        "Messages that are still there";
    HeldSamples: Thing gauge "outlive_topic_held_samples" []
        "Samples that subscribers hold";
    ObjectBytes: Thing gauge "outlive_topic_object_bytes" []
        "Memory of long messages, in use or kept for the next ones";
    Lag: Thing gauge "outlive_topic_lag_messages" []
        "Messages that wait for the subscriber for which most wait";
    Lagging: Thing gauge "outlive_topic_lagging_subscribers" []
        "Reliable subscribers for which a publisher has stopped waiting, until they take a message";
    Lost: Thing gauge "outlive_topic_lost_messages" []
        "Messages that the present subscribers have lost: overwritten before they took them";
    StoppedWaiting: Thing counter "outlive_topic_stopped_waiting" []
        "How often a publisher has stopped waiting for a reliable subscriber";
    KeptOwned: Thing gauge "outlive_topic_kept_owned" ["subscriber"]
        "Whether a living process is the subscriber with that name, whose place the topic keeps if it dies: 1 or 0";
    KeptLag: Thing gauge "outlive_topic_kept_lag_messages" ["subscriber"]
        "Messages that wait for a subscriber with a name";
    KeptInTheWay: Thing gauge "outlive_topic_kept_waiting_publishers" ["subscriber"]
        "Publishers whose next message waits for a subscriber with a name";
    KeptPatience: Thing gauge "outlive_topic_kept_patience_left_seconds" ["subscriber"]
        "How much longer publishers wait for a subscriber with a name that has died; absent while none waits";
    RingSent: Thing counter "outlive_topic_ring_messages" ["ring"]
        "With --endpoints: messages of a ring, which is one publisher's at a time";
    RingPublisher: Thing gauge "outlive_topic_publisher_info"
        ["ring" "session" "process_pid" "process_executable_name"]
        "With --endpoints: always 1; the publisher that has the ring, and which start of a publisher it is";
    ProcessSubscribers: Thing gauge "outlive_topic_process_subscribers"
        ["process_pid" "process_executable_name"]
        "With --endpoints: a process's subscribers";
    ProcessLag: Thing gauge "outlive_topic_process_lag_messages"
        ["process_pid" "process_executable_name"]
        "With --endpoints: messages that wait for that subscriber of the process for which most wait";
    ProcessLost: Thing gauge "outlive_topic_process_lost_messages"
        ["process_pid" "process_executable_name"]
        "With --endpoints: messages that a process's present subscribers have lost";

    Pending: Thing gauge "outlive_queue_pending_messages" []
        "Messages in the queue";
    MaxMessages: Thing gauge "outlive_queue_max_messages" []
        "The most unread messages that it can hold, if they are bounded";
    HighWater: Thing gauge "outlive_queue_high_water_messages" []
        "The largest backlog that was seen; it is looked at from time to time";
    Abandoned: Thing counter "outlive_queue_abandoned_messages" []
        "Messages whose sender died during the send, none of them acknowledged; a batch counts once";
    Redelivered: Thing counter "outlive_queue_redelivered_messages" []
        "Messages that were handed out again because a receiver died before it committed them";
    Grown: Thing counter "outlive_queue_grown" []
        "How often memory was added to the queue";
    Receivers: Thing gauge "outlive_queue_receivers" []
        "Living receivers, 0 or 1";
    Senders: Thing gauge "outlive_queue_senders" []
        "Living processes that send, of those in the table, which has room for 1,024";

    Requests: Thing counter "outlive_service_requests" []
        "Requests that clients have made";
    PendingRequests: Thing gauge "outlive_service_pending_requests" []
        "Requests that no server has taken yet";
    Begun: Thing gauge "outlive_service_begun_calls" []
        "Calls that a server has begun and not answered to the end";
    Servers: Thing gauge "outlive_service_servers" []
        "Living servers";
    Clients: Thing gauge "outlive_service_clients" []
        "Living clients, one for each sixteen calls at a time";

    Put: Thing counter "outlive_job_queue_put_jobs" []
        "Jobs that were put; a put that was cut short may count as well";
    Jobs: Thing gauge "outlive_job_queue_jobs" ["state"]
        "Jobs that wait, that living workers have, that are set aside, and that are being put";
    DamagedJobs: Thing gauge "outlive_job_queue_damaged_jobs" []
        "Of the jobs that are set aside, those whose length a stray write has damaged";
    MaxJobs: Thing gauge "outlive_job_queue_max_jobs" []
        "The most jobs that it holds";
    Workers: Thing gauge "outlive_job_queue_workers" []
        "Living processes that have a job";

    Sets: Thing counter "outlive_state_sets" []
        "How often a value was set";
    Capacity: Thing gauge "outlive_state_capacity_bytes" []
        "The most bytes of a value";
    Writers: Thing gauge "outlive_state_writers" []
        "Living writers, 0 or 1";
    Buffers: Thing gauge "outlive_state_buffers" []
        "Buffers for values: more than at first if readers stood still in the middle of a get";
    Pins: Thing gauge "outlive_state_pins" []
        "Readers, dead or alive, that have a buffer pinned";

    Notifiers: Thing gauge "outlive_notifier_notifiers" []
        "Living notifiers";
    Listeners: Thing gauge "outlive_notifier_listeners" []
        "Living listeners";
    Notices: Thing gauge "outlive_notifier_pending_notices" []
        "Notices that listeners have not taken";
    NotifierDeaths: Thing counter "outlive_notifier_deaths" []
        "Notifiers that have died";

    Objects: Thing gauge "outlive_pool_objects" ["state"]
        "Objects of a pool: in use, in caches, free, offered, shared, and being moved";
    PoolBytes: Thing gauge "outlive_pool_object_bytes" []
        "Memory of all its objects";
    Unclaimed: Thing gauge "outlive_pool_unclaimed_bytes" []
        "Memory of objects that are handed over and not claimed yet";
    PoolHolders: Thing gauge "outlive_pool_holders" []
        "Processes that have objects, in use or in caches, dead ones included";
    FailedAllocations: Thing counter "outlive_pool_failed_allocations" []
        "How often there was no room for an object";

    Holders: Thing gauge "outlive_holders" []
        "Threads that hold it, dead or alive: a lock's owner or readers, a permit's holders, a barrier's participants";
    NotRecoverable: Thing gauge "outlive_not_recoverable" []
        "1 if a holder marked the lock not recoverable";
    RecordLocks: Thing gauge "outlive_record_locks" []
        "Locks in a record";
    Permits: Thing gauge "outlive_semaphore_permits" ["state"]
        "Permits that are free and that are held";
    Room: Thing gauge "outlive_semaphore_max_permits" []
        "The most permits that there may be";
    Seats: Thing gauge "outlive_barrier_seats" []
        "The most participants of a barrier";
    Arrived: Thing gauge "outlive_barrier_arrived" []
        "Participants that wait at the barrier";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::repository;

    /// Returns a metric's row in the page's tables.
    fn row(metric: &Metric) -> String {
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
        let kind = if metric.is_counter { "counter" } else { "gauge" };
        let name = metric.full_name();
        format!(
            "| `{name}` | {kind} | {} | {} | {} |",
            metric.unit(),
            labels.join(", "),
            metric.help
        )
        .replace("|  |", "| |")
        .replace("|  |", "| |")
    }

    #[test]
    fn the_page_has_each_metric_and_no_other() {
        let Some(page) = repository::text("doc/how-to/metrics.md") else { return };
        let told: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `outlive_") || line.starts_with("| `messaging_"))
            .collect();
        let rows: Vec<String> = ALL.iter().map(row).collect();
        for (told, row) in told.iter().zip(&rows) {
            assert_eq!(told, row);
        }
        assert_eq!(told.len(), rows.len(), "{}", rows.join("\n"));
    }

    #[test]
    fn names_are_as_prometheus_wants_them() {
        let mut names = BTreeSet::new();
        for metric in ALL {
            assert!(names.insert(metric.name), "{} is there twice", metric.name);
            assert!(!metric.name.ends_with("_total"), "{}", metric.name);
            assert!(!metric.help.contains(['\n', '\\']), "{}", metric.name);
            let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(is_plain(metric.name) && metric.labels.iter().all(|name| is_plain(name)));
        }
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let board = super::super::DASHBOARD;
        let board: serde_json::Value = serde_json::from_str(board).expect("the dashboard is JSON");
        let mut queries = Vec::new();
        find(&board, &mut queries);
        assert!(queries.len() > 10, "{queries:?}");
        let names: BTreeSet<String> = ALL.iter().map(Metric::full_name).collect();
        let labels: BTreeSet<&str> = ALL.iter().flat_map(|one| one.labels).copied().collect();
        let mut asked = 0;
        for query in &queries {
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words.filter(|word| {
                (word.starts_with("outlive_") || word.starts_with("messaging_"))
                    && !labels.contains(word)
            }) {
                assert!(names.contains(word), "{word} of {query}");
                asked += 1;
            }
        }
        assert!(asked > 10);
    }

    /// Finds what panels and variables ask for.
    fn find(value: &serde_json::Value, queries: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                for (key, value) in members {
                    match value
                        .as_str()
                        .filter(|_| ["expr", "query", "definition"].contains(&key.as_str()))
                    {
                        Some(query) => queries.push(query.to_owned()),
                        None => find(value, queries),
                    }
                }
            }
            serde_json::Value::Array(all) => all.iter().for_each(|one| find(one, queries)),
            _ => {}
        }
    }
}
