//! Settings `budget.<name>.*`.

use zoarium_config::{Budget, BudgetClients};

use crate::support::{Machine, ZOO_CFG, warnings};

#[test]
fn budgets_are_read_by_their_names() {
    let lines = "budget.office.who=ip:10.0.0.0/8\nbudget.office.requestsPerSecond=100\n\
                 budget.alice.bytesPerSecond=4096\nbudget.alice.ephemerals=0\nbudget.alice.who=sasl:alice";
    let config = Machine::alone(lines).config();
    assert!(
        warnings(&config)
            .iter()
            .all(|text| !text.contains("budget"))
    );
    let [alice, office] = config.limits.budgets.as_slice() else {
        panic!("{:?}", config.limits.budgets);
    };
    let who = BudgetClients::User {
        scheme: "sasl".to_owned(),
        user: "alice".to_owned(),
    };
    let expected = Budget {
        bytes_per_second: Some(4096),
        ephemerals: Some(0),
        ..Budget::unlimited("alice", who)
    };
    assert_eq!(*alice, expected);
    let BudgetClients::Network(network) = office.who else {
        panic!("{office:?}");
    };
    assert!(network.contains([10, 1, 2, 3].into()) && !network.contains([11, 1, 2, 3].into()));
    assert_eq!(
        (office.requests_per_second, office.bytes_per_second),
        (Some(100), None)
    );
    assert!(Machine::alone("").config().limits.budgets.is_empty());
}

/// Checks a refusal: its line in the file, its key, its reason and its hint.
fn is_refused(lines: &str, line: u32, key: &str, (reason, hint): (&str, &str)) {
    let error = Machine::alone(lines).refusal();
    assert_eq!(
        error.exit_code,
        zoarium_config::exit_code::INVALID_INVOCATION
    );
    let text = error.to_string();
    let beginning = format!("{ZOO_CFG}:{line}: {key}: {reason}");
    assert!(text.starts_with(&beginning), "{text}");
    assert!(error.hint.is_some_and(|told| told.contains(hint)), "{text}");
}

#[test]
fn an_incomplete_budget_is_refused_with_its_line_and_a_hint() {
    let nobody = ("`alice` does not name any clients", "ip:10.0.0.0/8");
    is_refused("budget.a.who=alice", 3, "budget.a.who", nobody);
    let nothing = (
        "the budget a does not contain a limit",
        "budget.a.requestsPerSecond",
    );
    is_refused("budget.a.who=ip:*", 3, "budget.a.who", nothing);
    let lines = "budget.a.bytesPerSecond=5";
    let for_nobody = ("the budget a does not name any clients", "add budget.a.who");
    is_refused(lines, 3, "budget.a.bytesPerSecond", for_nobody);
}

#[test]
fn an_invalid_bound_is_refused_with_its_line_and_a_hint() {
    let with = |line: &str| format!("budget.a.who=ip:*\n{line}");
    let rate = "budget.a.requestsPerSecond";
    let lines = with("budget.a.requestsPerSecond=0");
    is_refused(&lines, 4, rate, ("0 is out of range", "remove the line"));
    let lines = with("budget.a.requestsPerSecond=many");
    let no_number = ("For input string: \"many\"", "a whole number");
    is_refused(&lines, 4, rate, no_number);
    let lines = with("budget.a.requestPerSecond=5");
    let unknown = (
        "this is not a setting of a budget",
        "budget.<name>.requestsPerSecond",
    );
    is_refused(&lines, 4, "budget.a.requestPerSecond", unknown);
}

#[test]
fn an_invalid_name_is_refused_with_its_line_and_a_hint() {
    let dotted = (
        "this is not a setting of a budget",
        "must not contain a dot",
    );
    is_refused("budget.a.b.who=ip:*", 3, "budget.a.b.who", dotted);
    let empty = ("this is not a setting of a budget", "budget.<name>.who");
    is_refused("budget.=5", 3, "budget.", empty);
    let foreign = ("`a+b` is not a valid name of a budget", "letters");
    is_refused("budget.a+b.who=ip:*", 3, "budget.a+b.who", foreign);
}
