//! Visitors of the web console. They read and edit znodes.

use proto::Sid;
use serde_json::{Value, json};

use super::operator::{FORM, Operator};
use super::wire::base64;
use super::wire::http::{Answer, Request};

const STATUS: &str = "the console answers with a status that fits the request";
const READ_ONLY: &str = "visitors without a login change nothing";
const EDITS: &str = "an edit replaces exactly the version that it names";

/// Login that owns the znodes of visitors.
const OWNER: (&str, &str) = ("owner", "password");

/// Visitor with an open page.
struct Visitor {
    operator: Operator,
    member: Sid,
    token: String,
    has_login: bool,
    /// Znode that only this visitor edits.
    own: String,
    /// Version and data of this znode after an acknowledged edit.
    state: Option<(i64, String)>,
    edits: usize,
}

/// Visits consoles until the clients end.
pub(super) async fn run(operator: Operator, number: u8) {
    let mut visitor = Visitor {
        operator,
        member: Sid(1),
        token: String::new(),
        has_login: false,
        own: format!("{}{number}", super::settings::OWNED),
        state: None,
        edits: 0,
    };
    while !visitor.operator.is_over() {
        visitor.operator.pause(4000).await;
        visitor.member = visitor.operator.member();
        if visitor.begin().await {
            visitor.stay().await;
        }
    }
}

impl Visitor {
    /// Opens the page. Returns whether the visitor has a token.
    async fn begin(&mut self) -> bool {
        self.has_login = false;
        self.token.clear();
        let Some(answer) = self.ask(Request::new("POST", "/console/visit")).await else {
            return false;
        };
        let json = answer.json().unwrap_or_default();
        let token = json["token"].as_str().unwrap_or_default();
        token.clone_into(&mut self.token);
        !self.token.is_empty()
    }

    /// Uses the page for a while.
    async fn stay(&mut self) {
        for _ in 0..self.operator.random.below(25) {
            if self.operator.is_over() {
                return;
            }
            let ms = self.operator.random.pick(&[100, 1000, 3000, 30_000]);
            self.operator.pause(ms.unwrap_or(100)).await;
            match self.operator.random.below(10) {
                0 => self.log_in().await,
                1 => {
                    self.ask(Request::new("POST", "/console/logout")).await;
                    self.has_login = false;
                }
                2..5 => self.edit().await,
                _ => self.read().await,
            }
        }
    }

    /// Sends a request of the page, and checks its status.
    async fn ask(&self, request: Request) -> Option<Answer> {
        let request = request.with("x-zoarium-visit", self.token.clone());
        let answer = self.operator.ask(self.member, &request).await?;
        let statuses: &[u16] = match request.method {
            "GET" => &[200, 304, 400, 403, 404, 410, 503],
            _ => &[200, 400, 403, 404, 409, 503],
        };
        // Another member may not answer.
        let is_relayed = request.target.contains("member=") && answer.head.status == 502;
        if !statuses.contains(&answer.head.status) && !is_relayed {
            self.operator.report(STATUS, &request, &answer);
        }
        Some(answer)
    }

    async fn log_in(&mut self) {
        let is_right = self.operator.random.percent(80);
        let (user, password) = if is_right { OWNER } else { ("", "x") };
        let mut request = Request::new("POST", "/console/login");
        request.body = json!({ "user": user, "password": password })
            .to_string()
            .into_bytes();
        if let Some(answer) = self.ask(request).await {
            self.has_login |= answer.head.status == 200;
        }
    }

