//! Servers of one side of a comparison, and operations that prepare and clean up their znodes.

pub(crate) mod access;

use std::sync::Arc;
use std::time::Duration;

use client::{Handshake, RawConnection};

use self::access::Access;
use crate::args::LoadArgs;
use crate::error::{BenchError, Result};
use crate::rounds::load;
use crate::rounds::process::{Memory, Processes};
use crate::session::bulk::Bulk;
use crate::session::template::{Payload, Template, path_with_digits};
use crate::session::workload::{
    KEY_DIGITS, LoadPlan, Mix, PARENT_DIGITS, create_parent, key_prefix, parent_prefix,
};
use crate::session::{close_session, named};

/// Maximum length of a reply, in bytes. The names of millions of children must fit into one reply,
/// so that the children can be deleted.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// Time limit for a connection and its handshake. A server in a connect storm may take long.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for each attempt to open a session with a starting server and to read `/`.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers of one side, such as the members of an ensemble.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) servers: Arc<[Arc<str>]>,
    /// Processes whose CPU time and memory are measured.
    pub(crate) processes: Processes,
    /// Settings of connections to the servers.
    access: Access,
}

impl Target {
    pub(crate) fn new(servers: &[String], pids: &[u32], access: Access) -> Result<Self> {
        let servers = load::addresses(servers);
        if servers.is_empty() {
            return Err(BenchError::Argument(
                "--server does not name a server".to_owned(),
            ));
        }
        Ok(Self {
            servers: servers.into(),
            processes: Processes::new(pids)?,
            access,
        })
    }

    /// Returns the memory of the processes, if any are measured.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.processes.memory()
    }

    /// Returns the addresses of the servers, separated by commas.
    pub fn name(&self) -> String {
        self.servers.join(",")
    }

    /// Returns the settings for opening connections.
    pub(crate) fn handshake(&self) -> Handshake {
        self.access.handshake()
    }

    /// Opens a session on a server and reads `/`. Returns the connection.
    ///
    /// # Errors
    /// If the server does not serve the read in time.
    pub(crate) async fn read_root(&self, server: &Arc<str>) -> Result<RawConnection> {
        let read = async {
            let mut connection = RawConnection::open(server, &self.handshake()).await?;
            let template = Template::get_data("/", false);
            let put = |_, xid, out: &mut Vec<u8>| template.put(xid, out, || 0);
            let take = |_, code, _: &[u8]| if code == 0 { Ok(()) } else { Err(code) };
            let mut bulk = Bulk::new(&mut connection, Arc::clone(server));
            bulk.run("read /", 1, put, take).await?;
            Ok(connection)
        };
        match tokio::time::timeout(READ_TIMEOUT, read).await {
            Ok(read) => read,
            Err(_) => Err(BenchError::Stalled(READ_TIMEOUT.as_secs())),
        }
    }

    /// Creates a znode and its parents, unless they exist.
    pub(crate) async fn make(&self, path: &str) -> Result<()> {
        let (mut connection, server) = self.connect().await?;
        create_with_parents(&mut Bulk::new(&mut connection, server), path).await?;
        close_session(&mut connection).await;
        Ok(())
    }

    async fn connect(&self) -> Result<(RawConnection, Arc<str>)> {
        let server = self.servers.first().cloned().unwrap_or_default();
        let handshake = self.access.handshake();
        let handshake = handshake.with_frame_bytes_max(FRAME_BYTES_MAX);
        let connection = RawConnection::open(&server, &handshake)
            .await
            .map_err(named)?;
        Ok((connection, server))
    }

    /// Creates the znodes that every round of the load needs.
    pub(crate) async fn prepare(&self, plan: &LoadPlan) -> Result<()> {
        let (mut connection, server) = self.connect().await?;
        let mut bulk = Bulk::new(&mut connection, server);
        create_with_parents(&mut bulk, &plan.root).await?;
        if plan.mix.uses_keys() && plan.breadth.is_none() {
            let path = path_with_digits(&key_prefix(&plan.root), KEY_DIGITS);
            let template = Template::create(&path, &plan.payload);
            bulk.create_numbered("create znodes", &template, plan.keys.into())
                .await?;
        }
        if let Mix::Fill {
            znodes, breadth, ..
        } = plan.mix
        {
            let path = path_with_digits(&parent_prefix(&plan.root), PARENT_DIGITS);
            let template = Template::create(&path, &Payload::new(0));
            let parents = znodes.div_ceil(breadth.max(1));
            bulk.create_numbered("create the parents of znodes", &template, parents.into())
                .await?;
        }
        close_session(&mut connection).await;
        Ok(())
    }

    /// Creates the znodes that only this round needs: with [`Mix::Create`], a parent for each
    /// session.
    pub(crate) async fn prepare_round(&self, plan: &LoadPlan, round: u32) -> Result<()> {
        if plan.mix != Mix::Create {
            return Ok(());
        }
        let (mut connection, server) = self.connect().await?;
        let mut bulk = Bulk::new(&mut connection, server);
        for session in 0..plan.sessions {
            bulk.create(&create_parent(&plan.root, round, session))
                .await?;
        }
        close_session(&mut connection).await;
        Ok(())
    }

    /// Deletes the znodes that one round created with [`Mix::Create`], so that the next round finds
    /// the same tree.
    pub(crate) async fn clean_round(&self, plan: &LoadPlan, round: u32) -> Result<()> {
        if plan.mix != Mix::Create {
            return Ok(());
        }
        let (mut connection, server) = self.connect().await?;
        let mut bulk = Bulk::new(&mut connection, server);
        for session in 0..plan.sessions {
            bulk.delete_tree(&create_parent(&plan.root, round, session))
                .await?;
        }
        close_session(&mut connection).await;
        Ok(())
    }

    /// Deletes `root` and all its descendants, and returns the number of deleted znodes.
    pub(crate) async fn clean(&self, root: &str) -> Result<u64> {
        let (mut connection, server) = self.connect().await?;
        let deleted = Bulk::new(&mut connection, server).delete_tree(root).await?;
        close_session(&mut connection).await;
        Ok(deleted)
    }

    /// Returns the paths of the znodes directly below `/` whose names show that a run has created
    /// them.
    pub(crate) async fn leftovers(&self) -> Result<Vec<String>> {
        let (mut connection, server) = self.connect().await?;
        let names = Bulk::new(&mut connection, server)
            .children("/")
            .await?
            .unwrap_or_default();
        close_session(&mut connection).await;
        let ours = names.iter().filter(|name| name.starts_with(ROOT_NAME));
        Ok(ours.map(|name| format!("/{name}")).collect())
    }
}

async fn create_with_parents(bulk: &mut Bulk<'_>, root: &str) -> Result<()> {
    for (slash, _) in root.match_indices('/').skip(1) {
        bulk.create(root.get(..slash).unwrap_or(root)).await?;
    }
    bulk.create(root).await
}

/// Prefix of the name of a run's root znode if `--root` is not given.
const ROOT_NAME: &str = "zoarium-bench-";

/// Returns the path of a run's root znode from the arguments, or a new path that no other run uses.
pub(crate) fn root(args: &LoadArgs) -> String {
    args.root.clone().unwrap_or_else(new_root)
}

/// Returns a path for a root znode that no other run uses.
pub fn new_root() -> String {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since_1970.map_or(0, |since| since.as_millis());
    format!("/{ROOT_NAME}{millis:x}-{:x}", std::process::id())
}
