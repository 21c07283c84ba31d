//! A bank: accounts are znodes, and a transfer is one multi.

use client::{MultiOp, MultiRead, MultiReadResult, Result};
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, fresh, number};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-bank";
const ACCOUNTS: usize = 5;
/// Initial balance of each account.
const EACH: i64 = 100;
const TRANSFER_MAX: i64 = 10;

/// Accounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bank;

impl Definition for Bank {
    type Client = Client;

    fn name(&self) -> &'static str {
        "bank"
    }

    fn promise(&self) -> &'static str {
        "a multi is executed completely or not at all, and a multiRead never shows a part of it"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        let accounts = (0..ACCOUNTS).map(|account| (path(account), EACH.to_string()));
        accounts.collect()
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::bank::check(ACCOUNTS, EACH, events)
    }
}

fn path(account: usize) -> String {
    format!("{TOP}/{account}")
}

/// Returns the balance and version of each account, as one server has them at one moment. An
/// unreadable account is `None`.
async fn balances(session: &client::Client) -> Result<Vec<Option<(i64, i32)>>> {
    let paths: Vec<String> = (0..ACCOUNTS).map(path).collect();
    let reads: Vec<_> = paths.iter().map(|path| MultiRead::Data(path)).collect();
    let results = session.multi_read(&reads).await?.into_iter();
    let balance = |result| match result {
        MultiReadResult::Data(data, stat) => Some((number(data.as_deref())?, stat.version)),
        _ => None,
    };
    Ok(results.map(balance).collect())
}

pub(super) struct Client {
    caller: Caller,
}

impl Client {
    async fn read(&mut self, f: &str) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        self.caller.invoke(f, None, Value::Null);
        let first = self.caller.first();
        let call = async {
            fresh(&session, TOP, first).await?;
            balances(&session).await
        };
        self.caller
            .conclude(f, None, call, |balances| {
                let shown = balances.iter().enumerate();
                let shown = shown.filter_map(|(account, balance)| {
                    Some((account.to_string(), json!(balance.as_ref()?.0)))
                });
                Value::Object(shown.collect())
            })
            .await;
    }

    async fn transfer(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let Ok(balances) = balances(&session).await else {
            return;
        };
        let from = self.caller.rng.usize(..ACCOUNTS);
        let to = (from + self.caller.rng.usize(1..ACCOUNTS)) % ACCOUNTS;
        let amount = self.caller.rng.i64(1..=TRANSFER_MAX);
        let of = |account: usize| balances.get(account).copied().flatten();
        let (Some((has, version)), Some((other, other_version))) = (of(from), of(to)) else {
            return;
        };
        if has < amount {
            return;
        }
        let ops = [
            MultiOp::set_data(&path(from), (has - amount).to_string(), version),
            MultiOp::set_data(&path(to), (other + amount).to_string(), other_version),
        ];
        self.caller
            .invoke("transfer", None, json!([from, to, amount]));
        let call = session.multi(&ops);
        self.caller
            .conclude("transfer", None, call, |_| Value::Null)
            .await;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        match self.caller.rng.u8(..3) {
            0 => self.read("read").await,
            _ => self.transfer().await,
        }
    }

    async fn last(&mut self) {
        self.read(FINAL_READ).await;
    }
}
