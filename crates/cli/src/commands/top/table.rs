//! Output of two samples, as text or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::sample::{Client, Sample};
use crate::output::text;

/// Number of clients that fit on a screen.
const CLIENTS_SHOWN: usize = 20;
/// Width of the name column, in characters.
const NAME_WIDTH: usize = 28;

/// Formats two samples for human readers. The second sample was taken `seconds` after the first.
pub(super) fn text(before: &Sample, now: &Sample, seconds: f64) -> String {
    let mut out = String::new();
    let moment = text::time(jiff::Timestamp::now().as_millisecond());
    let _ = writeln!(
        out,
        "{moment}  members: {}  q or Ctrl-C ends top\n",
        now.members.len()
    );
    members(before, now, seconds, &mut out);
    match &now.clients {
        Some(clients) => {
            out.push('\n');
            let empty = BTreeMap::new();
            let earlier = before.clients.as_ref().unwrap_or(&empty);
            busiest(now.by, earlier, clients, seconds, &mut out);
        }
        None => out.push_str(
            "\nno admin port answers: name the admin ports of the members with -a host:port,...\n",
        ),
    }
    for silent in &now.silent {
        let _ = writeln!(out, "{}", plain(silent));
    }
    slow(&now.slow, &mut out);
    out.trim_end().to_owned()
}

fn members(before: &Sample, now: &Sample, seconds: f64, out: &mut String) {
    let _ = writeln!(
        out,
        "{:<NAME_WIDTH$} {:<10} {:>14} {:>9} {:>9} {:>6} {:>7} {:>8} {:>7} {:>9}",
        "MEMBER", "MODE", "ZXID", "IN/S", "OUT/S", "CONN", "WAITING", "AVG MS", "MAX MS", "ZNODES"
    );
    for (name, fields) in &now.members {
        let field = |name: &str| fields.get(name).map_or("-", String::as_str);
        let earlier = before.members.get(name);
        let per_second = |figure: &str| {
            let of = |fields: &BTreeMap<String, String>| fields.get(figure)?.parse::<u64>().ok();
            match (earlier.and_then(of), of(fields)) {
                (Some(before), Some(now)) => rate(before, now, seconds),
                _ => "-".to_owned(),
            }
        };
        let mut latency = field("Latency min/avg/max").split('/').skip(1);
        let mode = if fields.is_empty() {
            "no answer"
        } else {
            field("Mode")
        };
        let _ = writeln!(
            out,
            "{:<NAME_WIDTH$} {:<10} {:>14} {:>9} {:>9} {:>6} {:>7} {:>8} {:>7} {:>9}",
            cut(name),
            plain(mode),
            plain(field("Zxid")),
            per_second("Received"),
            per_second("Sent"),
            plain(field("Connections")),
            plain(field("Outstanding")),
            plain(latency.next().unwrap_or("-")),
            plain(latency.next().unwrap_or("-")),
            plain(field("Node count")),
        );
    }
}

type Clients = BTreeMap<String, Client>;

fn busiest(by: &str, before: &Clients, now: &Clients, seconds: f64, out: &mut String) {
    let _ = writeln!(
        out,
        "{:<NAME_WIDTH$} {:>5} {:>9} {:>9} {:>10} {:>10} {:>7} {:>8} {:>6} {:>7}",
        by.to_uppercase(),
        "CONN",
        "READS/S",
        "WRITES/S",
        "IN B/S",
        "OUT B/S",
        "WAITING",
        "WATCHES",
        "EPHEM",
        "MAX MS"
    );
    for (name, client) in ranked(before, now).into_iter().take(CLIENTS_SHOWN) {
        let figure = |figure: &str| client.get(figure).copied().unwrap_or(0);
        let per_second = |name_of: &str| {
            let earlier = before.get(name).and_then(|client| client.get(name_of));
            rate(earlier.copied().unwrap_or(0), figure(name_of), seconds)
        };
        let _ = writeln!(
            out,
            "{:<NAME_WIDTH$} {:>5} {:>9} {:>9} {:>10} {:>10} {:>7} {:>8} {:>6} {:>7}",
            cut(name),
            figure("connections"),
            per_second("reads"),
            per_second("writes"),
            per_second("received_bytes"),
            per_second("sent_bytes"),
            figure("outstanding"),
            figure("watches"),
            figure("ephemerals"),
            figure("max_latency"),
        );
    }
}

