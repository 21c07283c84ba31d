//! The stable trace contains numbers only, so that moved code and reworded texts do not change it.

use std::collections::BTreeSet;
use std::process::Command;

fn stable_trace(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulator"))
        .args(["--trace", "stable"])
        .args(arguments)
        .output()
        .expect("run the simulator");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn assert_equal(one: &str, other: &str) {
    let mut pairs = one.lines().zip(other.lines());
    let difference = pairs.find(|(one, other)| one != other);
    assert_eq!(difference, None);
    assert_eq!(one.lines().count(), other.lines().count());
}

#[test]
fn contains_numbers_only_and_repeats_itself() {
    for kind in [&["--seed", "7"][..], &["--recipes", "--seed", "7"]] {
        let trace = stable_trace(kind);
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let kinds: BTreeSet<&str> = trace
            .lines()
            .map(|line| {
                assert!(line.split(' ').all(is_number), "{line}");
                line.split(' ').nth(1).expect("kind of the step")
            })
            .collect();
        assert!(kinds.len() >= 4, "{kinds:?}");
        assert_equal(&trace, &stable_trace(kind));
    }
}

#[test]
fn several_seeds_follow_each_other() {
    let both = stable_trace(&["--from", "7", "--seeds", "2"]);
    let first = stable_trace(&["--seed", "7"]);
    let second = stable_trace(&["--seed", "8"]);
    assert_equal(&both, &(first + &second));
}
