//! Micro-benchmarks of the single-threaded hot path.

fn main() {
    divan::main();
}
