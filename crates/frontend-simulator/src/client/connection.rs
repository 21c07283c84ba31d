//! One connection of a client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use proto::SessionId;
use testkit::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::checks::{bytes_in_server, stalled};
use crate::client::PATIENCE;
use crate::client::behaviour::{Behaviour, End, Hello, Known, Reading};
use crate::client::conversation::Conversation;
use crate::client::requests::Sent;
use crate::world::{World, count, violation};

/// A client that reads keeps its connection.
pub(crate) const KEPT: &str = "a client that reads keeps its connection";

/// Shared state of the two directions of a connection.
struct Shared<'a> {
    world: &'a World,
    client: usize,
    talk: Mutex<Conversation>,
    /// Signals that a request has been sent, or that nothing more will be sent.
    progress: Notify,
    is_all_sent: Mutex<bool>,
    name: String,
}

/// Runs a connection to its end.
pub(crate) async fn converse(
    world: &Arc<World>,
    client: usize,
    known: &mut Known,
    behaviour: Behaviour,
    random: &mut Random,
) {
    let Some(stream) = world.connect(client) else {
        return;
    };
    let frames = behaviour.frames(&world.settings, random);
    let (input, output) = split(stream);
    let shared = Shared {
        world,
        client,
        talk: Mutex::default(),
        progress: Notify::new(),
        is_all_sent: Mutex::new(false),
        name: format!("client {client}"),
    };
    let hello = behaviour.hello_frame(known, random);
    let (mut for_reader, mut for_writer) = (Random::new(random.any()), Random::new(random.any()));
    let reading = read_all(&shared, &behaviour, input, &mut for_reader);
    let writing = write_all(&shared, &behaviour, hello, frames, output, &mut for_writer);
    let both = async { tokio::join!(reading, writing) };
    if behaviour.end == End::Abrupt && !behaviour.stops {
        let life_ms = random.pick(&[1, 20, 500, 60_000]).unwrap_or(1);
        let life = Duration::from_millis(random.below(life_ms) as u64);
        // The connection ends in the middle of its requests.
        drop(timeout(life, both).await);
    } else {
        both.await;
    }
    world.unread.lock().remove(&client);
    let talk = shared.talk.lock();
    if talk.session != SessionId::NONE {
        count(&world.counts.sessions);
        known.session = talk.session;
        known.password.clone_from(&talk.password);
    }
}

/// Sends the frames.
async fn write_all(
    shared: &Shared<'_>,
    behaviour: &Behaviour,
    hello: Vec<u8>,
    frames: Vec<Sent>,
    mut output: WriteHalf<DuplexStream>,
    random: &mut Random,
) {
    let writing = behaviour.writing;
    let mut is_open = write_frame(shared, behaviour, &hello, &mut output, random).await;
    if matches!(behaviour.hello, Hello::Partial | Hello::Garbage) {
        is_open = false;
    }
    for (number, sent) in frames.iter().enumerate() {
        if !is_open {
            break;
        }
        shared.talk.lock().asks(sent, &shared.world.settings);
        let mut frame = &sent.frame[..];
        let is_last = number >= writing.requests_max;
        if is_last {
            frame = frame.get(..random.below(frame.len())).unwrap_or_default();
        }
        is_open = write_frame(shared, behaviour, frame, &mut output, random).await && !is_last;
        if is_open {
            shared.talk.lock().sent += 1;
            shared.progress.notify_one();
        }
    }
    *shared.is_all_sent.lock() = true;
    shared.progress.notify_one();
    if behaviour.stops {
        shared.world.ended().await;
    }
}

/// Sends bytes. Returns false if the connection has ended.
async fn write_frame(
    shared: &Shared<'_>,
    behaviour: &Behaviour,
    frame: &[u8],
    output: &mut WriteHalf<DuplexStream>,
    random: &mut Random,
) -> bool {
    let writing = behaviour.writing;
    for chunk in frame.chunks(writing.chunk.max(frame.len() / 200)) {
        if random.percent(writing.pause_percent) {
            let ms = random.range(0, writing.pause_ms).unsigned_abs();
            sleep(Duration::from_millis(ms)).await;
        }
        if behaviour.stops {
            let written = tokio::select! {
                written = output.write_all(chunk) => written.is_ok(),
                () = shared.world.ended() => false,
            };
            if !written {
                return false;
            }
            continue;
        }
        match timeout(2 * PATIENCE, output.write_all(chunk)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return false,
            Err(_) => {
                let oldest = shared.talk.lock().oldest();
                let text = format!("{}: the server does not read, {oldest}", shared.name);
                shared.world.report(stalled(text));
                return false;
            }
        }
    }
    true
}

