//! Strangers: requests that are incomplete, wrong, too large or too many, and slow readers.

use std::io;

use proto::Sid;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::operator::{ANSWERS, Operator, PATIENCE};
use super::wire::http::{Connection, Request};
use crate::settings::{ADMIN_PORT, EXPORTER_PORT, HEALTH_PORT};

const REFUSED: &str = "a wrong request is refused";
const CLOSED: &str = "the server closes a connection without progress";

/// Disturbs the HTTP ports until the clients end.
pub(super) async fn run(mut operator: Operator) {
    let mut crowd = Vec::new();
    while !operator.is_over() {
        operator.pause(4000).await;
        let member = operator.member();
        match operator.random.below(10) {
            0 => cut(&mut operator, member).await,
            1 => silent(&mut operator, member).await,
            2 => nonsense(&mut operator, member).await,
            3 => slow_reader(&mut operator, member).await,
            4 => {
                crowd.clear();
                for _ in 0..operator.random.below(80) {
                    crowd.extend(operator.connect(member, ADMIN_PORT).await);
                }
            }
            5 => pipelined(&mut operator, member).await,
            _ => wrong(&mut operator, member).await,
        }
    }
}

fn port(operator: &mut Operator) -> u16 {
    let settings = &operator.world.settings.operators;
    let last = if settings.has_exporter {
        EXPORTER_PORT
    } else {
        ADMIN_PORT
    };
    let port = operator
        .random
        .pick(&[ADMIN_PORT, ADMIN_PORT, HEALTH_PORT, last]);
    port.unwrap_or(ADMIN_PORT)
}

/// Ends a connection within a request or an answer.
async fn cut(operator: &mut Operator, member: Sid) {
    let request = draw(operator);
    let port = port(operator);
    let Ok(mut connection) = operator.connect(member, port).await else {
        return;
    };
    let bytes = request.bytes(connection.server);
    let some = operator.random.below(bytes.len() + 1);
    let _ = connection.write(&bytes[..some]).await;
    operator.pause(3000).await;
    let mut piece = [0; 100];
    let _ = timeout(
        std::time::Duration::from_secs(1),
        connection.stream.read(&mut piece),
    )
    .await;
}

/// Returns a request whose answer may be long.
fn draw(operator: &mut Operator) -> Request {
    let target = operator.random.pick(&[
        "/commands/snapshot",
        "/commands/backup/log?after=0x0",
        "/commands/monitor",
        "/commands/history/changes?path=/&recursive=true&limit=1000&diff=true",
        "/commands/history/feed?from=0x1",
        "/commands/dump",
        "/console/page.js",
        "/",
    ]);
    let caller = super::settings::Caller::SuperUser
        .authorization()
        .unwrap_or_default();
    Request::new("GET", target.unwrap_or("/")).with("authorization", caller)
}

/// Sends a part of a request, and waits until the server closes the connection.
async fn silent(operator: &mut Operator, member: Sid) {
    let port = port(operator);
    let Ok(mut connection) = operator.connect(member, port).await else {
        return;
    };
    let starts: &[&[u8]] = &[
        b"",
        b"G",
        b"GET /commands/ruok HTTP/1.1\r\nhost: a",
        b"\x16\x03\x01",
    ];
    let start = operator.random.pick(starts).unwrap_or_default();
    let _ = connection.write(start).await;
    if !ends(&mut connection).await {
        operator
            .world
            .report(CLOSED, &format!("{start:?} at port {port} of {member}"));
    }
}

/// Reads until the end of the connection. Returns false if it does not end in time.
async fn ends(connection: &mut Connection) -> bool {
    let mut rest = Vec::new();
    let reading = connection.stream.read_to_end(&mut rest);
    timeout(PATIENCE, reading).await.is_ok()
}

/// Sends bytes that are not HTTP.
async fn nonsense(operator: &mut Operator, member: Sid) {
    let port = port(operator);
    let Ok(mut connection) = operator.connect(member, port).await else {
        return;
    };
    let bytes: Vec<u8> = (0..operator.random.below(300))
        .map(|_| operator.random.byte())
        .collect();
    let _ = connection.write(&bytes).await;
    let _ = connection.write(b"\r\n\r\n").await;
    if !ends(&mut connection).await {
        operator
            .world
            .report(CLOSED, &format!("{bytes:?} at port {port} of {member}"));
    }
}

