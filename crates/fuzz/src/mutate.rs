//! Mutants of valid inputs.

use fastrand::Rng;

use crate::Target;

/// Maximum length of an input, bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// Lengths and counts that have caused faults before: null, other negative numbers, the boundaries
/// of the limits, and numbers that overflow in an addition.
const LENGTHS: [i32; 16] = [
    -1,
    -2,
    i32::MIN,
    i32::MAX,
    i32::MAX - 1,
    0,
    1,
    2,
    0x7f,
    0xff,
    0xffff,
    0xf_ffff,
    0x10_0000,
    0x1f_fffe,
    0x1f_ffff,
    0x0100_0000,
];

/// Inputs of a target.
#[derive(Debug)]
pub struct Corpus {
    target: Target,
    seeds: Vec<Vec<u8>>,
}

impl Corpus {
    /// Collects the target's seeds, except for seeds that are too long.
    ///
    /// # Panics
    /// If no seeds remain, because there would be nothing to mutate.
    pub fn new(target: Target) -> Self {
        let mut seeds = (target.seeds)();
        seeds.retain(|seed| seed.len() <= INPUT_BYTES_MAX);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        Self { target, seeds }
    }

    /// Returns the target.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the seeds.
    pub fn seeds(&self) -> &[Vec<u8>] {
        &self.seeds
    }

    /// Returns the input with this number. The first inputs are the seeds.
    pub fn input(&self, case: u64) -> Vec<u8> {
        if let Some(seed) = usize::try_from(case).ok().and_then(|at| self.seeds.get(at)) {
            return seed.clone();
        }
        let mut rng = Rng::with_seed(case);
        let mut input = self.pick(&mut rng).to_vec();
        self.change(&mut input, rng.u64(..));
        input
    }

    /// Makes one to four changes, which the number determines. Usually also corrects checksums.
    pub fn change(&self, input: &mut Vec<u8>, number: u64) {
        let mut rng = Rng::with_seed(number);
        for _ in 0..=rng.u32(0..4) {
            self.mutate(input, &mut rng);
        }
        input.truncate(INPUT_BYTES_MAX);
        if rng.u8(0..4) > 0 {
            self.repair(input);
        }
    }

    /// Corrects checksums.
    pub fn repair(&self, input: &mut [u8]) {
        if let Some(repair) = self.target.repair {
            repair(input);
        }
    }

    fn pick(&self, rng: &mut Rng) -> &[u8] {
        rng.choice(&self.seeds).map_or(&[], Vec::as_slice)
    }

    fn mutate(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        match rng.u8(0..10) {
            0 => flip_bits(input, rng),
            1 => set_byte(input, rng),
            2 | 3 => set_length(input, rng),
            4 => input.truncate(place(input, rng)),
            5 => splice(input, self.pick(rng), rng),
            6 => insert(input, self.pick(rng), rng),
            7 => remove(input, rng),
            8 => repeat(input, rng),
            _ => self.insert_word(input, rng),
        }
    }

    fn insert_word(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        match rng.choice(self.target.words) {
            Some(word) => {
                let at = place(input, rng);
                input.splice(at..at, word.bytes());
            }
            None => set_length(input, rng),
        }
    }
}

/// Returns a position before, between or after the bytes.
fn place(input: &[u8], rng: &mut Rng) -> usize {
    rng.usize(0..=input.len())
}

/// Returns a random range of the input. In half of the cases, its length is at most 16 bytes.
fn stretch(input: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let start = place(input, rng);
    let len_max = if rng.bool() { 16 } else { input.len() };
    let end = start + rng.usize(0..=len_max.min(input.len() - start));
    start..end
}

fn flip_bits(input: &mut [u8], rng: &mut Rng) {
    for _ in 0..=rng.u32(0..3) {
        if let Some(at) = index(input, rng) {
            input[at] ^= 1 << rng.u8(0..8);
        }
    }
}

