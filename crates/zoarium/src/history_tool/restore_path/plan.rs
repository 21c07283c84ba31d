//! Planning of the steps from the past and the present state of the subtree.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use bytes::Bytes;
use history::PathFilter;
use history::record::Kind;
use proto::{Acl, Zxid};
use serde_json::Value;

use super::current::CurrentZnode;
use crate::history_tool::text::data_bytes;
use crate::tool::{ToolError, number};

/// Subtree of znodes that servers manage themselves.
const SYSTEM: &str = "/zookeeper";
const CONFIG: &str = "/zookeeper/config";

/// End of a password hash in the answer to a user who may not read the hash.
const MASKED: &str = ":***";

/// Past state of a znode.
#[derive(Debug)]
pub(super) struct PastZnode {
    data: Option<Bytes>,
    acl: Vec<Acl>,
    kind: Kind,
    ttl_ms: i64,
    owner: String,
    /// Reason why the znode cannot be created again.
    obstacle: Option<&'static str>,
}

/// Past state of the subtree.
#[derive(Debug, Default)]
pub(super) struct PastSubtree {
    pub(super) zxid: Option<Zxid>,
    znodes: BTreeMap<String, PastZnode>,
    filter: PathFilter,
}

impl PastSubtree {
    /// Adds a znode from an answer.
    pub(super) fn take(&mut self, znode: &Value) {
        let data = data_bytes(&znode["data"]).map(Bytes::from);
        let entries = znode["acl"].as_array();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let acl = entries.into_iter().flatten().map(|entry| {
            let perms = entry["perms"].as_i64().and_then(|p| i32::try_from(p).ok());
            let (scheme, id) = (text(&entry["scheme"]), text(&entry["id"]));
            Acl::new(perms.unwrap_or_default(), &scheme, &id)
        });
        let acl: Vec<Acl> = acl.collect();
        let is_masked = acl.iter().any(|entry| entry.id.id.ends_with(MASKED));
        let obstacle = if znode["data"]["omitted"] == true {
            Some("its data was not stored, or requires permission")
        } else if entries.is_none() {
            Some("its ACL was not stored")
        } else if is_masked {
            Some("only super users see the password hashes in its ACL; use --auth")
        } else {
            None
        };
        let kind = Kind::from_str_name(&text(&znode["kind"])).unwrap_or_default();
        let past = PastZnode {
            data,
            acl,
            kind,
            ttl_ms: znode["ttl_ms"].as_i64().unwrap_or_default(),
            owner: text(&znode["owner"]),
            obstacle,
        };
        self.znodes.insert(text(&znode["path"]), past);
    }

    /// Reads the filter of recorded paths.
    pub(super) fn read_filter(&mut self, extent: &Value) -> Result<(), ToolError> {
        let list = |value: &Value| -> Vec<String> {
            let patterns = value.as_array().into_iter().flatten();
            patterns
                .filter_map(|p| p.as_str().map(str::to_owned))
                .collect()
        };
        self.filter = PathFilter::new(list(&extent["include"]), list(&extent["exclude"]))?;
        Ok(())
    }
}

/// A step in a plan.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Create {
        path: String,
        data: Option<Bytes>,
        acl: Vec<Acl>,
        kind: Kind,
        ttl_ms: i64,
    },
    SetData {
        path: String,
        data: Option<Bytes>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        aversion: i32,
    },
    Delete {
        path: String,
        version: i32,
    },
}

/// All steps, with notes and obstacles.
#[derive(Debug, Default)]
pub(super) struct Plan {
    zxid: Option<Zxid>,
    /// Steps for multis, in order: first deletes of znodes that must be replaced, then creates and
    /// sets with parents first, then deletes with children first.
    pub(super) steps: Vec<Step>,
    /// Changes of ACLs, which a multi does not support.
    pub(super) acls: Vec<Step>,
    /// Notes about skipped znodes, with the reasons, and about znodes that will not persist.
    notes: Vec<String>,
    /// Reasons that prevent the plan from being executed.
    pub(super) obstacles: Vec<String>,
}

/// Builder for a plan.
struct Planner<'a> {
    past: &'a PastSubtree,
    current: &'a BTreeMap<String, CurrentZnode>,
    force: bool,
    /// Znodes that remain although they did not exist in the past.
    kept: BTreeSet<&'a str>,
    /// Tops of subtrees that are deleted because the top was a znode of another kind.
    replaced: Vec<&'a str>,
    plan: Plan,
}

