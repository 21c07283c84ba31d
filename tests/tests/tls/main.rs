//! TLS: real servers, third-party clients and Zoarium's, and connections between members.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod clients;
mod crowds;
mod downgrade;
mod flawed;
mod flawed_peers;
mod identities;
mod members;
mod observers;
mod refusals;
mod renewal;
mod strangers;
mod switching;

use client::tls::Connector;
use tests::certificates::Certificates;
use tests::{Flavour, RawSession, Server, ServerBuilder, handshake, or_skip};

/// Returns a Zoarium server whose only client port accepts TLS and plain connections, with
/// `server.<extension>` as its key.
fn unified(certificates: &Certificates, extension: &str) -> ServerBuilder {
    let mut builder =
        ServerBuilder::new(Flavour::Zoarium).setting("client.portUnification", "true");
    for (key, value) in certificates.settings("ssl.", "server", extension) {
        builder = builder.setting(&key, &value);
    }
    builder
}

fn started(builder: &ServerBuilder) -> Server {
    or_skip("a server of ours", builder.start()).expect("ours is always there")
}

/// Opens a session over TLS.
fn session(server: &Server, connector: Connector) -> Result<RawSession, client::Error> {
    let handshake = handshake(10_000).with_connector(connector);
    RawSession::with_handshake(&server.address(), &handshake)
}
