//! Transactions with secrets, in several variants that differ only in the secrets.
//!
//! | path | content |
//! |---|---|
//! | `/pub-N`, `/pub-N/c-N` | public names, whose ACLs change |
//! | `/..sec-N..`, `/pub-N/..sec-N..` | secret names, which only the keeper may read at the end |
//!
//! The data of a public name is secret while only the keeper may read it.

use bytes::Bytes;
use proto::data::perms;
use proto::txn::{CreateTxn, SetAclTxn, SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, Epoch, SessionId, Zxid};
use testkit::Random;

use crate::history::check::Model;

/// Text that every secret name and every secret content contains.
pub(super) const MARK: &str = "sec-";

/// Values of the secrets. All secrets of two variants have equal lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// The variant with which the others are compared.
    First,
    /// Secret names have other endings, but sort as in the first variant.
    SameOrder,
    /// Secret names sort differently.
    OtherOrder,
}

impl Variant {
    /// Returns the secret name with this number.
    pub(super) fn name(self, number: usize) -> String {
        match self {
            Self::First => format!("q-{MARK}{number}-a"),
            Self::SameOrder => format!("q-{MARK}{number}-b"),
            Self::OtherOrder if number.is_multiple_of(2) => format!("a-{MARK}{number}-a"),
            Self::OtherOrder => format!("z-{MARK}{number}-a"),
        }
    }

    fn data(self, number: usize) -> Bytes {
        let end = if self == Self::First { 'a' } else { 'b' };
        // Some contents are stored outside the changes.
        let more = if number.is_multiple_of(5) { 300 } else { 5 };
        format!("{MARK}{number}-{end}{}", "x".repeat(more)).into()
    }

    /// Returns the ACL that only the keeper has.
    fn keeper(self) -> Vec<Acl> {
        let id = if self == Self::First {
            "keeper-a:hash"
        } else {
            "keeper-b:hash"
        };
        vec![Acl::new(perms::ALL, "digest", id)]
    }
}

/// A history of one variant while it is generated.
pub(super) struct Workload {
    pub(super) model: Model,
    pub(super) records: Vec<TxnRecord>,
    variant: Variant,
    random: Random,
    /// Public znodes, with whether only the keeper may read them.
    public: Vec<(String, bool)>,
    /// Secret znodes that exist, with whether only the keeper may read them.
    secret: Vec<(String, bool)>,
    names: usize,
}

