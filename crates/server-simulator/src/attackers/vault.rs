//! A znode with a secret, which only one client of the ensemble changes.

use std::sync::Arc;
use std::time::Duration;

use client::{Acl, Client, Create, Id, perms};
use parking_lot::Mutex;
use proto::SessionId;
use testkit::Random;
use tokio::time::{sleep, timeout};

use crate::clients;
use crate::security::secrets::MARKER;
use crate::world::World;

pub(crate) const PATH: &str = "/vault";

const UNCHANGED: &str = "only permitted clients change a znode";
const SUPER: &str = "a super user has all permissions";
/// Znode that only super users can read.
const SEALED: &str = "/sealed";
const PATIENCE: Duration = Duration::from_secs(120);

/// Session of the client that changes the vault. Session ids are not secret.
pub(super) type Victim = Arc<Mutex<Option<SessionId>>>;

/// Creates the vault, and changes it until the clients of the ensemble end.
pub(super) async fn keep(world: Arc<World>, victim: Victim, mut random: Random) {
    let mut kept = None;
    while !world.is_over() {
        let client = match kept.take() {
            Some(client) => Some(client),
            None => clients::connect(&world, &mut random).await,
        };
        if let Some(client) = &client {
            *victim.lock() = Some(client.session_id());
        }
        if let Some(client) = client
            && let Ok(Ok(())) = timeout(PATIENCE, write(&world, &client)).await
        {
            kept = Some(client);
        }
        let pause = random.range(100, 10_000).unsigned_abs();
        sleep(Duration::from_millis(pause)).await;
    }
    if let Some(client) = kept {
        let _ = timeout(PATIENCE, client.close()).await;
    }
}

async fn write(world: &World, client: &Client) -> client::Result<()> {
    let content = format!("{MARKER}, {}", world.value());
    match client.get_data(PATH).await {
        Ok((data, _)) => {
            check(world, data.as_deref().unwrap_or_default());
            client.set_data(PATH, content, -1).await.map(drop)
        }
        Err(error) if error.is_no_node() => {
            let create = Create::persistent().with_acl(world.security().vault_acl());
            client.create(PATH, content, &create).await.map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Reads a znode as the super user, if there is one. The ACL of the znode excludes all other users.
/// There are no faults at this time.
pub(crate) async fn super_user_reads(world: &World) {
    let security = world.security();
    let Some(client) = security.super_client(&mut Random::new(0)) else {
        return;
    };
    let reading = async {
        let options = client.options.with_wait(PATIENCE / 2);
        let connected = Client::connect(options).await?;
        if let Some(digest) = client.digest {
            security.identify(&connected).await?;
            connected.add_auth("digest", digest).await?;
        }
        let sealed = Create::persistent().with_acl(security.acl());
        match connected.create(SEALED, "", &sealed).await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
        // Nobody but a super user can read the znode, or change the ACL again.
        let nobody = Acl {
            perms: perms::READ,
            id: Id {
                scheme: "ip".into(),
                id: "192.0.2.1".into(),
            },
        };
        connected.set_acl(SEALED, vec![nobody], -1).await?;
        connected.get_data(SEALED).await?;
        connected.set_acl(SEALED, vec![Acl::open()], -1).await?;
        connected.close().await
    };
    match timeout(PATIENCE, reading).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => world.report(SUPER, &error.to_string()),
        Err(_) => world.report(SUPER, "no answer"),
    }
}

fn check(world: &World, data: &[u8]) {
    if !data.starts_with(MARKER.as_bytes()) {
        world.report(
            UNCHANGED,
            &format!("{PATH}: {}", String::from_utf8_lossy(data)),
        );
    }
}
