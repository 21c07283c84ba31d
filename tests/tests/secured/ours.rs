//! The Zoarium client, which tools and recipes use.

use std::time::Duration;

use client::{Client, Code, Create, Error, Login, LoginFailure, Options, Secret, State};
use proto::{Acl, ErrorCode, Id};
use tests::{Flavour, or_skip, wait_for};
use tokio::runtime::{Builder, Runtime};

use crate::way::{PASSWORD, Secured, USER, WAYS, Way};

const LIMIT: Duration = Duration::from_secs(60);

/// Connections stay alive while the test does something else.
fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

fn options(secured: &Secured) -> Options {
    let way = secured.way;
    let mut options = Options::new(&secured.address).with_session_timeout(Duration::from_secs(10));
    if way.has_tls() {
        let key = (way == Way::MutualTls).then_some("client");
        let connector = secured.certificates.connector_with(key, way.extension());
        options = options.with_connector(connector);
    }
    if way.has_login() {
        options = options.with_login(Login::digest_md5(USER, Secret::new(PASSWORD)));
    }
    options
}

fn owned_by(entry: &str) -> Vec<Acl> {
    let (scheme, id) = entry.split_once(':').expect("an entry of an ACL");
    let id = Id {
        scheme: scheme.into(),
        id: id.into(),
    };
    vec![Acl { perms: 31, id }]
}

async fn protect(client: &Client, entry: &str) -> client::Result<()> {
    if entry.starts_with("digest:") {
        client.add_auth("digest", "bob:secret").await?;
    }
    let acl = owned_by(entry);
    let create = Create::persistent().with_acl(acl.clone());
    client.create("/protected", "treasure", &create).await?;
    let mine = Create::ephemeral().with_acl(acl.clone());
    client.create("/mine", "", &mine).await?;
    assert_eq!(client.get_acl("/protected").await?.0, acl);
    Ok(())
}

/// Checks that the client still owns its znodes, and that they are unchanged. Calls that were
/// pending when the connection broke fail.
async fn still_owns(client: &Client) -> client::Result<()> {
    let session = client.session_id();
    let (_, stat) = client.get_data("/mine").await?;
    assert_eq!(stat.ephemeral_owner, session.0);
    let (data, _) = client.get_data("/protected").await?;
    assert_eq!(data.as_deref(), Some(&b"treasure"[..]));
    let stat = client.set_data("/protected", "treasure", -1).await?;
    assert!(stat.version > 0);
    Ok(())
}

async fn stranger_is_refused(address: &str) -> client::Result<()> {
    let stranger = Client::connect(Options::new(address)).await?;
    let refused = stranger
        .get_data("/protected")
        .await
        .expect_err("a refusal");
    assert_eq!(refused.code(), Some(ErrorCode::NoAuth));
    stranger.close().await
}

fn go(flavour: Flavour, way: Way) {
    println!("{flavour:?}: {way:?}");
    let Some(mut secured) = or_skip("TLS and SASL", Secured::start(flavour, way, &[])) else {
        return;
    };
    let runtime = runtime();
    let client = runtime.block_on(Client::connect(options(&secured)));
    let client = client.unwrap_or_else(|error| panic!("{way:?}: {error}"));
    let session = client.session_id();
    runtime
        .block_on(protect(&client, way.entry()))
        .expect("a protected znode");
    runtime
        .block_on(stranger_is_refused(&secured.server.address()))
        .expect("a stranger");
    let mut state = client.state();
    secured.server.restart();
    let is_back =
        |state: &State| matches!(state, State::Connected { session: now, .. } if *now == session);
    let back = runtime.block_on(async {
        // The client may not have noticed the end of the old connection yet.
        let silent = client.sync("/").await;
        let back = tokio::time::timeout(LIMIT, state.wait_for(is_back)).await;
        (silent, back.map(|state| state.is_ok()))
    });
    assert_eq!(
        back.1.ok(),
        Some(true),
        "{way:?}: no connection again, {:?}",
        back.0
    );
    wait_for("the znodes of before", LIMIT, || {
        match runtime.block_on(still_owns(&client)) {
            Ok(()) => Some(()),
            Err(Error::ConnectionLost { .. }) => None,
            Err(error) => panic!("{way:?}: {error}"),
        }
    });
    runtime
        .block_on(stranger_is_refused(&secured.server.address()))
        .expect("a stranger");
    runtime
        .block_on(client.close())
        .expect("the end of the session");
}

#[test]
fn zoariums_client_connects_in_every_secured_way() {
    for way in WAYS {
        go(Flavour::under_test(), way);
    }
}

/// Java's servers understand the client's messages.
#[test]
#[ignore = "runs other people's programs"]
fn zoariums_client_connects_in_every_way_to_apache_zookeeper() {
    for way in [Way::MutualTls, Way::DigestMd5, Way::DigestMd5OverTls] {
        go(Flavour::Apache, way);
    }
}

#[test]
fn zoariums_client_reports_why_a_login_failed() {
    for flavour in [Flavour::under_test(), Flavour::Apache] {
        let secured = Secured::start(flavour, Way::DigestMd5OverTls, &[]);
        let Some(secured) = or_skip("SASL", secured) else {
            return;
        };
        let wrong = Login::digest_md5(USER, Secret::new("wr0ngsecret"));
        let options = options(&secured).with_login(wrong);
        let shown = format!("{options:?}");
        let failed = runtime().block_on(Client::connect(options));
        let error = failed.expect_err("a login by a wrong password");
        let Error::Login { reason, .. } = &error else {
            panic!("{flavour:?}: {error}");
        };
        assert_eq!(*reason, LoginFailure::Refused(-115), "{}", Code(-115));
        for text in [shown, error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("wr0ngsecret"), "{text}");
        }
    }
    // The client does not mistake a server without SASL for a successful login.
    let secured = Secured::start(Flavour::under_test(), Way::Plain, &[]);
    let secured = or_skip("a server of ours", secured).expect("ours is always there");
    let login = Login::digest_md5(USER, Secret::new(PASSWORD));
    let options = options(&secured).with_login(login);
    let failed = runtime().block_on(Client::connect(options));
    match failed.expect_err("a login where there is none") {
        Error::Login { reason, .. } => assert_eq!(reason, LoginFailure::NoToken),
        error => panic!("{error}"),
    }
}
