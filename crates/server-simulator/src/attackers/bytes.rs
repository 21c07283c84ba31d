//! Bytes that attackers send.

use testkit::Random;

/// Port of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Client,
    Secure,
    Quorum,
    Election,
    Admin,
}

/// Draws bytes for a port that accepts everybody's bytes only if `is_open` is not set. Peers at an
/// open port of members would otherwise be members.
pub(super) fn draw(random: &mut Random, port: Port, is_open: bool) -> Vec<u8> {
    match random.below(6) {
        0 => noise(random, port, is_open),
        2 => handshake(random),
        1 => huge_length(random, port, is_open),
        _ => {
            let mut bytes = beginning(random, port);
            let is_whole = match port {
                Port::Client | Port::Secure | Port::Admin => random.percent(60),
                Port::Quorum | Port::Election => false,
            };
            if !is_whole {
                let len = random.below(bytes.len());
                bytes.truncate(len);
            }
            if random.percent(20) && !bytes.is_empty() && !is_members(port) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            bytes
        }
    }
}

fn is_members(port: Port) -> bool {
    matches!(port, Port::Quorum | Port::Election)
}

fn noise(random: &mut Random, port: Port, is_open: bool) -> Vec<u8> {
    let len = 1 + random.below(3000);
    let mut bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
    if is_members(port) && is_open {
        // A positive number would be the hello of a version before 3.5.
        bytes[0] |= 0x80;
    }
    bytes
}

fn huge_length(random: &mut Random, port: Port, is_open: bool) -> Vec<u8> {
    let lengths = [
        i32::MAX,
        i32::MIN,
        -1,
        0,
        0x0010_0000,
        0x000F_FFFF,
        0x7F00_0000,
    ];
    let mut length = random.pick(&lengths).unwrap_or(-1);
    if is_members(port) && is_open {
        length |= i32::MIN;
    }
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend((0..random.below(40)).map(|_| random.byte()));
    bytes
}

/// Returns the beginning of a TLS handshake, which announces more bytes than follow, or more bytes
/// than servers accept.
fn handshake(random: &mut Random) -> Vec<u8> {
    const RECORD_BYTES: usize = 16 << 10;
    let mut bytes = Vec::new();
    for number in 0..random.range(1, 8) {
        let len = u16::try_from(RECORD_BYTES).expect("a short record");
        bytes.extend([0x16, 0x03, 0x01]);
        bytes.extend(len.to_be_bytes());
        let start = bytes.len();
        if number == 0 {
            // A ClientHello of TLS 1.2 or 1.3.
            bytes.extend([0x01, 0x01, 0xFF, 0xFF, 0x03, 0x03]);
        }
        bytes.resize(start + RECORD_BYTES, 0x20);
    }
    if random.percent(60) {
        bytes.truncate(random.below(500));
    }
    bytes
}

/// Returns a valid first message.
fn beginning(random: &mut Random, port: Port) -> Vec<u8> {
    match port {
        Port::Client | Port::Secure if random.percent(40) => {
            let words = [
                "ruok", "mntr", "cons", "dump", "wchp", "wchc", "srvr", "envi", "conf",
            ];
            random.pick(&words).unwrap_or("stat").as_bytes().to_vec()
        }
        Port::Client | Port::Secure => connect_request(random),
        Port::Quorum => introduction(),
        Port::Election => hello(1),
        Port::Admin => {
            let paths = [
                "commands",
                "commands/monitor",
                "commands/configuration",
                "commands/initial_configuration",
                "commands/system_properties",
                "commands/snapshot?streaming=true",
                "commands/connections",
                "commands/dump",
                "console/data?path=/vault",
                "console/search?text=vault",
                "history/cat?path=/vault&at=HEAD",
                "..//%00",
            ];
            let path = random.pick(&paths).unwrap_or_default();
            let version = random.below(3);
            let host = if random.percent(50) {
                "Host: localhost\r\n"
            } else {
                ""
            };
            format!("GET /{path} HTTP/1.{version}\r\n{host}\r\n").into_bytes()
        }
    }
}

/// Returns a request for a session.
fn connect_request(random: &mut Random) -> Vec<u8> {
    let mut bytes = 45_i32.to_be_bytes().to_vec();
    bytes.extend(0_i32.to_be_bytes());
    bytes.extend(0_i64.to_be_bytes());
    bytes.extend(10_000_i32.to_be_bytes());
    let session = if random.percent(50) { 0 } else { random.any() };
    bytes.extend(session.to_be_bytes());
    bytes.extend(16_i32.to_be_bytes());
    bytes.extend([0; 16]);
    bytes.push(0);
    bytes
}

/// Returns the hello of a member.
pub(super) fn hello(member: i64) -> Vec<u8> {
    let address = b"127.0.0.1:3888";
    let mut bytes = (-65_536_i64).to_be_bytes().to_vec();
    bytes.extend(member.to_be_bytes());
    bytes.extend(14_i32.to_be_bytes());
    bytes.extend(address);
    bytes
}

/// Returns the first packet of a follower.
pub(super) fn introduction() -> Vec<u8> {
    let mut bytes = 11_i32.to_be_bytes().to_vec();
    bytes.extend(0_i64.to_be_bytes());
    bytes.extend(20_i32.to_be_bytes());
    bytes.extend(1_i64.to_be_bytes());
    bytes.extend(0x1_0000_i32.to_be_bytes());
    bytes.extend(0_i64.to_be_bytes());
    bytes.extend((-1_i32).to_be_bytes());
    bytes
}
