//! Bulk requests over one connection, for example before and after a measurement.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use client::frame::split_reply;
use client::{LossReason, RawConnection, XidOrNothing};
use jute::{Decode, Reader, Str};
use proto::response::NamesResponse;
use proto::{ErrorCode, Xid};

use crate::error::{BenchError, Result};
use crate::session::template::{Payload, Template};
use crate::session::workload::xid_after;

/// Maximum number of requests in flight.
const PIPELINE: usize = 256;

/// Sender of many requests over one connection, with a limited number in flight.
pub(crate) struct Bulk<'a> {
    pub(crate) connection: &'a mut RawConnection,
    pub(crate) server: Arc<str>,
    next_xid: i32,
}

impl<'a> Bulk<'a> {
    pub(crate) fn new(connection: &'a mut RawConnection, server: Arc<str>) -> Self {
        Self {
            connection,
            server,
            next_xid: 1,
        }
    }

    /// Sends `count` requests, which `put` appends, and passes the number, code and body of each
    /// answer to `take`. `take` can stop the run by returning a code.
    ///
    /// # Errors
    /// If the connection is lost, or `take` returns a code.
    pub(crate) async fn run(
        &mut self,
        what: &str,
        count: u64,
        mut put: impl FnMut(u64, Xid, &mut Vec<u8>),
        mut take: impl FnMut(u64, i32, &[u8]) -> Result<(), i32>,
    ) -> Result<()> {
        let mut waiting = VecDeque::with_capacity(PIPELINE);
        let mut sent = 0;
        let mut answered = 0;
        while answered < count {
            while sent < count && waiting.len() < PIPELINE {
                put(sent, Xid(self.next_xid), self.connection.wire.outbound());
                waiting.push_back(self.next_xid);
                self.next_xid = xid_after(self.next_xid);
                sent += 1;
            }
            self.turn(what).await?;
            let lost = |reason| lost(what, &self.server, reason);
            while let Some(frame) = self
                .connection
                .wire
                .next_frame()
                .map_err(|error| lost(error.into()))?
            {
                let (header, body) = split_reply(frame).map_err(|error| lost(error.into()))?;
                let expected = waiting.pop_front();
                if expected != Some(header.xid.0) {
                    let (got, expected) = (header.xid.0, XidOrNothing(expected));
                    return Err(lost(LossReason::OutOfOrder { got, expected }));
                }
                take(answered, header.err, body).map_err(|code| BenchError::Refused {
                    what: what.to_owned(),
                    server: Arc::clone(&self.server),
                    code,
                })?;
                answered += 1;
            }
        }
        Ok(())
    }

    async fn turn(&mut self, what: &str) -> Result<()> {
        let turned = self.connection.wire.turn().await;
        turned.map_err(|error| lost(what, &self.server, error.into()))
    }

    /// Creates `path`, unless it exists.
    pub(crate) async fn create(&mut self, path: &str) -> Result<()> {
        let template = Template::create(path, &Payload::new(0));
        let put = |_, xid, out: &mut Vec<u8>| template.put(xid, out, || 0);
        self.run(&format!("create {path}"), 1, put, |_, code, _| {
            unless_exists(code)
        })
        .await
    }

    /// Creates `count` znodes by filling the template with numbers. Existing znodes are not an
    /// error.
    pub(crate) async fn create_numbered(
        &mut self,
        what: &str,
        template: &Template,
        count: u64,
    ) -> Result<()> {
        let put = |number, xid, out: &mut Vec<u8>| template.put(xid, out, || number);
        self.run(what, count, put, |_, code, _| unless_exists(code))
            .await
    }

    /// Returns the names of the children, or `None` if the znode does not exist.
    pub(crate) async fn children(&mut self, path: &str) -> Result<Option<Vec<Str>>> {
        let what = format!("list the children of {path}");
        let template = Template::get_children(path);
        let put = |_, xid, out: &mut Vec<u8>| template.put(xid, out, || 0);
        let mut reply = None;
        self.run(&what, 1, put, |_, code, body| {
            match ErrorCode::from_i32(code) {
                Some(ErrorCode::Ok) => {
                    reply = Some(Bytes::copy_from_slice(body));
                    Ok(())
                }
                Some(ErrorCode::NoNode) => Ok(()),
                _ => Err(code),
            }
        })
        .await?;
        let Some(body) = reply else {
            return Ok(None);
        };
        let names = NamesResponse::decode(&mut Reader::new(body));
        let names = names.map_err(|source| {
            let what_reply = "reply";
            lost(
                &what,
                &self.server,
                LossReason::Decode {
                    what: what_reply,
                    source,
                },
            )
        })?;
        Ok(Some(names.names))
    }

    /// Deletes `root` and all its descendants, and returns the number of deleted znodes.
    pub(crate) async fn delete_tree(&mut self, root: &str) -> Result<u64> {
        // If children of a znode have children, the znode is pushed again, and then these children.
        // It is popped again after them, when it no longer has children.
        let mut stack = vec![root.to_owned()];
        let mut deleted = 0;
        while let Some(path) = stack.pop() {
            let Some(children) = self.children(&path).await? else {
                continue;
            };
            let mut parents = Vec::new();
            let children: Vec<String> = children
                .iter()
                .map(|child| format!("{path}/{child}"))
                .collect();
            deleted += self.delete_all(&children, &mut parents).await?;
            let is_empty = parents.is_empty();
            if is_empty {
                deleted += self
                    .delete_all(std::slice::from_ref(&path), &mut parents)
                    .await?;
            } else {
                stack.push(path);
            }
            stack.append(&mut parents);
        }
        Ok(deleted)
    }

    /// Deletes `paths`, and returns the number of deleted znodes. Znodes with children are added to
    /// `parents` instead.
    async fn delete_all(&mut self, paths: &[String], parents: &mut Vec<String>) -> Result<u64> {
        let mut deleted = 0;
        let path = |number: u64| {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            paths.get(index).map_or("", String::as_str)
        };
        let put = |number, xid, out: &mut Vec<u8>| {
            Template::delete(path(number)).put(xid, out, || 0);
        };
        let what = "delete znodes";
        self.run(what, paths.len() as u64, put, |number, code, _| {
            match ErrorCode::from_i32(code) {
                Some(ErrorCode::Ok) => deleted += 1,
                Some(ErrorCode::NotEmpty) => parents.push(path(number).to_owned()),
                // Another client has already deleted the znode.
                Some(ErrorCode::NoNode) => {}
                _ => return Err(code),
            }
            Ok(())
        })
        .await?;
        Ok(deleted)
    }
}

fn unless_exists(code: i32) -> Result<(), i32> {
    match ErrorCode::from_i32(code) {
        Some(ErrorCode::Ok | ErrorCode::NodeExists) => Ok(()),
        _ => Err(code),
    }
}

fn lost(what: &str, server: &Arc<str>, reason: LossReason) -> BenchError {
    BenchError::Lost {
        what: what.to_owned(),
        server: Arc::clone(server),
        reason,
    }
}
