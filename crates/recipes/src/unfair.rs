//! Election on a single znode. The client that creates the znode leads, and the deletion of the
//! znode notifies all other candidates.

use bytes::Bytes;
use client::{Client, Create, State};
use proto::{ErrorCode, SessionId, Stat};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::queue_entry::Token;
use crate::selector::Leadership;
use crate::session::{
    check_path, connected, data_of, delete_own, is_transient, make_directory, retry,
    wait_for_either, wait_until_changed,
};
use crate::watched::{WatchEnd, watch_ended};

/// Candidate for the leadership that a plain ephemeral znode represents. This election is fast and
/// simple for a few candidates. With N candidates, a change of leader costs N-1 notifications and
/// N-1 creations. A change in a [`crate::LeaderLatch`] costs one of each.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::UnfairElection;
///
/// let election = UnfairElection::start(&client, "/leader", "host-7")?;
/// let leadership = election.leads().await?;
/// println!("leading with token {}", leadership.token());
/// election.close().await;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// The data of the znode is the id, a space, and a random part. The random part identifies a
/// candidate's own znode after the answer to its creation was lost.
#[derive(Debug)]
#[must_use = "dropping it leaves the election"]
pub struct UnfairElection {
    client: Client,
    path: String,
    standing: watch::Receiver<CandidateState>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
enum CandidateState {
    Waiting,
    Leading { token: Token, owner: SessionId },
    Over(Option<Error>),
}

impl UnfairElection {
    /// Joins the election on `path`. A background task does the work, so the call requires a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self> {
        check_path(path)?;
        let (standing_seen, standing) = watch::channel(CandidateState::Waiting);
        let (stop, stopped) = watch::channel(false);
        let candidate = ElectionTask {
            client: client.clone(),
            path: path.to_owned(),
            mark: format!("{id} {}", client.random_uuid()).into(),
            standing: standing_seen,
        };
        let task = tokio::spawn(candidate.run(stopped));
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            standing,
            stop,
            task: Some(task),
        })
    }

    /// Returns the leadership if this candidate leads and the client is connected.
    pub fn leadership(&self) -> Option<Leadership> {
        match *self.standing.borrow() {
            CandidateState::Leading { token, owner } => {
                let session = self.client.state().borrow().connected_session();
                (session == Some(owner)).then(|| Leadership::new(token, &self.path))
            }
            CandidateState::Waiting | CandidateState::Over(_) => None,
        }
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    /// If the candidate was closed or the session has ended.
    pub async fn leads(&self) -> Result<Leadership> {
        let mut standing = self.standing.clone();
        let mut state = self.client.state();
        let path = || self.path.clone();
        loop {
            state.mark_unchanged();
            if let CandidateState::Over(error) = &*standing.borrow_and_update() {
                let closed = Error::Closed { path: path() };
                return Err(error.clone().unwrap_or(closed));
            }
            if let Some(leadership) = self.leadership() {
                return Ok(leadership);
            }
            if !wait_for_either(&mut standing, &mut state).await {
                return Err(Error::Closed { path: path() });
            }
        }
    }

    /// Waits until the current leadership ends or becomes uncertain. Returns immediately if the
    /// candidate does not lead.
    pub async fn yields(&self) {
        let token = || self.leadership().map(|leadership| leadership.token());
        wait_until_changed(&self.client, self.standing.clone(), token).await;
    }

    /// Returns the id of the leader, if there is one.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn leader(&self) -> Result<Option<String>> {
        Self::leader_at(&self.client, &self.path).await
    }

    /// Returns the id of the leader of the election on `path`, for clients that are not candidates.
    ///
    /// # Errors
    /// If the path is invalid, or a server refuses the read.
    pub async fn leader_at(client: &Client, path: &str) -> Result<Option<String>> {
        check_path(path)?;
        let data = data_of(client, path).await?;
        Ok(data.map(|data| {
            let text = String::from_utf8_lossy(&data);
            let id = text.rsplit_once(' ').map_or(&*text, |(id, _)| id);
            id.to_owned()
        }))
    }

    /// Leaves the election, and deletes the znode if this candidate owns it. Without a connection,
    /// the deletion continues in the background.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        let mut state = self.client.state();
        if let Some(task) = self.task.take() {
            tokio::select! {
                biased;
                // Both branches end without a result.
                _ = task => {}
                _ = state.wait_for(|state| state.connected_session().is_none()) => {}
            }
        }
    }
}