/// Reads and checks the replies.
async fn read_all(
    shared: &Shared<'_>,
    behaviour: &Behaviour,
    mut input: ReadHalf<DuplexStream>,
    random: &mut Random,
) {
    let mut frames = 0;
    let is_over = loop {
        let reading = behaviour.reading;
        let may_stop = frames >= reading.frames_max && reading.stop_len_min == 0;
        if may_stop && random.percent(50) {
            break false;
        }
        match read_frame(shared, behaviour, frames, &mut input, random).await {
            Next::Frame(frame) => {
                frames += 1;
                let history = shared.world.history.lock();
                let mut talk = shared.talk.lock();
                let (replies, len) = (talk.replies, frame.len());
                if let Err(mut found) = talk.hear(frame, &history) {
                    found.text = format!("{}: {}", shared.name, found.text);
                    return shared.world.report(found);
                }
                let counts = &shared.world.counts;
                if talk.replies > replies {
                    count(&counts.replies);
                } else {
                    count(&counts.events);
                }
                if len > frontend::limits::REPLY_BYTES_SMALL {
                    count(&counts.long_replies);
                }
            }
            Next::All => break true,
            Next::Lost => {
                count(&shared.world.counts.lost);
                let talk = shared.talk.lock();
                if !talk.may_end && behaviour.is_proper(&shared.world.settings) {
                    let text = format!("{}: {}", shared.name, talk.oldest());
                    shared.world.report(violation(KEPT, text));
                }
                break true;
            }
            Next::Stop => break false,
        }
    };
    if !is_over || behaviour.stops {
        shared.world.ended().await;
    }
}

/// Next event of a client that reads.
enum Next {
    Frame(Bytes),
    /// All replies have arrived, and nothing more will be sent.
    All,
    /// The server has ended the connection.
    Lost,
    /// The client reads no further.
    Stop,
}

async fn read_frame(
    shared: &Shared<'_>,
    behaviour: &Behaviour,
    frames: usize,
    input: &mut ReadHalf<DuplexStream>,
    random: &mut Random,
) -> Next {
    let reading = behaviour.reading;
    let mut prefix = [0; 4];
    let mut have = 0;
    while have < prefix.len() {
        pause(reading, random).await;
        let is_done = {
            let talk = shared.talk.lock();
            !talk.waits() && *shared.is_all_sent.lock() && !talk.may_end
        };
        if have == 0 && is_done && !behaviour.stops {
            return Next::All;
        }
        let rest = prefix.get_mut(have..).unwrap_or_default();
        let waits = shared.talk.lock().waits() || have > 0 || shared.talk.lock().may_end;
        tokio::select! {
            biased;
            read = input.read(rest) => match read {
                Ok(0) | Err(_) => return Next::Lost,
                Ok(bytes) => have += bytes,
            },
            () = shared.progress.notified() => {}
            () = sleep(PATIENCE), if waits && !behaviour.stops => {
                let oldest = shared.talk.lock().oldest();
                shared.world.report(stalled(format!("{}: {oldest}", shared.name)));
                return Next::Stop;
            }
            () = shared.world.ended(), if behaviour.stops => return Next::Stop,
        }
    }
    let len = u32::from_be_bytes(prefix) as usize;
    let mut frame = vec![0; len];
    let mut have = 0;
    let stops = frames >= reading.frames_max && len >= reading.stop_len_min;
    let stops_at = random.below(len.max(1));
    while have < len {
        let unread = bytes_in_server(len - have);
        shared.world.unread.lock().insert(shared.client, unread);
        if stops && have >= stops_at {
            return Next::Stop;
        }
        pause(reading, random).await;
        let max = have + reading.chunk.max(len / 100);
        let rest = frame.get_mut(have..max.min(len)).unwrap_or_default();
        match timeout(PATIENCE, input.read(rest)).await {
            Ok(Ok(bytes)) if bytes > 0 => have += bytes,
            Ok(_) => {
                shared.world.unread.lock().remove(&shared.client);
                return Next::Lost;
            }
            Err(_) => {
                let text = format!("{}: {have} of {len} bytes of a reply", shared.name);
                shared.world.report(stalled(text));
                return Next::Stop;
            }
        }
    }
    shared.world.unread.lock().remove(&shared.client);
    Next::Frame(frame.into())
}

async fn pause(reading: Reading, random: &mut Random) {
    if random.percent(reading.pause_percent) {
        let ms = random.range(0, reading.pause_ms).unsigned_abs();
        sleep(Duration::from_millis(ms)).await;
    }
}
