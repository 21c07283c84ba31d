//! How much memory is in use, and a ceiling that a single wrong length cannot take the machine
//! through.

use cap::Cap;
use peak_alloc::PeakAlloc;

/// Refuses beyond this much; Rust then ends the process.
const CEILING_BYTES: usize = 2 << 30;

#[global_allocator]
static ALLOCATOR: Cap<PeakAlloc> = Cap::new(PeakAlloc, CEILING_BYTES);

/// Runs `work` and says how many bytes more than before were in use at its worst moment. No other
/// test may be at work; the threads of the test harness itself may take or give back a few bytes.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    PeakAlloc.reset_peak_usage();
    let before = PeakAlloc.current_usage();
    let result = work();
    (result, PeakAlloc.peak_usage().saturating_sub(before))
}

#[test]
fn an_allocation_is_seen_though_it_is_given_back() {
    let _alone = crate::run::alone();
    let (_, bytes) = peak_of(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1_000_000))));
    // Not to the byte: what the harness gives back meanwhile is missing from it.
    assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
}