/// Returns clients in descending order of their requests between the samples, and then of all their
/// requests.
fn ranked<'a>(before: &Clients, now: &'a Clients) -> Vec<(&'a String, &'a Client)> {
    let requests = |client: &Client| client.get("requests").copied().unwrap_or(0);
    let mut all: Vec<(&String, &Client)> = now.iter().collect();
    all.sort_by_key(|(name, client)| {
        let sum = requests(client);
        let earlier = before.get(*name).map_or(0, requests);
        std::cmp::Reverse((sum.saturating_sub(earlier), sum))
    });
    all
}

fn slow(requests: &[Value], out: &mut String) {
    if requests.is_empty() {
        return;
    }
    out.push_str("\nslow requests\n");
    for request in requests {
        let word = |name: &str| plain(request[name].as_str().unwrap_or("-"));
        let _ = writeln!(
            out,
            "{}  {:>6} ms  {} {}  {}",
            text::time(request["at"].as_i64().unwrap_or(0)),
            request["took"].as_u64().unwrap_or(0),
            word("operation"),
            word("path"),
            word("remote_socket_address"),
        );
    }
}

/// Formats the samples for programs, with rates for clients.
pub(super) fn json(before: &Sample, now: &Sample, seconds: f64) -> Value {
    let empty = BTreeMap::new();
    let earlier = before.clients.as_ref().unwrap_or(&empty);
    let clients = now.clients.as_ref().map(|clients| {
        let rows = ranked(earlier, clients).into_iter().map(|(name, client)| {
            let mut row = json!(client);
            row[now.by] = json!(name);
            for figure in ["reads", "writes", "received_bytes", "sent_bytes"] {
                let of =
                    |client: Option<&Client>| client.and_then(|client| client.get(figure).copied());
                let more = of(Some(client))
                    .unwrap_or(0)
                    .saturating_sub(of(earlier.get(name)).unwrap_or(0));
                row[format!("{figure}_per_second")] = json!(more as f64 / seconds);
            }
            row
        });
        rows.collect::<Vec<Value>>()
    });
    json!({
        "at": jiff::Timestamp::now().as_millisecond(),
        "seconds": seconds,
        "members": now.members,
        "clients": clients,
        "slow_requests": now.slow,
        "problems": now.silent,
    })
}

/// Returns the increase per second. If a counter has decreased, for example because the member was
/// restarted, returns 0.
fn rate(before: u64, now: u64, seconds: f64) -> String {
    let per_second = now.saturating_sub(before) as f64 / seconds;
    format!("{per_second:.0}")
}

/// Shortens a name to the width of its column.
fn cut(name: &str) -> String {
    let mut cut: String = plain(name).chars().take(NAME_WIDTH).collect();
    if plain(name).chars().count() > NAME_WIDTH {
        cut.pop();
        cut.push('…');
    }
    cut
}

/// Replaces control characters, so that the terminal does not execute text from other users.
fn plain(text: &str) -> String {
    let shown = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests: &[(&str, u64)], received: &str) -> Sample {
        let client = |count: &u64| {
            let figures = [("requests", *count), ("reads", *count)];
            figures.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let clients = requests
            .iter()
            .map(|(name, count)| ((*name).to_owned(), client(count)));
        let fields = [("Mode", "leader"), ("Received", received)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Sample {
            members: [("a:1".to_owned(), fields.into())].into(),
            by: "address",
            clients: Some(clients.collect()),
            ..Sample::default()
        }
    }

    #[test]
    fn the_client_with_the_most_recent_requests_comes_first() {
        let before = sample(&[("old", 900), ("new", 10)], "100");
        let now = sample(&[("old", 900), ("new", 30), ("e\u{1b}[2Jvil", 5)], "300");
        let text = text(&before, &now, 2.0);
        let at = |name: &str| {
            text.find(name)
                .unwrap_or_else(|| panic!("no {name}: {text}"))
        };
        assert!(at("new") < at("vil") && at("vil") < at("old"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let new = text
            .lines()
            .find(|line| line.starts_with("new"))
            .expect("a line");
        assert_eq!(new.split_whitespace().nth(2), Some("10"), "{new}");
        let member = text
            .lines()
            .find(|line| line.starts_with("a:1"))
            .expect("a line");
        assert_eq!(member.split_whitespace().nth(3), Some("100"), "{member}");
        let json = json(&before, &now, 2.0);
        assert_eq!(json["clients"][0]["reads_per_second"], 10.0);
    }

    #[test]
    fn a_member_that_does_not_answer_is_named() {
        let mut now = sample(&[], "1");
        now.members.insert("b:1".to_owned(), BTreeMap::new());
        now.clients = None;
        let text = text(&Sample::default(), &now, 1.0);
        assert!(
            text.contains("no answer") && text.contains("no admin port answers"),
            "{text}"
        );
    }
}
