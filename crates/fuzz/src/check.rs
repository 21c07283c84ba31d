//! Runner for a target on one input, which detects faults.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;

use crate::Target;

/// Limit in bytes above which an allocation fails and Rust aborts the process, so that a wrong
/// length cannot exhaust the machine's memory.
pub const CEILING_BYTES: usize = 2 << 30;

/// Time after which a single case fails, even on a slow machine.
const CASE_TIME_MAX: Duration = Duration::from_secs(20);

/// Runs the target and returns its fault, if any: a panic, too much memory, or too much time.
///
/// The allocator of the process must be a [`PeakAlloc`], and other threads must not use it.
pub fn fault_of(target: Target, input: &[u8]) -> Option<String> {
    let start = Instant::now();
    let run = || catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let (result, peak) = peak_of(run);
    let limit = target.memory.limit(input.len());
    match result {
        Err(panic) => Some(format!("panicked: {}", text_of(panic.as_ref()))),
        Ok(()) if peak > limit => {
            Some(format!("used {peak} bytes of memory, the limit is {limit}"))
        }
        Ok(()) if start.elapsed() > CASE_TIME_MAX => Some(format!("took {:?}", start.elapsed())),
        Ok(()) => None,
    }
}

/// Runs `work` and returns the maximum number of additional bytes that were in use. The threads of
/// the test harness may allocate or free a few bytes.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    PeakAlloc.reset_peak_usage();
    let before = PeakAlloc.current_usage();
    let result = work();
    (result, PeakAlloc.peak_usage().saturating_sub(before))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("with a value that is not text")
}
