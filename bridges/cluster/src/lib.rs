//! Locks and semaphores of several machines, over etcd.
