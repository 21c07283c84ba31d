//! The migration of clients from plain connections to TLS with certificates and logins, as
//! docs/SECURITY.md describes it. Members are restarted one after the other, and no session ends.

use client::tls::{Connector, Secret};
use client::{Handshake, Login, Session};
use proto::request::{Request, flags};
use proto::{Acl, Id, OpCode};
use tests::Flavour::Zoarium;
use tests::certificates::Certificates;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::{create, create_with, get_data};
use tests::secrets::SASL_BOB;
use tests::{RawSession, handshake, or_skip, wait_for, workspace_root};

use crate::members::{LIMIT, set};

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const TIMEOUT_MS: i32 = 40_000;

/// The instructions of the guide, in its order.
const STEPS: [&str; 6] = [
    "### 1. Accept TLS and plain connections",
    "`client.portUnification=true` instead of `secureClientPort`",
    "### 3. Close the plain port",
    "set `client.portUnification=false` and use `secureClientPort` alone",
    "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "`sessionRequireClientSASLAuth=true`",
];

#[test]
fn the_guide_has_these_steps() {
    let guide = std::fs::read_to_string(workspace_root().join("docs/SECURITY.md"));
    let guide = guide.expect("the guide");
    let mut rest = guide.as_str();
    for step in STEPS {
        let (_, behind) = rest.split_once(step).expect(step);
        rest = behind;
    }
}

/// A session that moves from member to member.
struct Traveller {
    handshake: Handshake,
    session: Session,
    /// Number of the znodes that it has created.
    made: u32,
}

impl Traveller {
    fn open(address: &str) -> Traveller {
        let handshake = handshake(TIMEOUT_MS);
        let mut session = RawSession::with_handshake(address, &handshake).expect("a session");
        let made = session.call(&Request::Write(create("/mine", "", flags::EPHEMERAL)));
        assert_eq!(made.expect("an answer").err, 0);
        let session = session.session().clone();
        Traveller {
            handshake: handshake.with_session(session.clone()),
            session,
            made: 0,
        }
    }

    /// Changes the parameters of later connections.
    fn change(&mut self, change: impl FnOnce(Handshake) -> Handshake) {
        self.handshake = change(self.handshake.clone());
    }

    /// Continues at this member, finds its ephemeral, and creates a znode that only this identity
    /// may read.
    fn go_on(&mut self, address: &str, identity: &str) {
        let (id, mut session) = wait_for("the same session", LIMIT, || {
            let session = RawSession::with_handshake(address, &self.handshake).ok()?;
            Some((session.session().id, session))
        });
        assert_eq!(id, self.session.id, "another session");
        assert_eq!(session.sync().expect("an answer").err, 0);
        let mine = session.call(&get_data("/mine")).expect("an answer");
        let owner = mine.record::<proto::response::GetDataResponse>().stat;
        assert_eq!(owner.ephemeral_owner, id.0);
        self.made += 1;
        let path = format!("/by-{}", self.made);
        let (scheme, name) = identity.split_once(':').expect("an identity");
        let id = Id {
            scheme: scheme.into(),
            id: name.into(),
        };
        let acl = [Acl { perms: 31, id }];
        let request = create_with(OpCode::Create, &path, Some("x".into()), 0, &acl, -1);
        let made = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(made.err, 0, "{identity}");
        let read = session.call(&get_data(&path)).expect("an answer");
        assert_eq!(read.err, 0, "{identity}");
    }
}

/// Restarts each member with these lines. The session is at another member meanwhile, and returns
/// afterwards.
fn roll(
    ensemble: &mut Ensemble,
    traveller: &mut Traveller,
    identity: &str,
    change: impl Fn(&Ensemble, u64),
) {
    let ids = ensemble.ids();
    let addresses = ensemble.addresses(&ids);
    for (at, id) in ids.iter().enumerate() {
        ensemble.member_mut(*id).terminate();
        change(ensemble, *id);
        traveller.go_on(&addresses[(at + 1) % ids.len()], identity);
        ensemble.start(*id);
        traveller.go_on(&addresses[at], identity);
    }
}

/// Removes `clientPort`, and moves its number to `secureClientPort`.
fn close_plain(ensemble: &Ensemble, id: u64) {
    let member = ensemble.member(id);
    let text = std::fs::read_to_string(member.config_file()).expect("a zoo.cfg");
    let lines = text.lines().filter(|line| !line.starts_with("clientPort"));
    let text = lines.fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(member.config_file(), text).expect("a zoo.cfg");
    let address = member.client_address();
    set(ensemble, id, "client.portUnification", "false");
    set(
        ensemble,
        id,
        "secureClientPort",
        &address.port().to_string(),
    );
    set(
        ensemble,
        id,
        "secureClientPortAddress",
        &address.ip().to_string(),
    );
}

#[test]
fn clients_switch_to_tls_and_logins_and_keep_their_session() {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("ann");
    let jaas = certificates.path("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let section = format!("Server {{\n  {module} required user_bob=\"{SASL_BOB}\";\n}};\n");
    std::fs::write(&jaas, section).expect("a JAAS file");
    let jaas = jaas.display().to_string();
    let builder =
        EnsembleBuilder::new(&[Zoarium; 3]).property("java.security.auth.login.config", &jaas);
    let Some(mut ensemble) = or_skip("three of ours", builder.start()) else {
        return;
    };
    ensemble.wait_until_all_serve();
    let addresses = ensemble.addresses(&ensemble.ids());
    let mut traveller = Traveller::open(&addresses[0]);
    roll(
        &mut ensemble,
        &mut traveller,
        "ip:127.0.0.1",
        |ensemble, id| {
            for (key, value) in certificates.settings("ssl.", "server", "pem") {
                set(ensemble, id, &key, &value);
            }
            set(ensemble, id, "client.portUnification", "true");
        },
    );
    // First without TLS, and then over TLS.
    for connector in [Connector::plain(), certificates.connector(Some("ann"))] {
        traveller.change(|handshake| handshake.with_connector(connector));
        traveller.go_on(&addresses[1], "ip:127.0.0.1");
    }
    let by_certificate = "x509:CN=ann,OU=Ops,O=Test";
    traveller.go_on(&addresses[2], by_certificate);
    roll(&mut ensemble, &mut traveller, by_certificate, close_plain);
    for address in &addresses {
        assert!(RawSession::open(address, None, 10_000).is_err(), "plain");
    }
    roll(
        &mut ensemble,
        &mut traveller,
        by_certificate,
        |ensemble, id| {
            set(ensemble, id, "authProvider.sasl", PROVIDER);
        },
    );
    let login = Login::digest_md5("bob", Secret::new(SASL_BOB));
    traveller.change(|handshake| handshake.with_login(login));
    traveller.go_on(&addresses[0], by_certificate);
    roll(&mut ensemble, &mut traveller, "sasl:bob", |ensemble, id| {
        set(ensemble, id, "sessionRequireClientSASLAuth", "true");
    });
    let stranger = handshake(10_000).with_connector(certificates.connector(Some("ann")));
    for address in &addresses {
        let mut session = RawSession::with_handshake(address, &stranger).expect("a session");
        let refused = session.call(&Request::Write(create("/no", "", 0)));
        assert_eq!(refused.expect("an answer").err, -124);
    }
    traveller.go_on(&addresses[1], "sasl:bob");
}
