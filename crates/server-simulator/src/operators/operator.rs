//! An operator: source address, requests, and the checks that apply to all answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::Sid;
use serde_json::Value;
use testkit::Random;
use tokio::time::{sleep, timeout};

use super::wire::http::{Answer, Connection, Fault, Request};
use crate::settings::{ADMIN_PORT, address_of};
use crate::world::World;

pub(super) const ANSWERS: &str = "an operator receives an answer in time while the member runs";
pub(super) const FORM: &str = "answers to operators are well-formed";

pub(super) const PRIVATE: &str = "only their owner sees the data of private znodes";

/// Time after which an answer is late. It is longer than all limits of the server together.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Operator {
    pub(super) world: Arc<World>,
    pub(super) random: Random,
    address: IpAddr,
}

impl Operator {
    pub(super) fn new(world: Arc<World>, random: Random, number: u8) -> Self {
        Self {
            world,
            random,
            address: Ipv4Addr::new(127, 0, 1, number).into(),
        }
    }

    /// Returns whether the operator ends.
    pub(super) fn is_over(&self) -> bool {
        self.world.is_over()
    }

    /// Waits for up to this time.
    pub(super) async fn pause(&mut self, ms: i64) {
        let ms = self.random.range(0, ms).unsigned_abs();
        sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn member(&mut self) -> Sid {
        let members: Vec<Sid> = self.world.listed_members();
        self.random.pick(&members).unwrap_or(Sid(1))
    }

    pub(super) async fn connect(&self, member: Sid, port: u16) -> io::Result<Connection> {
        let server = SocketAddr::new(address_of(member), port);
        Connection::open(self.address, server).await
    }

    /// Sends a request to the admin port over a new connection. Returns the answer unless the
    /// member ends meanwhile.
    pub(super) async fn ask(&self, member: Sid, request: &Request) -> Option<Answer> {
        self.ask_port(member, ADMIN_PORT, request).await
    }

    /// Sends a request to a port over a new connection.
    pub(super) async fn ask_port(
        &self,
        member: Sid,
        port: u16,
        request: &Request,
    ) -> Option<Answer> {
        let asking = async {
            let mut connection = self.connect(member, port).await?;
            connection.ask(request).await
        };
        self.within_life(member, &request.text(), asking).await
    }

    /// Sends a request over an existing connection. The server may have closed it before.
    pub(super) async fn ask_again(
        &self,
        connection: &mut Connection,
        request: &Request,
    ) -> Option<Answer> {
        match timeout(PATIENCE, connection.ask(request)).await {
            Ok(Ok(answer)) => {
                self.world.operator_answers.fetch_add(1, Ordering::Relaxed);
                self.check_form(&request.text(), &answer);
                Some(answer)
            }
            Ok(Err(Fault::Ended(_))) => None,
            Ok(Err(Fault::Malformed(text))) => {
                let text = format!("{}: {text}", request.text());
                self.world.report(FORM, &text);
                None
            }
            Err(_) => {
                self.world.report(ANSWERS, &request.text());
                None
            }
        }
    }

    /// Waits for an answer. If it is late, or the connection ends although the member runs,
    /// reports a violation.
    pub(super) async fn within_life(
        &self,
        member: Sid,
        what: &str,
        asking: impl Future<Output = Result<Answer, Fault>>,
    ) -> Option<Answer> {
        let life = self.world.lives.of(member);
        let answer = timeout(PATIENCE, asking).await;
        let lives = life.is_some() && life == self.world.lives.of(member);
        match answer {
            Ok(Ok(answer)) => {
                self.world.operator_answers.fetch_add(1, Ordering::Relaxed);
                self.check_form(what, &answer);
                return Some(answer);
            }
            Ok(Err(Fault::Malformed(text))) => {
                self.world.report(FORM, &format!("{what}: {text}"));
            }
            Ok(Err(Fault::Ended(error))) if lives => {
                let text = format!("{what} at member {member}: {error}");
                self.world.report(ANSWERS, &text);
            }
            Ok(Err(Fault::Ended(_))) => {}
            Err(_) => {
                let text = format!("{what} at member {member}: no answer");
                self.world.report(ANSWERS, &text);
            }
        }
        None
    }

    fn check_form(&self, what: &str, answer: &Answer) {
        if answer.head.is_json() && answer.json().is_none() {
            let text = format!("{what}: {}", answer.text());
            self.world.report(FORM, &text);
        }
    }

    /// Reports a violation that an answer shows.
    pub(super) fn report(&self, invariant: &'static str, request: &Request, answer: &Answer) {
        let (text, status) = (answer.text(), answer.head.status);
        let from = request.header("authorization").unwrap_or("nobody");
        let text = format!("{} from {from}: {status} {text}", request.text());
        self.world.report(invariant, &text);
    }
}

impl Answer {
    /// Returns the JSON object in the body.
    pub(super) fn json(&self) -> Option<Value> {
        let value = serde_json::from_slice::<Value>(&self.body).ok();
        value.filter(Value::is_object)
    }

    /// Returns the beginning of the body.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.chars().take(600).collect()
    }
}