impl Workload {
    /// Generates this number of steps. All variants of a seed have the same steps.
    pub(super) fn of(seed: u64, variant: Variant, steps: usize) -> Self {
        let mut workload = Self {
            model: Model::default(),
            records: Vec::new(),
            variant,
            random: Random::new(seed),
            public: Vec::new(),
            secret: Vec::new(),
            names: 0,
        };
        for _ in 0..steps {
            workload.step();
        }
        workload.open_and_close();
        workload
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0 | 1 => self.create_public(),
            2 => self.create_secret(),
            3 | 4 => self.set_public(),
            5 => self.set_secret(),
            6 | 7 => self.set_acl(),
            8 => self.delete_public(),
            _ => self.delete_secret(),
        }
    }

    fn next(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    /// Returns an ACL, and whether only the keeper may read.
    fn acl(&mut self) -> (Vec<Acl>, bool) {
        let ann = || Acl::new(perms::ALL, "digest", "ann:hash");
        match self.random.below(5) {
            0 | 1 => (vec![Acl::open()], false),
            2 => (vec![ann(), Acl::new(perms::READ, "world", "anyone")], false),
            3 => (vec![ann()], false),
            _ => (self.variant.keeper(), true),
        }
    }

    fn data(&mut self, is_secret: bool) -> Bytes {
        let number = self.next();
        if is_secret {
            self.variant.data(number)
        } else {
            format!("public {number}").into()
        }
    }

    fn create_public(&mut self) {
        let number = self.next();
        let (acl, is_closed) = self.acl();
        let parent = self.pick_public().filter(|_| number.is_multiple_of(2));
        let path = match parent {
            Some((parent, _)) if parent.matches('/').count() == 1 => format!("{parent}/c-{number}"),
            // Some names are used again after a deletion.
            _ => format!("/pub-{}", number % 12),
        };
        if self.public.iter().any(|(other, _)| *other == path) {
            return;
        }
        let data = self.data(is_closed);
        self.push(vec![create(&path, data, acl)], is_closed);
        self.public.push((path, is_closed));
    }

    fn create_secret(&mut self) {
        let number = self.next();
        let name = self.variant.name(number);
        let parent = match self.random.below(3) {
            0 => self.pick_public().map(|(path, _)| path),
            1 => self.pick_secret().map(|at| self.secret[at].0.clone()),
            _ => None,
        };
        let parent = parent.filter(|parent| parent.matches('/').count() == 1);
        let path = format!("{}/{name}", parent.unwrap_or_default());
        let is_closed = self.random.percent(75);
        let acl = if is_closed {
            self.variant.keeper()
        } else {
            vec![Acl::open()]
        };
        let data = self.data(true);
        let mut parts = vec![create(&path, data, acl)];
        if let Some((open, _)) = self.pick_public().filter(|(_, is_closed)| !is_closed) {
            // A transaction may contain visible and hidden changes.
            let data = self.data(false);
            parts.push(self.set(&open, data));
        }
        self.push(parts, true);
        self.secret.push((path, is_closed));
    }

    fn set_public(&mut self) {
        if let Some((path, is_closed)) = self.pick_public() {
            let data = self.data(is_closed);
            let set = self.set(&path, data);
            self.push(vec![set], is_closed);
        }
    }

    fn set_secret(&mut self) {
        if let Some(at) = self.pick_secret() {
            let data = self.data(true);
            let set = self.set(&self.secret[at].0.clone(), data);
            self.push(vec![set], true);
        }
    }

    fn set_acl(&mut self) {
        let at = self.place();
        let (acl, is_closed) = self.acl();
        self.change_acl(at, acl, is_closed);
    }

    fn change_acl(&mut self, at: usize, acl: Vec<Acl>, is_closed: bool) {
        let Some((path, was_closed)) = self.public.get(at).cloned() else {
            return;
        };
        let mut parts = Vec::new();
        if was_closed && !is_closed {
            // The secret data must not become readable.
            let data = self.data(false);
            parts.push(self.set(&path, data));
        }
        parts.push(self.acl_of(&path, acl));
        if self.random.percent(50) {
            self.push(parts, is_closed);
        } else {
            for part in parts {
                self.push(vec![part], is_closed);
            }
        }
        self.public[at].1 = is_closed;
    }

    fn delete_public(&mut self) {
        let at = self.random.below(self.public.len());
        if let Some((path, is_closed)) = self.public.get(at).cloned()
            && !self.has_children(&path)
        {
            self.push(vec![Txn::Delete { path: path.into() }], is_closed);
            self.public.swap_remove(at);
        }
    }

    fn delete_secret(&mut self) {
        let Some(at) = self.pick_secret() else { return };
        let (path, is_closed) = self.secret[at].clone();
        if is_closed && !self.has_children(&path) {
            self.push(vec![Txn::Delete { path: path.into() }], true);
            self.secret.swap_remove(at);
        }
    }

    /// Lets everybody read most public znodes, and only the keeper read secret znodes.
    fn open_and_close(&mut self) {
        for at in 0..self.public.len() {
            if self.random.percent(70) {
                self.change_acl(at, vec![Acl::open()], false);
            }
        }
        let open = self.secret.iter().filter(|(_, is_closed)| !is_closed);
        let open: Vec<String> = open.map(|(path, _)| path.clone()).collect();
        for path in open {
            let acl = self.variant.keeper();
            let close = self.acl_of(&path, acl);
            self.push(vec![close], true);
        }
    }

    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut all = self.public.iter().chain(&self.secret);
        all.any(|(other, _)| other.starts_with(&below))
    }

    /// Draws a public znode. Some znodes are drawn often, so that their ACL and data change often.
    fn pick_public(&mut self) -> Option<(String, bool)> {
        let at = self.place();
        self.public.get(at).cloned()
    }

    fn place(&mut self) -> usize {
        let count = self.public.len();
        let is_often = self.random.percent(60);
        self.random
            .below(if is_often { count.min(3) } else { count })
    }

    fn pick_secret(&mut self) -> Option<usize> {
        let at = self.random.below(self.secret.len());
        (at < self.secret.len()).then_some(at)
    }

    fn set(&self, path: &str, data: Bytes) -> Txn {
        let version = self.model.version(path) + 1;
        Txn::SetData(SetDataTxn {
            path: path.into(),
            data: Some(data),
            version,
        })
    }

    fn acl_of(&self, path: &str, acl: Vec<Acl>) -> Txn {
        Txn::SetAcl(SetAclTxn {
            path: path.into(),
            acl,
            version: 1,
        })
    }

    /// Adds a transaction. Hidden transactions have other sessions in each variant.
    fn push(&mut self, mut parts: Vec<Txn>, is_hidden: bool) {
        let txn = match parts.pop() {
            Some(one) if parts.is_empty() => one,
            Some(last) => {
                parts.push(last);
                Txn::Multi(parts)
            }
            None => return,
        };
        let counter = u32::try_from(self.records.len() + 1).unwrap_or(u32::MAX);
        let session = match self.variant {
            Variant::First => 7,
            _ if is_hidden => 8,
            _ => 7,
        };
        let header = TxnHeader {
            session: SessionId(session),
            cxid: 1,
            zxid: Zxid::new(Epoch(1), counter),
            time_ms: 1_700_000_000_000 + 10 * i64::from(counter),
            op: txn.op().number(),
        };
        let record = TxnRecord {
            header,
            txn,
            digest: None,
        };
        self.model.push_txn(&record);
        self.records.push(record);
    }
}

fn create(path: &str, data: Bytes, acl: Vec<Acl>) -> Txn {
    Txn::Create(CreateTxn {
        path: path.into(),
        data: Some(data),
        acl,
        ephemeral: false,
        parent_cversion: 1,
    })
}
