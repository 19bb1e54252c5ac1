//! What the kernel answers to each futex call, in the ordinary case and in the odd ones: what the
//! docs of `outlive::futex` promise, asked of the kernel that is there.

mod inheriting;
mod moving;
mod several;
mod thread;
mod waiting;

/// Says that the calling test is skipped, and why: a line that reaches `cargo xtask test`, which
/// counts it. libtest keeps back what tests print, but not what they write.
fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "skipped: {why}");
}
