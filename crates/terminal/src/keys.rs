//! Detection of the key `q` while a command refreshes its output.

use std::io::{IsTerminal, Stdin, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Tenths of a second after which a read from the terminal returns without a key.
const READ_TENTHS: u8 = 1;

/// Listener for the key `q` on the terminal of standard input. Dropping it restores the terminal's
/// mode.
#[derive(Debug)]
pub struct QuitKey {
    saved: Termios,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl QuitKey {
    /// Starts a thread that calls `quit` when the user presses `q`. Returns `None` if standard
    /// input is not a terminal, or if the terminal's mode cannot be read or set.
    pub fn listen(quit: impl FnOnce() + Send + 'static) -> Option<Self> {
        let terminal = stdin();
        if !terminal.is_terminal() {
            return None;
        }
        let saved = tcgetattr(&terminal).ok()?;
        let mut mode = saved.clone();
        // Keys arrive immediately and are not echoed. Ctrl-C remains a signal.
        mode.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 0;
        mode.special_codes[SpecialCodeIndex::VTIME] = READ_TENTHS;
        tcsetattr(&terminal, OptionalActions::Now, &mode).ok()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let reader = std::thread::spawn(move || {
            if waits_for_quit(&terminal, &ends) {
                quit();
            }
        });
        Some(Self {
            saved,
            is_over,
            reader: Some(reader),
        })
    }
}

impl Drop for QuitKey {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // The thread ends after its current read. If it were not awaited, it could consume keys
            // that are meant for the following commands.
            let _ = reader.join();
        }
        // An error is harmless, because a terminal that no longer exists does not need its mode.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.saved);
    }
}

/// Reads keys until the user presses `q`, `ends` is set, or a read fails. Returns whether the user
/// pressed `q`.
fn waits_for_quit(terminal: &Stdin, ends: &AtomicBool) -> bool {
    let mut keys = [0; 16];
    while !ends.load(Ordering::Relaxed) {
        match rustix::io::read(terminal, &mut keys) {
            Ok(length) if keys[..length].iter().any(|key| matches!(key, b'q' | b'Q')) => {
                return true;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}
