//! The steps of the scenario.

use std::time::Duration;

use zookeeper_client::{
    Acl, Acls, AddWatchMode, AuthId, AuthUser, Client, CreateMode, Error, EventType, LockPrefix,
    MultiReadResult, MultiWriteError, MultiWriteResult, OneshotWatcher, Permission, SessionState,
};

use crate::talk::{Outcome, ask, expect, expect_error, patient, say};
use crate::{BASE, OPEN, connect, node};

const PERSISTENT: CreateMode = CreateMode::Persistent;
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// All steps, in order.
pub async fn scenario(address: &str) -> Outcome<()> {
    say("step connect");
    let zk = connect(address, TEN_SECONDS).await?;
    expect("negotiated timeout", zk.session_timeout(), TEN_SECONDS)?;
    zk.create(BASE, b"", &node(PERSISTENT)).await?;
    say("step create-read");
    create_read(&zk).await?;
    say("step versions");
    versions(&zk).await?;
    say("step children");
    children(&zk).await?;
    say("step sequence");
    sequence(&zk).await?;
    say("step ephemeral-closed");
    ephemeral_closed(&zk, address).await?;
    say("step ephemeral-expired");
    ephemeral_expired(&zk).await?;
    say("step watches");
    watches(&zk).await?;
    say("step multi");
    multi(&zk).await?;
    say("step acl");
    acl(&zk, address).await?;
    say("step lock");
    lock(&zk, address).await?;
    say("step persistent-watches");
    persistent_watches(&zk).await?;
    say("step restart");
    reconnect(&zk, "restart").await?;
    say("step crash");
    reconnect(&zk, "crash").await?;
    say("step close");
    close(zk, address).await
}

async fn expect_event(watcher: OneshotWatcher, kind: EventType, path: &str) -> Outcome<()> {
    let event = patient("event", watcher.changed()).await?;
    expect(
        "event",
        (event.event_type, event.path.as_str()),
        (kind, path),
    )
}

async fn create_read(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/node");
    let (made, _) = zk.create(path, b"first", &node(PERSISTENT)).await?;
    let (data, stat) = zk.get_data(path).await?;
    expect("data", data.as_slice(), b"first")?;
    expect("stat of create2", stat, made)?;
    expect("version", stat.version, 0)?;
    expect("data length", stat.data_length, 5)?;
    expect("owner", stat.ephemeral_owner, 0)?;
    expect("czxid is mzxid", stat.czxid, stat.mzxid)?;
    expect("exists", zk.check_stat(path).await?, Some(stat))?;
    let nothing = &format!("{BASE}/nothing");
    expect("exists of nothing", zk.check_stat(nothing).await?, None)?;
    expect_error(zk.get_data(nothing).await, Error::NoNode)?;
    let below = &format!("{nothing}/below");
    expect_error(
        zk.create(below, b"", &node(PERSISTENT)).await,
        Error::NoNode,
    )?;
    expect_error(
        zk.create(path, b"", &node(PERSISTENT)).await,
        Error::NodeExists,
    )?;
    zk.mkdir(&format!("{BASE}/a/b/c"), &node(CreateMode::Container))
        .await?;
    let hour = node(PERSISTENT).with_ttl(Duration::from_secs(3600));
    zk.create(&format!("{BASE}/ttl"), b"", &hour).await?;
    let large = vec![7; 800_000];
    zk.create(&format!("{BASE}/large"), &large, &node(PERSISTENT))
        .await?;
    expect(
        "large data",
        zk.get_data(&format!("{BASE}/large")).await?.0 == large,
        true,
    )
}

async fn versions(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/node");
    let stat = zk.set_data(path, b"second", Some(0)).await?;
    expect("version", stat.version, 1)?;
    expect("later mzxid", stat.mzxid > stat.czxid, true)?;
    expect_error(
        zk.set_data(path, b"third", Some(0)).await,
        Error::BadVersion,
    )?;
    expect("data", zk.get_data(path).await?.0.as_slice(), b"second")?;
    expect(
        "any version",
        zk.set_data(path, b"third", None).await?.version,
        2,
    )?;
    expect_error(zk.delete(path, Some(1)).await, Error::BadVersion)?;
    zk.delete(path, Some(2)).await?;
    expect("deleted", zk.check_stat(path).await?, None)?;
    expect_error(zk.delete(path, None).await, Error::NoNode)
}

