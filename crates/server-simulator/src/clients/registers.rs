//! Clients that write and read znodes, and record the answers.

use client::{Client, Create, Error, MultiOp};
use testkit::Random;
use testkit::linearizability::Call;
use testkit::linearizability::znode::{Answer, Question};
use tokio::time::timeout;

use super::{Actor, PATIENCE, connect};
use crate::security::Security;
use crate::world::World;

const PERMITTED: &str = "a client with permissions is served";

/// Returns the path of a znode.
pub(crate) fn path_of(znode: usize) -> String {
    format!("/z{znode}")
}

/// Runs a client that writes and reads some of the znodes.
pub(super) async fn run(actor: &mut Actor) {
    let mut session = None;
    for _ in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        let client = match session.take() {
            Some(client) => client,
            None => match connect(&actor.world, &mut actor.random).await {
                Some(client) => client,
                None => continue,
            },
        };
        let znode = actor.random.below(actor.world.settings.znodes);
        if request(&actor.world, &client, znode, &mut actor.random).await {
            session = Some(client);
        }
    }
    if let Some(client) = session {
        let _ = timeout(PATIENCE, client.close()).await;
    }
}

/// Sends a request and records it. Returns whether the session continues.
async fn request(world: &World, client: &Client, znode: usize, random: &mut Random) -> bool {
    let (path, question) = (path_of(znode), draw(world, random));
    let asked_at = world.moment();
    let asking = timeout(PATIENCE, ask(world, client, &path, &question));
    let (answer, goes_on) = match asking.await {
        Ok(Ok(answer)) => (Some(answer), true),
        Ok(Err(error)) => {
            if world.settings.security.is_some() && Security::is_refusal(&error) {
                world.report(PERMITTED, &error.to_string());
            }
            (answer_of(&error), !error.ends_session())
        }
        Err(_) => (None, false),
    };
    let answer = answer.map(|answer| (answer, world.moment()));
    if answer.is_some() || question != Question::Read {
        let call = Call {
            question,
            asked_at,
            answer,
        };
        world.calls[znode].lock().push(call);
    }
    goes_on
}

fn draw(world: &World, random: &mut Random) -> Question {
    let version = i32::try_from(random.below(5)).expect("a small number");
    let version = random.percent(40).then_some(version);
    let value = world.value();
    match random.below(10) {
        0 | 1 => Question::Create(value),
        2 => Question::Delete { version },
        3..6 => Question::Set { value, version },
        6 => Question::Check { version },
        _ => Question::Read,
    }
}

async fn ask(
    world: &World,
    client: &Client,
    path: &str,
    question: &Question,
) -> client::Result<Answer> {
    let required = |version: &Option<i32>| version.unwrap_or(-1);
    Ok(match question {
        Question::Create(value) => {
            let mut create = Create::persistent();
            if let Some(security) = &world.settings.security {
                create = create.with_acl(security.acl());
            }
            client.create(path, value.to_string(), &create).await?;
            Answer::Done
        }
        Question::Delete { version } => {
            client.delete(path, required(version)).await?;
            Answer::Done
        }
        Question::Set { value, version } => {
            let setting = client.set_data(path, value.to_string(), required(version));
            Answer::Version(setting.await?.version)
        }
        Question::Check { version } => {
            let check = MultiOp::check(path, required(version));
            client.multi(&[check]).await?;
            Answer::Done
        }
        Question::Read => {
            client.sync("/").await?;
            let (data, stat) = client.get_data(path).await?;
            let data = data.unwrap_or_default();
            let text = std::str::from_utf8(&data);
            let Some(value) = text.ok().and_then(|text| text.parse().ok()) else {
                world.report("a znode contains what was written", &format!("{data:?}"));
                return Ok(Answer::Missing);
            };
            Answer::Found {
                value,
                version: stat.version,
            }
        }
    })
}

/// Returns the answer that an error contains.
fn answer_of(error: &Error) -> Option<Answer> {
    if error.is_no_node() {
        Some(Answer::Missing)
    } else if error.is_node_exists() {
        Some(Answer::Exists)
    } else if error.is_bad_version() {
        Some(Answer::BadVersion)
    } else {
        None
    }
}
