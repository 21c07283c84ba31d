//! Invariant: some znodes are linearizable. The replies to all writes of such a znode, and to all
//! its reads after a `sync`, must agree with one order of execution that respects real time.
//!
//! The check uses only the requests and replies of clients and their times
//! ([`testkit::linearizability`]). A write has an unknown outcome if its reply is missing or does
//! not show whether the write was executed.

use std::collections::BTreeMap;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::multi::MultiHeader;
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::response::{GetDataResponse, StatResponse};
use proto::{ErrorCode, OpCode, SessionId};
use simulation::queue::Micros;
use testkit::linearizability::znode::{Answer, Question, Value, Znode};
use testkit::linearizability::{Call, Verdict, check};

use crate::invariants::{CheckResult, RequestId};

/// Checked znodes: children of the root that have no children and are not ephemeral.
pub(crate) const REGISTERS: [&str; 2] = ["/r0", "/r1"];

/// Maximum number of steps of a search.
const STEPS_MAX: usize = 100_000;

/// Calls on each checked znode.
#[derive(Debug, Default)]
pub(crate) struct Linearizable {
    /// `None` marks a call that is not checked, because it did nothing or its result is not
    /// current.
    calls: BTreeMap<&'static str, Vec<Option<Call<Question, Answer>>>>,
    /// Pending requests, with their calls.
    open: BTreeMap<RequestId, PendingCalls>,
    /// Last sync of each session, and the time at which it was sent.
    synced: BTreeMap<SessionId, (i32, Micros)>,
    /// Number that represents each value in the calls.
    values: BTreeMap<Bytes, Value>,
    /// Number of searches that reached the maximum number of steps.
    pub(crate) undecided: usize,
}

/// A pending request.
#[derive(Debug, Default)]
struct PendingCalls {
    is_multi: bool,
    calls: Vec<(&'static str, usize)>,
}

impl Linearizable {
    pub(crate) const NAME: &str = "linearizability";

    /// Records a request of a client.
    pub(crate) fn asks(&mut self, by: RequestId, request: &Request, at: Micros) {
        match request {
            Request::Sync(_) => drop(self.synced.insert(by.session, (by.cxid, at))),
            Request::Read(ReadRequest::GetData(read)) => {
                // After its sync, a read is as recent as if it had been sent together with the
                // sync.
                let synced = self.synced.get(&by.session);
                let synced = synced.filter(|(cxid, _)| *cxid == by.before().cxid);
                if let (Some(path), Some((_, since))) = (register(read.path.as_deref()), synced) {
                    let since = *since;
                    self.begin(by, path, Question::Read, since);
                }
            }
            Request::Write(WriteRequest::Multi(Ok(writes))) => {
                for write in writes {
                    self.begin_write(by, write, at);
                }
                if let Some(open) = self.open.get_mut(&by) {
                    open.is_multi = true;
                }
            }
            Request::Write(write) => self.begin_write(by, write, at),
            Request::Read(_) => {}
        }
    }

    fn begin_write(&mut self, by: RequestId, write: &WriteRequest, at: Micros) {
        let expected = |version: i32| (version != -1).then_some(version);
        let (path, question) = match write {
            WriteRequest::Create { request, .. } => {
                let value = self.value_of(request.data.as_ref());
                (&request.path, Question::Create(value))
            }
            WriteRequest::SetData(set) => {
                let value = self.value_of(set.data.as_ref());
                let version = expected(set.version);
                (&set.path, Question::Set { value, version })
            }
            WriteRequest::Delete(delete) => {
                let version = expected(delete.version);
                (&delete.path, Question::Delete { version })
            }
            WriteRequest::Check(check) => {
                let version = expected(check.version);
                (&check.path, Question::Check { version })
            }
            _ => return,
        };
        if let Some(path) = register(path.as_deref()) {
            self.begin(by, path, question, at);
        }
    }

    fn begin(&mut self, by: RequestId, path: &'static str, question: Question, at: Micros) {
        let calls = self.calls.entry(path).or_default();
        let open = self.open.entry(by).or_default();
        open.calls.push((path, calls.len()));
        calls.push(Some(Call {
            question,
            asked_at: at,
            answer: None,
        }));
    }

