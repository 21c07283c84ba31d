//! Allocator that counts memory, and its limit.

use cap::Cap;
use fuzz::{CEILING_BYTES, peak_of};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: Cap<PeakAlloc> = Cap::new(PeakAlloc, CEILING_BYTES);

#[test]
fn a_freed_allocation_is_counted() {
    let _alone = crate::run::alone();
    let ((), bytes) = peak_of(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1_000_000))));
    // The value is not exact, because bytes that the harness frees in the meantime are subtracted.
    assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
}
