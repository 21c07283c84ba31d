//! The table of operations, from which all other lists of opcodes are derived.

/// Treatment of an operation by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Becomes a transaction: ordered, logged and replicated, even if it fails.
    Write,
    /// Answered from the tree of the server that received it.
    Read,
    /// Ordered with the writes, but does not become a transaction.
    Sync,
    /// The connection handles the request when it is read, before queued requests.
    Connection,
    /// Cannot be requested separately: inside a multi, in results, or internal.
    Internal,
}

macro_rules! opcodes {
    ($( $name:ident $number:literal $wire:literal $short:literal $kind:ident
        $request:literal $reply:literal $since:literal; )+) => {
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
            /// All operations, in the table's order.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the operation with this number.
            pub fn from_i32(number: i32) -> Option<Self> {
                match number { $( $number => Some(Self::$name), )+ _ => None }
            }

            /// Returns the name in ZooKeeper.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $wire, )+ }
            }

            /// Returns the short form in `cons` (`lop=`). Source: FinalRequestProcessor.
            pub fn short_name(self) -> &'static str {
                match self { $( Self::$name => $short, )+ }
            }

            /// Returns the treatment by a server.
            pub fn kind(self) -> OpKind {
                match self { $( Self::$name => OpKind::$kind, )+ }
            }

            /// Returns the record of a request.
            pub fn request_record(self) -> &'static str {
                match self { $( Self::$name => $request, )+ }
            }

            /// Returns the record of a successful reply.
            pub fn reply_record(self) -> &'static str {
                match self { $( Self::$name => $reply, )+ }
            }

            /// Returns the first release that supports it.
            pub fn since(self) -> &'static str {
                match self { $( Self::$name => $since, )+ }
            }
        }
    };
}

opcodes! {
    Error               -1 "error"               "ERRO" Internal   "none"                       "ErrorResponse"             "3.4";
    CreateSession      -10 "createSession"       "SESS" Internal   "CreateSessionRequest"       "ConnectResponse"           "3.4";
    CloseSession       -11 "closeSession"        "CLOS" Write      "none"                       "none"                      "3.4";
    Create               1 "create"              "CREA" Write      "CreateRequest"              "CreateResponse"            "3.4";
    Delete               2 "delete"              "DELE" Write      "DeleteRequest"              "none"                      "3.4";
    Exists               3 "exists"              "EXIS" Read       "ExistsRequest"              "ExistsResponse"            "3.4";
    GetData              4 "getData"             "GETD" Read       "GetDataRequest"             "GetDataResponse"           "3.4";
    SetData              5 "setData"             "SETD" Write      "SetDataRequest"             "SetDataResponse"           "3.4";
    GetAcl               6 "getACL"              "GETA" Read       "GetAclRequest"              "GetAclResponse"            "3.4";
    SetAcl               7 "setACL"              "SETA" Write      "SetAclRequest"              "SetAclResponse"            "3.4";
    GetChildren          8 "getChildren"         "GETC" Read       "GetChildrenRequest"         "GetChildrenResponse"       "3.4";
    Sync                 9 "sync"                "SYNC" Sync       "SyncRequest"                "SyncResponse"              "3.4";
    Ping                11 "ping"                "PING" Read       "none"                       "none"                      "3.4";
    GetChildren2        12 "getChildren2"        "GETC" Read       "GetChildren2Request"        "GetChildren2Response"      "3.4";
    Check               13 "check"               "CHEC" Internal   "CheckVersionRequest"        "none"                      "3.4";
    Multi               14 "multi"               "MULT" Write      "MultiRequest"               "MultiResponse"             "3.4";
    Create2             15 "create2"             "CREA" Write      "CreateRequest"              "Create2Response"           "3.5";
    Reconfig            16 "reconfig"            "RECO" Write      "ReconfigRequest"            "GetDataResponse"           "3.5";
    CheckWatches        17 "checkWatches"        "CHKW" Read       "CheckWatchesRequest"        "none"                      "3.5";
    RemoveWatches       18 "removeWatches"       "REMW" Read       "RemoveWatchesRequest"       "none"                      "3.5";
    CreateContainer     19 "createContainer"     "CREA" Write      "CreateRequest"              "Create2Response"           "3.5";
    DeleteContainer     20 "deleteContainer"     "DELE" Write      "DeleteContainerRequest"     "none"                      "3.5";
    CreateTtl           21 "createTTL"           "CREA" Write      "CreateTtlRequest"           "Create2Response"           "3.5";
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_lead_back() {
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
    fn a_multi_and_its_reading_twin_differ_in_kind() {
        assert_eq!(OpCode::Multi.kind(), OpKind::Write);
        assert_eq!(OpCode::MultiRead.kind(), OpKind::Read);
        assert_eq!(OpCode::Check.kind(), OpKind::Internal);
    }
}
