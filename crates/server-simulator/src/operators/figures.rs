//! Scrapers of metrics: the exporter for Prometheus, `monitor`, and four-letter words.

use std::collections::{BTreeMap, HashMap};
use std::io;

use proto::Sid;
use tokio::io::AsyncReadExt;

use super::operator::Operator;
use super::wire::http::{Answer, Fault, Head, Request};
use crate::settings::{ADMIN_PORT, CLIENT_PORT, EXPORTER_PORT, HEALTH_PORT};

const PARSEABLE: &str = "metrics are parseable";
const MONOTONE: &str = "counters never fall during a life of a member";
const WORDS: &str = "four-letter words have the answers of the documentation";
const HEALTH: &str = "a probe has the status of its path";

/// All words, and words that no server knows.
const ALL_WORDS: &[&str] = &[
    "conf",
    "cons",
    "crst",
    "dirs",
    "dump",
    "envi",
    "gtmk",
    "hash",
    "isro",
    "mntr",
    "ruok",
    "srst",
    "srvr",
    "stat",
    "wchc",
    "wchp",
    "wchs",
    "mntr",
    "mntr",
    "stmk\0\0\0\0\0\0\x01\x32",
];

/// Values of the counters of each source, with the life in which they were read.
#[derive(Default)]
struct Known(HashMap<Source, (u64, BTreeMap<String, f64>)>);

/// Member, and kind of the source.
type Source = (Sid, &'static str);

/// Reads figures until the clients end.
pub(super) async fn run(mut operator: Operator) {
    let mut known = Known::default();
    while !operator.is_over() {
        operator.pause(3000).await;
        let member = operator.member();
        let life = operator.world.lives.of(member);
        let counters = match operator.random.below(5) {
            0 | 1 if operator.world.settings.operators.has_exporter => {
                ("exporter", exported(&mut operator, member).await)
            }
            2 => ("mntr", word(&mut operator, member).await),
            3 => ("monitor", monitored(&operator, member).await),
            _ => {
                probe(&mut operator, member).await;
                continue;
            }
        };
        let (source, Some(counters)) = counters else {
            continue;
        };
        if operator.world.settings.operators.are_reset {
            continue;
        }
        if let Some(life) = life.filter(|life| operator.world.lives.of(member) == Some(*life))
            && let Err(error) = known.compare((member, source), life, counters)
        {
            operator
                .world
                .report(MONOTONE, &format!("{source} of member {member}: {error}"));
        }
    }
}

impl Known {
    fn compare(
        &mut self,
        source: Source,
        life: u64,
        counters: BTreeMap<String, f64>,
    ) -> Result<(), String> {
        let before = self.0.insert(source, (life, counters.clone()));
        let Some((_, before)) = before.filter(|(before, _)| *before == life) else {
            return Ok(());
        };
        for (name, before) in before {
            match counters.get(&name) {
                Some(now) if *now >= before => {}
                now => return Err(format!("{name}: {now:?} after {before}")),
            }
        }
        Ok(())
    }
}

/// Returns the counters of the exporter.
async fn exported(operator: &mut Operator, member: Sid) -> Option<BTreeMap<String, f64>> {
    let (method, target) = operator.random.pick(&[
        ("GET", "/metrics"),
        ("GET", "/metrics"),
        ("POST", "/metrics"),
        ("GET", "/metrics?name[]=znode_count&name%5B%5D=packets_sent"),
        ("HEAD", "/metrics"),
        ("OPTIONS", "/metrics"),
        ("TRACE", "/metrics"),
        ("PUT", "/metrics"),
        ("GET", "/other"),
    ])?;
    let request = Request::new(method, target);
    let answer = operator.ask_port(member, EXPORTER_PORT, &request).await?;
    let wanted = match (method, target) {
        ("TRACE", _) => 403,
        (_, "/other") => 404,
        ("PUT", _) => 405,
        _ => 200,
    };
    if answer.head.status != wanted {
        operator.report(PARSEABLE, &request, &answer);
    }
    if !target.ends_with("/metrics") || !matches!(method, "GET" | "POST") {
        return None;
    }
    let parsed = parse_exported(&String::from_utf8_lossy(&answer.body));
    if parsed.is_none() {
        operator.report(PARSEABLE, &request, &answer);
    }
    parsed.filter(|counters| !counters.is_empty())
}

/// Parses the text format of Prometheus. Returns the values that never fall.
fn parse_exported(text: &str) -> Option<BTreeMap<String, f64>> {
    let mut kinds = HashMap::new();
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ')?;
            kinds.insert(name, kind);
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ')?;
            let value: f64 = value.parse().ok()?;
            let family = name.split('{').next()?;
            let counted = family.strip_suffix("_count");
            let counted = counted.or(family.strip_suffix("_bucket"));
            let is_counted = counted.is_some_and(|family| kinds.contains_key(family));
            let is_counter = kinds.get(family) == Some(&"counter");
            if is_counter || is_counted {
                // Metrics of the process count what other members do.
                if !family.starts_with("process_") && !family.starts_with("jvm_") {
                    counters.insert(name.to_owned(), value);
                }
            } else if !kinds.contains_key(family) && !family.ends_with("_sum") {
                return None;
            }
        }
    }
    Some(counters)
}

