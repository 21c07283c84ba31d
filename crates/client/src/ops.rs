//! Methods of [`Client`] for all operations.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use jute::{Encode, Str};
use proto::connect::{AuthPacket, SaslToken};
use proto::multi::{self, MultiHeader};
use proto::request::{
    PathModeRequest, PathRequest, PathWatchRequest, ReconfigRequest, SetAclRequest, SetDataRequest,
};
use proto::response::{
    ClientInfo, Create2Response, CreateResponse, ErrorResponse, GetAclResponse,
    GetAllChildrenNumberResponse, GetChildren2Response, GetDataResponse, NamesResponse,
    StatResponse, SyncResponse, WhoAmIResponse,
};
use proto::{Acl, ErrorCode, OpCode, SessionId, Stat};

use crate::client::Client;
use crate::create::{Create, Version};
use crate::error::{Error, Result};
use crate::machine::{AddWatchMode, Registration, WatchEffect, WatchKind};
use crate::multi::{
    MultiOp, MultiRead, MultiReadResult, MultiResult, decode_read_results, decode_results,
    encode_ops, first_failure, path_version,
};
use crate::watch::{Watch, WatchStream};

/// Methods for operations. Each fails with [`Error::Op`] if the server refuses the operation, with
/// [`Error::Path`] if a path is invalid, or with an error of the connection.
#[expect(
    clippy::missing_errors_doc,
    reason = "the errors are above, once for all methods"
)]
impl Client {
    /// Creates a znode and returns its path. The path of a sequential znode ends in its number.
    pub async fn create(&self, path: &str, data: impl Into<Bytes>, create: &Create) -> Result<Str> {
        let data = Some(data.into());
        Ok(self.create_with(path, data, create, None).await?.0)
    }

    /// Creates a znode with null data. Null differs from empty data.
    pub async fn create_without_data(&self, path: &str, create: &Create) -> Result<Str> {
        Ok(self.create_with(path, None, create, None).await?.0)
    }

    /// Creates a znode and returns its path and Stat (create2; 3.5 and later).
    pub async fn create2(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<(Str, Stat)> {
        let create = create.clone().with_stat();
        let data = Some(data.into());
        let (path, stat) = self.create_with(path, data, &create, None).await?;
        Ok((path, stat.unwrap_or_default()))
    }

    pub(crate) async fn create_with(
        &self,
        path: &str,
        data: Option<Bytes>,
        create: &Create,
        is_sent: Option<Arc<AtomicBool>>,
    ) -> Result<(Str, Option<Stat>)> {
        let path = self.outside_to_create(path, create.flags)?;
        let (path, stat) = self.create_outside(path, data, create, is_sent).await?;
        Ok((self.inside(path), stat))
    }

    /// Creates a znode at a server path, and returns the server path of the new znode.
    pub(crate) async fn create_outside(
        &self,
        path: Str,
        data: Option<Bytes>,
        create: &Create,
        is_sent: Option<Arc<AtomicBool>>,
    ) -> Result<(Str, Option<Stat>)> {
        let op = create.op();
        let path = Some(path);
        let mut body = Vec::new();
        create.record(path.clone(), data).encode(&mut body);
        if op == OpCode::CreateTtl {
            create.ttl_ms.encode(&mut body);
        }
        let reply = self
            .command(op, path.clone(), body.into(), None, is_sent)
            .await?;
        self.decode(op, path, reply, |input| {
            use jute::Decode;
            if op == OpCode::Create {
                return Ok((CreateResponse::decode(input)?.path, None));
            }
            let Create2Response { path, stat } = Create2Response::decode(input)?;
            Ok((path, Some(stat)))
        })
    }

    /// Deletes a znode without children.
    pub async fn delete(&self, path: &str, version: impl Into<Version>) -> Result<()> {
        let path = self.outside(path)?;
        let record = path_version(path.clone(), version);
        self.request_plain(OpCode::Delete, path, &record, None)
            .await
    }

    /// Deletes a znode only if `session` is the current session.
    ///
    /// With [`crate::Options::with_renewal`], a call that waits for a connection may be sent in
    /// another session. Use this method for operations that are valid only while the session lives,
    /// such as deleting an ephemeral at a path that other clients use, too.
    ///
    /// # Errors
    /// [`Error::SessionExpired`] if another session has replaced this session. The request was not
    /// sent.
    pub async fn delete_in(
        &self,
        session: SessionId,
        path: &str,
        version: impl Into<Version>,
    ) -> Result<()> {
        let path = self.outside(path)?;
        let record = path_version(path.clone(), version);
        self.request_in(session, OpCode::Delete, path, &record)
            .await
    }

    /// Returns the Stat, or `None` if the znode is missing.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>> {
        self.exists_with(path, None).await
    }