impl Plan {
    pub(super) fn make(
        top: &str,
        past: &PastSubtree,
        current: &BTreeMap<String, CurrentZnode>,
        force: bool,
    ) -> Self {
        let mut planner = Planner {
            past,
            current,
            force,
            kept: BTreeSet::new(),
            replaced: Vec::new(),
            plan: Self {
                zxid: past.zxid,
                ..Self::default()
            },
        };
        planner.find_kept(top);
        planner.replace();
        planner.make_and_set(top);
        planner.delete();
        planner.plan
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.acls.is_empty()
    }

    /// Formats the plan for people.
    pub(super) fn write(&self, force: bool, out: &mut dyn Write) -> Result<(), ToolError> {
        for step in self.steps.iter().chain(&self.acls) {
            writeln!(out, "{}", step.text(force))?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for obstacle in &self.obstacles {
            writeln!(out, "obstacle: {obstacle}")?;
        }
        let at = self.zxid.unwrap_or_default();
        match self.steps.len() + self.acls.len() {
            0 if self.obstacles.is_empty() && self.notes.is_empty() => {
                writeln!(out, "everything matches the state after {at}")?;
            }
            0 if self.obstacles.is_empty() => {
                writeln!(out, "everything else matches the state after {at}")?;
            }
            steps => writeln!(out, "{} to the state after {at}", number(steps, "step"))?,
        }
        Ok(())
    }
}

impl Planner<'_> {
    fn note(&mut self, note: String) {
        self.plan.notes.push(note);
    }

    /// Finds the znodes that are not deleted: ephemeral znodes without `--force`, unrecorded
    /// znodes, znodes that servers manage, and the ancestors of all these.
    fn find_kept(&mut self, top: &str) {
        let is_within_system = is_below(SYSTEM, top);
        for (path, current) in self.current {
            let kind = current.kind;
            let is_wanted = self.past.znodes.contains_key(path);
            let reason = if path == CONFIG || (is_below(SYSTEM, path) && !is_within_system) {
                (path == SYSTEM).then_some("servers manage this znode and the znodes below it")
            } else if !self.past.filter.is_recorded(path) {
                Some("the change history does not record it")
            } else if kind == Kind::Ephemeral && !self.force {
                Some("it is an ephemeral, which its session deletes")
            } else {
                continue;
            };
            if let Some(reason) = reason
                && (!is_wanted || kind != Kind::Ephemeral)
            {
                self.plan
                    .notes
                    .push(format!("{path} is not changed: {reason}"));
            }
            let mut above = Some(path.as_str());
            while let Some(path) = above {
                if !self.kept.insert(path) {
                    break;
                }
                above = parent(path);
            }
        }
    }

    /// Adds steps that delete each znode whose past kind differs, with its descendants.
    fn replace(&mut self) {
        let mut tops: Vec<&str> = Vec::new();
        for (path, current) in self.current {
            let Some(past) = self.past.znodes.get(path) else {
                continue;
            };
            let kind = current.kind;
            let is_same = kind == past.kind && (kind != Kind::Ttl || current.ttl_ms == past.ttl_ms);
            let is_inside = tops.iter().any(|top| is_below(top, path));
            if is_same || is_inside || past.kind == Kind::Ephemeral {
                continue;
            }
            if self.kept.contains(path.as_str()) {
                let text = format!(
                    "{path} is now a znode of another kind, but cannot be replaced, because it or a znode below it must not be changed"
                );
                self.plan.obstacles.push(text);
                continue;
            }
            tops.push(path);
        }
        for (path, current) in self.current.iter().rev() {
            if tops.iter().any(|top| is_below(top, path)) {
                let version = current.stat.version;
                let path = path.clone();
                self.plan.steps.push(Step::Delete { path, version });
            }
        }
        self.replaced = tops
            .into_iter()
            .filter_map(|top| self.current.get_key_value(top))
            .map(|(path, _)| path.as_str())
            .collect();
    }

