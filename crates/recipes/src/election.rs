//! Leader and candidates of an election, for clients that are not candidates.

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::names::{ELECTIONS, Layout, ordered};
use crate::queue_entry::Queue;
use crate::session::{check_path, data_of};

/// Election that this client observes.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::{Election, LeaderLatch};
///
/// let election = Election::new(&client, "/leaders/scheduler")?;
/// assert_eq!(election.leader().await?, None);
/// # let candidate = LeaderLatch::start(&client, "/leaders/scheduler", "host-7")?;
/// # candidate.leads().await?;
/// // After host-7 has become a candidate:
/// assert_eq!(election.leader().await?.expect("a leader").id, "host-7");
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// It recognises the candidates of [`LeaderLatch`](crate::LeaderLatch) and
/// [`LeaderSelector`](crate::LeaderSelector), of Curator's recipes with these names, and of kazoo's
/// Election. Each call sends one getChildren, and one getData for each returned candidate.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Election {
    queue: Queue,
}

/// Candidate of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Id that the candidate has set.
    pub id: Bytes,
    /// Whether the candidate is first in the queue.
    pub is_leader: bool,
}

impl Election {
    /// Creates a handle for the election in the directory `path`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        Ok(Self {
            queue: Queue {
                client: client.clone(),
                directory: path.to_owned(),
                layout: Layout::Curator,
                words: ELECTIONS,
            },
        })
    }

    /// Returns the leader if there is one. A disconnected leader is returned until its session
    /// ends.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        let mut first = participants(&self.queue, 1).await?;
        Ok(first.pop())
    }

    /// Returns the candidates in the order in which they will lead.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        participants(&self.queue, usize::MAX).await
    }
}

/// Returns the first `max` candidates in a queue, or all of them if there are fewer.
pub(crate) async fn participants(queue: &Queue, max: usize) -> Result<Vec<Participant>> {
    loop {
        let names = queue.list().await?.unwrap_or_default();
        let names = ordered(names.iter().map(String::as_str), queue.words);
        let mut participants = Vec::new();
        for name in &names {
            if participants.len() == max {
                break;
            }
            let path = format!("{}/{name}", queue.directory);
            let is_leader = participants.is_empty();
            let data = data_of(&queue.client, &path).await?;
            participants.extend(data.map(|id| Participant { id, is_leader }));
        }
        // If all candidates of the list have left, others may have joined meanwhile.
        if names.is_empty() || !participants.is_empty() {
            return Ok(participants);
        }
    }
}