    fn value_of(&mut self, data: Option<&Bytes>) -> Value {
        let next = self.values.len() as Value;
        *self
            .values
            .entry(data.cloned().unwrap_or_default())
            .or_insert(next)
    }

    /// Records the reply to a request. For a read, `is_current` states whether the newest leader
    /// answered the sync that directly preceded it.
    pub(crate) fn answered(
        &mut self,
        by: RequestId,
        result: &Result<Bytes, ErrorCode>,
        is_current: bool,
        at: Micros,
    ) {
        let Some(open) = self.open.remove(&by) else {
            return;
        };
        for (path, number) in open.calls {
            let Some(call) = self
                .calls
                .get_mut(path)
                .and_then(|calls| calls.get_mut(number))
            else {
                continue;
            };
            let Some(asked) = call else { continue };
            let heard = if open.is_multi {
                heard_of_multi(result)
            } else {
                heard(&asked.question, result, &mut self.values)
            };
            let is_stale = asked.question == Question::Read && !is_current;
            match heard.filter(|_| !is_stale) {
                Some(answer) => asked.answer = Some((answer, at)),
                // The call did nothing, or its result is not current.
                None => *call = None,
            }
        }
    }

    /// Searches for a valid order of the calls. No more replies will arrive.
    pub(crate) fn judge(&mut self) -> CheckResult {
        for (path, calls) in &self.calls {
            let says_something = |call: &&Call<Question, Answer>| {
                let is_question = matches!(call.question, Question::Read | Question::Check { .. });
                call.answer.is_some() || !is_question
            };
            let calls = calls.iter().flatten().filter(says_something);
            let calls: Vec<Call<Question, Answer>> = calls.cloned().collect();
            match check(&Znode, &calls, STEPS_MAX) {
                Verdict::Linearizable(_) => {}
                Verdict::Undecided => self.undecided += 1,
                Verdict::NotLinearizable { longest, stuck_at } => {
                    let last = longest.last().map(|call| &calls[*call]);
                    return Err(format!(
                        "{path}: {} calls, of which {} can be ordered up to {last:?}, but not {:?}",
                        calls.len(),
                        longest.len(),
                        calls[stuck_at]
                    ));
                }
            }
        }
        Ok(())
    }
}

fn register(path: Option<&str>) -> Option<&'static str> {
    REGISTERS
        .into_iter()
        .find(|register| Some(*register) == path)
}

/// Returns the answer that a reply contains for a call, or `None` if the call did nothing.
fn heard(
    question: &Question,
    result: &Result<Bytes, ErrorCode>,
    values: &mut BTreeMap<Bytes, Value>,
) -> Option<Answer> {
    let body = match result {
        Ok(body) => Reader::new(body.clone()),
        Err(ErrorCode::NoNode) => return Some(Answer::Missing),
        Err(ErrorCode::NodeExists) => return Some(Answer::Exists),
        Err(ErrorCode::BadVersion) => return Some(Answer::BadVersion),
        Err(_) => return None,
    };
    let mut body = body;
    match question {
        Question::Read => {
            let told = GetDataResponse::decode(&mut body).ok()?;
            let next = values.len() as Value;
            let value = *values.entry(told.data.unwrap_or_default()).or_insert(next);
            let version = told.stat.version;
            Some(Answer::Found { value, version })
        }
        Question::Set { .. } => {
            let told = StatResponse::decode(&mut body).ok()?;
            Some(Answer::Version(told.stat.version))
        }
        _ => Some(Answer::Done),
    }
}

/// Returns the answer for a multi, which executes all its operations or none.
fn heard_of_multi(result: &Result<Bytes, ErrorCode>) -> Option<Answer> {
    let body = result.as_ref().ok()?;
    let first = MultiHeader::decode(&mut Reader::new(body.clone())).ok()?;
    // In the reply to a failed multi, the operations before the failed one also have the type
    // `Error`, with code 0.
    (first.op != OpCode::Error.number()).then_some(Answer::Done)
}
