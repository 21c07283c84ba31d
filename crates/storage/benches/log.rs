//! Appending to the log.

fn main() {
    divan::main();
}
