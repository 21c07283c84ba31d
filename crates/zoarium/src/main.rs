//! Zoarium.
fn main() {}
