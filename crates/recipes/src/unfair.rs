//! An election on one znode: whoever makes it leads, and all others are told when it goes.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError, State};
use proto::watch::EventType;
use proto::{ErrorCode, SessionId, Stat};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::place::{Token, make_directory};
use crate::selector::Leadership;
use crate::session::{
    check_path, connected, delete_own, either_changes, insist, may_pass, until_other,
};

/// A candidate on a plain ephemeral znode. Quick and simple for a handful of candidates; with N of
/// them a change costs N-1 notifications and N-1 creations. [`crate::LeaderLatch`] costs one.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::UnfairElection;
///
/// let election = UnfairElection::start(&client, "/leader", "host-7")?;
/// let leadership = election.leads().await?;
/// println!("leading with token {}", leadership.token());
/// election.close().await;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// The znode's data is the id and, behind a space, a random part by which a candidate knows its own
/// znode again when the answer to its creation was lost.
#[derive(Debug)]
pub struct UnfairElection {
    client: Client,
    path: String,
    standing: watch::Receiver<Standing>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
enum Standing {
    Waiting,
    Leading { token: Token, owner: SessionId },
    Over(Option<Error>),
}

impl UnfairElection {
    /// Joins the election on `path`. It goes on behind the scenes; this is to be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self> {
        check_path(path)?;
        let (standing_seen, standing) = watch::channel(Standing::Waiting);
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate {
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

    /// The leadership, if this one leads and the client is connected at this moment.
    pub fn leadership(&self) -> Option<Leadership> {
        match *self.standing.borrow() {
            Standing::Leading { token, owner } => {
                let session = self.client.state().borrow().connected_session();
                (session == Some(owner)).then(|| Leadership::new(token, &self.path))
            }
            Standing::Waiting | Standing::Over(_) => None,
        }
    }

    /// Waits until this one leads.
    ///
    /// # Errors
    /// If it never will: it was closed, or the client is over.
    pub async fn leads(&self) -> Result<Leadership> {
        let mut standing = self.standing.clone();
        let mut state = self.client.state();
        let path = || self.path.clone();
        loop {
            state.mark_unchanged();
            if let Standing::Over(error) = &*standing.borrow_and_update() {
                let closed = Error::Closed { path: path() };
                return Err(error.clone().unwrap_or(closed));
            }
            if let Some(leadership) = self.leadership() {
                return Ok(leadership);
            }
            if !either_changes(&mut standing, &mut state).await {
                return Err(Error::Closed { path: path() });
            }
        }
    }

    /// Waits until the leadership of this moment is over, or not certain; at once if there is none.
    pub async fn yields(&self) {
        let token = || self.leadership().map(|leadership| leadership.token());
        until_other(&self.client, self.standing.clone(), token).await;
    }

    /// The id of whoever leads, if somebody does.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn leader(&self) -> Result<Option<String>> {
        let read = || self.client.get_data(&self.path);
        match insist(&self.client, read).await {
            Ok((data, _)) => {
                let data = data.unwrap_or_default();
                let text = String::from_utf8_lossy(&data);
                let id = text.rsplit_once(' ').map_or(&*text, |(id, _)| id);
                Ok(Some(id.to_owned()))
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves the election, and deletes the znode if it is this one's. Without a connection that
    /// goes on behind the scenes.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        let mut state = self.client.state();
        if let Some(task) = self.task.take() {
            tokio::select! {
                biased;
                // Neither has anything to say.
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

struct Candidate {
    client: Client,
    path: String,
    /// By which its own znode is known.
    mark: Bytes,
    standing: watch::Sender<Standing>,
}

/// What came of trying to lead.
enum Tried {
    Leads(Stat),
    Behind,
}

impl Candidate {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut end = None;
        while !*stopped.borrow() {
            // Never given up half way: nobody else would know whose the znode is.
            match self.try_to_lead().await {
                Ok(Tried::Leads(stat)) => self.lead(&stat, &mut stopped).await,
                Ok(Tried::Behind) => tokio::select! {
                    biased;
                    followed = self.follow() => end = followed.err(),
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                },
                Err(error) => end = Some(error),
            }
            if end.is_some() {
                break;
            }
        }
        self.standing.send_replace(Standing::Over(end));
    }

    async fn try_to_lead(&self) -> Result<Tried> {
        let ephemeral = Create::ephemeral();
        loop {
            let mark = self.mark.clone();
            let error = match self.client.create2(&self.path, mark, &ephemeral).await {
                Ok((_, stat)) => return Ok(Tried::Leads(stat)),
                Err(error) => error,
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => return self.whose().await,
                Some(ErrorCode::NoNode) => {
                    if let Some((parent, _)) = self.path.rsplit_once('/') {
                        make_directory(&self.client, parent).await?;
                    }
                }
                _ if may_pass(&self.client, &error) => connected(&self.client).await?,
                _ => return Err(error.into()),
            }
        }
    }

    /// Whether the znode that is there is this one's: the answer to its creation may have been lost.
    async fn whose(&self) -> Result<Tried> {
        let read = || self.client.get_data(&self.path);
        match insist(&self.client, read).await {
            Ok((Some(data), stat)) if data == self.mark => {
                if stat.ephemeral_owner == self.client.session_id().0 {
                    return Ok(Tried::Leads(stat));
                }
                // It goes with its session, which is over; followers watch it like any other.
                Ok(Tried::Behind)
            }
            Ok(_) => Ok(Tried::Behind),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(Tried::Behind),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the znode goes; at once if it is gone already.
    async fn follow(&self) -> Result<()> {
        loop {
            connected(&self.client).await?;
            let changed = match self.client.watch_data(&self.path).await {
                Ok((data, stat, _)) if self.is_own(data.as_ref(), &stat) => return Ok(()),
                Ok((_, _, mut watch)) => watch.changed().await,
                Err(error) => Err(error),
            };
            match changed {
                Ok(event) if event.kind == EventType::NodeDeleted => return Ok(()),
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) if may_pass(&self.client, &error) => {}
                Err(ClientError::WatchRemoved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_own(&self, data: Option<&Bytes>, stat: &Stat) -> bool {
        data == Some(&self.mark) && stat.ephemeral_owner == self.client.session_id().0
    }

    /// Leads until the znode is gone or this is stopped; then the znode goes.
    async fn lead(&self, stat: &Stat, stopped: &mut watch::Receiver<bool>) {
        let owner = SessionId(stat.ephemeral_owner);
        let token = Token(stat.czxid);
        self.standing
            .send_replace(Standing::Leading { token, owner });
        let is_stopped = tokio::select! {
            biased;
            () = self.gone(owner) => false,
            _ = stopped.wait_for(|stopped| *stopped) => true,
        };
        self.standing.send_replace(Standing::Waiting);
        if is_stopped {
            let is_own = |data: Option<&Bytes>, stat: &Stat| self.is_own(data, stat);
            let deleted = delete_own(&self.client, (&self.path, owner), true, is_own).await;
            if let Err(error) = deleted {
                tracing::warn!(%error, "a leader's znode cannot be deleted");
            }
        }
    }

    /// Waits until the znode of this session is gone.
    async fn gone(&self, owner: SessionId) {
        let mut state = self.client.state();
        let is_over = |state: &State| {
            let session = state.connected_session();
            state.is_end() || session.is_some_and(|session| session != owner)
        };
        let deleted = async {
            loop {
                let changed = match self.client.watch_data(&self.path).await {
                    Ok((data, stat, _)) if !self.is_own(data.as_ref(), &stat) => return,
                    Ok((_, _, mut watch)) => watch.changed().await,
                    Err(error) => Err(error),
                };
                match changed {
                    Ok(event) if event.kind == EventType::NodeDeleted => return,
                    Ok(_) => {}
                    Err(error) if may_pass(&self.client, &error) => {
                        if connected(&self.client).await.is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
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
