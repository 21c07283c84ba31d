//! The oracle of an ensemble of two, as a leader asks it.
//!
//! The file is read by a task of its own, so that a disk that hangs holds up nothing but the
//! oracle's word, which then counts as a no.

use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zab::leader::StepDown;

use super::ToCore;
use super::core::Core;
use super::role::Role;
use crate::mesh::OracleFile;

/// How a leader asks the oracle.
#[derive(Debug)]
pub(crate) struct OracleWatch {
    pub(crate) runtime: Handle,
    pub(crate) path: PathBuf,
    /// Pause between two questions: half a tick.
    pub(crate) every: Duration,
    pub(crate) core: Sender<ToCore>,
}

/// An oracle that is being asked, until this is dropped.
#[derive(Debug)]
pub(super) struct Watching {
    task: AbortHandle,
    /// What the election was told of whether it is needed.
    is_needed: Option<bool>,
}

impl OracleWatch {
    /// Asks from now on; the answers come as [`ToCore::Oracle`].
    pub(super) fn begin(&self) -> Watching {
        let mut file = OracleFile::new(self.path.clone());
        let (every, core) = (self.every, self.core.clone());
        let asking = async move {
            loop {
                let grants = file.ask().await.grants;
                if core.send(ToCore::Oracle { grants }).is_err() {
                    return;
                }
                tokio::time::sleep(every).await;
            }
        };
        Watching {
            task: self.runtime.spawn(asking).abort_handle(),
            is_needed: None,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Core {
    /// The oracle has answered. The answer may be to an earlier role's question, and is as good.
    pub(super) fn handle_oracle(&mut self, grants: bool) {
        self.with_leader(|leader, now_ms, out| leader.handle_oracle(grants, now_ms, out));
        let (Role::Leading(leading), Some(member)) = (&mut self.role, &self.member) else {
            return;
        };
        let is_needed = leading.leader.needs_oracle();
        if let Some(watching) = &mut leading.oracle
            && watching.is_needed != Some(is_needed)
        {
            watching.is_needed = Some(is_needed);
            member.mesh.set_oracle_needed(is_needed);
        }
    }

    /// A leader that lost the other server needs the oracle in the election that follows.
    pub(super) fn tell_oracle_needed(&self, reason: StepDown) {
        if let Some(member) = &self.member
            && reason == StepDown::LostQuorum
        {
            member.mesh.set_oracle_needed(true);
        }
    }
}
