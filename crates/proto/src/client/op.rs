//! The table of operations, from which all other lists of opcodes are derived.
//!
//! A row begins with the columns that every operation has. The braces after them contain the
//! columns of `Columns` whose value is not the default.

use self::TextField::{
    Acl, AclLines, Data, IsEphemeral, Number, ParentCversion, Parts, Path, Paths, PlainPath, Ttl,
    Version,
};
use self::{InMulti as Part, NamespaceBytes as Bytes, ZnodeChange as Change};

/// Treatment of an operation by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Becomes a transaction: ordered, logged and replicated, even if it fails.
    Write,
    /// Answered from the tree of the server that received it.
    Read,
    /// Is ordered with the writes but does not become a transaction.
    Sync,
    /// Handled when the connection reads the request, before the requests that are queued.
    Connection,
    /// Cannot be requested separately: occurs inside a multi, in results, or internally.
    Internal,
}

/// Kind of multi that may contain an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InMulti {
    /// The operation must not be in a multi or a multiRead.
    No,
    /// A multi may contain the operation.
    Write,
    /// A multiRead may contain the operation.
    Read,
}

/// Bytes of an operation that count in the metrics of its namespace. Source:
/// DataTree.updateReadStat, DataTree.updateWriteStat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamespaceBytes {
    /// The operation is not counted.
    None,
    /// The path, or each path of a closeSession.
    Path,
    /// The path and the data.
    Data,
    /// The path and the names of the children.
    Names,
    /// The path and the names of the children. The reply also contains a Stat.
    NamesAndStat,
}

/// Change to a znode by a transaction. It determines the transaction's form in the change history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZnodeChange {
    /// The transaction itself does not change a znode.
    None,
    /// Creates a persistent or an ephemeral znode.
    Create,
    /// Creates a container.
    CreateContainer,
    /// Creates a TTL znode.
    CreateTtl,
    /// Deletes a znode.
    Delete,
    /// Deletes a container or a TTL znode, at a server's request.
    DeleteByServer,
    /// Deletes the ephemeral znodes of a session.
    CloseSession,
    /// Sets the data.
    SetData,
    /// Sets the data of the config znode.
    Reconfig,
    /// Sets the ACL.
    SetAcl,
}

impl ZnodeChange {
    /// Returns whether a znode is created.
    pub fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::CreateContainer | Self::CreateTtl)
    }
}

/// Field of a transaction in the text form of a log. Source: TxnLogToolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextField {
    /// The timeout of a session, or an error code.
    Number,
    /// The path in jute's form for CSV, with escapes.
    Path,
    /// The path without escapes.
    PlainPath,
    /// The paths of a closeSession.
    Paths,
    /// The data as text.
    Data,
    /// The ACL in jute's form for CSV.
    Acl,
    /// The ACL with a line end after each entry.
    AclLines,
    /// Whether the znode is ephemeral.
    IsEphemeral,
    /// The resulting version.
    Version,
    /// The parent's resulting creation count.
    ParentCversion,
    /// The TTL, ms.
    Ttl,
    /// The operations of a multi.
    Parts,
}

const CREATE_TEXT: &[TextField] = &[PlainPath, Data, AclLines, IsEphemeral, ParentCversion];
const SET_DATA_TEXT: &[TextField] = &[PlainPath, Data, Version];

/// Columns that have a default.
struct Columns {
    /// Whether a busy server may refuse the request.
    throttled: bool,
    /// Kind of multi that may contain the operation.
    multi: InMulti,
    /// Name in the audit log.
    audited: Option<&'static str>,
    /// Bytes that count in the metrics of namespaces.
    namespace: NamespaceBytes,
    /// Change to a znode.
    change: ZnodeChange,
    /// Fields in the text form of a log. Empty if no transaction has this type.
    text: &'static [TextField],
}

impl Columns {
    const DEFAULT: Self = Self {
        throttled: true,
        multi: InMulti::No,
        audited: None,
        namespace: NamespaceBytes::None,
        change: ZnodeChange::None,
        text: &[],
    };
}

macro_rules! opcodes {
    ($( $name:ident $number:literal $wire:literal $short:literal $kind:ident
        $request:literal $reply:literal $since:literal
        $({ $($column:ident: $value:expr),+ })?; )+) => {
        /// An operation. Source: ZooDefs.OpCode.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum OpCode {
            $(
                #[doc = concat!("`", $wire, "`: request ", $request, ", reply ", $reply,
                    "; since ", $since, ".")]
                $name = $number,
            )+
        }

        impl OpCode {
            /// All operations, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the operation with this number.
            pub fn from_i32(number: i32) -> Option<Self> {
                match number { $( $number => Some(Self::$name), )+ _ => None }
            }

            /// Returns ZooKeeper's name for the operation.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $wire, )+ }
            }

            /// Returns the short form in the output of `cons` (`lop=`). Source:
            /// FinalRequestProcessor.
            pub fn short_name(self) -> &'static str {
                match self { $( Self::$name => $short, )+ }
            }

            /// Returns the treatment by a server.
            pub fn kind(self) -> OpKind {
                match self { $( Self::$name => OpKind::$kind, )+ }
            }

            /// Returns the name of the record in a request.
            pub fn request_record(self) -> &'static str {
                match self { $( Self::$name => $request, )+ }
            }

            /// Returns the name of the record in a successful reply.
            pub fn reply_record(self) -> &'static str {
                match self { $( Self::$name => $reply, )+ }
            }

            /// Returns the first release that supports the operation.
            pub fn since(self) -> &'static str {
                match self { $( Self::$name => $since, )+ }
            }

            fn columns(self) -> &'static Columns {
                match self {
                    $(
                        Self::$name => {
                            const COLUMNS: Columns = Columns {
                                $( $($column: $value,)+ )?
                                ..Columns::DEFAULT
                            };
                            &COLUMNS
                        }
                    )+
                }
            }
        }
    };
}

