//! `zoarium bench`.

mod bench;
mod bench_suite;
