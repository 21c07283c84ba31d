//! Programs of the locks and elections in `Recipe::ALONE`, each of which has separate runs.

use std::time::Duration;

use client::MultiOp;
use recipes::{Election, LeaderLatch, MultiLock, Mutex, Result, SetPartitioner};
use tokio::time::sleep;

use super::programs::{Contender, Holding, ProgramEvent};
use crate::invariants::recipes::{FENCED, Recipe, Seen};

/// Set of items that the processes divide among themselves.
const ITEMS: [&str; 3] = ["a", "b", "c"];

impl Contender<'_> {
    /// Holds two locks at the same time.
    pub(super) async fn lock_both(&mut self) -> Result<()> {
        let path = Recipe::MultiLock.path();
        let names = ["a", "b"];
        let locks = names.map(|name| Mutex::new(self.client, &format!("{path}/{name}")));
        let locks = MultiLock::new(locks.into_iter().collect::<Result<_>>()?)?;
        let acquired = if self.random.percent(20) {
            locks.try_acquire().await?
        } else {
            self.wait(locks.acquire()).await?
        };
        let Some(guards) = acquired else {
            self.program.tell(ProgramEvent::Done);
            return Ok(());
        };
        let [a, b] = guards.guards() else {
            let text = format!("{} of two locks are held", guards.guards().len());
            self.program.tell(ProgramEvent::Wrong(text));
            return Ok(());
        };
        let holding = Holding::all(self.program, [a, b].map(|it| (it.path(), it.token())));
        let write = MultiOp::set_data(FENCED, b.path().to_owned(), -1);
        tokio::select! {
            biased;
            _ = a.wait_until_uncertain() => {}
            _ = b.wait_until_uncertain() => {}
            () = async {
                self.pause(0, 60).await;
                let _ = self.client.multi(&[a.check(), b.check(), write]).await;
                self.pause(0, 60).await;
            } => {}
        }
        drop(holding);
        guards.release().await
    }

    /// Holds a lock until another process asks for it.
    pub(super) async fn lock_until_asked(&mut self) -> Result<()> {
        let mutex = Mutex::new(self.client, Recipe::Revoker.path())?;
        let asking = async {
            loop {
                sleep(Duration::from_millis(100)).await;
                // The process asks again until it holds the lock.
                let _ = mutex.ask_for().await;
            }
        };
        let waiting = async {
            tokio::select! {
                biased;
                guard = mutex.acquire() => guard,
                never = asking => never,
            }
        };
        self.program.tell(ProgramEvent::Waits);
        let Some(guard) = self.unless_ending(waiting).await? else {
            return Ok(());
        };
        let holding = Holding::all(self.program, [(guard.path(), guard.token())]);
        let asked = async {
            tokio::select! {
                biased;
                _ = guard.wait_until_uncertain() => {}
                _ = guard.is_asked_for() => {}
            }
            Ok(())
        };
        self.unless_ending(asked).await?;
        drop(holding);
        guard.release().await.map(drop)
    }

    /// Takes part in an election, or observes it.
    pub(super) async fn elect_or_observe(&mut self) -> Result<()> {
        let path = Recipe::Election.path();
        if self.random.percent(60) {
            let id = format!("host-{}", self.program.number);
            let latch = LeaderLatch::start(self.client, path, id)?;
            return self.lead(latch).await;
        }
        let election = Election::new(self.client, path)?;
        for _ in 0..5 {
            let session = self.begin().await?;
            let leader = election.leader().await?;
            let id = leader.map(|leader| String::from_utf8_lossy(&leader.id).into_owned());
            self.observe(session, Seen::Leader(id));
            self.program.tell(ProgramEvent::Done);
            self.pause(0, 50).await;
        }
        Ok(())
    }

    /// Works on a share of a set.
    pub(super) async fn divide(&mut self) -> Result<()> {
        let path = Recipe::SetPartitioner.path();
        let identifier = format!("host-{}", self.program.number);
        let member = SetPartitioner::start(self.client, path, &ITEMS, &identifier)?;
        let member = member.with_quiet_time(Duration::from_millis(100));
        for _ in 0..=self.random.below(3) {
            self.program.tell(ProgramEvent::Waits);
            let Some(share) = self.unless_ending(member.share()).await? else {
                break;
            };
            let guards = share.guards().iter();
            let holding = Holding::all(self.program, guards.map(|it| (it.path(), it.token())));
            let is_complete = |(item, number): (&String, usize)| {
                let guard = share.guards().get(number);
                guard.is_some_and(|it| it.path().starts_with(&format!("{path}/locks/{item}/")))
            };
            if !share.items().iter().zip(0..).all(is_complete) {
                let text = format!("{:?} are not all locked", share.items());
                self.program.tell(ProgramEvent::Wrong(text));
            }
            tokio::select! {
                biased;
                () = share.is_outdated() => {}
                () = self.pause(0, 300) => {}
            }
            drop(holding);
            self.program.tell(ProgramEvent::Done);
            // The process stays in the pool, even if the lock of an item was lost.
            let _ = share.release().await;
        }
        member.close().await;
        Ok(())
    }
}