opcodes! {
    Error               -1 "error"               "ERRO" Internal   "none"                       "ErrorResponse"             "3.4"
        { text: &[Number] };
    CreateSession      -10 "createSession"       "SESS" Internal   "CreateSessionRequest"       "ConnectResponse"           "3.4"
        { throttled: false, text: &[Number] };
    CloseSession       -11 "closeSession"        "CLOS" Write      "none"                       "none"                      "3.4"
        { throttled: false, namespace: Bytes::Path, change: Change::CloseSession, text: &[Paths] };
    Create               1 "create"              "CREA" Write      "CreateRequest"              "CreateResponse"            "3.4"
        { multi: Part::Write, audited: Some("create"), namespace: Bytes::Data, change: Change::Create, text: CREATE_TEXT };
    Delete               2 "delete"              "DELE" Write      "DeleteRequest"              "none"                      "3.4"
        { multi: Part::Write, audited: Some("delete"), namespace: Bytes::Path, change: Change::Delete, text: &[Path] };
    Exists               3 "exists"              "EXIS" Read       "ExistsRequest"              "ExistsResponse"            "3.4"
        { namespace: Bytes::Path };
    GetData              4 "getData"             "GETD" Read       "GetDataRequest"             "GetDataResponse"           "3.4"
        { multi: Part::Read, namespace: Bytes::Data };
    SetData              5 "setData"             "SETD" Write      "SetDataRequest"             "SetDataResponse"           "3.4"
        { multi: Part::Write, audited: Some("setData"), namespace: Bytes::Data, change: Change::SetData, text: SET_DATA_TEXT };
    GetAcl               6 "getACL"              "GETA" Read       "GetAclRequest"              "GetAclResponse"            "3.4";
    SetAcl               7 "setACL"              "SETA" Write      "SetAclRequest"              "SetAclResponse"            "3.4"
        { audited: Some("setAcl"), change: Change::SetAcl, text: &[Path, Acl, Version] };
    GetChildren          8 "getChildren"         "GETC" Read       "GetChildrenRequest"         "GetChildrenResponse"       "3.4"
        { multi: Part::Read, namespace: Bytes::Names };
    Sync                 9 "sync"                "SYNC" Sync       "SyncRequest"                "SyncResponse"              "3.4";
    Ping                11 "ping"                "PING" Read       "none"                       "none"                      "3.4"
        { throttled: false };
    GetChildren2        12 "getChildren2"        "GETC" Read       "GetChildren2Request"        "GetChildren2Response"      "3.4"
        { namespace: Bytes::NamesAndStat };
    Check               13 "check"               "CHEC" Internal   "CheckVersionRequest"        "none"                      "3.4"
        { multi: Part::Write, text: &[Path, Version] };
    Multi               14 "multi"               "MULT" Write      "MultiRequest"               "MultiResponse"             "3.4"
        { audited: Some("multiOperation"), text: &[Parts] };
    Create2             15 "create2"             "CREA" Write      "CreateRequest"              "Create2Response"           "3.5"
        { multi: Part::Write, audited: Some("create"), namespace: Bytes::Data, change: Change::Create, text: CREATE_TEXT };
    Reconfig            16 "reconfig"            "RECO" Write      "ReconfigRequest"            "GetDataResponse"           "3.5"
        { audited: Some("reconfig"), namespace: Bytes::Data, change: Change::Reconfig, text: SET_DATA_TEXT };
    CheckWatches        17 "checkWatches"        "CHKW" Read       "CheckWatchesRequest"        "none"                      "3.5";
    RemoveWatches       18 "removeWatches"       "REMW" Read       "RemoveWatchesRequest"       "none"                      "3.5";
    CreateContainer     19 "createContainer"     "CREA" Write      "CreateRequest"              "Create2Response"           "3.5"
        { multi: Part::Write, audited: Some("create"), namespace: Bytes::Data, change: Change::CreateContainer, text: &[PlainPath, Data, AclLines, ParentCversion] };
    DeleteContainer     20 "deleteContainer"     "DELE" Write      "DeleteContainerRequest"     "none"                      "3.5"
        { audited: Some("delete"), namespace: Bytes::Path, change: Change::DeleteByServer, text: &[Path] };
    CreateTtl           21 "createTTL"           "CREA" Write      "CreateTtlRequest"           "Create2Response"           "3.5"
        { multi: Part::Write, audited: Some("create"), namespace: Bytes::Data, change: Change::CreateTtl, text: &[PlainPath, Data, AclLines, ParentCversion, Ttl] };
    MultiRead           22 "multiRead"           "MLTR" Read       "MultiRequest"               "MultiResponse"             "3.6";
    Auth               100 "auth"                "AUTH" Connection "AuthPacket"                 "none"                      "3.4";
    SetWatches         101 "setWatches"          "SETW" Read       "SetWatches"                 "none"                      "3.4";
    Sasl               102 "sasl"                "SASL" Connection "SaslRequest"                "SaslResponse"              "3.4";
    GetEphemerals      103 "getEphemerals"       "GETE" Read       "GetEphemeralsRequest"       "GetEphemeralsResponse"     "3.6";
    GetAllChildrenNumber 104 "getAllChildrenNumber" "GETACN" Read  "GetAllChildrenNumberRequest" "GetAllChildrenNumberResponse" "3.6";
    SetWatches2        105 "setWatches2"         "STW2" Read       "SetWatches2"                "none"                      "3.6";
    AddWatch           106 "addWatch"            "ADDW" Read       "AddWatchRequest"            "ErrorResponse"             "3.6";
    WhoAmI             107 "whoAmI"              "HOMI" Read       "none"                       "WhoAmIResponse"            "3.7";
}