/// Requests a long answer and reads it slowly, or not at all.
async fn slow_reader(operator: &mut Operator, member: Sid) {
    let request = draw(operator);
    let Ok(mut connection) = operator.connect(member, ADMIN_PORT).await else {
        return;
    };
    let _ = connection.send(&request).await;
    for _ in 0..operator.random.below(5) {
        operator.pause(8000).await;
        let mut piece = vec![0; 1 + operator.random.below(2000)];
        let reading = connection.stream.read(&mut piece);
        if !matches!(timeout(PATIENCE, reading).await, Ok(Ok(read)) if read > 0) {
            return;
        }
    }
}

/// Sends several requests before it reads their answers, which arrive in order.
async fn pipelined(operator: &mut Operator, member: Sid) {
    let requests: Vec<Request> = (0..=operator.random.below(5))
        .map(|number| Request::new("GET", format!("/commands/unknown{number}")))
        .collect();
    let life = operator.world.lives.of(member);
    let answered = async {
        let mut connection = operator.connect(member, ADMIN_PORT).await?;
        for request in &requests {
            connection.send(request).await?;
        }
        for (number, request) in requests.iter().enumerate() {
            let answer = connection.answer(request).await;
            let answer = answer.map_err(|error| io::Error::other(format!("{error:?}")))?;
            if !answer.text().contains(&format!("unknown{number}")) {
                operator.report(REFUSED, request, &answer);
            }
        }
        io::Result::Ok(())
    };
    let answered = timeout(PATIENCE, answered).await;
    let lives = life.is_some() && life == operator.world.lives.of(member);
    if lives && !matches!(answered, Ok(Ok(()))) {
        operator
            .world
            .report(ANSWERS, &format!("pipelined at {member}: {answered:?}"));
    }
}

/// Sends a complete request that must be refused.
async fn wrong(operator: &mut Operator, member: Sid) {
    let super_user = super::settings::Caller::SuperUser
        .authorization()
        .unwrap_or_default();
    let get = |target: &str| Request::new("GET", target);
    let (request, statuses): (Request, &[u16]) = match operator.random.below(14) {
        0 => (
            get("/commands/ruok").with("origin", "http://evil.example"),
            &[403],
        ),
        1 => (
            get("/commands/ruok").with("sec-fetch-site", "cross-site"),
            &[403],
        ),
        2 => (
            get("/commands/stat_reset")
                .with("host", "evil.example")
                .with("authorization", super_user),
            &[421],
        ),
        3 => (
            get("/commands/members").with("host", "evil.example"),
            &[421],
        ),
        4 => (
            get("/commands/ruok").with("x-long", "x".repeat(9000)),
            &[431, 400],
        ),
        5 => {
            let headers = (0..100).fold(get("/commands/ruok"), |request, _| {
                request.with("x-many", "1")
            });
            (headers, &[431, 400])
        }
        6 => (Request::new("TRACE", "/commands/ruok"), &[403]),
        7 => (Request::new("PUT", "/commands/ruok"), &[405]),
        8 => (Request::new("PATCH", "/commands/ruok"), &[501]),
        9 => (get("/elsewhere"), &[404]),
        10 => (get("/commands/snapshot"), &[401, 200]),
        11 => (
            get("/commands/snapshot").with("authorization", "digest  a b"),
            &[401, 429, 200],
        ),
        12 => (get("/commands/..%2f..%2fetc%2fpasswd"), &[200]),
        _ => (
            get("/commands/backup/log?after=0x1").with("authorization", "x509 CN=a"),
            &[401, 429, 200],
        ),
    };
    let Some(answer) = operator.ask(member, &request).await else {
        return;
    };
    let has_error = answer.json().is_some_and(|json| json["error"].is_string());
    let status = answer.head.status;
    if !statuses.contains(&status) || (status == 200 && !has_error) {
        operator.report(REFUSED, &request, &answer);
    }
}