    /// Works like [`exists`](Self::exists) and sets a watch for the listeners of
    /// [`events`](Self::events), even if the znode is missing.
    pub async fn exists_and_watch(&self, path: &str) -> Result<Option<Stat>> {
        let watch = self.registration(path, WatchEffect::Exists)?;
        self.exists_with(path, Some(watch)).await
    }

    /// Works like [`exists`](Self::exists) and returns a handle for the next creation, deletion or
    /// change of data.
    ///
    /// A watch on a missing znode stays until the creation of the znode. To wait for a deletion,
    /// use [`watch_data`](Self::watch_data). It does not set a watch if the znode is already
    /// deleted.
    pub async fn watch_exists(&self, path: &str) -> Result<(Option<Stat>, Watch)> {
        let (watch, registration) = self.new_watch(path, WatchEffect::Exists)?;
        Ok((self.exists_with(path, Some(registration)).await?, watch))
    }

    async fn exists_with(&self, path: &str, watch: Option<Registration>) -> Result<Option<Stat>> {
        let path = self.outside(path)?;
        let record = path_watch(path.clone(), watch.is_some());
        let reply: Result<StatResponse> = self.request(OpCode::Exists, path, &record, watch).await;
        match reply {
            Ok(response) => Ok(Some(response.stat)),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the data, which may be null, and the Stat.
    pub async fn get_data(&self, path: &str) -> Result<(Option<Bytes>, Stat)> {
        self.get_data_with(path, None).await
    }

    /// Works like [`get_data`](Self::get_data) and sets a watch for the listeners of
    /// [`events`](Self::events).
    pub async fn get_data_and_watch(&self, path: &str) -> Result<(Option<Bytes>, Stat)> {
        let watch = self.registration(path, WatchEffect::Data)?;
        self.get_data_with(path, Some(watch)).await
    }

    /// Works like [`get_data`](Self::get_data) and returns a handle for the next change of data or
    /// deletion.
    pub async fn watch_data(&self, path: &str) -> Result<(Option<Bytes>, Stat, Watch)> {
        let (watch, registration) = self.new_watch(path, WatchEffect::Data)?;
        let (data, stat) = self.get_data_with(path, Some(registration)).await?;
        Ok((data, stat, watch))
    }

    async fn get_data_with(
        &self,
        path: &str,
        watch: Option<Registration>,
    ) -> Result<(Option<Bytes>, Stat)> {
        let path = self.outside(path)?;
        let record = path_watch(path.clone(), watch.is_some());
        let GetDataResponse { data, stat } =
            self.request(OpCode::GetData, path, &record, watch).await?;
        Ok((data, stat))
    }

    /// Replaces the data.
    pub async fn set_data(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        version: impl Into<Version>,
    ) -> Result<Stat> {
        let path = self.outside(path)?;
        let record = SetDataRequest {
            path: Some(path.clone()),
            data: Some(data.into()),
            version: version.into().number(),
        };
        let response: StatResponse = self.request(OpCode::SetData, path, &record, None).await?;
        Ok(response.stat)
    }

    /// Returns the ACL and the Stat.
    pub async fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat)> {
        let path = self.outside(path)?;
        let record = path_only(path.clone());
        let GetAclResponse { acl, stat } =
            self.request(OpCode::GetAcl, path, &record, None).await?;
        Ok((acl, stat))
    }

    /// Replaces the ACL. `aversion` is the required version of the ACL, as in the Stat.
    pub async fn set_acl(
        &self,
        path: &str,
        acl: Vec<Acl>,
        aversion: impl Into<Version>,
    ) -> Result<Stat> {
        let path = self.outside(path)?;
        let record = SetAclRequest {
            path: Some(path.clone()),
            acl: multi::request_acl(acl),
            version: aversion.into().number(),
        };
        let response: StatResponse = self.request(OpCode::SetAcl, path, &record, None).await?;
        Ok(response.stat)
    }

    /// Returns the names of the children, in an arbitrary order (getChildren).
    pub async fn get_children(&self, path: &str) -> Result<Vec<Str>> {
        let path = self.outside(path)?;
        let record = path_watch(path.clone(), false);
        let response: NamesResponse = self
            .request(OpCode::GetChildren, path, &record, None)
            .await?;
        Ok(response.names)
    }

    /// Returns the names of the children, in an arbitrary order, and the Stat (getChildren2).
    pub async fn get_children2(&self, path: &str) -> Result<(Vec<Str>, Stat)> {
        self.get_children2_with(path, None).await
    }

    /// Works like [`get_children2`](Self::get_children2) and sets a child watch for the listeners
    /// of [`events`](Self::events).
    pub async fn get_children2_and_watch(&self, path: &str) -> Result<(Vec<Str>, Stat)> {
        let watch = self.registration(path, WatchEffect::Child)?;
        self.get_children2_with(path, Some(watch)).await
    }

    /// Works like [`get_children2`](Self::get_children2) and returns a handle for the next creation
    /// or deletion of a child, or the deletion of the znode.
    pub async fn watch_children(&self, path: &str) -> Result<(Vec<Str>, Stat, Watch)> {
        let (watch, registration) = self.new_watch(path, WatchEffect::Child)?;
        let (children, stat) = self.get_children2_with(path, Some(registration)).await?;
        Ok((children, stat, watch))
    }

    async fn get_children2_with(
        &self,
        path: &str,
        watch: Option<Registration>,
    ) -> Result<(Vec<Str>, Stat)> {
        let path = self.outside(path)?;
        let record = path_watch(path.clone(), watch.is_some());
        let GetChildren2Response { children, stat } = self
            .request(OpCode::GetChildren2, path, &record, watch)
            .await?;
        Ok((children, stat))
    }

    /// Returns the number of all descendants (3.6 and later).
    pub async fn get_all_children_number(&self, path: &str) -> Result<i32> {
        let path = self.outside(path)?;
        let record = path_only(path.clone());
        let response: GetAllChildrenNumberResponse = self
            .request(OpCode::GetAllChildrenNumber, path, &record, None)
            .await?;
        Ok(response.total)
    }

    /// Returns the paths of this session's ephemerals whose paths start with `prefix`, in an
    /// arbitrary order (3.6 and later). The prefix may end in a slash.
    pub async fn get_ephemerals(&self, prefix: &str) -> Result<Vec<Str>> {
        let prefix = self.outside_prefix(prefix)?;
        let record = path_only(prefix.clone());
        let response: NamesResponse = self
            .request(OpCode::GetEphemerals, prefix, &record, None)
            .await?;
        let names = response.names.into_iter();
        Ok(names.map(|path| self.inside(path)).collect())
    }

    /// Waits until the server has applied everything that was committed before the call.
    pub async fn sync(&self, path: &str) -> Result<()> {
        let path = self.outside(path)?;
        let record = path_only(path.clone());
        let _: SyncResponse = self.request(OpCode::Sync, path, &record, None).await?;
        Ok(())
    }

    /// Executes all operations or none. The results are in the order of the operations.
    ///
    /// # Errors
    /// [`Error::Multi`] contains the index of the first operation that failed.
    pub async fn multi(&self, ops: &[MultiOp]) -> Result<Vec<MultiResult>> {
        let results = self.multi_results(ops).await?;
        match first_failure(&results) {
            None => Ok(results),
            Some((index, code)) => {
                let path = ops.get(index).and_then(|op| self.outside_of(op).ok()?);
                Err(Error::Multi {
                    call: self.describe(OpCode::Multi, path),
                    index,
                    code,
                })
            }
        }
    }

    /// Works like [`multi`](Self::multi), but returns failures as results.
    pub async fn multi_results(&self, ops: &[MultiOp]) -> Result<Vec<MultiResult>> {
        self.multi_with(ops, None).await
    }

    pub(crate) async fn multi_with(
        &self,
        ops: &[MultiOp],
        is_sent: Option<Arc<AtomicBool>>,
    ) -> Result<Vec<MultiResult>> {
        let op = OpCode::Multi;
        let mut body = Vec::new();
        encode_ops(ops, |op| self.outside_of(op), &mut body)?;
        let reply = self.command(op, None, body.into(), None, is_sent).await?;
        let mut results = self.decode(op, None, reply, decode_results)?;
        for result in &mut results {
            if let MultiResult::Created { path, .. } = result {
                *path = self.inside(std::mem::take(path));
            }
        }
        Ok(results)
    }

    /// Executes several reads in one request. Each read has a separate result (3.6 and later).
    pub async fn multi_read(&self, reads: &[MultiRead<'_>]) -> Result<Vec<MultiReadResult>> {
        let mut body = Vec::new();
        for read in reads {
            read.encode(|path| self.outside(path), &mut body)?;
        }
        MultiHeader::END.encode(&mut body);
        let reply = self.call(OpCode::MultiRead, None, body.into()).await?;
        self.decode(OpCode::MultiRead, None, reply, decode_read_results)
    }

    /// Sets a watch that stays until it is removed (3.6 and later), for the listeners of
    /// [`events`](Self::events).
    pub async fn add_watch(&self, path: &str, mode: AddWatchMode) -> Result<()> {
        let registration = self.registration(path, WatchEffect::Add(mode))?;
        self.add_watch_with(mode, registration).await
    }

    /// Returns a stream of the events of the znode or, depending on `mode`, of the znode and its
    /// descendants (3.6 and later). Dropping the stream removes the watch.
    ///
    /// ```no_run
    /// # use zoarium_client::{AddWatchMode, Change, Client};
    /// # async fn example(client: &Client) -> zoarium_client::Result<()> {
    /// let mut changes = client.watch_stream("/app", AddWatchMode::PersistentRecursive).await?;
    /// loop {
    ///     match changes.next().await? {
    ///         Change::Event(event) => println!("{:?} {}", event.kind, event.path),
    ///         Change::Missed => println!("changes were missed: read the subtree again"),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn watch_stream(&self, path: &str, mode: AddWatchMode) -> Result<WatchStream> {
        let (stream, registration) = self.new_stream(path, mode)?;
        self.add_watch_with(mode, registration).await?;
        Ok(stream)
    }

    async fn add_watch_with(&self, mode: AddWatchMode, registration: Registration) -> Result<()> {
        let path = registration.path.clone();
        let record = path_mode(path.clone(), mode as i32);
        let _: ErrorResponse = self
            .request(OpCode::AddWatch, path, &record, Some(registration))
            .await?;
        Ok(())
    }

    /// Returns whether this connection has a watch of this kind on the path.
    pub async fn has_watch(&self, path: &str, kind: WatchKind) -> Result<bool> {
        let path = self.outside(path)?;
        let record = path_mode(path.clone(), kind as i32);
        match self
            .request_plain(OpCode::CheckWatches, path, &record, None)
            .await
        {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NoWatcher) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes this connection's watches of a kind on a path. At least one such watch must exist.
    pub async fn remove_watches(&self, path: &str, kind: WatchKind) -> Result<()> {
        let removal = self.registration(path, WatchEffect::Remove(kind))?;
        let path = removal.path.clone();
        let record = path_mode(path.clone(), kind as i32);
        self.request_plain(OpCode::RemoveWatches, path, &record, Some(removal))
            .await
    }

    /// Adds an identity to the connection. The client adds it again after a reconnect.
    ///
    /// A client can add any digest identity (`user:password`), so a wrong password yields another
    /// identity, not an error. [`digest_id`](crate::digest_id) returns the identity for an ACL.
    pub async fn add_auth(&self, scheme: &str, auth: impl Into<Bytes>) -> Result<()> {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.into()),
            auth: Some(auth.into()).into(),
        };
        self.call(OpCode::Auth, None, packet.to_bytes())
            .await
            .map(drop)
    }