impl OpCode {
    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Returns whether a request may be refused because it waited too long
    /// (`throttled_op_wait_time`) or because waiting requests use too many resources. Even on a
    /// busy server, sessions must begin, be kept alive and end.
    pub fn may_be_throttled(self) -> bool {
        self.columns().throttled
    }

    /// Returns the kind of multi that may contain the operation.
    pub fn in_multi(self) -> InMulti {
        self.columns().multi
    }

    /// Returns the name in the audit log; `None` if the operation is not audited.
    pub fn audited_as(self) -> Option<&'static str> {
        self.columns().audited
    }

    /// Returns the bytes that count in the metrics of namespaces.
    pub fn namespace_bytes(self) -> NamespaceBytes {
        self.columns().namespace
    }

    /// Returns the change to a znode by a transaction of this type.
    pub fn change(self) -> ZnodeChange {
        self.columns().change
    }

    /// Returns the fields of a transaction of this type in the text form of a log; empty if no
    /// transaction has this type.
    pub fn text(self) -> &'static [TextField] {
        self.columns().text
    }

    /// Returns whether the operation begins or ends a session.
    pub fn is_of_session(self) -> bool {
        matches!(self, Self::CreateSession | Self::CloseSession)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_round_trip() {
        let names: BTreeSet<_> = OpCode::ALL.iter().map(|op| op.name()).collect();
        let numbers: BTreeSet<_> = OpCode::ALL.iter().map(|op| op.number()).collect();
        assert_eq!(
            (names.len(), numbers.len()),
            (OpCode::ALL.len(), OpCode::ALL.len())
        );
        for op in OpCode::ALL {
            assert_eq!(OpCode::from_i32(op.number()), Some(*op));
        }
    }

    #[test]
    fn the_table_holds_exactly_the_numbers_of_zookeeper() {
        let known = [-11..=-10, -1..=-1, 1..=9, 11..=22, 100..=107];
        for number in -300..300 {
            let is_known = known.iter().any(|range| range.contains(&number));
            assert_eq!(OpCode::from_i32(number).is_some(), is_known, "{number}");
        }
    }

    #[test]
    fn multi_and_multi_read_differ_in_kind() {
        assert_eq!(OpCode::Multi.kind(), OpKind::Write);
        assert_eq!(OpCode::MultiRead.kind(), OpKind::Read);
        assert_eq!(OpCode::Check.kind(), OpKind::Internal);
    }

    #[test]
    fn pings_and_requests_of_sessions_are_never_throttled() {
        let exempt = OpCode::ALL.iter().filter(|op| !op.may_be_throttled());
        let exempt: Vec<_> = exempt.copied().collect();
        let expected = [OpCode::CreateSession, OpCode::CloseSession, OpCode::Ping];
        assert_eq!(exempt, expected);
    }

    /// Not only the writes become transactions: an `Error` replaces a refused write, and a check
    /// occurs inside a multi.
    #[test]
    fn exactly_the_writes_and_their_parts_become_transactions() {
        for op in OpCode::ALL {
            let is_transaction = op.kind() == OpKind::Write
                || op.in_multi() == InMulti::Write
                || matches!(op, OpCode::Error | OpCode::CreateSession);
            assert_eq!(!op.text().is_empty(), is_transaction, "{op:?}");
            let is_read = op.kind() == OpKind::Read;
            assert!(is_read || op.in_multi() != InMulti::Read, "{op:?}");
            let has_change = op.change() != ZnodeChange::None;
            assert!(is_transaction || !has_change, "{op:?}");
        }
    }
}
