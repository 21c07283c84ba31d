//! Clients that only read, also from a server without a quorum.

use std::collections::BTreeMap;

use client::jute::Encode;
use client::{Acl, Client, ClientInfo, OpCode, WatchKind, digest_id, perms};
use proto::request::PathWatchRequest;

use super::registers::path_of;
use super::{Actor, Outcome, has_ended};

const BACK: &str = "a reader never sees an older state";
const IDENTITY: &str = "a connection has the identities that its client added";

/// User and password of the scheme `digest`.
const USER: (&str, &str) = ("reader", "secret");

pub(super) async fn run(actor: &mut Actor) {
    let mut session: Option<Client> = None;
    // Zxid of the session, and the last change of each znode in it.
    let (mut zxid, mut changes) = (0, BTreeMap::new());
    for _ in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        if session.as_ref().is_none_or(has_ended) {
            session = actor.connect(|options| options.with_read_only()).await;
            (zxid, changes) = (0, BTreeMap::new());
            if let Some(client) = &session {
                let auth = format!("{}:{}", USER.0, USER.1);
                let _ = actor.ask(client.add_auth("digest", auth)).await;
            }
        }
        let Some(client) = &session else { continue };
        let path = path_of(actor.random.below(actor.world.settings.znodes));
        match actor.random.below(6) {
            0 => {
                let record = PathWatchRequest {
                    path: Some(path.as_str().into()),
                    watch: false,
                };
                let reply = client.call(OpCode::Exists, None, record.to_bytes());
                if let Outcome::Done(reply) = actor.ask(reply).await {
                    let read = reply.header.zxid.0;
                    actor.require(read >= zxid, BACK, || format!("{read:#x} after {zxid:#x}"));
                    zxid = read;
                }
            }
            1 | 2 => {
                if let Outcome::Done((_, stat)) = actor.ask(client.get_data(&path)).await {
                    let earlier = changes.insert(path.clone(), stat.mzxid).unwrap_or(0);
                    actor.require(stat.mzxid >= earlier, BACK, || {
                        format!("{path}: {:#x} after {earlier:#x}", stat.mzxid)
                    });
                }
            }
            3 => watch(actor, client, &path).await,
            4 => {
                let _ = actor.ask(client.get_children2_and_watch("/")).await;
                let _ = actor.ask(client.get_acl(&path)).await;
            }
            _ => identity(actor, client, &path).await,
        }
    }
    if let Some(client) = session {
        let _ = actor.ask(client.close()).await;
    }
}

/// Sets a watch, and removes it.
async fn watch(actor: &mut Actor, client: &Client, path: &str) {
    if let Outcome::Done(_) = actor.ask(client.get_data_and_watch(path)).await {
        let _ = actor.ask(client.has_watch(path, WatchKind::Data)).await;
        let _ = actor
            .ask(client.remove_watches(path, WatchKind::Data))
            .await;
    }
}

/// Checks the identities of the connection. An ACL with another identity refuses the client.
async fn identity(actor: &mut Actor, client: &Client, path: &str) {
    if let Outcome::Done(infos) = actor.ask(client.who_am_i()).await {
        let is_other = |info: &&ClientInfo| &*info.scheme == "digest" && &*info.user != USER.0;
        let others = infos.iter().filter(is_other);
        actor.require(others.count() == 0, IDENTITY, || format!("{infos:?}"));
    }
    // A wrong version, so the ACL of the znode never changes.
    let readers = Acl {
        perms: perms::READ,
        id: digest_id(USER.0, USER.1),
    };
    let _ = actor
        .ask(client.set_acl(path, vec![readers], 1_000_000))
        .await;
}