async fn names(zk: &Client, path: &str) -> Outcome<Vec<String>> {
    let mut names = zk.list_children(path).await?;
    names.sort();
    Ok(names)
}

async fn children(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/parent");
    zk.create(path, b"", &node(PERSISTENT)).await?;
    for name in ["b", "a", "c"] {
        zk.create(&format!("{path}/{name}"), b"", &node(PERSISTENT))
            .await?;
    }
    let (mut found, stat) = zk.get_children(path).await?;
    found.sort();
    expect("children", found, ["a", "b", "c"])?;
    expect("number", stat.num_children, 3)?;
    expect("cversion", stat.cversion, 3)?;
    expect("descendants", zk.count_descendants_number(path).await?, 3)?;
    expect_error(zk.delete(path, None).await, Error::NotEmpty)?;
    zk.delete(&format!("{path}/b"), None).await?;
    expect("children left", names(zk, path).await?, ["a", "c"])
}

async fn sequence(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/queue");
    zk.create(path, b"", &node(PERSISTENT)).await?;
    let item = &format!("{path}/item-");
    for number in 0..3 {
        let sequential = node(CreateMode::PersistentSequential);
        let (_, made) = zk.create(item, b"", &sequential).await?;
        expect("sequence", made.into_i64(), number)?;
        expect(
            "padded",
            zk.check_stat(&format!("{item}{made}")).await?.is_some(),
            true,
        )?;
    }
    zk.delete(&format!("{item}0000000002"), None).await?;
    let (_, made) = zk
        .create(item, b"", &node(CreateMode::EphemeralSequential))
        .await?;
    expect("number not used again", made.into_i64(), 3)?;
    zk.delete(&format!("{item}{made}"), None).await?;
    Ok(())
}

async fn ephemeral_closed(zk: &Client, address: &str) -> Outcome<()> {
    let path = &format!("{BASE}/ephemeral");
    let other = connect(address, TEN_SECONDS).await?;
    other
        .create(path, b"", &node(CreateMode::Ephemeral))
        .await?;
    let below = &format!("{path}/child");
    let refused = other.create(below, b"", &node(PERSISTENT)).await;
    expect_error(refused, Error::NoChildrenForEphemerals)?;
    let (stat, watcher) = zk.check_and_watch_stat(path).await?;
    expect(
        "owner",
        stat.map(|stat| stat.ephemeral_owner),
        Some(other.session_id().0),
    )?;
    expect(
        "ephemerals",
        other.list_ephemerals(BASE).await?,
        [path.as_str()],
    )?;
    drop(other);
    expect_event(watcher, EventType::NodeDeleted, path).await?;
    expect("node of a closed session", zk.check_stat(path).await?, None)
}

async fn ephemeral_expired(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/held");
    ask(&format!("hold {path}")).await?;
    let (stat, watcher) = zk.check_and_watch_stat(path).await?;
    let owner = stat.map_or(0, |stat| stat.ephemeral_owner);
    expect("another's", owner != 0 && owner != zk.session_id().0, true)?;
    ask("kill-holder").await?;
    expect_event(watcher, EventType::NodeDeleted, path).await?;
    expect(
        "node of an expired session",
        zk.check_stat(path).await?,
        None,
    )
}

async fn watches(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/watched");
    let (stat, watcher) = zk.check_and_watch_stat(path).await?;
    expect("not there yet", stat, None)?;
    zk.create(path, b"0", &node(PERSISTENT)).await?;
    expect_event(watcher, EventType::NodeCreated, path).await?;
    for value in [b"1", b"2"] {
        let (_, _, watcher) = zk.get_and_watch_data(path).await?;
        zk.set_data(path, value, None).await?;
        expect_event(watcher, EventType::NodeDataChanged, path).await?;
    }
    for name in ["one", "two"] {
        let (_, watcher) = zk.list_and_watch_children(path).await?;
        zk.create(&format!("{path}/{name}"), b"", &node(PERSISTENT))
            .await?;
        expect_event(watcher, EventType::NodeChildrenChanged, path).await?;
        zk.delete(&format!("{path}/{name}"), None).await?;
    }
    let (_, _, watcher) = zk.get_and_watch_data(path).await?;
    zk.delete(path, None).await?;
    expect_event(watcher, EventType::NodeDeleted, path).await
}

