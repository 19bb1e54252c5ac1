//! `outlive-semaphore-cluster`: what `outlive semaphore run --cluster` starts.

fn main() -> std::process::ExitCode {
    outlive_cluster::program::semaphore()
}
