//! A message queue that is made of a lock, in two usual ways; `cargo run --profile dist -p outlive-bench
//! --example mq` runs both.
//!
//! [`MuCv`] is made of a mutex and condition variables, [`MuSm`] of a mutex and semaphores. Their
//! messages lie in a ring that only the lock's holder reaches. `outlive bench mq` measures both
//! beside the system's queue and [`outlive::queue`], which needs no lock and is many times as fast.

mod mu_cv;
mod mu_sm;
mod ring;

pub use mu_cv::MuCv;
pub use mu_sm::MuSm;
pub use ring::{MOST_BYTES, MOST_MESSAGES};
