//! Tests with Debian's etcd, programs that are killed and stopped, and partitioned machines.

mod library;
mod machines;
mod program;
mod resource;
mod world;
