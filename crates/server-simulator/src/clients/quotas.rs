//! A client whose directory has a hard quota.

use client::{Client, Create, ErrorCode};
use proto::QuotaText;

use super::{Actor, Outcome, has_ended};

const QUOTA: &str = "a hard quota is neither exceeded nor reached too early";

/// Maximum number of znodes in the directory, with the directory itself.
const COUNT_MAX: usize = 5;

/// Znodes below the directory.
#[derive(Default)]
struct Below {
    /// Znodes that exist.
    sure: Vec<String>,
    /// Number of requests that were perhaps executed, or are executed later.
    doubtful: usize,
}

pub(super) async fn run(actor: &mut Actor) {
    let dir = format!("/u{}", actor.number);
    if !actor.create_directory(&dir).await {
        return;
    }
    let (mut session, mut is_limited): (Option<Client>, bool) = (None, false);
    let mut below = Below::default();
    for number in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        if session.as_ref().is_none_or(has_ended) {
            session = actor.connect(|options| options).await;
        }
        let Some(client) = &session else { continue };
        if is_limited {
            step(actor, client, &mut below, format!("{dir}/{number}")).await;
        } else {
            is_limited = limit(actor, client, &dir).await;
        }
    }
    if let Some(client) = session {
        let _ = actor.ask(client.close()).await;
    }
}

/// Sets the quota. Returns whether it exists.
async fn limit(actor: &mut Actor, client: &Client, dir: &str) -> bool {
    let quota = format!("/zookeeper/quota{dir}");
    let limits = format!("{quota}/zookeeper_limits");
    let mut text = QuotaText::new(-1, -1);
    let count = i64::try_from(COUNT_MAX).expect("a small number");
    text.others.insert(QuotaText::COUNT_HARD.to_owned(), count);
    let create = Create::persistent();
    let usage = QuotaText::new(1, 0).to_string();
    let transaction = client.transaction().create(&quota, "", &create);
    let transaction = transaction.create(&format!("{quota}/zookeeper_stats"), usage, &create);
    let committing = transaction
        .create(&limits, text.to_string(), &create)
        .commit();
    match actor.ask(committing).await {
        Outcome::Done(_) => true,
        Outcome::Refused(error) => error.is_node_exists(),
        Outcome::Unsure => false,
    }
}

async fn step(actor: &mut Actor, client: &Client, below: &mut Below, path: String) {
    if actor.random.percent(30)
        && let Some(path) = below.sure.pop()
    {
        match actor.ask(client.delete(&path, -1)).await {
            Outcome::Done(()) => {}
            Outcome::Refused(_) => below.sure.push(path),
            Outcome::Unsure => below.doubtful += 1,
        }
        return;
    }
    let create = Create::persistent();
    match actor.ask(client.create(&path, "", &create)).await {
        Outcome::Done(_) => {
            below.sure.push(path);
            let count = below.sure.len() + 1;
            actor.require(count <= COUNT_MAX + below.doubtful, QUOTA, || {
                format!("{count} znodes exist, {} more are possible", below.doubtful)
            });
        }
        Outcome::Refused(error) if error.code() == Some(ErrorCode::QuotaExceeded) => {
            let count = below.sure.len() + 1 + below.doubtful;
            actor.require(count >= COUNT_MAX, QUOTA, || {
                format!("{path} is refused, at most {count} znodes exist")
            });
        }
        Outcome::Refused(_) => {}
        Outcome::Unsure => below.doubtful += 1,
    }
}
