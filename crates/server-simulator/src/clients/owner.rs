//! A client that is the only writer of its znodes.

use std::collections::BTreeSet;

use client::{Bytes, Client, Create, MultiOp, MultiRead, MultiReadResult, OpCode, Stat};
use proto::request::PathWatchRequest;

use super::{Actor, Outcome, has_ended};

const OWN: &str = "a session sees its own writes";
const BACK: &str = "a session never sees an older state";
const ATOMIC: &str = "a multi is executed completely or not at all";

/// Values of the znodes `a` and `b`. Each write of `b` also writes `a`.
#[derive(Default)]
struct Known {
    /// Newest acknowledged value of `a`.
    last: String,
    /// Values of writes whose answers were lost.
    doubtful: BTreeSet<String>,
    /// Largest zxid that the session has seen.
    zxid: i64,
}

pub(super) async fn run(actor: &mut Actor) {
    let dir = format!("/own{}", actor.number);
    let (a, b) = (format!("{dir}/a"), format!("{dir}/b"));
    if !actor.create_directory(&a).await || !actor.create_directory(&b).await {
        return;
    }
    let mut known = Known::default();
    let mut session: Option<Client> = None;
    for _ in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        if session.as_ref().is_none_or(has_ended) {
            session = begin(actor, &mut known).await;
        }
        let Some(client) = &session else { continue };
        step(actor, client, &mut known, &a, &b).await;
        if actor.random.percent(3) {
            session = None;
        }
    }
    if let Some(client) = session {
        let _ = actor.ask(client.close()).await;
    }
}

/// Opens a session, which has seen everything that is committed.
async fn begin(actor: &mut Actor, known: &mut Known) -> Option<Client> {
    let client = actor.connect(|options| options).await?;
    known.zxid = 0;
    match actor.ask(client.sync("/")).await {
        Outcome::Done(()) => Some(client),
        _ => None,
    }
}

async fn step(actor: &mut Actor, client: &Client, known: &mut Known, a: &str, b: &str) {
    let value = actor.world.value().to_string();
    match actor.random.below(8) {
        0 | 1 => {
            // A large value is followed by its number.
            let len = actor.random.pick(&[0, 0, 10, 5_000, 40_000]).unwrap_or(0);
            let data = format!("{value}{}", " ".repeat(len));
            let answer = actor.ask(client.set_data(a, data, -1)).await;
            note(actor, known, value, answer.map(Some));
        }
        2 | 3 => {
            let transaction = client.transaction().set_data(b, value.clone(), -1);
            let committing = transaction.set_data(a, value.clone(), -1).commit();
            let answer = actor.ask(committing).await;
            note(actor, known, value, answer.map(|_| None));
        }
        4 => {
            let missing = format!("{b}/missing");
            let ops = [
                MultiOp::set_data(a, value.clone(), -1),
                MultiOp::create(&format!("{missing}/x"), "", &Create::persistent()),
            ];
            let answer = actor.ask(client.multi(&ops)).await;
            let is_done = matches!(answer, Outcome::Done(_));
            actor.require(!is_done, ATOMIC, || format!("{missing}/x was created"));
        }
        5 => pair(actor, client, known, a, b).await,
        6 => {
            let path = Some(a.into());
            let record = PathWatchRequest { path, watch: false };
            let body = client::jute::Encode::to_bytes(&record);
            let reply = client.call(OpCode::Exists, Some(a.into()), body);
            if let Outcome::Done(reply) = actor.ask(reply).await {
                see(actor, known, reply.header.zxid.0);
            }
        }
        _ => {
            if let Outcome::Done((data, stat)) = actor.ask(client.get_data(a)).await {
                read(actor, known, data, &stat);
            }
        }
    }
}

fn note(actor: &Actor, known: &mut Known, value: String, answer: Outcome<Option<Stat>>) {
    match answer {
        Outcome::Done(stat) => {
            known.last = value;
            if let Some(stat) = stat {
                see(actor, known, stat.mzxid);
            }
        }
        Outcome::Unsure => drop(known.doubtful.insert(value)),
        Outcome::Refused(_) => {}
    }
}

fn see(actor: &Actor, known: &mut Known, zxid: i64) {
    actor.require(zxid >= known.zxid, BACK, || {
        format!("{zxid:#x} after {:#x} in own{}", known.zxid, actor.number)
    });
    known.zxid = zxid;
}

fn read(actor: &Actor, known: &mut Known, data: Option<Bytes>, stat: &Stat) {
    let text = String::from_utf8_lossy(&data.unwrap_or_default()).into_owned();
    let value = text.trim_end();
    let is_known = value == known.last || known.doubtful.contains(value);
    actor.require(is_known, OWN, || {
        let number = actor.number;
        format!("{value} instead of {} in own{number}", known.last)
    });
    // Another write may have followed meanwhile, so the zxid of the read is unknown.
    known.zxid = known.zxid.max(stat.mzxid);
}

async fn pair(actor: &mut Actor, client: &Client, known: &mut Known, a: &str, b: &str) {
    let reads = [
        MultiRead::Data(b),
        MultiRead::Data(a),
        MultiRead::Children(b),
    ];
    let answer = actor.ask(client.multi_read(&reads)).await;
    let Outcome::Done(results) = answer else {
        return;
    };
    let [
        MultiReadResult::Data(_, of_b),
        MultiReadResult::Data(data, of_a),
        _,
    ] = &results[..]
    else {
        return actor.world.report(ATOMIC, &format!("{results:?}"));
    };
    // The first write of `b` is its creation.
    let is_atomic = of_b.version == 0 || of_a.mzxid >= of_b.mzxid;
    actor.require(is_atomic, ATOMIC, || format!("{of_b:?} without {of_a:?}"));
    read(actor, known, data.clone(), of_a);
}
