//! The name by which programs ask for the library when they start; it changes when the ABI breaks,
//! which it is not to.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liboutlive.so.0");
}
