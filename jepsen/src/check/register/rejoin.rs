//! The checker of returns: a member that was restarted while no other fault was in progress must
//! have served clients again.
//!
//! The end of the fault `restart` has the field `serves`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::check::FINDINGS_MAX;
use crate::history::{Event, Kind, Process};
use crate::verdict::{Finding, Validity, Verdict};

/// Name of the fault.
pub const FAULT: &str = "restart";

/// Adds the members that did not return to the verdict.
pub fn judge(events: &[Event], verdict: &mut Verdict) {
    let mut open: BTreeSet<(&str, String)> = BTreeSet::new();
    // Another fault was in progress since the restart began.
    let mut is_disturbed = false;
    let (mut returns, mut findings) = (0, Vec::new());
    let faults = events
        .iter()
        .filter(|event| event.kind == Kind::Info && matches!(event.process, Process::Other(_)));
    for event in faults {
        let id = (event.f.as_str(), event.value["fault"].to_string());
        match event.value["event"].as_str() {
            Some("begin") if event.f == FAULT => is_disturbed = !open.is_empty(),
            Some("begin") => {
                is_disturbed = true;
                open.insert(id);
            }
            Some("end") if event.f == FAULT && !is_disturbed => {
                returns += 1;
                if event.value["serves"] == Value::Bool(false) {
                    let members = &event.value["members"];
                    findings.push(Finding {
                        what: format!("member {members} does not serve clients after its restart"),
                        events: vec![event.index],
                    });
                }
            }
            Some("end") => {
                open.remove(&id);
            }
            _ => {}
        }
    }
    verdict.figures.insert("returns".to_owned(), returns);
    if !findings.is_empty() {
        verdict.validity = Validity::Invalid;
    }
    findings.truncate(FINDINGS_MAX);
    verdict.findings.extend(findings);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::Name;

    fn judged(faults: &[(&str, &str, Value)]) -> Verdict {
        let events = faults
            .iter()
            .zip(0..)
            .map(|((f, event, serves), index)| Event {
                index,
                time_ns: index,
                process: Process::Other(Name::Nemesis),
                kind: Kind::Info,
                f: (*f).to_owned(),
                key: None,
                value: json!({"fault": f, "event": event, "members": [2], "serves": serves}),
                error: None,
            });
        let mut verdict = Verdict::of(Vec::new(), std::collections::BTreeMap::new());
        judge(&events.collect::<Vec<_>>(), &mut verdict);
        verdict
    }

    #[test]
    fn a_member_that_does_not_return_is_found_unless_there_was_another_fault() {
        let restart = |serves| [(FAULT, "begin", Value::Null), (FAULT, "end", serves)];
        assert_eq!(judged(&restart(json!(true))).validity, Validity::Valid);
        let away = judged(&restart(json!(false)));
        crate::check::testing::assert_found(&away, "member [2] does not serve");
        let [begin, end] = restart(json!(false));
        let pause = |event| ("pause", event, Value::Null);
        for disturbed in [
            [pause("begin"), begin.clone(), end.clone(), pause("end")],
            [begin.clone(), pause("begin"), pause("end"), end.clone()],
        ] {
            assert_eq!(judged(&disturbed).validity, Validity::Valid);
        }
        let after = [pause("begin"), pause("end"), begin, end];
        assert_eq!(judged(&after).validity, Validity::Invalid);
    }
}