    async fn read(&mut self) {
        let znode = self
            .operator
            .random
            .pick(&["/", "/z0", "/z1", "/owned0", "/missing"]);
        let znode = znode.unwrap_or("/");
        let member = self.operator.member();
        let target = match self.operator.random.below(22) {
            0 => "/".to_owned(),
            1 => "/console/ensemble".to_owned(),
            2 => "/console/sessions?like=127&skip=0".to_owned(),
            3 => "/console/sessions?skip=x".to_owned(),
            4 => "/console/figures?range=hour".to_owned(),
            5 => format!("/console/figures?range=day&member={member}"),
            6 => "/console/search?text=z".to_owned(),
            7 => "/console/clients?by=identity".to_owned(),
            8 => "/console/slow_requests".to_owned(),
            9 => "/console/log".to_owned(),
            10 => format!("/console/stat?path={znode}"),
            11 => format!("/console/data?path={znode}&offset=0"),
            12 => format!("/console/children?path={znode}&skip=0&like=z"),
            13 => format!("/console/children?path={znode}&after=z0"),
            14 => format!("/console/history/changes?path={znode}&recursive=true&limit=5"),
            15 => format!("/console/history/tree?path={znode}&at=0x100000005"),
            16 => "/console/history/diff?path=/&from=0x100000001&to=0x100000009".to_owned(),
            17 => format!("/console/history/origins?zxid=0x100000003&member={member}"),
            18 => "/console/missing".to_owned(),
            _ => format!("/console/node?path={znode}"),
        };
        let request = Request::new("GET", target);
        let Some(answer) = self.ask(request.clone()).await else {
            return;
        };
        let is_file = request.target == "/" || request.target.contains("/data?");
        if answer.head.status == 200 && !is_file && answer.json().is_none() {
            self.operator.report(FORM, &request, &answer);
        }
        if !self.has_login && is_private(&answer) {
            self.operator
                .report(super::operator::PRIVATE, &request, &answer);
        }
    }

    /// Creates, sets or deletes the own znode.
    async fn edit(&mut self) {
        self.edits += 1;
        let data = format!("private-{}-{}", self.own, self.edits);
        let own = &self.own;
        let request = match (&self.state, self.operator.random.below(8)) {
            (None, 0..5) => Request::new("POST", format!("/console/node?path={own}&acl=creator")),
            (Some((version, _)), 0..4) => {
                Request::new("PUT", format!("/console/data?path={own}&version={version}"))
            }
            (Some((version, _)), 4) => Request::new(
                "DELETE",
                format!("/console/node?path={own}&version={version}"),
            ),
            (Some(_), 5) => Request::new("PUT", format!("/console/data?path={own}&version=x")),
            (Some((version, _)), 6) => {
                let wrong = version + 7;
                Request::new("PUT", format!("/console/data?path={own}&version={wrong}"))
            }
            _ => return self.look().await,
        };
        let is_delete = request.method == "DELETE";
        let is_valid = !request.target.ends_with("=x");
        let mut request = request;
        if !is_delete {
            request.body = data.clone().into_bytes();
        }
        let answer = self.ask(request.clone()).await;
        let Some(answer) = answer else {
            // The edit may have been executed.
            self.state = None;
            return;
        };
        let status = answer.head.status;
        if status == 200 && (!self.has_login || !is_valid) {
            self.operator.report(READ_ONLY, &request, &answer);
        }
        match status {
            200 if is_delete => self.state = None,
            200 => {
                let json = answer.json().unwrap_or_default();
                let version = json["stat"]["version"].as_i64();
                let before = self.state.as_ref().map_or(-1, |(version, _)| *version);
                if version != Some(before + 1) {
                    self.operator.report(EDITS, &request, &answer);
                }
                self.state = Some((before + 1, data));
            }
            // The member lags, or the edit was executed without an answer.
            404 | 409 | 503 => self.state = None,
            _ => {}
        }
    }

    /// Reads the own znode.
    async fn look(&mut self) {
        let request = Request::new("GET", format!("/console/node?path={}", self.own));
        let Some(answer) = self.ask(request.clone()).await else {
            return;
        };
        let json = answer.json().unwrap_or_default();
        let version = json["stat"]["version"].as_i64();
        let (Some(version), 200) = (version, answer.head.status) else {
            return;
        };
        if json["data"].is_string() && !self.has_login {
            self.operator
                .report(super::operator::PRIVATE, &request, &answer);
        }
        match &self.state {
            // The member lags.
            Some((known, data)) if version == *known => {
                let wanted = Value::from(base64::encode(data.as_bytes()));
                if self.has_login && json["data"] != wanted {
                    self.operator.report(EDITS, &request, &answer);
                }
            }
            Some((known, _)) if version > *known => {
                self.operator.report(EDITS, &request, &answer);
            }
            Some(_) => {}
            None if self.has_login => {
                let data = json["data"].as_str().and_then(base64::decode);
                self.state = data.map(|data| (version, data));
            }
            None => {}
        }
    }
}

/// Returns whether an answer contains data of znodes that only their owner may read.
pub(super) fn is_private(answer: &Answer) -> bool {
    let text = String::from_utf8_lossy(&answer.body);
    text.contains("private-") || text.contains("cHJpdmF0")
}
