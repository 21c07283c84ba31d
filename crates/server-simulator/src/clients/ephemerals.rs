//! Sessions that create ephemerals, continue elsewhere, and end.

use std::collections::BTreeSet;
use std::time::Duration;

use client::{Client, Create, SessionId};
use tokio::time::sleep;

use super::{Actor, Outcome, has_ended, servers};

const EXIST: &str = "ephemerals exist while their session lives";
const CLOSED: &str = "ephemerals are deleted when their session is closed";

/// Ephemerals of one session.
struct Owned {
    client: Client,
    session: SessionId,
    /// Ephemerals whose creation was acknowledged.
    sure: BTreeSet<String>,
    /// Ephemerals whose creation or deletion was not answered.
    doubtful: BTreeSet<String>,
}

pub(super) async fn run(actor: &mut Actor) {
    let dir = format!("/e{}", actor.number);
    actor.world.expected.lock().empty.insert(dir.clone());
    if !actor.create_directory(&dir).await {
        return;
    }
    let is_renewed = actor.random.percent(30);
    let mut owned: Option<Owned> = None;
    for number in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        owned = match owned.take() {
            Some(owned) if !has_ended(&owned.client) => {
                step(actor, owned, &format!("{dir}/{number}"), &dir).await
            }
            _ => {
                let renew = |options: client::Options| {
                    if is_renewed {
                        options.with_renewal()
                    } else {
                        options
                    }
                };
                actor.connect(renew).await.map(Owned::new)
            }
        };
    }
    if let Some(owned) = owned {
        close(actor, owned).await;
    }
}

impl Owned {
    fn new(client: Client) -> Self {
        Self {
            session: client.session_id(),
            client,
            sure: BTreeSet::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Forgets the ephemerals of a session that another one has replaced.
    fn renew(&mut self) -> bool {
        let is_renewed = self.client.session_id() != self.session;
        if is_renewed {
            *self = Self::new(self.client.clone());
        }
        is_renewed
    }
}

/// Returns the session if it continues.
async fn step(actor: &mut Actor, mut owned: Owned, path: &str, dir: &str) -> Option<Owned> {
    owned.renew();
    let existing = owned.sure.iter().next().cloned();
    match (actor.random.below(12), existing) {
        (0..4, _) => {
            let create = Create::ephemeral();
            let created = actor.ask(owned.client.create2(path, "", &create)).await;
            let is_renewed = owned.renew();
            match created {
                Outcome::Done((_, stat)) if stat.ephemeral_owner == owned.session.0 => {
                    owned.sure.insert(path.to_owned());
                }
                Outcome::Done(_) if is_renewed => {}
                Outcome::Done((_, stat)) => actor.world.report(
                    EXIST,
                    &format!(
                        "{path} of {} belongs to {:#x}",
                        owned.session, stat.ephemeral_owner
                    ),
                ),
                Outcome::Unsure => drop(owned.doubtful.insert(path.to_owned())),
                Outcome::Refused(_) => {}
            }
        }
        (4..7, Some(path)) => {
            let found = actor.ask(owned.client.exists(&path)).await;
            if let Outcome::Done(stat) = found
                && !owned.renew()
            {
                let owner = stat.map(|stat| stat.ephemeral_owner);
                actor.require(owner == Some(owned.session.0), EXIST, || {
                    format!("{path} of {} belongs to {owner:?}", owned.session)
                });
            }
        }
        (7, Some(path)) => {
            let deleting = owned.client.delete_in(owned.session, &path, -1);
            match actor.ask(deleting).await {
                Outcome::Refused(_) => {}
                _ => {
                    owned.sure.remove(&path);
                    owned.doubtful.insert(path);
                }
            }
        }
        (8, _) => list(actor, &mut owned, dir).await,
        (9, _) => return hand_over(actor, owned).await,
        (10, _) => {
            let all = servers(&actor.world);
            let mut chosen: Vec<&str> = all.split(',').collect();
            chosen.retain(|_| actor.random.percent(60));
            let _ = owned.client.set_servers(&chosen);
        }
        (11, _) if actor.random.percent(40) => {
            close(actor, owned).await;
            return None;
        }
        // The session ends later, at its timeout.
        (11, _) if actor.random.percent(30) => return None,
        _ => {
            let _ = actor.ask(owned.client.who_am_i()).await;
        }
    }
    Some(owned)
}

async fn list(actor: &mut Actor, owned: &mut Owned, dir: &str) {
    let listed = actor.ask(owned.client.get_ephemerals(dir)).await;
    if let Outcome::Done(names) = listed
        && !owned.renew()
    {
        let names: BTreeSet<String> = names.iter().map(|name| name.to_string()).collect();
        let is_complete = owned.sure.is_subset(&names);
        let is_owned = |name: &String| owned.sure.contains(name) || owned.doubtful.contains(name);
        actor.require(is_complete && names.iter().all(is_owned), EXIST, || {
            format!("{names:?} instead of {:?}", owned.sure)
        });
    }
}

/// Ends the client, and continues its session with another one.
async fn hand_over(actor: &mut Actor, mut owned: Owned) -> Option<Owned> {
    let session = owned.client.hand_over().await;
    if session.id != owned.session {
        return None;
    }
    let pause_ms = actor.random.range(0, 2000).unsigned_abs();
    sleep(Duration::from_millis(pause_ms)).await;
    let resume = |options: client::Options| options.with_session(session.clone());
    owned.client = actor.connect(resume).await?;
    Some(owned)
}

/// Closes a session, and checks that its ephemerals are deleted.
async fn close(actor: &mut Actor, owned: Owned) {
    let closed = actor.ask(owned.client.close()).await;
    if !matches!(closed, Outcome::Done(())) || owned.client.session_id() != owned.session {
        return;
    }
    let Some(other) = actor.connect(|options| options).await else {
        return;
    };
    if let Outcome::Done(()) = actor.ask(other.sync("/")).await {
        for path in owned.sure {
            if let Outcome::Done(Some(stat)) = actor.ask(other.exists(&path)).await {
                let text = format!("{path} of {}: {stat:?}", owned.session);
                actor.world.report(CLOSED, &text);
            }
        }
    }
    let _ = actor.ask(other.close()).await;
}