impl Drop for UnfairElection {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

struct ElectionTask {
    client: Client,
    path: String,
    /// Data that identifies the candidate's own znode.
    mark: Bytes,
    standing: watch::Sender<CandidateState>,
}

/// Outcome of an attempt to lead.
enum LeadAttempt {
    Leads(Stat),
    Behind,
}

impl ElectionTask {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut end = None;
        while !*stopped.borrow() {
            // The attempt must not be cancelled, because the owner of the znode would then be
            // unknown.
            match self.try_to_lead().await {
                Ok(LeadAttempt::Leads(stat)) => self.lead(&stat, &mut stopped).await,
                Ok(LeadAttempt::Behind) => tokio::select! {
                    biased;
                    followed = self.wait_for_deletion() => end = followed.err(),
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                },
                Err(error) => end = Some(error),
            }
            if end.is_some() {
                break;
            }
        }
        self.standing.send_replace(CandidateState::Over(end));
    }

    async fn try_to_lead(&self) -> Result<LeadAttempt> {
        let ephemeral = Create::ephemeral();
        loop {
            let mark = self.mark.clone();
            let error = match self.client.create2(&self.path, mark, &ephemeral).await {
                Ok((_, stat)) => return Ok(LeadAttempt::Leads(stat)),
                Err(error) => error,
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => return self.check_owner().await,
                Some(ErrorCode::NoNode) => {
                    if let Some((parent, _)) = self.path.rsplit_once('/') {
                        make_directory(&self.client, parent).await?;
                    }
                }
                _ if is_transient(&self.client, &error) => connected(&self.client).await?,
                _ => return Err(error.into()),
            }
        }
    }

    /// Determines whether the existing znode belongs to this candidate. The answer to its creation
    /// may have been lost.
    async fn check_owner(&self) -> Result<LeadAttempt> {
        let read = || self.client.get_data(&self.path);
        match retry(&self.client, read).await {
            Ok((Some(data), stat)) if data == self.mark => {
                if stat.ephemeral_owner == self.client.session_id().0 {
                    return Ok(LeadAttempt::Leads(stat));
                }
                // The znode belongs to an expired session and will be deleted. This candidate waits
                // for the deletion, as it does for any other leader's znode.
                Ok(LeadAttempt::Behind)
            }
            Ok(_) => Ok(LeadAttempt::Behind),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(LeadAttempt::Behind),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the znode is deleted. Returns immediately if the znode is missing or belongs to
    /// this candidate.
    async fn wait_for_deletion(&self) -> Result<()> {
        loop {
            connected(&self.client).await?;
            let read = match self.client.watch_data(&self.path).await {
                Ok((data, stat, _)) if self.is_own(data.as_ref(), &stat) => return Ok(()),
                read => read,
            };
            if watch_ended(&self.client, read).await? == WatchEnd::Deleted {
                return Ok(());
            }
        }
    }

    fn is_own(&self, data: Option<&Bytes>, stat: &Stat) -> bool {
        data == Some(&self.mark) && stat.ephemeral_owner == self.client.session_id().0
    }

    /// Leads until the znode is deleted or the candidate is stopped. If the candidate is stopped,
    /// deletes the znode.
    async fn lead(&self, stat: &Stat, stopped: &mut watch::Receiver<bool>) {
        let owner = SessionId(stat.ephemeral_owner);
        let token = Token(stat.czxid);
        self.standing
            .send_replace(CandidateState::Leading { token, owner });
        let is_stopped = tokio::select! {
            biased;
            () = self.wait_until_deleted(owner) => false,
            _ = stopped.wait_for(|stopped| *stopped) => true,
        };
        self.standing.send_replace(CandidateState::Waiting);
        if is_stopped {
            let is_own = |data: Option<&Bytes>, stat: &Stat| self.is_own(data, stat);
            let deleted = delete_own(&self.client, &self.path, owner, true, is_own).await;
            if let Err(error) = deleted {
                tracing::warn!(%error, "cannot delete the znode of a leader");
            }
        }
    }

    /// Waits until the znode of session `owner` is deleted or this session has ended.
    async fn wait_until_deleted(&self, owner: SessionId) {
        let mut state = self.client.state();
        let is_over = |state: &State| {
            let session = state.connected_session();
            state.is_end() || session.is_some_and(|session| session != owner)
        };
        let deleted = async {
            loop {
                let read = match self.client.watch_data(&self.path).await {
                    Ok((data, stat, _)) if !self.is_own(data.as_ref(), &stat) => return,
                    read => read,
                };
                match watch_ended(&self.client, read).await {
                    Ok(WatchEnd::ReadAgain) => {}
                    Ok(WatchEnd::Deleted) | Err(_) => return,
                }
            }
        };
        tokio::select! {
            biased;
            _ = state.wait_for(is_over) => {}
            () = deleted => {}
        }
    }
}
