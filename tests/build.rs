//! Generates nothing. Cargo sets `OUT_DIR` only for a crate with a build script, and the crate
//! derives the build directory from it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
