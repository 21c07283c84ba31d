//! Sequential znodes, containers, TTL znodes and subtrees, below a root directory.

use std::time::Duration;

use client::{Client, Create};

use super::{Actor, Outcome, has_ended};

const NUMBERS: &str = "the numbers of sequential znodes are unique and increase";
const SUBTREE: &str = "`delete_all` deletes a subtree";

/// Directory of sequential znodes of all clients.
const QUEUE: &str = "/queue";

pub(super) async fn run(actor: &mut Actor) {
    let root = format!("/t{}", actor.number);
    if !actor.create_directory(&root).await || !actor.create_directory(QUEUE).await {
        return;
    }
    let mut session: Option<(Client, Client)> = None;
    for number in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        let has_session = |session: &(Client, Client)| !has_ended(&session.0);
        if !session.as_ref().is_some_and(has_session) {
            let inside = actor.connect(|options| options.with_chroot(&root)).await;
            let whole = actor.connect(|options| options.with_renewal()).await;
            session = inside.zip(whole);
        }
        let Some((inside, whole)) = &session else {
            continue;
        };
        match actor.random.below(6) {
            0 | 1 => count(actor, whole).await,
            2 => container(actor, inside, &root, &format!("/c{number}")).await,
            3 => expiring(actor, inside, &root, &format!("/x{number}")).await,
            4 => lasting(actor, inside, &root, &format!("/k{number}")).await,
            _ => subtree(actor, inside, &format!("/s{number}")).await,
        }
    }
    if let Some((inside, whole)) = session {
        let _ = actor.ask(inside.close()).await;
        let _ = actor.ask(whole.close()).await;
    }
}

async fn count(actor: &mut Actor, client: &Client) {
    let before = actor.world.expected.lock().numbers.last().copied();
    let create = Create::persistent().sequential();
    let path = format!("{QUEUE}/n-");
    if let Outcome::Done(path) = actor.ask(client.create(&path, "", &create)).await {
        let digits = path.rsplit('-').next().unwrap_or_default();
        let number: i64 = digits.parse().unwrap_or(-1);
        let mut expected = actor.world.expected.lock();
        let is_new = expected.numbers.insert(number);
        expected.present.insert(path.to_string());
        drop(expected);
        actor.require(is_new && Some(number) > before, NUMBERS, || {
            format!("{path} after {before:?}")
        });
    }
}

/// Creates a container, which is deleted after its child.
async fn container(actor: &mut Actor, client: &Client, root: &str, path: &str) {
    let child = format!("{path}/child");
    let created = actor
        .ask(client.create(path, "", &Create::container()))
        .await;
    let with_child = actor
        .ask(client.create(&child, "", &Create::persistent()))
        .await;
    if let (Outcome::Done(_), Outcome::Done(_)) = (created, with_child)
        && let Outcome::Done(()) = actor.ask(client.delete(&child, -1)).await
    {
        let path = format!("{root}{path}");
        actor.world.expected.lock().absent.insert(path);
    }
}

/// Creates a znode with a short TTL.
async fn expiring(actor: &mut Actor, client: &Client, root: &str, path: &str) {
    let ttl_ms = actor.random.range(1, 50).unsigned_abs();
    let create = Create::ttl(Duration::from_millis(ttl_ms));
    if let Outcome::Done(_) = actor.ask(client.create(path, "", &create)).await {
        let path = format!("{root}{path}");
        actor.world.expected.lock().absent.insert(path);
    }
}

/// Creates a znode that remains, because its TTL is long or it has a child.
async fn lasting(actor: &mut Actor, client: &Client, root: &str, path: &str) {
    let day = Duration::from_secs(24 * 3600);
    let created = if actor.random.percent(50) {
        let create = Create::ttl(day);
        actor.ask(client.create(path, "", &create)).await
    } else {
        let create = Create::container();
        let child = format!("{path}/child");
        match actor.ask(client.create(path, "", &create)).await {
            Outcome::Done(_) => {
                actor
                    .ask(client.create(&child, "", &Create::persistent()))
                    .await
            }
            other => other,
        }
    };
    if let Outcome::Done(_) = created {
        let path = format!("{root}{path}");
        actor.world.expected.lock().present.insert(path);
    }
}

async fn subtree(actor: &mut Actor, client: &Client, path: &str) {
    for name in ["/a/b/c", "/a/d"] {
        let whole = format!("{path}{name}");
        let _ = actor.ask(client.ensure_path(&whole)).await;
    }
    let counted = actor.ask(client.get_all_children_number(path)).await;
    if let Outcome::Done(count) = counted {
        actor.require((0..=4).contains(&count), SUBTREE, || {
            format!("{path} has {count} descendants")
        });
    }
    if let Outcome::Done(()) = actor.ask(client.delete_all(path)).await
        && let Outcome::Done(Some(stat)) = actor.ask(client.exists(path)).await
    {
        let text = format!("{path} exists: {stat:?}");
        actor.world.report(SUBTREE, &text);
    }
}