    /// Executes one step of a SASL exchange: sends a token and returns the server's token.
    pub async fn sasl(&self, token: Bytes) -> Result<Option<Bytes>> {
        use jute::Decode;
        let packet = SaslToken {
            token: Some(token).into(),
        };
        let reply = self.call(OpCode::Sasl, None, packet.to_bytes()).await?;
        let answer = self.decode(OpCode::Sasl, None, reply, SaslToken::decode)?;
        Ok(answer.token.into_exposed())
    }

    /// Returns the identities of the connection (3.7 and later).
    pub async fn who_am_i(&self) -> Result<Vec<ClientInfo>> {
        use jute::Decode;
        let reply = self.call(OpCode::WhoAmI, None, Bytes::new()).await?;
        let answer = self.decode(OpCode::WhoAmI, None, reply, WhoAmIResponse::decode)?;
        Ok(answer.clients)
    }

    /// Reconfigures the ensemble. Returns the new configuration and the Stat of its znode.
    pub async fn reconfig(&self, change: &ReconfigRequest) -> Result<(Option<Bytes>, Stat)> {
        let GetDataResponse { data, stat } = self
            .request(OpCode::Reconfig, CONFIG.into(), change, None)
            .await?;
        Ok((data, stat))
    }
}

/// Path of the znode that contains the configuration of the ensemble.
const CONFIG: &str = "/zookeeper/config";

fn path_watch(path: Str, watch: bool) -> PathWatchRequest {
    let path = Some(path);
    PathWatchRequest { path, watch }
}

fn path_only(path: Str) -> PathRequest {
    PathRequest { path: Some(path) }
}

fn path_mode(path: Str, mode: i32) -> PathModeRequest {
    let path = Some(path);
    PathModeRequest { path, mode }
}
