//! Orders for the library that stands between a server and its system, `faults.c`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tests::{Missing, find_tool, prepare, run};

const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// The library, and a directory of orders for each server.
pub(crate) struct Faults {
    library: PathBuf,
    orders: TempDir,
}

impl Faults {
    /// # Errors
    /// [`Missing`] without a C compiler.
    pub(crate) fn new() -> Result<Faults, Missing> {
        let compiler = find_tool("cc")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ensemble_faults/faults.c");
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

    /// What a shell has to do before a server, so that it takes orders under this number.
    pub(crate) fn commands(&self, server: u64) -> String {
        let orders = self.orders_of(server);
        fs::create_dir_all(&orders).expect("make a directory for orders");
        let (library, orders) = (self.library.display(), orders.display());
        format!("export LD_PRELOAD='{library}' FAULTS='{orders}'")
    }

    /// From now on syncs of files whose paths contain this fail.
    pub(crate) fn fail_syncs(&self, server: u64, of: &str) {
        self.order(server, "fail-sync", of);
    }

    /// From now on syncs of files whose paths contain this wait for [`release`](Self::release).
    pub(crate) fn hold_syncs(&self, server: u64, of: &str) {
        self.order(server, "hold-sync", of);
    }

    /// Whether a sync has waited, or does.
    pub(crate) fn has_held(&self, server: u64) -> bool {
        self.orders_of(server).join("held").exists()
    }

    /// Lets all syncs go on.
    pub(crate) fn release(&self, server: u64) {
        let order = self.orders_of(server).join("hold-sync");
        fs::remove_file(order).expect("take back an order");
    }

    /// Lets the wall clock jump to what `faults.c` makes of this.
    pub(crate) fn set_clock(&self, server: u64, clock: &str) {
        self.order(server, "clock", clock);
    }

    fn orders_of(&self, server: u64) -> PathBuf {
        self.orders.path().join(server.to_string())
    }

    /// In one step: nobody reads half an order.
    fn order(&self, server: u64, name: &str, text: &str) {
        let orders = self.orders_of(server);
        fs::create_dir_all(&orders).expect("make a directory for orders");
        let unfinished = orders.join("unfinished");
        fs::write(&unfinished, text).expect("write an order");
        fs::rename(&unfinished, orders.join(name)).expect("give an order");
    }
}
