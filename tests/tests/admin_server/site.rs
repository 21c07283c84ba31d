//! Servers with an admin port, in the state in which the recordings were made.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use proto::request::{PathWatchRequest, ReadRequest, Request, flags};
use serde_json::Value;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::{create, get_children, get_data, set_data};
use tests::secrets::SUPER_DIGEST;
use tests::{Flavour, Port, RawSession, Server, ServerBuilder, or_skip};

/// Time limit for each expected event on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A standalone server, and its admin port.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) port: u16,
    _reserved: Port,
}

impl Site {
    /// Starts a server with these additional settings. Returns `None` if it cannot be started on
    /// this machine.
    pub(crate) fn start<S: AsRef<str>>(settings: &[(S, S)]) -> Option<Self> {
        Self::start_as(settings, |builder| builder)
    }

    /// Starts the only member of an ensemble, which supports every command. Its data is in `dir`.
    pub(crate) fn start_member<S: AsRef<str>>(dir: &Path, settings: &[(S, S)]) -> Option<Self> {
        let [quorum, election] = [Port::take(), Port::take()];
        let member = format!("127.0.0.1:{}:{}", quorum.number(), election.number());
        fs::write(dir.join("myid"), "1").expect("write myid");
        Self::start_as(settings, |builder| {
            let builder = builder.setting("server.1", &member).data_dir(dir);
            builder.setting("standaloneEnabled", "false")
        })
    }

    pub(crate) fn start_as<S: AsRef<str>>(
        settings: &[(S, S)],
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Option<Self> {
        let port = Port::take();
        let builder = settings
            .iter()
            .fold(builder(&port), |builder, (key, value)| {
                builder.setting(key.as_ref(), value.as_ref())
            });
        let server = or_skip("the admin server", change(builder).start())?;
        Some(Self {
            server,
            port: port.number(),
            _reserved: port,
        })
    }
}

/// Returns the settings of a server with an admin server on this port.
pub(crate) fn builder(port: &Port) -> ServerBuilder {
    ServerBuilder::new(Flavour::under_test())
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &port.number().to_string())
        .property(
            "zookeeper.DigestAuthenticationProvider.superDigest",
            SUPER_DIGEST,
        )
}

/// Starts an ensemble of three voters and an observer. Returns the admin port of each by its id.
pub(crate) fn ensemble() -> Option<(Ensemble, Vec<Port>)> {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3])
        .observers(&[flavour])
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .dynamic();
    let mut ensemble = or_skip("admin servers of an ensemble", builder.prepare())?;
    let ports = enable(&ensemble, &ensemble.ids());
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some((ensemble, ports))
}

/// Gives each member a free admin port.
pub(crate) fn enable(ensemble: &Ensemble, ids: &[u64]) -> Vec<Port> {
    let ports = ids.iter().map(|id| {
        let port = Port::take();
        let file = ensemble.member(*id).config_file();
        let file = OpenOptions::new().append(true).open(file);
        let mut file = file.expect("open zoo.cfg");
        writeln!(file, "admin.serverPort={}", port.number()).expect("write zoo.cfg");
        port
    });
    ports.collect()
}

/// Opens a session with an ephemeral and watches, and does some reads and writes below `/app`. The
/// created znodes are `named`. The session lasts as long as the returned value.
pub(crate) fn populate(address: &str, named: &str) -> RawSession {
    let mut session = RawSession::open(address, None, 30_000).expect("a session");
    let mut write = |path: &str, data: &str, flags: i32| {
        let request = create(path, data.as_bytes().to_vec(), flags);
        session.call(&Request::Write(request)).expect("an answer")
    };
    for path in ["/app", "/live", "/other", "/zookeeper/quota/app"] {
        write(path, "", flags::PERSISTENT);
    }
    let quota = "/zookeeper/quota/app";
    let limits = "count=100,bytes=1000;byteHardLimit=-1;countHardLimit=-1";
    write(
        &format!("{quota}/zookeeper_limits"),
        limits,
        flags::PERSISTENT,
    );
    write(
        &format!("{quota}/zookeeper_stats"),
        "count=1,bytes=0",
        flags::PERSISTENT,
    );
    write(&format!("/live/eph-{named}"), "e", flags::EPHEMERAL);
    write(&format!("/app/{named}"), "x", flags::PERSISTENT);
    for number in 0..3 {
        let data = format!("data{number}").into_bytes();
        let request = Request::Write(set_data("/app", data, -1));
        session.call(&request).expect("an answer");
        session.call(&get_data("/app")).expect("an answer");
        session.call(&get_children("/app")).expect("an answer");
    }
    let watched = |path: &str| PathWatchRequest {
        path: Some(path.into()),
        watch: true,
    };
    let data = Request::Read(ReadRequest::GetData(watched("/live")));
    let exists = Request::Read(ReadRequest::Exists(watched("/missing")));
    for request in [data, exists] {
        session.call(&request).expect("an answer");
    }
    session
}

/// Returns the records of a file of recordings, or `None` if they are not available.
pub(crate) fn recorded(name: &str) -> Option<Vec<Value>> {
    let path = testkit::recordings::find(&format!("vectors/operations/admin/{name}.jsonl"))?;
    let text = fs::read_to_string(path).expect("read a recording");
    let records = text.lines().map(serde_json::from_str);
    Some(records.collect::<Result<_, _>>().expect("JSON"))
}