    fn make_and_set(&mut self, top: &str) {
        let is_within_system = is_below(SYSTEM, top);
        for (path, past) in &self.past.znodes {
            if path == CONFIG || (is_below(SYSTEM, path) && !is_within_system) {
                continue;
            }
            if past.kind == Kind::Ephemeral {
                let current = self.current.get(path);
                if !current.is_some_and(is_ephemeral) {
                    self.note(format!(
                        "{path} was an ephemeral of session {}; only its client can create it again",
                        past.owner
                    ));
                }
                continue;
            }
            let is_replaced = self.replaced.iter().any(|top| is_below(top, path));
            match self.current.get(path).filter(|_| !is_replaced) {
                None => self.make(path, past),
                Some(current) => self.set(path, past, current),
            }
        }
    }

    fn is_possible(&mut self, path: &str, past: &PastZnode) -> bool {
        if let Some(obstacle) = past.obstacle {
            self.plan.obstacles.push(format!("{path}: {obstacle}"));
        }
        past.obstacle.is_none()
    }

    fn make(&mut self, path: &str, past: &PastZnode) {
        if !self.is_possible(path, past) {
            return;
        }
        match past.kind {
            Kind::Container => {
                self.note(format!(
                    "{path} is a container: servers delete it after its last child"
                ));
            }
            Kind::Ttl => self.note(format!(
                "{path} has a TTL: servers delete it after {} ms without changes and children",
                past.ttl_ms
            )),
            Kind::Persistent | Kind::Ephemeral => {}
        }
        self.plan.steps.push(Step::Create {
            path: path.to_owned(),
            data: past.data.clone(),
            acl: past.acl.clone(),
            kind: past.kind,
            ttl_ms: past.ttl_ms,
        });
    }

    fn set(&mut self, path: &str, past: &PastZnode, current: &CurrentZnode) {
        if !self.past.filter.is_recorded(path) || !self.is_possible(path, past) {
            return;
        }
        if current.data != past.data {
            self.plan.steps.push(Step::SetData {
                path: path.to_owned(),
                data: past.data.clone(),
                version: current.stat.version,
            });
        }
        if current.acl != past.acl {
            self.plan.acls.push(Step::SetAcl {
                path: path.to_owned(),
                acl: past.acl.clone(),
                aversion: current.stat.aversion,
            });
        }
    }

    /// Adds steps that delete znodes that did not exist in the past, children first.
    fn delete(&mut self) {
        for (path, current) in self.current.iter().rev() {
            let was_there = match self.past.znodes.get(path) {
                Some(past) => past.kind != Kind::Ephemeral || is_ephemeral(current),
                None => false,
            };
            let is_replaced = self.replaced.iter().any(|top| is_below(top, path));
            if was_there || is_replaced || self.kept.contains(path.as_str()) || path == "/" {
                continue;
            }
            self.plan.steps.push(Step::Delete {
                path: path.clone(),
                version: current.stat.version,
            });
        }
    }
}

fn is_ephemeral(current: &CurrentZnode) -> bool {
    current.kind == Kind::Ephemeral
}

impl Step {
    fn text(&self, force: bool) -> String {
        let only_if = |what: &str, version: &i32| {
            if force {
                String::new()
            } else {
                format!(", if {what} has version {version}")
            }
        };
        let len = |data: &Option<Bytes>| match data {
            Some(data) => format!("{} bytes", data.len()),
            None => "null".to_owned(),
        };
        match self {
            Self::Create {
                path, data, kind, ..
            } => {
                let kind = match kind {
                    Kind::Container => " container",
                    Kind::Ttl => " TTL znode",
                    Kind::Persistent | Kind::Ephemeral => "",
                };
                format!("create{kind} {path} ({})", len(data))
            }
            Self::SetData {
                path,
                data,
                version,
            } => format!(
                "set {path} ({}){}",
                len(data),
                only_if("the znode", version)
            ),
            Self::SetAcl {
                path,
                acl,
                aversion,
            } => {
                let entries = acl.iter();
                let entries = entries.map(|e| format!("{}:{}:{}", e.id.scheme, e.id.id, e.perms));
                let list = entries.collect::<Vec<_>>().join(",");
                format!("setAcl {path} {list}{}", only_if("the ACL", aversion))
            }
            Self::Delete { path, version } => {
                format!("delete {path}{}", only_if("the znode", version))
            }
        }
    }
}

/// Returns whether `path` is `top` or one of its descendants.
fn is_below(top: &str, path: &str) -> bool {
    match path.strip_prefix(top) {
        Some(rest) => top == "/" || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}
