//! Measures the memory in use, and limits it so that a wrong length cannot exhaust the machine's
//! memory.

use cap::Cap;
use peak_alloc::PeakAlloc;

/// Limit in bytes above which allocation fails and Rust aborts the process.
const CEILING_BYTES: usize = 2 << 30;

#[global_allocator]
static ALLOCATOR: Cap<PeakAlloc> = Cap::new(PeakAlloc, CEILING_BYTES);

/// Runs `work` and returns the maximum number of bytes that were additionally in use. No other test
/// may run; the threads of the test harness itself may allocate or free a few bytes.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    PeakAlloc.reset_peak_usage();
    let before = PeakAlloc.current_usage();
    let result = work();
    (result, PeakAlloc.peak_usage().saturating_sub(before))
}

#[test]
fn a_freed_allocation_is_counted() {
    let _alone = crate::run::alone();
    let (_, bytes) = peak_of(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1_000_000))));
    // Not exact: bytes that the harness frees in the meantime are subtracted.
    assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
}
