//! Execution of a plan: multis within the limits of servers, then ACLs one by one.

use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create, Error, MultiOp, Version};
use history::record::Kind;
use proto::Acl;

use super::plan::{Plan, Step};
use crate::tool::ToolError;

/// Maximum size of a multi, which is half the limit of a server with default settings, bytes.
const MULTI_BYTES_MAX: usize = client::limits::REQUEST_BYTES_MAX / 2;
/// Maximum number of steps in a multi. A multi is one transaction, which delays all others.
const MULTI_STEPS_MAX: usize = 500;
/// Estimated size of a step without its path, data and ACL, or of an ACL entry without its text,
/// bytes.
const STEP_BYTES: usize = 64;

/// Executes the steps. Returns their number.
///
/// # Errors
/// If a step fails. The error contains the number of completed steps.
pub(super) async fn carry_out(
    client: &Client,
    plan: &Plan,
    force: bool,
) -> Result<usize, ToolError> {
    let mut done = 0;
    let mut rest = plan.steps.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(multi_len(rest));
        let ops: Vec<MultiOp> = now.iter().filter_map(|step| op(step, force)).collect();
        if let Err(error) = client.multi(&ops).await {
            let step = match error {
                Error::Multi { index, .. } => now.get(index),
                _ => now.first(),
            };
            return Err(stopped(&error, step, done));
        }
        done += now.len();
        rest = later;
    }
    for step in &plan.acls {
        if let Step::SetAcl {
            path,
            acl,
            aversion,
        } = step
        {
            let version = if force { -1 } else { *aversion };
            let set = client.set_acl(path, acl.clone(), version).await;
            set.map_err(|error| stopped(&error, Some(step), done))?;
            done += 1;
        }
    }
    Ok(done)
}

/// Returns the error for an interrupted plan. A multi is executed completely or not at all. If its
/// reply was lost, its outcome is unknown.
fn stopped(error: &Error, step: Option<&Step>, done: usize) -> ToolError {
    let at = step.map(Step::path).unwrap_or_default();
    let known = match error {
        Error::Multi { .. } => "the multi with this step was not executed",
        _ if error.code().is_some() => "this step was not executed",
        _ => "it is unknown whether this step was executed",
    };
    ToolError::Refused(format!(
        "{at}: {error}; {known}; steps executed before: {done}. Repeat the command to make a new plan"
    ))
}

/// Returns the number of steps in the next multi.
fn multi_len(steps: &[Step]) -> usize {
    let mut bytes = 0;
    let fitting = steps.iter().take(MULTI_STEPS_MAX).take_while(|step| {
        bytes += step.bytes();
        bytes <= MULTI_BYTES_MAX
    });
    // A large step gets a separate multi.
    fitting.count().max(1)
}

fn op(step: &Step, force: bool) -> Option<MultiOp> {
    let if_version = |version: i32| if force { Version::Any } else { version.into() };
    match step {
        Step::Create {
            path,
            data,
            acl,
            kind,
            ttl_ms,
        } => {
            let create = match kind {
                Kind::Container => Create::container(),
                Kind::Ttl => Create::ttl(Duration::from_millis(ttl_ms.unsigned_abs())),
                Kind::Persistent | Kind::Ephemeral => Create::persistent(),
            };
            let create = create.with_acl(acl.clone());
            Some(match data {
                Some(data) => MultiOp::create(path, data.clone(), &create),
                None => MultiOp::create_without_data(path, &create),
            })
        }
        Step::SetData {
            path,
            data,
            version,
        } => Some(match data {
            Some(data) => MultiOp::set_data(path, data.clone(), if_version(*version)),
            None => MultiOp::set_data_to_null(path, if_version(*version)),
        }),
        Step::Delete { path, version } => Some(MultiOp::delete(path, if_version(*version))),
        Step::SetAcl { .. } => None,
    }
}

impl Step {
    fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::Delete { path, .. } => path,
        }
    }

    fn bytes(&self) -> usize {
        let (data, acl): (&Option<Bytes>, &[Acl]) = match self {
            Self::Create { data, acl, .. } => (data, acl),
            Self::SetData { data, .. } => (data, &[]),
            Self::SetAcl { acl, .. } => (&None, acl),
            Self::Delete { .. } => (&None, &[]),
        };
        let entries = acl.iter();
        let acl: usize = entries
            .map(|e| e.id.scheme.len() + e.id.id.len() + STEP_BYTES)
            .sum();
        let data = data.as_ref().map_or(0, Bytes::len);
        STEP_BYTES + self.path().len() + data + acl
    }
}
