//! Access to a znode that only one identity may use, over connections with the security that the
//! test requires.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use zookeeper_client::{
    Acl, Acls, AuthId, Connector, CreateMode, Permission, SaslOptions, SessionState, TlsOptions,
};

use crate::talk::{Outcome, ask, expect, patient, say};
use crate::{BASE, connect, node};

/// Returns whether the test requires TLS.
pub fn is_tls() -> bool {
    env::var_os("ZOARIUM_TEST_TLS").is_some()
}

/// Returns the connector with TLS and a login, if the test requires them.
pub fn secure(mut connector: Connector) -> Outcome<Connector> {
    if let Ok(files) = env::var("ZOARIUM_TEST_TLS") {
        let read = |name: &str| fs::read_to_string(Path::new(&files).join(name));
        let mut options = TlsOptions::new().with_pem_ca(&read("authority.pem")?)?;
        if let Ok(key) = env::var("ZOARIUM_TEST_KEY") {
            // The library requires the two parts separately.
            let both = read(&format!("{key}.pem"))?;
            let certificate = both
                .find("-----BEGIN CERTIFICATE")
                .ok_or("no certificate")?;
            let (key, certificate) = both.split_at(certificate);
            options = options.with_pem_identity(certificate, key)?;
        }
        connector = connector.with_tls(options);
    }
    if let Ok(login) = env::var("ZOARIUM_TEST_LOGIN") {
        let (user, password) = login.split_once(':').ok_or("no login")?;
        let options = SaslOptions::digest_md5(user.to_owned(), password.to_owned());
        connector = connector.with_sasl(options);
    }
    Ok(connector)
}

/// Checks that the znode remains protected after a restart of the server.
pub async fn protected(address: &str, entry: &str) -> Outcome<()> {
    say("step connect");
    let zk = connect(address, Duration::from_secs(10)).await?;
    zk.create(BASE, b"", &node(CreateMode::Persistent)).await?;
    say("step protected");
    let (scheme, id) = entry.split_once(':').ok_or("no entry of an ACL")?;
    if scheme == "digest" {
        zk.auth("digest", b"bob:secret").await?;
    }
    let owner = [Acl::new(Permission::ALL, AuthId::new(scheme, id))];
    let owners = Acls::from(&owner[..]);
    let (path, mine) = (&format!("{BASE}/protected"), &format!("{BASE}/mine"));
    zk.create(path, b"treasure", &CreateMode::Persistent.with_acls(owners))
        .await?;
    expect("acl", zk.get_acl(path).await?.0, owner.to_vec())?;
    expect(
        "owner reads",
        zk.get_data(path).await?.0.as_slice(),
        b"treasure",
    )?;
    ask(&format!("stranger {path}")).await?;
    say("step restart");
    zk.create(mine, b"", &CreateMode::Ephemeral.with_acls(owners))
        .await?;
    let session = zk.session_id();
    let mut states = zk.state_watcher();
    states.state();
    ask("restart").await?;
    loop {
        let state = patient("connection", states.changed()).await?;
        if state == SessionState::SyncConnected {
            break;
        }
        expect("state", state, SessionState::Disconnected)?;
    }
    expect("session", zk.session_id(), session)?;
    expect(
        "its owner",
        zk.get_data(mine).await?.1.ephemeral_owner,
        session.0,
    )?;
    expect(
        "owner still reads",
        zk.get_data(path).await?.0.as_slice(),
        b"treasure",
    )?;
    zk.set_data(path, b"more", Some(0)).await?;
    ask(&format!("stranger {path}")).await?;
    say("step close");
    for name in [mine, path, BASE] {
        zk.delete(name, None).await?;
    }
    // The session ends with the process only after the library has run its tasks.
    drop(zk);
    while !patient("end of the session", states.changed())
        .await?
        .is_terminated()
    {}
    Ok(())
}
