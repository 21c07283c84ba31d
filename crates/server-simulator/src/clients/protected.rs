//! Protected creations. Their answers may be lost.

use client::{Client, Create, Created, Protection};

use super::{Actor, Outcome};

const ONE: &str = "exactly one znode exists after a protected creation";

pub(super) async fn run(actor: &mut Actor) {
    let dir = format!("/l{}", actor.number);
    actor.world.expected.lock().empty.insert(dir.clone());
    if !actor.create_directory(&dir).await {
        return;
    }
    let client = loop {
        if !actor.pause().await {
            return;
        }
        if let Some(client) = actor.connect(|options| options.with_renewal()).await {
            break client;
        }
    };
    // The client deletes znodes in the background until the end of the run.
    actor.world.expected.lock().clients.push(client.clone());
    for _ in 0..actor.world.settings.requests / 3 {
        if !actor.pause().await {
            return;
        }
        let protection = match actor.random.below(2) {
            0 => Protection::Curator,
            _ => Protection::Kazoo,
        };
        let create = match actor.random.below(3) {
            0 => Create::persistent(),
            1 => Create::persistent().sequential(),
            _ => Create::ephemeral().sequential(),
        };
        let path = format!("{dir}/n-");
        let creating = client.create_protected_as(protection, &path, "", &create);
        let Outcome::Done(mut created) = actor.ask(creating).await else {
            continue;
        };
        is_alone(actor, &client, &dir, &created).await;
        if actor.random.percent(30) {
            let replacing = client.replace_created(&created, protection, &path, "", &create);
            if let Outcome::Done(Some(other)) = actor.ask(replacing).await {
                created = other;
                is_alone(actor, &client, &dir, &created).await;
            }
        }
        let is_later = actor.random.percent(30);
        if is_later
            || client
                .retry(|| client.delete_created(&created))
                .await
                .is_err()
        {
            client.delete_created_in_background(&created);
        }
    }
}

/// Checks that one znode has the prefix of the creation.
async fn is_alone(actor: &mut Actor, client: &Client, dir: &str, created: &Created) {
    let session = client.session_id();
    let name = created.path.rsplit('/').next().unwrap_or_default();
    let prefix = name.split("n-").next().unwrap_or_default();
    let synced = actor.ask(client.sync(dir)).await;
    let listed = actor.ask(client.get_children(dir)).await;
    if let (Outcome::Done(()), Outcome::Done(names)) = (synced, listed)
        && client.session_id() == session
    {
        let mut found = names;
        found.retain(|name| name.starts_with(prefix));
        // The ephemerals of an earlier session are deleted with it.
        let is_deleted =
            created.stat.ephemeral_owner != 0 && created.stat.ephemeral_owner != session.0;
        actor.require(found.len() == 1 || is_deleted, ONE, || {
            format!("{found:?} after {created:?}")
        });
    }
}
