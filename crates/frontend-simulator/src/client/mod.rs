//! Simulated clients: several connections after each other, each with its own behaviour.

mod behaviour;
mod connection;
mod conversation;
mod requests;
mod watching;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use proto::SessionId;
use testkit::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use crate::checks::stalled;
use crate::client::behaviour::{Behaviour, Known};
use crate::client::connection::converse;
use crate::world::{World, count};

/// Time in which a client that reads must receive something, if something is due.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs a client until its last connection has ended.
pub(crate) async fn run(world: Arc<World>, number: usize, mut random: Random) {
    let hoards = random.percent(world.settings.hoards_percent);
    let connections = if hoards { 1 } else { 1 + random.below(4) };
    let mut known = Known {
        session: SessionId::NONE,
        password: Bytes::new(),
    };
    let mut is_active = true;
    for left in (0..connections).rev() {
        if world.found().is_some() {
            break;
        }
        if !hoards && random.percent(15) {
            word(&world, number, &mut random).await;
            continue;
        }
        let may_stop = left == 0 && random.percent(world.settings.stops_percent);
        let behaviour = if hoards {
            Behaviour::hoard(&mut random)
        } else if random.percent(20) {
            Behaviour::burst(&mut random)
        } else {
            Behaviour::draw(&world.settings, may_stop, &mut random)
        };
        if behaviour.stops {
            count(&world.counts.stuck);
            world.active.fetch_sub(1, Ordering::Relaxed);
            is_active = false;
        }
        converse(&world, number, &mut known, behaviour, &mut random).await;
        sleep(Duration::from_millis(
            random.pick(&[0, 1, 3000]).unwrap_or(0),
        ))
        .await;
    }
    if is_active {
        world.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Checks that the server serves a further client.
pub(crate) async fn probe(world: &Arc<World>, number: usize, mut random: Random) {
    let mut known = Known {
        session: SessionId::NONE,
        password: Bytes::new(),
    };
    let behaviour = Behaviour::probe();
    converse(world, number, &mut known, behaviour, &mut random).await;
}

/// Sends a four-letter word and reads the answer.
async fn word(world: &World, number: usize, random: &mut Random) {
    let words = [
        "conf", "cons", "crst", "dump", "envi", "isro", "mntr", "ruok", "srst", "srvr", "stat",
        "wchc", "wchp", "wchs", "gtmk", "stmk", "hash",
    ];
    let Some(mut stream) = world.connect(number) else {
        return;
    };
    let word = random.pick(&words).unwrap_or("ruok");
    // Fails if the server has closed the connection.
    let _ = stream.write_all(word.as_bytes()).await;
    if word == "stmk" && random.percent(50) {
        let _ = stream.write_all(&[0; 8]).await;
    }
    if random.percent(20) {
        // The client disconnects without reading the answer.
        return;
    }
    sleep(Duration::from_millis(
        random.pick(&[0, 0, 40_000]).unwrap_or(0),
    ))
    .await;
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    if read.is_err() {
        world.report(stalled(format!("the answer to {word} does not end")));
    }
    count(&world.counts.words);
}
