//! The web console: access control, permissions of visitors, and its use in a browser.

mod browser;
mod editor;
mod ensemble;
mod find;
mod guard;
mod identity;
mod lists;
mod manage;
mod reported;
mod vendored;
mod znodes;

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tests::{HttpAnswer, HttpRequest};

/// An open page, from the point of view of the server.
pub(crate) struct Visit {
    address: SocketAddr,
    token: String,
}

impl Visit {
    pub(crate) fn begin(port: u16) -> Self {
        Self::begin_at((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Opens a page of the server at an address.
    fn begin_at(address: SocketAddr) -> Self {
        let answer = send_to(address, "POST", "/console/visit", &[], Some(b""));
        let begun: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let token = begun["token"].as_str().expect("a token").to_owned();
        Self { address, token }
    }

    pub(crate) fn ask(&self, method: &str, target: &str, body: Option<&[u8]>) -> HttpAnswer {
        let headers = [("X-Zoarium-Visit", self.token.as_str())];
        send_to(self.address, method, target, &headers, body)
    }

    /// Returns the line of a request's head that names this visit.
    pub(crate) fn header(&self) -> String {
        format!("X-Zoarium-Visit: {}\r\n", self.token)
    }

    pub(crate) fn log_in(&self, user: &str, password: &str) -> HttpAnswer {
        let form = json!({ "user": user, "password": password }).to_string();
        self.ask("POST", "/console/login", Some(form.as_bytes()))
    }
}

fn send(
    port: u16,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> HttpAnswer {
    send_to(
        (Ipv4Addr::LOCALHOST, port).into(),
        method,
        target,
        headers,
        body,
    )
}

fn send_to(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> HttpAnswer {
    let request = HttpRequest {
        method,
        target,
        headers,
        body,
    };
    request.send_to(address).expect("an answer")
}

fn code(answer: &HttpAnswer) -> (u16, String) {
    let refusal: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = refusal["error"]["code"].as_str().unwrap_or_default();
    (answer.status, code.to_owned())
}

pub(crate) fn found(answer: &HttpAnswer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn is(answer: &HttpAnswer, status: u16, name: &str) {
    assert_eq!(code(answer), (status, name.to_owned()), "{}", answer.text());
}
