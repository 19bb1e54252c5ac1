//! By which of cargo's profiles this program was built.

use std::sync::Once;

/// The profile: `dist`, `release`, `dev`, …; `unknown` where cargo's folders do not tell it.
pub const PROFILE: &str = env!("OUTLIVE_PROFILE");

/// The profile of packages, wheels and all published figures.
pub const PUBLISHED: &str = "dist";

/// Says, once, that figures of this program are not to be compared with published ones, if it was
/// built by another profile than these.
pub fn warn_if_not_published() {
    static SAID: Once = Once::new();
    if PROFILE != PUBLISHED {
        SAID.call_once(|| {
            eprintln!(
                "outlive bench: this program was built with the profile '{PROFILE}', which costs more per call; \
                 published figures are of '{PUBLISHED}': cargo run --profile {PUBLISHED} -p outlive-bench -- …"
            );
        });
    }
}
