//! Nothing is made: a crate with such a program knows by `OUT_DIR` where Cargo builds it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