/// Returns the counts in `monitor`.
async fn monitored(operator: &Operator, member: Sid) -> Option<BTreeMap<String, f64>> {
    let request = Request::new("GET", "/commands/monitor");
    let answer = operator.ask_port(member, ADMIN_PORT, &request).await?;
    let json = answer.json().filter(|json| json["error"].is_null())?;
    let figures = json.as_object()?.iter();
    let figures = figures.filter(|(name, _)| name.starts_with("cnt_"));
    Some(
        figures
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect(),
    )
}

/// Sends a four-letter word, and checks its answer. Returns the counts of `mntr`.
async fn word(operator: &mut Operator, member: Sid) -> Option<BTreeMap<String, f64>> {
    let settings = &operator.world.settings.operators;
    let word = operator.random.pick(ALL_WORDS);
    let word = word.filter(|word| *word != "srst" || settings.are_reset)?;
    let asking = async {
        let mut connection = operator.connect(member, CLIENT_PORT).await?;
        connection.write(word.as_bytes()).await?;
        let mut body = Vec::new();
        match connection.stream.read_to_end(&mut body).await {
            // The member closes the connection when it has not read everything.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !body.is_empty() => {}
            Err(error) => return Err(Fault::Ended(error)),
            Ok(_) => {}
        }
        Ok(Answer {
            head: Head::default(),
            body,
        })
    };
    let what = format!("word {word:?}");
    let answer = operator.within_life(member, &what, asking).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if text.is_empty() || text.contains("not currently serving") {
        return None;
    }
    let counts = match word {
        "ruok" if text == "imok" => None,
        "isro" if ["rw", "ro", "null"].contains(&&*text) => None,
        "mntr" => Some(parse_mntr(&text)),
        "srvr" | "stat" if text.contains("Mode: ") && text.contains("Node count: ") => None,
        "conf" if text.contains("clientPort=") => None,
        "ruok" | "isro" | "srvr" | "stat" | "conf" => Some(None),
        word if word.starts_with("stmk") && text != "306" => Some(None),
        _ => None,
    };
    if counts == Some(None) {
        operator.world.report(WORDS, &format!("{word:?}: {text}"));
    }
    counts.flatten()
}

fn parse_mntr(text: &str) -> Option<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let (name, value) = line.strip_prefix("zk_")?.split_once('\t')?;
        let is_text = ["version", "server_state", "peer_state"].contains(&name);
        if !is_text {
            let value: f64 = value.parse().ok()?;
            if name.starts_with("cnt_") {
                counts.insert(name.to_owned(), value);
            }
        }
    }
    Some(counts)
}

/// Sends a probe to the health port or to the admin port.
async fn probe(operator: &mut Operator, member: Sid) {
    let target = operator
        .random
        .pick(&["/health/live", "/health/ready", "/other"]);
    let request = Request::new("GET", target.unwrap_or("/health/live"));
    let port = operator
        .random
        .pick(&[HEALTH_PORT, ADMIN_PORT])
        .unwrap_or(HEALTH_PORT);
    let Some(answer) = operator.ask_port(member, port, &request).await else {
        return;
    };
    let statuses: &[u16] = match target {
        Some("/health/live") => &[200],
        Some("/health/ready") => &[200, 503],
        _ => &[404],
    };
    if !statuses.contains(&answer.head.status) {
        operator.report(HEALTH, &request, &answer);
    }
}