async fn multi(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/multi");
    let below = &format!("{path}/a");
    let mut writer = zk.new_multi_writer();
    writer.add_create(path, b"", &node(PERSISTENT))?;
    writer.add_create(below, b"1", &node(PERSISTENT))?;
    writer.add_check_version(path, 0)?;
    writer.add_set_data(below, b"2", Some(0))?;
    let sequential = node(CreateMode::PersistentSequential);
    writer.add_create(&format!("{path}/s-"), b"", &sequential)?;
    writer.add_delete(below, Some(1))?;
    let results = writer.commit().await?;
    expect("results", results.len(), 6)?;
    match &results[3..5] {
        [
            MultiWriteResult::SetData { stat },
            MultiWriteResult::Create { path: made, .. },
        ] => {
            expect("set", stat.version, 1)?;
            expect("sequence", made.as_str(), format!("{path}/s-0000000001"))?;
        }
        other => return Err(format!("{other:?}").into()),
    }
    expect("children", names(zk, path).await?, ["s-0000000001"])?;

    writer.add_create(below, b"", &node(PERSISTENT))?;
    writer.add_set_data(path, b"no", Some(7))?;
    writer.add_delete(path, None)?;
    let wanted = MultiWriteError::OperationFailed {
        index: 1,
        source: Error::BadVersion,
    };
    expect_error(writer.commit().await, wanted)?;
    expect(
        "nothing of it happened",
        names(zk, path).await?,
        ["s-0000000001"],
    )?;
    expect("data", zk.get_data(path).await?.0.as_slice(), b"")?;

    let mut reader = zk.new_multi_reader();
    reader.add_get_children(path)?;
    reader.add_get_data(&format!("{BASE}/nothing"))?;
    match &reader.commit().await?[..] {
        [
            MultiReadResult::Children { children },
            MultiReadResult::Error { err },
        ] => {
            expect("children read", children.as_slice(), ["s-0000000001"])?;
            expect("error read", err, &Error::NoNode)
        }
        other => Err(format!("{other:?}").into()),
    }
}

async fn acl(zk: &Client, address: &str) -> Outcome<()> {
    let path = &format!("{BASE}/secret");
    let owner = connect(address, TEN_SECONDS).await?;
    owner.auth("digest", b"bob:secret").await?;
    owner
        .create(
            path,
            b"treasure",
            &PERSISTENT.with_acls(Acls::creator_all()),
        )
        .await?;
    let (mut entries, stat) = owner.get_acl(path).await?;
    // The digest of bob:secret, which the server stores instead of the password.
    let bob = AuthId::new("digest", "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=");
    expect("acl", entries.as_slice(), [Acl::new(Permission::ALL, bob)])?;
    expect("aversion", stat.aversion, 0)?;
    expect(
        "owner reads",
        owner.get_data(path).await?.0.as_slice(),
        b"treasure",
    )?;
    denied(zk, path).await?;
    zk.auth("digest", b"eve:guess").await?;
    denied(zk, path).await?;
    let users = zk.list_auth_users().await?;
    expect(
        "users",
        users.contains(&AuthUser::new("digest", "eve")),
        true,
    )?;
    entries.push(Acl::new(Permission::READ, AuthId::anyone()));
    expect(
        "aversion",
        owner.set_acl(path, &entries, Some(0)).await?.aversion,
        1,
    )?;
    expect(
        "allowed now",
        zk.get_data(path).await?.0.as_slice(),
        b"treasure",
    )?;
    expect_error(zk.set_data(path, b"mine", None).await, Error::NoAuth)?;
    owner.delete(path, None).await?;
    Ok(())
}

async fn denied(zk: &Client, path: &str) -> Outcome<()> {
    expect_error(zk.get_data(path).await, Error::NoAuth)?;
    expect_error(zk.set_data(path, b"mine", None).await, Error::NoAuth)?;
    expect_error(zk.list_children(path).await, Error::NoAuth)?;
    let below = &format!("{path}/child");
    expect_error(
        zk.create(below, b"", &node(PERSISTENT)).await,
        Error::NoAuth,
    )?;
    let anyone = Acl::new(Permission::ALL, AuthId::anyone());
    expect_error(zk.set_acl(path, &[anyone], None).await, Error::NoAuth)
}

