//! Orders for the library between a server and its system calls, `faults.c`.

mod power;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command::{find_tool, run};
use crate::foreign::prepare;
use crate::skip::Missing;
use tempfile::TempDir;

const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// The library, and a directory of orders for each server.
#[derive(Debug)]
pub struct Faults {
    library: PathBuf,
    orders: TempDir,
}

impl Faults {
    /// Compiles the library.
    ///
    /// # Errors
    /// [`Missing`] without a C compiler.
    pub fn new() -> Result<Faults, Missing> {
        let compiler = find_tool("cc")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/faults.c");
        let dir = prepare("faults", std::slice::from_ref(&source), |dir| {
            let mut command = Command::new(&compiler);
            command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]);
            command.args(["-shared", "-fPIC"]).arg(&source);
            command.arg("-o").arg(dir.join("faults.so"));
            if let Err(failure) = run(&mut command, COMPILE_LIMIT) {
                panic!("the library does not compile: {failure}");
            }
            Ok(())
        })?;
        let orders = tempfile::tempdir().expect("make a directory for orders");
        Ok(Faults {
            library: dir.join("faults.so"),
            orders,
        })
    }

    /// Returns shell commands that load the library into a server. The server then executes the
    /// orders for this number.
    pub fn commands(&self, server: u64) -> String {
        let orders = self.orders_of(server);
        fs::create_dir_all(&orders).expect("make a directory for orders");
        let (library, orders) = (self.library.display(), orders.display());
        format!("export LD_PRELOAD='{library}' FAULTS='{orders}'")
    }

    /// Makes syncs of files whose paths contain `of` fail from now on.
    pub fn fail_syncs(&self, server: u64, of: &str) {
        self.order(server, "fail-sync", of);
    }

    /// Makes syncs of files whose paths contain `of` wait for [`release`](Self::release).
    pub fn hold_syncs(&self, server: u64, of: &str) {
        // An earlier order may have left this file.
        fs::remove_file(self.orders_of(server).join("held")).ok();
        self.order(server, "hold-sync", of);
    }

    /// Limits the write rate of a disk for files whose paths contain `of`, in bytes per
    /// millisecond.
    pub fn slow_syncs(&self, server: u64, of: &str, bytes_per_ms: u64) {
        self.order(server, "sync-rate", &bytes_per_ms.to_string());
        self.order(server, "slow-sync", of);
    }

    /// Delays each sync of files whose paths contain `of` by `ms` milliseconds.
    pub fn delay_syncs(&self, server: u64, of: &str, ms: u64) {
        self.order(server, "sync-ms", &ms.to_string());
        self.order(server, "late-sync", of);
    }

    /// Makes syncs of files whose paths contain `of` succeed without doing anything.
    pub fn fake_syncs(&self, server: u64, of: &str) {
        self.order(server, "lie-sync", of);
    }

    /// Returns whether a sync has waited since the last [`hold_syncs`](Self::hold_syncs), or waits
    /// now.
    pub fn has_held(&self, server: u64) -> bool {
        self.orders_of(server).join("held").exists()
    }

    /// Releases all waiting syncs.
    pub fn release(&self, server: u64) {
        let order = self.orders_of(server).join("hold-sync");
        fs::remove_file(order).expect("take back an order");
    }

    /// Ends all orders about syncs.
    pub fn end_sync_faults(&self, server: u64) {
        for order in ["fail-sync", "hold-sync", "slow-sync", "late-sync"] {
            // Most of these orders do not exist.
            fs::remove_file(self.orders_of(server).join(order)).ok();
        }
    }

    /// Makes writes to files whose paths contain `of` fail with a full disk, until
    /// [`end_full_disk`](Self::end_full_disk).
    pub fn fill_disk(&self, server: u64, of: &str) {
        self.order(server, "full", of);
    }

    /// Ends the full disk.
    pub fn end_full_disk(&self, server: u64) {
        fs::remove_file(self.orders_of(server).join("full")).ok();
    }

    /// Records the data that writes replace, from the next start on, so that
    /// [`drop_unsynced`](Self::drop_unsynced) can restore it.
    pub fn note_unsynced(&self, server: u64) {
        fs::create_dir_all(self.undo_of(server)).expect("make a directory for what is replaced");
    }

    /// Reverts unsynced writes to the files below `dir`, as a power failure does. No process may
    /// use the directory. `kept` returns how many of the first such writes of each file survive.
    /// File names do not change. Returns the number of lost bytes.
    ///
    /// # Errors
    /// If the files cannot be read or written.
    pub fn drop_unsynced(
        &self,
        server: u64,
        dir: &Path,
        kept: impl FnMut(usize) -> usize,
    ) -> std::io::Result<u64> {
        power::drop_unsynced(&self.undo_of(server), dir, kept)
    }

    fn undo_of(&self, server: u64) -> PathBuf {
        self.orders_of(server).join("undo")
    }

    /// Sets the wall clock as `faults.c` interprets `clock`.
    pub fn set_clock(&self, server: u64, clock: &str) {
        self.order(server, "clock", clock);
    }

    fn orders_of(&self, server: u64) -> PathBuf {
        self.orders.path().join(server.to_string())
    }

    /// Writes an order atomically, so that a server never reads half an order.
    fn order(&self, server: u64, name: &str, text: &str) {
        let orders = self.orders_of(server);
        fs::create_dir_all(&orders).expect("make a directory for orders");
        let unfinished = orders.join("unfinished");
        fs::write(&unfinished, text).expect("write an order");
        fs::rename(&unfinished, orders.join(name)).expect("give an order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::or_skip;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Each slow sync in this script would take minutes if it counted data that was synced before,
    /// or if it continued after the disk became fast again.
    const SYNCS: &str = "
import os, threading
def order(name, text):
    with open(os.path.join(os.environ['FAULTS'], name), 'w') as file:
        file.write(text)
file = os.open('log', os.O_RDWR | os.O_CREAT)
os.pwrite(file, bytes(600000), 0)
os.fsync(file)
order('sync-rate', '1')
order('slow-sync', 'log')
os.pwrite(file, b'x', 0)
os.fsync(file)
os.pwrite(file, bytes(600000), 0)
end = lambda: os.remove(os.path.join(os.environ['FAULTS'], 'slow-sync'))
threading.Timer(0.05, end).start()
os.fsync(file)
";

    #[test]
    fn a_slow_sync_takes_time_by_unsynced_bytes_and_ends_with_its_fault() {
        let Some((faults, python)) = or_skip("slow syncs", tools()) else {
            return;
        };
        let dir = tempfile::tempdir().expect("make a directory");
        let script = dir.path().join("syncs.py");
        fs::write(&script, SYNCS).expect("write the script");
        let line = format!(
            "{}; exec '{}' syncs.py",
            faults.commands(7),
            python.display()
        );
        let mut command = Command::new(find_tool("sh").expect("a shell"));
        command.current_dir(dir.path()).args(["-c", &line]);
        run(&mut command, LIMIT).expect("all syncs end in time");
    }

    fn tools() -> Result<(Faults, PathBuf), Missing> {
        Ok((Faults::new()?, find_tool("python3")?))
    }
}
