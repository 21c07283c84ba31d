//! First ephemerals of local sessions: with its first ephemeral, a local session becomes global. A
//! session that is alive must survive this.

use client::Create;
use serde_json::{Value, json};

use super::LOCAL;
use crate::history::Event;
use crate::verdict::Verdict;
use crate::workload::Context;
use crate::workload::caller::Caller;
use crate::workload::steps::{Definition, Steps, scratch, session_name};

const TOP: &str = "/jepsen-first";

/// Sessions with one ephemeral each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First;

impl Definition for First {
    type Client = Client;

    fn name(&self) -> &'static str {
        "first-ephemeral"
    }

    fn promise(&self) -> &'static str {
        "a live local session becomes global with its first ephemeral, if there are no faults"
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        LOCAL.settings
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::ephemeral::first::check(events)
    }
}

pub(crate) struct Client {
    caller: Caller,
    sessions: u64,
}

impl Client {
    /// Opens a session, and shows that it is alive.
    async fn touch(&mut self) -> Option<client::Client> {
        let session = self.caller.session().await?;
        let path = scratch(TOP, self.caller.first());
        self.caller.invoke("touch", None, Value::Null);
        let call = session.set_data(&path, "", -1);
        let value = json!({"session": session_name(&session)});
        let outcome = self.caller.conclude("touch", None, call, |_| value).await;
        matches!(outcome, crate::workload::caller::Outcome::Done(_)).then_some(session)
    }

    async fn take(&mut self, session: &client::Client, path: &str) {
        self.caller.invoke("take", None, Value::Null);
        let ephemeral = Create::ephemeral();
        let call = session.create(path, "", &ephemeral);
        let value = json!({"session": session_name(session)});
        self.caller.conclude("take", None, call, |_| value).await;
    }

    async fn look(&mut self, session: &client::Client, path: &str) {
        self.caller.invoke("look", None, Value::Null);
        let call = session.exists(path);
        let session = session_name(session);
        self.caller
            .conclude(
                "look",
                None,
                call,
                |stat| json!({"session": session, "exists": stat.is_some()}),
            )
            .await;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
            sessions: 0,
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        self.caller.close().await;
        let Some(session) = self.touch().await else {
            return;
        };
        self.sessions += 1;
        let path = format!("{TOP}/e{}-{}", self.caller.first(), self.sessions);
        self.take(&session, &path).await;
        self.look(&session, &path).await;
    }

    async fn last(&mut self) {
        self.step().await;
    }
}
