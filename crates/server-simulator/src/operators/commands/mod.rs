//! Dashboards, which call all commands of the admin server.

mod table;

use serde_json::Value;

use self::table::{Access, Command};

use super::console::is_private;
use super::operator::{FORM, Operator, PRIVATE};
use super::settings::Caller;
use super::wire::http::{Answer, Connection, Request};
use crate::settings::ADMIN_PORT;

const PERMISSION: &str = "only callers with the permission receive results of a command";
const STATUS: &str = "a command answers with a status that fits the request";

/// Error of commands at a member that does not serve.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Callers that never guess a password.
pub(super) const HONEST: [Caller; 3] =
    [Caller::Anonymous, Caller::SuperUser, Caller::Administrator];

/// Calls commands until the clients end.
pub(super) async fn run(mut operator: Operator, callers: &[Caller]) {
    let mut kept: Option<Connection> = None;
    while !operator.is_over() {
        operator.pause(2000).await;
        let random = &mut operator.random;
        let command = Command::draw(random);
        if command.is_reset() && !operator.world.settings.operators.are_reset {
            continue;
        }
        let caller = random.pick(callers).unwrap_or(Caller::Anonymous);
        let wrong_method = if command.method == "GET" {
            "POST"
        } else {
            "GET"
        };
        let is_wrong = random.percent(5);
        let method = if is_wrong {
            wrong_method
        } else {
            command.method
        };
        let mut request = Request::new(method, command.target(random));
        if let Some(authorization) = caller.authorization() {
            request = request.with("authorization", authorization);
        }
        let keeps = random.percent(40);
        let member = operator.member();
        let answer = match kept.take().filter(|kept| keeps && !kept.is_over) {
            Some(mut connection) => {
                let answer = operator.ask_again(&mut connection, &request).await;
                kept = answer.is_some().then_some(connection);
                answer
            }
            None => {
                kept = operator.connect(member, ADMIN_PORT).await.ok();
                operator.ask(member, &request).await
            }
        };
        if let Some(answer) = answer {
            let call = Call {
                command,
                caller,
                is_wrong,
            };
            call.judge(&operator, &request, &answer);
        }
    }
}

struct Call {
    command: Command,
    caller: Caller,
    /// Whether the method is wrong.
    is_wrong: bool,
}

impl Call {
    fn judge(&self, operator: &Operator, request: &Request, answer: &Answer) {
        let status = answer.head.status;
        let json = answer.json();
        let error = json.as_ref().and_then(|json| json.get("error"));
        let error = error.and_then(Value::as_str).unwrap_or_default();
        if status == 200 && error == NOT_SERVING {
            return;
        }
        if !self.caller.is_administrator() && is_private(answer) {
            operator.report(PRIVATE, request, answer);
        }
        let is_permitted = self.command.permits(self.caller);
        if !is_permitted && !self.is_refused(status, json.as_ref()) {
            operator.report(PERMISSION, request, answer);
        }
        let is_refusal = matches!(status, 401 | 403 | 429);
        // A guess too many is refused with 429.
        let may_be_refused = !is_permitted
            || (status == 429 && (self.caller == Caller::Stranger || self.has_rate()));
        if (is_refusal && !may_be_refused) || !self.fits(status) {
            operator.report(STATUS, request, answer);
        }
        if status == 200 && !self.is_binary() && json.is_none() {
            operator.report(FORM, request, answer);
        }
    }

    /// Returns whether an answer contains no results.
    fn is_refused(&self, status: u16, json: Option<&Value>) -> bool {
        let results = match self.command.access {
            Access::ResultsForAdministrators(results) => {
                json.and_then(|json| json.get(results)).is_some()
            }
            _ => status == 200,
        };
        !results
    }

    fn has_rate(&self) -> bool {
        self.command.name == "snapshot"
    }

    fn is_binary(&self) -> bool {
        matches!(self.command.name, "snapshot" | "backup/log")
    }

    fn fits(&self, status: u16) -> bool {
        match self.command.name {
            _ if self.is_wrong && status == 500 => true,
            // As in Java, the command fails at a member that does not serve.
            "monitor" | "mntr" => matches!(status, 200 | 500 | 429),
            // The disk may fail before the member ends.
            "snapshot" => matches!(status, 200 | 401 | 403 | 429 | 500),
            "backup/log" => matches!(status, 200 | 400 | 401 | 403 | 409 | 410 | 429 | 503),
            "search" | "figures" => matches!(status, 200 | 400 | 429),
            _ => matches!(status, 200 | 401 | 403 | 429),
        }
    }
}
