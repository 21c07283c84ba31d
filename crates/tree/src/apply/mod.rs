//! Application of committed transactions, and their replay over a fuzzy snapshot.
//!
//! A transaction contains the result instead of the request: versions are absolute, and names are
//! final. A replay may find znodes that are newer than the record. With the rules of
//! DataTree.processTxn, the tree is nevertheless correct at the end. An error during a replay is
//! therefore an ordinary result, and the zxid advances.

mod create;
mod data;
mod delete;
mod outcome;
mod outside;
mod session;

pub use outcome::Outcome;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, SessionId, Stat, Zxid};

use crate::Tree;
use crate::watch::{Event, Firing, Watches};

/// Header fields that each change by a transaction uses.
#[derive(Debug, Clone, Copy)]
struct TxnStamp {
    session: SessionId,
    zxid: Zxid,
    time_ms: i64,
}

impl Tree {
    /// Applies one committed transaction.
    ///
    /// Fires watches and appends the events in order. [`Tree::last_zxid`] changes once, at the end,
    /// and only increases, so the zxid in a snapshot's name never covers a partly applied multi.
    /// `watches` may be empty when records are replayed.
    pub fn apply(
        &mut self,
        record: &TxnRecord,
        watches: &mut Watches,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let header = &record.header;
        let stamp = TxnStamp {
            session: header.session,
            zxid: header.zxid,
            time_ms: header.time_ms,
        };
        let mut firing = Firing {
            watches,
            events,
            zxid: header.zxid,
        };
        let outcome = match &record.txn {
            Txn::Multi(txns) => self.apply_multi(txns, stamp, &mut firing),
            txn => self.apply_one(txn, stamp, &mut firing),
        };
        if self.settings.digest_enabled {
            self.digest_history.note(header.zxid, self.digest);
        }
        self.last_applied = Some(header.zxid);
        self.last_zxid = self.last_zxid.max(header.zxid);
        outcome
    }

    /// Applies all operations, or none if one is an error.
    fn apply_multi(&mut self, txns: &[Txn], stamp: TxnStamp, firing: &mut Firing<'_>) -> Outcome {
        let failed_at = txns.iter().position(|txn| matches!(txn, Txn::Error { .. }));
        let Some(failed_at) = failed_at else {
            let outcomes = txns.iter().map(|txn| self.apply_one(txn, stamp, firing));
            return Outcome::Multi(outcomes.collect());
        };
        let outcomes = txns.iter().enumerate().map(|(at, txn)| match txn {
            Txn::Error { code } => Outcome::from_error_txn(*code),
            _ if at < failed_at => Outcome::Error(ErrorCode::Ok),
            _ => Outcome::Error(ErrorCode::RuntimeInconsistency),
        });
        Outcome::Multi(outcomes.collect())
    }

    fn apply_one(&mut self, txn: &Txn, stamp: TxnStamp, firing: &mut Firing<'_>) -> Outcome {
        let op = txn.op();
        let with_stat = |result: Result<Stat, ErrorCode>| match result {
            Ok(stat) => Outcome::Stat { op, stat },
            Err(code) => Outcome::Error(code),
        };
        match txn {
            Txn::CreateSession { timeout_ms } => {
                self.sessions.insert(stamp.session, *timeout_ms);
                Outcome::Done { op }
            }
            Txn::CloseSession { paths } => self.close_session(paths.as_deref(), stamp, firing),
            Txn::Error { code } => Outcome::from_error_txn(*code),
            Txn::Create(_)
            | Txn::CreateV0(_)
            | Txn::Create2(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_) => self.apply_create(txn, stamp, firing),
            Txn::Delete { path } | Txn::DeleteContainer { path } => {
                match self.delete(path, stamp, firing) {
                    Ok(()) => Outcome::Done { op },
                    Err(code) => Outcome::Error(code),
                }
            }
            Txn::SetData(txn) => with_stat(self.set_data(txn, stamp, firing)),
            Txn::Reconfig(txn) => match self.set_data(txn, stamp, firing) {
                Ok(stat) => Outcome::Config {
                    data: txn.data.clone(),
                    stat,
                },
                Err(code) => Outcome::Error(code),
            },
            Txn::SetAcl(txn) => with_stat(self.set_acl(txn)),
            Txn::Check(_) => Outcome::Done { op },
            // A multi inside a multi cannot be decoded.
            Txn::Multi(_) => Outcome::Error(ErrorCode::RuntimeInconsistency),
        }
    }
}
