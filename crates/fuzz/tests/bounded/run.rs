//! Run of one target.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs};

use fuzz::{Corpus, TARGETS, Target};

/// Number of bytes of an input that are printed.
const SHOWN_BYTES: usize = 1024;

/// Waits for other tests and locks them out, because memory is counted for the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let parsed = text.parse().ok();
    assert!(parsed.is_some(), "{name}={text} is no number");
    parsed
}

pub(crate) fn bounded(name: &str) {
    let _alone = alone();
    let found = TARGETS.iter().find(|target| target.name == name);
    let target = *found.expect("the table of targets names it");
    let corpus = Corpus::new(target);
    let first: u64 = setting("ZOARIUM_FUZZ_CASE").unwrap_or(0);
    let cases: u64 = setting("ZOARIUM_FUZZ_CASES").unwrap_or(u64::MAX);
    let time = Duration::from_secs_f64(setting("ZOARIUM_FUZZ_SECONDS").unwrap_or(2.0));
    let mut last_words = LastWords::of(target);
    let start = Instant::now();
    let mut done = 0;
    // All seeds are run, regardless of the time.
    while done < cases && (start.elapsed() < time || done < corpus.seeds().len() as u64) {
        let case = first.wrapping_add(done);
        last_words.note(case);
        run_case(target, case, &corpus.input(case));
        done += 1;
    }
    last_words.forget();
    println!("{name}: {done} cases from {} seeds", corpus.seeds().len());
}

fn run_case(target: Target, case: u64, input: &[u8]) {
    let Some(fault) = fuzz::fault_of(target, input) else {
        return;
    };
    let shown = &input[..input.len().min(SHOWN_BYTES)];
    let hex = shown.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    panic!(
        "{} {fault}\ncase {case}, {} bytes of input: {hex}\nagain: {}",
        target.name,
        input.len(),
        again(target, case)
    );
}

fn again(target: Target, case: u64) -> String {
    format!(
        "ZOARIUM_FUZZ_CASE={case} ZOARIUM_FUZZ_CASES=1 cargo test -p zoarium-fuzz --test bounded {}",
        target.name
    )
}

/// File that names the current case, in case the process dies before it can report it.
struct LastWords {
    target: Target,
    path: std::path::PathBuf,
    file: File,
}

impl LastWords {
    fn of(target: Target) -> Self {
        let name = format!("fuzz-{}.case", target.name);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let file = File::create(&path).expect("the target directory can be written to");
        println!("if this dies, see {}", path.display());
        Self { target, path, file }
    }

    fn note(&mut self, case: u64) {
        // Numbers only grow within a run, so a shorter line never leaves the end of a longer one.
        let line = again(self.target, case);
        let _ = self.file.write_all_at(line.as_bytes(), 0);
    }

    fn forget(self) {
        drop(self.file);
        let _ = fs::remove_file(self.path);
    }
}

fn bad(run: fn(&[u8])) -> Target {
    Target {
        name: "bad",
        run,
        seeds: Vec::new,
        words: &[],
        repair: None,
        memory: fuzz::Memory::DECODER,
    }
}

#[test]
#[should_panic(expected = "bad panicked: index out of bounds")]
fn a_panic_is_a_failure() {
    let _alone = alone();
    let read = |data: &[u8]| assert!(data[3] < u8::MAX);
    run_case(bad(read), 7, &[1, 2, 3]);
}

#[test]
#[should_panic(expected = "again: ZOARIUM_FUZZ_CASE=7 ZOARIUM_FUZZ_CASES=1 cargo test")]
fn exceeding_the_memory_limit_fails_and_prints_how_to_repeat_it() {
    let _alone = alone();
    let read = |data: &[u8]| drop(std::hint::black_box(vec![0u8; (5 << 20) + data.len()]));
    run_case(bad(read), 7, &[1, 2, 3]);
}
