//! Signals that ask the bridge to end: it commits what is answered, leaves, and exits with 0.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a program to end. One that the user had ignored (`nohup`) stays ignored.
pub struct Ending {
    signals: Vec<Signal>,
    asked: bool,
}

impl Ending {
    /// Takes them over.
    pub fn new() -> std::io::Result<Ending> {
        let kinds = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let signals = kinds.into_iter().filter(|number| !is_ignored(*number));
        let signals = signals.map(|number| signal(SignalKind::from_raw(number)));
        Ok(Ending { signals: signals.collect::<Result<_, _>>()?, asked: false })
    }

    /// Waits until the bridge is asked to end; at once if it has been.
    pub async fn asked(&mut self) {
        if self.asked {
            return;
        }
        let signals = &mut self.signals;
        std::future::poll_fn(|context| {
            for signal in &mut *signals {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(());
                }
            }
            std::task::Poll::Pending
        })
        .await;
        self.asked = true;
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeroes is a valid `sigaction`, which the kernel fills.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is set; the kernel writes the present one to `now`.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    read == 0 && now.sa_sigaction == libc::SIG_IGN
}
