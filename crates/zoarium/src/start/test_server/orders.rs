//! Lines that contain commands, from standard input and from HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Maximum length of a line, bytes.
pub(super) const LINE_BYTES_MAX: u64 = 4096;

/// Message to the task that owns the ensemble.
pub(super) enum Order {
    Command {
        line: String,
        answer: oneshot::Sender<Answer>,
    },
    /// Standard input was closed.
    InputClosed,
}

pub(super) type Orders = mpsc::Sender<Order>;

/// Answer to a command.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) is_ok: bool,
    json: Value,
}

impl Answer {
    /// Creates the answer to a line. The answer contains the fields of the result, or the error.
    pub(super) fn new(line: &str, result: Result<Value, String>) -> Self {
        let is_ok = result.is_ok();
        let mut json = json!({ "command": line, "ok": is_ok });
        let fields = match result {
            Ok(fields) => fields,
            Err(error) => json!({ "error": error }),
        };
        if let (Some(json), Value::Object(fields)) = (json.as_object_mut(), fields) {
            json.extend(fields);
        }
        Self { is_ok, json }
    }

    /// Returns the answer as a line.
    pub(super) fn line(&self) -> String {
        format!("{}\n", self.json)
    }
}

/// Sends a command to the task that owns the ensemble, and returns the answer. Returns `None` if
/// the servers are stopping.
pub(super) async fn send(orders: &Orders, line: String) -> Option<Answer> {
    let (answer, answered) = oneshot::channel();
    orders.send(Order::Command { line, answer }).await.ok()?;
    answered.await.ok()
}

/// Reads commands from standard input on a separate thread, and writes their answers to standard
/// output.
///
/// # Errors
/// If the system cannot start a thread.
pub(super) fn read_stdin(orders: Orders) -> io::Result<()> {
    let name = "commands".to_owned();
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || {
        // After a failed read, no further commands arrive, as after the end of the input.
        let _ = send_lines(&mut BufReader::new(io::stdin()), &orders);
        if !is_null(&io::stdin()).unwrap_or(false) {
            let _ = orders.blocking_send(Order::InputClosed);
        }
    })?;
    Ok(())
}

fn send_lines(input: &mut impl BufRead, orders: &Orders) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        let mut limited = input.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = limited.limit() > 0 || line.ends_with(b"\n");
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        let answer = if !is_whole {
            input.skip_until(b'\n')?;
            let error = format!("the line has more than {LINE_BYTES_MAX} bytes");
            Answer::new("", Err(error))
        } else if line.is_empty() {
            continue;
        } else {
            let (answer, answered) = oneshot::channel();
            let order = Order::Command { line, answer };
            let sent = orders.blocking_send(order).is_ok();
            match sent.then(|| answered.blocking_recv()) {
                Some(Ok(answer)) => answer,
                // The servers are stopping.
                _ => return Ok(()),
            }
        };
        let mut out = terminal::stdout();
        // The test may have closed the output after the first line.
        let _ = out
            .write_all(answer.line().as_bytes())
            .and_then(|()| out.flush());
    }
}

/// Returns whether the input is `/dev/null`, whose immediate end does not stop the servers.
fn is_null(input: &impl AsFd) -> io::Result<bool> {
    let input = std::fs::File::from(input.as_fd().try_clone_to_owned()?).metadata()?;
    let null = std::fs::metadata("/dev/null")?;
    Ok(input.file_type().is_char_device() && input.rdev() == null.rdev())
}
