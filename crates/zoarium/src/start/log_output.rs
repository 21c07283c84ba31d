//! Output of log lines to standard error: a bounded buffer, and a thread that writes it.
//!
//! The logging thread may be a worker of the runtime, and standard error may be a pipe without a
//! reader or a file on a slow disk. A line is therefore only put into the buffer. If the buffer is
//! full, the line is dropped and counted.

use std::convert::Infallible;
use std::io::{self, Write};
use std::panic;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use executor::Mailbox;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum size of the lines that wait for standard error, bytes.
const BYTES_MAX: usize = 1 << 20;

/// Maximum time to wait for standard error to accept the lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Name of the thread that writes the lines. Tests find the thread by this name and wait until it
/// has nothing to write.
const THREAD: &str = "log-writer";

/// Receiver of log lines from any thread. It never blocks the thread.
#[derive(Debug, Clone)]
pub(crate) struct LogOutput {
    pending: Arc<Mailbox<Pending>>,
}

/// Lines that the writing thread has not removed yet.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Number of lines that did not fit.
    dropped: u64,
    /// Senders that are dropped when the lines have been written.
    flushes: Vec<Sender<Infallible>>,
}

impl Pending {
    fn append(&mut self, line: &[u8]) {
        if self.bytes.len() + line.len() > BYTES_MAX {
            self.dropped += 1;
        } else {
            self.bytes.extend_from_slice(line);
        }
    }

    fn take(&mut self) -> Option<Self> {
        let is_empty = self.bytes.is_empty() && self.dropped == 0 && self.flushes.is_empty();
        (!is_empty).then(|| std::mem::take(self))
    }
}

impl LogOutput {
    /// Starts the thread that writes to standard error.
    ///
    /// # Errors
    /// If standard error is closed, or if the system cannot start a thread.
    fn to_stderr() -> io::Result<Self> {
        Self::start(terminal::stderr_file()?)
    }

    fn start(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let pending = Arc::new(Mailbox::<Pending>::new(Pending::default()));
        let lines = pending.clone();
        let write = move || {
            while let Some(taken) = lines.take(Pending::take) {
                // A failure of standard error cannot be reported anywhere else.
                let _ = out.write_all(&taken.bytes).and_then(|()| out.flush());
                if taken.dropped > 0 {
                    tracing::warn!(
                        lines = taken.dropped,
                        "log lines were dropped because standard error was too slow"
                    );
                }
            }
        };
        thread::Builder::new().name(THREAD.into()).spawn(write)?;
        Ok(Self { pending })
    }

    /// Waits until the lines that were logged earlier have been written, for at most a second.
    fn flush(&self) {
        blocking::mark("wait for standard error");
        let (written, is_written) = crossbeam_channel::bounded(0);
        self.pending.post(|pending| pending.flushes.push(written));
        // The channel is disconnected when the lines have been written. Standard error may accept
        // nothing until the timeout.
        let _ = is_written.recv_timeout(FLUSH_MAX);
    }
}

impl Write for &LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.pending.post(|pending| pending.append(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogOutput {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Log output of this process, once its log has been started.
static OUTPUT: OnceLock<LogOutput> = OnceLock::new();

/// Starts the log of this process.
///
/// # Errors
/// If standard error is closed, or if the system cannot start a thread.
pub(crate) fn begin() -> io::Result<LogOutput> {
    let output = LogOutput::to_stderr()?;
    if cfg!(panic = "abort") {
        // The process ends at a panic, so the hook first writes the earlier lines, which explain
        // the panic.
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            blocking::permit(flush);
            print(info);
        }));
    }
    Ok(OUTPUT.get_or_init(|| output).clone())
}

/// Waits until the lines that this process has logged have been written, for at most a second. A
/// message that is written directly to standard output or standard error then comes after them.
pub(crate) fn flush() {
    if let Some(output) = OUTPUT.get() {
        output.flush();
    }
}

/// Guard that flushes the log when it is dropped, at the end of a process.
#[derive(Debug)]
pub(crate) struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        blocking::permit(flush);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, PipeReader, pipe};

    use super::*;

    /// Returns a line that is longer than the buffer of a pipe.
    fn long_line() -> Vec<u8> {
        let mut line = vec![b'x'; 100_000];
        line.push(b'\n');
        line
    }

    fn with_pipe() -> (LogOutput, BufReader<PipeReader>) {
        let (reader, writer) = pipe().unwrap();
        let output = LogOutput::start(writer).unwrap();
        (output, BufReader::new(reader))
    }

    #[test]
    fn lines_arrive_in_order_and_before_a_flush_ends() {
        let (output, reader) = with_pipe();
        for number in 0..100 {
            (&output)
                .write_all(format!("line {number}\n").as_bytes())
                .unwrap();
        }
        output.flush();
        output.pending.finish();
        let lines: Vec<String> = reader.lines().map(Result::unwrap).collect();
        let expected: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_pipe_that_nobody_reads_blocks_no_thread_and_bounds_memory() {
        let (output, mut reader) = with_pipe();
        let line = long_line();
        let waiting = || {
            let lines = |pending: &mut Pending| Some((pending.bytes.len(), pending.dropped));
            output.pending.try_take(lines).unwrap()
        };
        (&output).write_all(&line).unwrap();
        while waiting().0 > 0 {
            thread::yield_now();
        }
        // From now on the thread waits for the pipe.
        for _ in 0..100 {
            (&output).write_all(&line).unwrap();
        }
        let (bytes, dropped) = waiting();
        assert!(bytes <= BYTES_MAX && dropped >= 88, "{bytes}, {dropped}");
        // The wait at the end of the process is bounded.
        output.flush();
        let mut first = Vec::new();
        reader.read_until(b'\n', &mut first).unwrap();
        assert_eq!(first, line);
    }
}