async fn lock(zk: &Client, address: &str) -> Outcome<()> {
    let other = connect(address, TEN_SECONDS).await?;
    let directory = &format!("{BASE}/lock");
    zk.create(directory, b"", &node(PERSISTENT)).await?;
    let mine = zk
        .lock(LockPrefix::new_curator(directory, "latch-")?, b"", OPEN)
        .await?;
    let theirs = other.lock(LockPrefix::new_curator(directory, "latch-")?, b"", OPEN);
    let mut theirs = std::pin::pin!(theirs);
    loop {
        tokio::select! {
            _ = &mut theirs => return Err("the lock was given twice".into()),
            waiting = names(zk, directory) => if waiting?.len() == 2 { break },
        }
    }
    drop(mine);
    patient("lock", theirs).await??;
    Ok(())
}

async fn persistent_watches(zk: &Client) -> Outcome<()> {
    let path = &format!("{BASE}/persistent");
    let below = &format!("{path}/a");
    zk.create(path, b"", &node(PERSISTENT)).await?;
    let mut watcher = zk.watch(path, AddWatchMode::PersistentRecursive).await?;
    for _ in 0..2 {
        zk.create(below, b"", &node(PERSISTENT)).await?;
        zk.set_data(below, b"1", None).await?;
        zk.delete(below, None).await?;
        for kind in [
            EventType::NodeCreated,
            EventType::NodeDataChanged,
            EventType::NodeDeleted,
        ] {
            let event = patient("event", watcher.changed()).await?;
            expect("event", (event.event_type, &event.path), (kind, below))?;
        }
    }
    Ok(())
}

/// Checks that a restart of the server preserves the session, its ephemeral znode, its watches and
/// all data.
async fn reconnect(zk: &Client, how: &str) -> Outcome<()> {
    let path = &format!("{BASE}/{how}-ephemeral");
    let kept = &format!("{BASE}/{how}-kept");
    zk.create(path, b"mine", &node(CreateMode::Ephemeral))
        .await?;
    zk.create(kept, b"kept", &node(PERSISTENT)).await?;
    let (written, watcher) = zk.check_and_watch_stat(kept).await?;
    let session = zk.session_id();
    let mut states = zk.state_watcher();
    states.state();
    ask(how).await?;
    loop {
        let state = patient("connection", states.changed()).await?;
        if state == SessionState::SyncConnected {
            break;
        }
        expect("state", state, SessionState::Disconnected)?;
    }
    expect("session", zk.session_id(), session)?;
    let (data, stat) = zk.get_data(path).await?;
    expect("data of the ephemeral node", data.as_slice(), b"mine")?;
    expect("its owner", stat.ephemeral_owner, session.0)?;
    let (data, stat) = zk.get_data(kept).await?;
    expect("data kept", data.as_slice(), b"kept")?;
    expect("stat kept", Some(stat), written)?;
    zk.set_data(kept, b"more", Some(0)).await?;
    expect_event(watcher, EventType::NodeDataChanged, kept).await
}

async fn close(zk: Client, address: &str) -> Outcome<()> {
    let other = connect(address, TEN_SECONDS).await?;
    let path = &format!("{BASE}/restart-ephemeral");
    let (stat, watcher) = other.check_and_watch_stat(path).await?;
    expect(
        "owner",
        stat.map(|stat| stat.ephemeral_owner),
        Some(zk.session_id().0),
    )?;
    drop(zk);
    expect_event(watcher, EventType::NodeDeleted, path).await?;
    // Parents come before their children here, so the list is processed from its end.
    let mut all = vec![BASE.to_owned()];
    let mut next = 0;
    while next < all.len() {
        let below = other.list_children(&all[next]).await?;
        all.extend(
            below
                .iter()
                .map(|name| format!("{}/{name}", all[next]))
                .collect::<Vec<_>>(),
        );
        next += 1;
    }
    for path in all.iter().rev() {
        other.delete(path, None).await?;
    }
    expect("cleaned", other.check_stat(BASE).await?, None)?;
    // The session ends with the process only after the library has run its tasks.
    let mut states = other.state_watcher();
    drop(other);
    while !patient("end of the session", states.changed())
        .await?
        .is_terminated()
    {}
    Ok(())
}
