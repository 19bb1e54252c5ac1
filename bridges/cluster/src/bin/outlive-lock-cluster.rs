//! `outlive-lock-cluster`: what `outlive lock --cluster` starts.

fn main() -> std::process::ExitCode {
    outlive_cluster::program::lock()
}
