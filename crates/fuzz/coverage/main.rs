//! Targets of `zoarium-fuzz` under libFuzzer, which is guided by code coverage.
//!
//! All binaries of this package share this file. The name of the binary selects the target.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs};

use cap::Cap;
use fuzz::{CEILING_BYTES, Corpus, TARGETS, fault_of};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: Cap<PeakAlloc> = Cap::new(PeakAlloc, CEILING_BYTES);

static CORPUS: LazyLock<Corpus> = LazyLock::new(|| {
    let name = env!("CARGO_BIN_NAME");
    let found = TARGETS.iter().find(|target| target.name == name);
    Corpus::new(*found.expect("the manifest lists only targets"))
});

/// Writes the valid inputs into the first folder of the command line, where libFuzzer reads them.
fn write_valid_inputs() {
    let mut paths = env::args_os().skip(1).map(PathBuf::from);
    if let Some(folder) = paths.find(|path| path.is_dir()) {
        for (number, seed) in CORPUS.seeds().iter().enumerate() {
            let file = folder.join(format!("valid-{number}"));
            fs::write(file, seed).expect("write to the folder of inputs");
        }
    }
}

fuzz_target!(
    init: write_valid_inputs(),
    |input: &[u8]| {
        // A panic makes libFuzzer store the input.
        if let Some(fault) = fault_of(CORPUS.target(), input) {
            panic!("{fault}");
        }
    }
);

// Half of the changes are specific to the format. libFuzzer makes the others.
fuzz_mutator!(
    |input: &mut [u8], size: usize, max_size: usize, seed: u32| {
        if seed % 2 == 0 {
            let size = fuzzer_mutate(input, size, max_size);
            CORPUS.repair(&mut input[..size]);
            return size;
        }
        let mut changed = input[..size].to_vec();
        CORPUS.change(&mut changed, seed.into());
        changed.truncate(max_size);
        input[..changed.len()].copy_from_slice(&changed);
        changed.len()
    }
);