fn set_byte(input: &mut [u8], rng: &mut Rng) {
    if let Some(at) = index(input, rng) {
        input[at] = if rng.bool() { rng.u8(..) } else { 0xff };
    }
}

fn index(input: &[u8], rng: &mut Rng) -> Option<usize> {
    (!input.is_empty()).then(|| rng.usize(0..input.len()))
}

/// Overwrites four bytes with one of [`LENGTHS`], or adds a number from -2 to 2 to the number that
/// they encode.
fn set_length(input: &mut [u8], rng: &mut Rng) {
    let Some(last) = input.len().checked_sub(4) else {
        return;
    };
    let at = rng.usize(0..=last);
    let at = if rng.bool() { at & !3 } else { at };
    let Some(field) = input[at..].first_chunk_mut() else {
        return;
    };
    let value = if rng.bool() {
        rng.choice(LENGTHS).unwrap_or_default()
    } else {
        i32::from_be_bytes(*field).wrapping_add(rng.i32(-2..=2))
    };
    *field = value.to_be_bytes();
}

/// Joins the beginning of one input and the end of another.
fn splice(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    input.truncate(place(input, rng));
    input.extend_from_slice(&other[place(other, rng)..]);
}

fn insert(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = place(input, rng);
    if rng.bool() {
        let piece = other[stretch(other, rng)].iter().copied();
        input.splice(at..at, piece);
    } else {
        let random: Vec<u8> = (0..rng.usize(1..16)).map(|_| rng.u8(..)).collect();
        input.splice(at..at, random);
    }
}

fn remove(input: &mut Vec<u8>, rng: &mut Rng) {
    let gone = stretch(input, rng);
    input.drain(gone);
}

/// Repeats a piece of the input, occasionally many times.
fn repeat(input: &mut Vec<u8>, rng: &mut Rng) {
    let piece = input[stretch(input, rng)].to_vec();
    let times = if rng.u8(0..8) == 0 { 100 } else { 1 };
    let room = INPUT_BYTES_MAX.saturating_sub(input.len()) / piece.len().max(1);
    let at = place(input, rng);
    input.splice(at..at, piece.repeat(room.min(times)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    fn corpus() -> Corpus {
        Corpus::new(Target {
            name: "test",
            run: |_| {},
            seeds: || vec![vec![7; 40], (0..200).collect(), vec![]],
            words: &["word"],
            repair: Some(|input| input.iter_mut().take(1).for_each(|byte| *byte = 0x55)),
            memory: Memory::DECODER,
        })
    }

    #[test]
    fn a_case_is_always_the_same_input_and_different_cases_differ() {
        let corpus = corpus();
        let inputs: Vec<Vec<u8>> = (0..2000).map(|case| corpus.input(case)).collect();
        assert!(
            (0..)
                .zip(&inputs)
                .all(|(case, input)| corpus.input(case) == *input)
        );
        assert_eq!(inputs[..3], *corpus.seeds());
        let distinct: std::collections::BTreeSet<_> = inputs.iter().collect();
        assert!(distinct.len() > 1000, "{}", distinct.len());
        assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }

    #[test]
    fn mutants_are_shorter_longer_repaired_and_hold_words() {
        let corpus = corpus();
        let inputs: Vec<Vec<u8>> = (3..2000).map(|case| corpus.input(case)).collect();
        let has = |wanted: &dyn Fn(&[u8]) -> bool| inputs.iter().any(|input| wanted(input));
        assert!(has(&|input| !input.is_empty() && input.len() < 20));
        assert!(has(&|input| input.len() > 1000));
        assert!(has(&|input| input
            .windows(4)
            .any(|window| window == b"word")));
        assert!(has(&|input| input.first() == Some(&0x55)));
        assert!(has(&|input| input
            .windows(4)
            .any(|window| window == [0x7f, 0xff, 0xff, 0xff])));
    }
}
