//! Random transactions as a leader creates them: each is possible in the tree after the previous
//! ones.

use std::collections::BTreeMap;

use bytes::Bytes;
use fastrand::Rng;
use proto::txn::{
    CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, Txn, TxnHeader, TxnRecord,
};
use proto::{Acl, SessionId, Zxid};
use zoarium_history::Origin;

/// The generator's state of a znode.
#[derive(Debug, Clone, Default)]
struct Known {
    version: i32,
    aversion: i32,
    owner: i64,
}

/// Generates transactions, deterministically for a seed.
pub(crate) struct Generator {
    random: Rng,
    znodes: BTreeMap<String, Known>,
    zxid: i64,
    time_ms: i64,
    made: u64,
}

/// A transaction and its origin.
pub(crate) type Made = (TxnRecord, Origin);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            znodes: BTreeMap::from([("/".to_owned(), Known::default())]),
            zxid: 0x1_0000_0000,
            time_ms: 1_700_000_000_000,
            made: 0,
        }
    }

    pub(crate) fn make(seed: u64, count: usize) -> Vec<Made> {
        let mut generator = Self::new(seed);
        (0..count).map(|_| generator.next()).collect()
    }

    fn next(&mut self) -> Made {
        self.made += 1;
        if self.random.u32(..200) == 0 {
            self.zxid = ((self.zxid >> 32) + 1) << 32;
        }
        self.zxid += 1;
        // The clock is occasionally set back.
        self.time_ms += match self.random.u32(..60) {
            0 => -5_000,
            _ => self.random.i64(0..50),
        };
        let session = self.random.i64(1..6);
        let txn = match self.random.u32(..100) {
            0..=3 => Txn::CreateSession { timeout_ms: 9 },
            4..=6 => self.close(session),
            7..=9 => Txn::Error { code: -101 },
            10..=19 => self.multi(session),
            _ => self.change(session),
        };
        let header = TxnHeader {
            session: SessionId(session),
            cxid: i32::try_from(self.made).unwrap(),
            zxid: Zxid(self.zxid),
            time_ms: self.time_ms,
            op: txn.op().number(),
        };
        let origin = match session {
            1 | 2 => Origin {
                client: format!("10.0.0.{session}:4711"),
                identities: vec![format!("digest:user{session}")],
            },
            _ => Origin::default(),
        };
        let record = TxnRecord {
            header,
            txn,
            digest: None,
        };
        (record, origin)
    }

    fn multi(&mut self, session: i64) -> Txn {
        if self.random.u32(..8) == 0 {
            // A failed multi has no effect.
            let set = SetDataTxn {
                path: "/".into(),
                data: Some(Bytes::from_static(b"never")),
                version: 99,
            };
            return Txn::Multi(vec![Txn::SetData(set), Txn::Error { code: -110 }]);
        }
        let count = self.random.usize(1..6);
        Txn::Multi((0..count).map(|_| self.change(session)).collect())
    }

    fn close(&mut self, session: i64) -> Txn {
        let owned = self
            .znodes
            .iter()
            .filter(|(_, known)| known.owner == session);
        let paths: Vec<String> = owned.map(|(path, _)| path.clone()).collect();
        for path in &paths {
            self.znodes.remove(path);
        }
        // Old releases do not write the list.
        let is_listed = self.random.bool();
        let listed = paths.iter().map(|path| path.as_str().into()).collect();
        Txn::CloseSession {
            paths: is_listed.then_some(listed),
        }
    }

    fn change(&mut self, session: i64) -> Txn {
        match self.random.u32(..10) {
            0..=3 => self.create(session),
            4..=6 => self.set_data(),
            7 => self.set_acl(),
            _ => self.delete().unwrap_or_else(|| self.create(session)),
        }
    }

    fn any_path(&mut self) -> String {
        let at = self.random.usize(..self.znodes.len());
        self.znodes.keys().nth(at).unwrap().clone()
    }

    fn data(&mut self) -> Option<Bytes> {
        match self.random.u32(..12) {
            0 => None,
            1 => Some(Bytes::new()),
            // Often an equal value, because equal contents are stored once.
            2 => Some(vec![self.random.u8(..3); 700].into()),
            3 => {
                let len = self.random.usize(257..3000);
                Some((0..len).map(|_| self.random.u8(..)).collect())
            }
            _ => {
                let len = self.random.usize(1..40);
                Some((0..len).map(|_| self.random.u8(..)).collect())
            }
        }
    }

    fn acl(&mut self) -> Vec<Acl> {
        match self.random.u32(..6) {
            0 => vec![Acl::new(31, "digest", "ann:c2VjcmV0")],
            1 => (0..12)
                .map(|n| Acl::new(n, "ip", &format!("10.1.{n}.0/24")))
                .collect(),
            _ => vec![Acl::open()],
        }
    }

    fn create(&mut self, session: i64) -> Txn {
        let mut parent = self.any_path();
        while self.znodes[&parent].owner != 0 {
            parent = self.any_path();
        }
        let names = ["a", "a-b", "b", "c0", "d\u{e9}", "long-name-of-a-znode"];
        let name = names[self.random.usize(..names.len())];
        let path = match parent.as_str() {
            "/" => format!("/{name}"),
            _ => format!("{parent}/{name}"),
        };
        if self.znodes.contains_key(&path) || path.len() > 60 {
            return self.set_data();
        }
        let kind = self.random.u32(..8);
        let known = Known {
            owner: if kind == 0 { session } else { 0 },
            ..Known::default()
        };
        self.znodes.insert(path.clone(), known);
        let (path, data, acl, parent_cversion) = (path.into(), self.data(), self.acl(), 1);
        match kind {
            1 => Txn::CreateContainer(CreateContainerTxn {
                path,
                data,
                acl,
                parent_cversion,
            }),
            2 => Txn::CreateTtl(CreateTtlTxn {
                path,
                data,
                acl,
                parent_cversion,
                ttl: 5000,
            }),
            _ => {
                let create = CreateTxn {
                    path,
                    data,
                    acl,
                    ephemeral: kind == 0,
                    parent_cversion,
                };
                if kind < 5 {
                    Txn::Create(create)
                } else {
                    Txn::Create2(create)
                }
            }
        }
    }

    fn set_data(&mut self) -> Txn {
        let path = self.any_path();
        let known = self.znodes.get_mut(&path).unwrap();
        known.version += 1;
        let version = known.version;
        Txn::SetData(SetDataTxn {
            data: self.data(),
            path: path.into(),
            version,
        })
    }

    fn set_acl(&mut self) -> Txn {
        let path = self.any_path();
        let known = self.znodes.get_mut(&path).unwrap();
        known.aversion += 1;
        let version = known.aversion;
        Txn::SetAcl(SetAclTxn {
            acl: self.acl(),
            path: path.into(),
            version,
        })
    }

    fn delete(&mut self) -> Option<Txn> {
        let path = self.any_path();
        let below = format!("{path}/");
        let is_leaf = path != "/" && !self.znodes.keys().any(|other| other.starts_with(&below));
        if !is_leaf {
            return None;
        }
        self.znodes.remove(&path);
        let path = path.into();
        Some(if self.random.u32(..6) == 0 {
            Txn::DeleteContainer { path }
        } else {
            Txn::Delete { path }
        })
    }
}
