//! Floods at each port of a server: the log stays short, and says how much it leaves out.

use std::io::{Read, Write};
use std::net::TcpStream;

use tests::{Flavour, Port, RawSession, ServerBuilder, http_get, or_skip};

/// Lines that one place in the code may write in a minute.
const LINES_MAX: usize = 10;

/// How often a stranger does each thing.
const TIMES: usize = 60;

/// Connects, sends some bytes and waits for the end.
fn send(port: u16, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// A frame of four bytes that are no handshake, and the beginning of a TLS handshake.
const NO_HANDSHAKE: &[u8] = b"\0\0\0\x04\xff\xff\xff\xff";
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn no_stranger_makes_the_log_long() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let admin = Port::take();
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &admin.number().to_string())
        .setting("maxClientCnxns", "20");
    let Some(server) = or_skip("a server", builder.start()) else {
        return;
    };
    let client: u16 = server.port();
    let lines_since = |before: usize| server.log().lines().count() - before;
    let begun = server.log().lines().count();
    let floods: [(&str, &dyn Fn()); 6] = [
        ("handshakes that do not decode", &|| {
            send(client, NO_HANDSHAKE)
        }),
        ("TLS at the client port", &|| send(client, CLIENT_HELLO)),
        ("four-letter words", &|| send(client, b"ruok")),
        ("sessions", &|| {
            let session = RawSession::open(&server.address(), None, 10_000);
            session.expect("a session").close().expect("its end");
        }),
        ("TLS at the admin port", &|| {
            send(admin.number(), CLIENT_HELLO)
        }),
        ("commands without credentials", &|| {
            http_get(admin.number(), "/commands/snapshot");
        }),
    ];
    for (what, once) in floods {
        let before = server.log().lines().count();
        (0..TIMES).for_each(|_| once());
        // Each has one or two lines, a session one for its beginning and one for its end.
        assert!(
            lines_since(before) <= 2 * LINES_MAX,
            "{what}: {}",
            server.log()
        );
    }
    // More connections than one address may have.
    let before = server.log().lines().count();
    let crowd: Vec<_> = (0..3 * TIMES)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", client)).ok())
        .collect();
    drop(crowd);
    send(client, NO_HANDSHAKE);
    assert!(lines_since(before) <= 2 * LINES_MAX, "{}", server.log());
    assert!(lines_since(begun) <= 10 * LINES_MAX, "{}", server.log());
    assert!(server.log().contains("handshake does not decode"));
}
