//! Readers of change feeds. When a member ends, they continue at another member.

use std::sync::Arc;
use std::time::Duration;

use proto::position::Position;
use proto::{Sid, Zxid};
use serde_json::Value;
use tokio::time::timeout;

use super::changes::{Changes, Feed};
use crate::operators::operator::{ANSWERS, FORM, Operator};
use crate::operators::settings::Caller;
use crate::operators::wire::http::{Connection, Fault, Head, Request, Rest};
use crate::settings::ADMIN_PORT;

const ORDER: &str = "a feed delivers each committed change once, in order";
const ENDS: &str = "a feed ends with its last line while the member runs";

/// Time within which a feed must send a line. Its progress is due every 5 seconds, and each page
/// waits for a permit.
const LINE_WITHIN: Duration = Duration::from_secs(60);

struct Reader {
    operator: Operator,
    changes: Arc<Changes>,
    caller: Caller,
    part: Feed,
}

/// Follows the changes until the clients end.
pub(crate) async fn follow(mut operator: Operator, changes: Arc<Changes>) {
    let random = &mut operator.random;
    let caller = random.pick(&[Caller::Anonymous, Caller::SuperUser]);
    let caller = caller.unwrap_or(Caller::SuperUser);
    let path = random.pick(&["/", "/", "/z0", "/z1", "/owned0"]);
    let start = Position::after(Zxid(0));
    let part = Feed {
        path: path.unwrap_or("/"),
        sees_all: caller == Caller::SuperUser,
        from: start,
        to: start,
        delivered: Vec::new(),
    };
    let mut reader = Reader {
        operator,
        changes,
        caller,
        part,
    };
    while !reader.operator.is_over() {
        reader.operator.pause(3000).await;
        let member = reader.operator.member();
        reader.follow(member).await;
    }
    reader.changes.add_feed(reader.part);
}

impl Reader {
    /// Reads a feed at a member until one of both ends it.
    async fn follow(&mut self, member: Sid) {
        let after = self.part.to;
        let target = format!(
            "/commands/history/feed?path={}&after={after}",
            self.part.path
        );
        let mut request = Request::new("GET", target);
        if let Some(authorization) = self.caller.authorization() {
            request = request.with("authorization", authorization);
        }
        let life = self.operator.world.lives.of(member);
        let ended = self.read(member, &request).await;
        let lives = life.is_some() && life == self.operator.world.lives.of(member);
        match ended {
            Ok(()) => {}
            Err(Fault::Malformed(text)) => self.report(FORM, &text),
            Err(Fault::Ended(error)) if lives => {
                self.report(ENDS, &format!("{member}: {error}"));
            }
            Err(Fault::Ended(_)) => {}
        }
    }

    fn report(&self, invariant: &'static str, text: &str) {
        let path = self.part.path;
        self.operator
            .world
            .report(invariant, &format!("feed of {path}: {text}"));
    }

    async fn read(&mut self, member: Sid, request: &Request) -> Result<(), Fault> {
        let mut connection = self.operator.connect(member, ADMIN_PORT).await?;
        connection.send(request).await?;
        let Ok(head) = timeout(LINE_WITHIN, connection.head()).await else {
            self.report(ANSWERS, "no answer");
            return Ok(());
        };
        let head = head?;
        if head.is_json() {
            return self.refused(&mut connection, &head).await;
        }
        let mut rest = Rest::of(&head)?;
        let mut text = Vec::new();
        loop {
            if self.operator.is_over() || self.operator.random.percent(2) {
                return Ok(());
            }
            if self.operator.random.percent(1) {
                // A slow reader. The server may end the feed.
                self.operator.pause(20_000).await;
            }
            let Ok(piece) = timeout(LINE_WITHIN, connection.piece(&mut rest)).await else {
                self.report(ANSWERS, "no line");
                return Ok(());
            };
            let Some(piece) = piece? else {
                self.report(ENDS, "the last line is missing");
                return Ok(());
            };
            text.extend_from_slice(&piece);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                if !self.line(&line)? {
                    return Ok(());
                }
            }
        }
    }

    /// Reads the answer of a member that does not send a feed.
    async fn refused(&mut self, connection: &mut Connection, head: &Head) -> Result<(), Fault> {
        let mut rest = Rest::of(head)?;
        let mut body = Vec::new();
        while let Some(piece) = connection.piece(&mut rest).await? {
            body.extend_from_slice(&piece);
        }
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        match head.status {
            410 => self.resume_after(&answer["resume_after"]),
            200 | 503 => {}
            status => self.report(FORM, &format!("{status} {answer}")),
        }
        Ok(())
    }

    /// Begins another part after a gap.
    fn resume_after(&mut self, resume_after: &Value) {
        let position = Position::parse(resume_after.as_str().unwrap_or_default());
        let Ok(position) = position else {
            return self.report(FORM, &format!("`resume_after` is {resume_after}"));
        };
        if position < self.part.to {
            return self.report(ORDER, &format!("{position} after {}", self.part.to));
        }
        let next = Feed {
            from: position,
            to: position,
            delivered: Vec::new(),
            ..self.part.clone()
        };
        self.changes
            .add_feed(std::mem::replace(&mut self.part, next));
    }

    /// Checks a line. Returns whether the feed continues.
    fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let shown = String::from_utf8_lossy(line);
        let malformed = || Fault::Malformed(format!("line {shown}"));
        let value: Value = serde_json::from_slice(line).map_err(|_| malformed())?;
        if let Some(end) = value.get("end") {
            match end["reason"].as_str() {
                Some("hole" | "not_kept") => self.resume_after(&end["resume_after"]),
                Some("slow" | "closed") => {}
                _ => return Err(malformed()),
            }
            return Ok(false);
        }
        if let Some(progress) = value.get("progress") {
            let position = Position::parse(progress.as_str().unwrap_or_default());
            let position = position.map_err(|_| malformed())?;
            if position < self.part.to {
                self.report(ORDER, &format!("{position} after {}", self.part.to));
            }
            self.part.to = position;
            return Ok(true);
        }
        match self.changes.add(&value) {
            Ok(position) if position <= self.part.to => {
                self.report(ORDER, &format!("{position} after {}", self.part.to));
            }
            Ok(position) => {
                self.part.to = position;
                self.part.delivered.push(position);
            }
            Err(error) => self.report(super::changes::SAME, &error),
        }
        Ok(true)
    }
}
