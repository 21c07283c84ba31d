//! The checker of a bank: transfers move money, and do not create or lose any.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `transfer` | `[from, to, amount]` | null |
//! | `read`, `final-read` | null | balances by account |
//!
//! Every read must show the same total, and no negative balance. The final balances must match the
//! acknowledged transfers, with or without each unknown one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::counter::Bounds;
use super::ops::{Op, Outcome, calls};
use super::set::FINAL_READ;
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history of `accounts` accounts, numbered from 0, with an initial balance of `each`.
pub fn check(accounts: usize, each: i64, events: &[Event]) -> Verdict {
    judge(accounts, each, events).unwrap_or_else(Verdict::from)
}

fn judge(accounts: usize, each: i64, events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut bounds: Vec<Bounds> = (0..accounts).map(|_| Bounds::new(each)).collect();
    let mut reads = Vec::new();
    for op in calls(events)? {
        match op.f() {
            "transfer" => {
                let (from, to, amount) = transfer(&op, accounts)?;
                bounds[from].add(&op, -amount);
                bounds[to].add(&op, amount);
                let figure = match op.outcome() {
                    Outcome::Ok => "acknowledged",
                    Outcome::Fail => "refused",
                    Outcome::Unknown => "unknown",
                };
                gathered.count(figure, 1);
            }
            "read" | FINAL_READ if op.outcome() == Outcome::Ok => {
                reads.push((op, balances(&op)?));
            }
            "read" | FINAL_READ => {}
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
    }
    bounds.iter_mut().for_each(Bounds::seal);
    gathered.count("reads", reads.len() as u64);
    let total = each.saturating_mul(i64::try_from(accounts).unwrap_or(i64::MAX));
    for (op, balances) in &reads {
        totals(op, balances, (accounts, total), &mut gathered);
        for (account, bounds) in bounds.iter().enumerate() {
            let (least, most) = bounds.of(op);
            let Some(&has) = balances.get(&account) else {
                continue;
            };
            if has < least || has > most {
                let what = format!(
                    "account {account} has {has}, but all transfers permit only {least} to {most}"
                );
                gathered.count("wrong_balances", 1);
                gathered.find(what, op.events());
            }
        }
    }
    if !reads.iter().any(|(op, _)| op.f() == FINAL_READ) {
        gathered.doubt("the history does not contain a final read", []);
    }
    Ok(gathered.verdict())
}

fn transfer(op: &Op<'_>, accounts: usize) -> Result<(usize, usize, i64), Broken> {
    let part = |at: usize| op.call.value.get(at);
    let account = |at: usize| {
        let number = part(at).and_then(Value::as_u64);
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.filter(|number| *number < accounts)
    };
    match (account(0), account(1), part(2).and_then(Value::as_i64)) {
        (Some(from), Some(to), Some(amount)) if amount > 0 => Ok((from, to, amount)),
        _ => Err(op.broken(format!("{} is not a transfer", op.call.value))),
    }
}

fn balances(op: &Op<'_>) -> Result<BTreeMap<usize, i64>, Broken> {
    let shown = op.answer().and_then(Value::as_object);
    let shown = shown.ok_or_else(|| op.broken("the reply of a read does not contain balances"))?;
    let balances = shown.iter().map(|(account, balance)| {
        let pair = account.parse().ok().zip(balance.as_i64());
        pair.ok_or_else(|| {
            op.broken(format!(
                "account {account} or its balance {balance} is not a whole number"
            ))
        })
    });
    balances.collect()
}

fn totals(
    op: &Op<'_>,
    balances: &BTreeMap<usize, i64>,
    (accounts, total): (usize, i64),
    gathered: &mut Gathered,
) {
    let found: i64 = balances.values().sum();
    if found != total {
        gathered.count("wrong_totals", 1);
        let what =
            format!("the total is {found} instead of {total}; the balances are {balances:?}");
        gathered.find(what, op.events());
    }
    if balances.len() != accounts {
        let what = format!(
            "the number of accounts in a read is {} instead of {accounts}",
            balances.len()
        );
        gathered.find(what, op.events());
    }
    for (account, balance) in balances.iter().filter(|(_, balance)| **balance < 0) {
        gathered.find(
            format!("account {account} has the negative balance {balance}"),
            op.events(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use serde_json::json;

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "transfer", "", json!([0, 1, 4]), Value::Null);
        history.invoke(2, "transfer", "", json!([1, 2, 3]));
        history.call(
            3,
            "read",
            "",
            Value::Null,
            json!({"0": 6, "1": 11, "2": 13}),
        );
        history.end(Kind::Info, 2, Value::Null);
        history.call(
            3,
            FINAL_READ,
            "",
            Value::Null,
            json!({"0": 6, "1": 11, "2": 13}),
        );
        history
    }

    fn judged(history: &History) -> Verdict {
        check(3, 10, &history.events)
    }

    #[test]
    fn transfers_keep_the_total() {
        assert_valid(&judged(&good()));
    }

    #[test]
    fn half_a_transfer_is_found() {
        let mut history = good();
        history.events[4].value = json!({"0": 6, "1": 11, "2": 10});
        assert_found(&judged(&history), "the total is 27 instead of 30");
    }

    #[test]
    fn a_lost_transfer_is_found() {
        let mut history = good();
        history.events[7].value = json!({"0": 10, "1": 10, "2": 10});
        assert_found(
            &judged(&history),
            "account 0 has 10, but all transfers permit only 6 to 6",
        );
    }

    #[test]
    fn a_transfer_done_twice_is_found() {
        let mut history = good();
        history.events[7].value = json!({"0": 2, "1": 18, "2": 10});
        assert_found(&judged(&history), "account 0 has 2");
    }

    #[test]
    fn a_missing_or_overdrawn_account_is_found() {
        let mut history = good();
        history.events[7].value = json!({"0": 6, "1": 24});
        assert_found(&judged(&history), "the number of accounts in a read is 2");
        history.events[7].value = json!({"0": 6, "1": 27, "2": -3});
        assert_found(&judged(&history), "account 2 has the negative balance -3");
    }
}
