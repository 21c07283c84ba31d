//! The times at which faults begin and end, chosen from a seed before the run.

use std::time::Duration;

use fastrand::Rng;

use crate::nemesis::Kind;

/// Time from the begin of the load to the first fault.
const FIRST_MS: u64 = 1000;
/// Time from one begin to the next.
const CALM_MS: std::ops::Range<u64> = 200..4000;

/// One begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Time since the begin of the load.
    pub at: Duration,
    /// Index of the kind, from 0.
    pub kind: usize,
    /// The fault's number, from 0, which is equal for its begin and its end.
    pub fault: u64,
    /// Whether it begins.
    pub is_begin: bool,
}

/// Returns the steps of a run of this length, in their order. Faults of different kinds may
/// overlap, but those of one kind do not. All end before the end of the run.
pub fn plan(kinds: &[&Kind], length: Duration, seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mut free_at = vec![0; kinds.len()];
    let (mut steps, mut now_ms, mut fault) = (Vec::new(), FIRST_MS, 0);
    while now_ms < length_ms {
        let free = (0..kinds.len()).filter(|&kind| free_at[kind] <= now_ms);
        if let Some(kind) = rng.choice(free.collect::<Vec<_>>()) {
            let end_ms = (now_ms + rng.u64(kinds[kind].lasts_ms.clone())).min(length_ms);
            free_at[kind] = end_ms + 1 + kinds[kind].rests_ms;
            for (at_ms, is_begin) in [(now_ms, true), (end_ms, false)] {
                steps.push(Step {
                    at: Duration::from_millis(at_ms),
                    kind,
                    fault,
                    is_begin,
                });
            }
            fault += 1;
        }
        now_ms += rng.u64(CALM_MS);
    }
    // The stable sort keeps a begin before its end.
    steps.sort_by_key(|step| step.at);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::{ALL, by_name};

    fn steps(seed: u64) -> Vec<Step> {
        let kinds: Vec<&Kind> = ALL.iter().collect();
        plan(&kinds, Duration::from_secs(300), seed)
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn each_fault_ends_once_within_the_run_and_before_its_kind_begins_again() {
        let steps = steps(9);
        let mut open = vec![None; ALL.len()];
        for step in &steps {
            assert!(step.at <= Duration::from_secs(300));
            let expected = (!step.is_begin).then_some(step.fault);
            assert_eq!(open[step.kind], expected, "{step:?}");
            open[step.kind] = step.is_begin.then_some(step.fault);
        }
        assert!(open.iter().all(Option::is_none));
        assert!(
            ALL.iter()
                .enumerate()
                .all(|(kind, _)| steps.iter().any(|s| s.kind == kind))
        );
    }

    #[test]
    fn a_kind_that_rests_does_so_after_each_fault() {
        let deposed = by_name("deposed").expect("there is one");
        let steps = plan(&[deposed], Duration::from_secs(300), 9);
        let rests = steps.windows(2).filter(|pair| pair[1].is_begin);
        let shortest = rests.map(|pair| pair[1].at - pair[0].at).min();
        assert!(shortest > Some(Duration::from_millis(deposed.rests_ms)));
    }

    #[test]
    fn without_faults_there_are_no_steps() {
        assert_eq!(plan(&[], Duration::from_secs(60), 1), []);
    }
}
