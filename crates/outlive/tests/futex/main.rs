//! What the kernel answers to each futex call, in the ordinary case and in the odd ones: what the docs of
//! `outlive::futex` promise, asked of the kernel that is there.

mod classics;
mod inheriting;
mod moving;
mod several;
mod thread;
mod waiting;
