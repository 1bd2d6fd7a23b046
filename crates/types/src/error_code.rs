//! The error codes of the protocol (wire.md §5.1).
//!
//! Codes are shared with every client that exists: a code is never renumbered,
//! and a retired one is never used again.

use std::fmt;

/// What a client of the 1.0 line does after a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It gives up; the caller sees the error.
    Never,
    /// It sends the same request again.
    Again,
    /// It drops its cached location of the bucket, asks Metadata, and tries
    /// again. Such a code is only right when a refresh can help.
    AfterRefresh,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal $retry:ident;)*) => {
        /// An error code with the name of the specification.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code with that number; `None` if no release has it.
            pub const fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Name in the specification, for messages and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What Java clients do after it.
            pub const fn retry(self) -> Retry {
                match self {
                    $(Self::$variant => Retry::$retry,)*
                }
            }
        }
    };
}

error_codes! {
    /// Anything that has no code of its own.
    UnknownServerError = -1 "UNKNOWN_SERVER_ERROR" Never;
    /// Success; only sent in entries of CreateAcls.
    None = 0 "NONE" Never;
    /// The connection broke, or the channel is closing.
    NetworkException = 1 "NETWORK_EXCEPTION" Again;
    /// The API version is too old for the table, or the API is missing.
    UnsupportedVersion = 2 "UNSUPPORTED_VERSION" Never;
    /// A message that cannot be decoded.
    CorruptMessage = 3 "CORRUPT_MESSAGE" Again;
    /// The database is missing.
    DatabaseNotExist = 4 "DATABASE_NOT_EXIST" Never;
    /// The database has tables and the drop does not cascade.
    DatabaseNotEmpty = 5 "DATABASE_NOT_EMPTY" Never;
    /// The database exists.
    DatabaseAlreadyExist = 6 "DATABASE_ALREADY_EXIST" Never;
    /// The table is missing.
    TableNotExist = 7 "TABLE_NOT_EXIST" Never;
    /// The table exists.
    TableAlreadyExist = 8 "TABLE_ALREADY_EXIST" Never;
    /// The schema id, or the table of it, is unknown.
    SchemaNotExist = 9 "SCHEMA_NOT_EXIST" Again;
    /// Input or output of a log failed.
    LogStorageException = 10 "LOG_STORAGE_EXCEPTION" Again;
    /// Input or output of the key-value store failed.
    KvStorageException = 11 "KV_STORAGE_EXCEPTION" Again;
    /// This server does not lead the bucket, or has no replica of it.
    NotLeaderOrFollower = 12 "NOT_LEADER_OR_FOLLOWER" AfterRefresh;
    /// A record over the limit; raised by clients.
    RecordTooLarge = 13 "RECORD_TOO_LARGE_EXCEPTION" Never;
    /// A log batch with a wrong checksum, length or magic. Clients resend it.
    CorruptRecord = 14 "CORRUPT_RECORD_EXCEPTION" Again;
    /// A table name, descriptor or operation that the table does not allow.
    InvalidTable = 15 "INVALID_TABLE_EXCEPTION" Never;
    /// A database name or descriptor that is not valid.
    InvalidDatabase = 16 "INVALID_DATABASE_EXCEPTION" Never;
    /// More replicas than live tablet servers.
    InvalidReplicationFactor = 17 "INVALID_REPLICATION_FACTOR" Never;
    /// `acks` is not −1, 0 or 1.
    InvalidRequiredAcks = 18 "INVALID_REQUIRED_ACKS" Never;
    /// A fetch below the log start or above the log end.
    LogOffsetOutOfRange = 19 "LOG_OFFSET_OUT_OF_RANGE_EXCEPTION" Never;
    /// A key operation on a log table.
    NonPrimaryKeyTable = 20 "NON_PRIMARY_KEY_TABLE_EXCEPTION" Never;
    /// This server does not know the table id or the bucket (yet).
    UnknownTableOrBucket = 21 "UNKNOWN_TABLE_OR_BUCKET_EXCEPTION" AfterRefresh;
    /// The bucket epoch is too old.
    InvalidUpdateVersion = 22 "INVALID_UPDATE_VERSION_EXCEPTION" Never;
    /// The coordinator epoch does not fit.
    InvalidCoordinator = 23 "INVALID_COORDINATOR_EXCEPTION" Never;
    /// The leader epoch is too old.
    FencedLeaderEpoch = 24 "FENCED_LEADER_EPOCH_EXCEPTION" Never;
    /// The replicas did not confirm in time; the data may be committed later.
    RequestTimeOut = 25 "REQUEST_TIME_OUT" Again;
    /// The replica is offline.
    StorageException = 26 "STORAGE_EXCEPTION" Again;
    /// Between servers: the same change is already under way.
    OperationNotAttempted = 27 "OPERATION_NOT_ATTEMPTED_EXCEPTION" Never;
    /// Appended, but the ISR shrank below the minimum.
    NotEnoughReplicasAfterAppend = 28 "NOT_ENOUGH_REPLICAS_AFTER_APPEND_EXCEPTION" Again;
    /// The ISR is below the minimum; nothing was written.
    NotEnoughReplicas = 29 "NOT_ENOUGH_REPLICAS_EXCEPTION" Again;
    /// No security token can be had.
    SecurityToken = 30 "SECURITY_TOKEN_EXCEPTION" Never;
    /// A gap in a writer's sequence. Writers treat it specially (wire.md §6.3).
    OutOfOrderSequence = 31 "OUT_OF_ORDER_SEQUENCE_EXCEPTION" Never;
    /// A batch that is stored already. Not sent: duplicates are successes.
    DuplicateSequence = 32 "DUPLICATE_SEQUENCE_EXCEPTION" Never;
    /// A writer id that is not known. Not sent.
    UnknownWriterId = 33 "UNKNOWN_WRITER_ID_EXCEPTION" Never;
    /// A projection on another format than ARROW, or one that is not valid.
    InvalidColumnProjection = 34 "INVALID_COLUMN_PROJECTION" Never;
    /// Columns of a partial update that are not valid.
    InvalidTargetColumn = 35 "INVALID_TARGET_COLUMN" Never;
    /// The partition is missing.
    PartitionNotExists = 36 "PARTITION_NOT_EXISTS" Never;
    /// A partition operation on a plain table.
    TableNotPartitioned = 37 "TABLE_NOT_PARTITIONED_EXCEPTION" Never;
    /// A timestamp in the future.
    InvalidTimestamp = 38 "INVALID_TIMESTAMP_EXCEPTION" Never;
    /// A table property, or an aggregation function, that is not valid.
    InvalidConfig = 39 "INVALID_CONFIG_EXCEPTION" Never;
    /// Historical access in a cluster without a lake.
    LakeStorageNotConfigured = 40 "LAKE_STORAGE_NOT_CONFIGURED_EXCEPTION" Never;
    /// The KV snapshot is missing or unreadable.
    KvSnapshotNotExist = 41 "KV_SNAPSHOT_NOT_EXIST" Never;
    /// The partition exists.
    PartitionAlreadyExists = 42 "PARTITION_ALREADY_EXISTS" Never;
    /// Partition keys or values that are not valid.
    PartitionSpecInvalid = 43 "PARTITION_SPEC_INVALID_EXCEPTION" Never;
    /// No leader; raised by clients.
    LeaderNotAvailable = 44 "LEADER_NOT_AVAILABLE_EXCEPTION" AfterRefresh;
    /// The table has as many partitions as it may.
    PartitionMaxNum = 45 "PARTITION_MAX_NUM_EXCEPTION" Never;
    /// Authentication failed.
    Authenticate = 46 "AUTHENTICATE_EXCEPTION" Never;
    /// An ACL operation without an authorizer.
    SecurityDisabled = 47 "SECURITY_DISABLED_EXCEPTION" Never;
    /// The principal may not do this.
    Authorization = 48 "AUTHORIZATION_EXCEPTION" Never;
    /// More buckets than `max.bucket.num`.
    BucketMaxNum = 49 "BUCKET_MAX_NUM_EXCEPTION" Never;
    /// A tiering heartbeat of an old epoch.
    FencedTieringEpoch = 50 "FENCED_TIERING_EPOCH_EXCEPTION" Never;
    /// A temporary problem of authentication, only during the handshake.
    RetriableAuthenticate = 51 "RETRIABLE_AUTHENTICATE_EXCEPTION" Never;
    /// Not in use.
    InvalidServerRackInfo = 52 "INVALID_SERVER_RACK_INFO_EXCEPTION" Never;
    /// The lake snapshot is missing.
    LakeSnapshotNotExist = 53 "LAKE_SNAPSHOT_NOT_EXIST" Never;
    /// The lake catalog has a conflicting table.
    LakeTableAlreadyExist = 54 "LAKE_TABLE_ALREADY_EXIST" Never;
    /// An ISR change that adds a dead replica or drops the leader.
    IneligibleReplica = 55 "INELIGIBLE_REPLICA_EXCEPTION" Never;
    /// A change of a table that is not allowed.
    InvalidAlterTable = 56 "INVALID_ALTER_TABLE_EXCEPTION" Never;
    /// A delete on a table that disables deletes.
    DeletionDisabled = 57 "DELETION_DISABLED_EXCEPTION" Never;
    /// The server is not registered.
    ServerNotExist = 58 "SERVER_NOT_EXIST_EXCEPTION" Never;
    /// The server tag exists (the name is spelled as in the source).
    ServerTagAlreadyExist = 59 "SEVER_TAG_ALREADY_EXIST_EXCEPTION" Never;
    /// The server tag is missing (the name is spelled as in the source).
    ServerTagNotExist = 60 "SEVER_TAG_NOT_EXIST_EXCEPTION" Never;
    /// A rebalance is running, or no plan is possible.
    RebalanceFailure = 61 "REBALANCE_FAILURE_EXCEPTION" Never;
    /// No such rebalance.
    NoRebalanceInProgress = 62 "NO_REBALANCE_IN_PROGRESS_EXCEPTION" Never;
    /// A producer id that is not valid.
    InvalidProducerId = 63 "INVALID_PRODUCER_ID_EXCEPTION" Never;
    /// A change of the cluster configuration was refused.
    ConfigException = 64 "CONFIG_EXCEPTION" Never;
    /// This coordinator is a standby.
    NotCoordinatorLeader = 65 "NOT_COORDINATOR_LEADER_EXCEPTION" Never;
    /// The scan was idle for too long.
    ScannerExpired = 66 "SCANNER_EXPIRED" Never;
    /// The scan is unknown.
    UnknownScannerId = 67 "UNKNOWN_SCANNER_ID" Never;
    /// A scan call that is malformed, concurrent or out of sequence.
    InvalidScanRequest = 68 "INVALID_SCAN_REQUEST" Never;
    /// Too many scans of the bucket or the server.
    TooManyScanners = 69 "TOO_MANY_SCANNERS" Never;
    /// The disk is above its write limit. Unknown to clients in Rust and Python.
    DiskWriteLocked = 70 "DISK_WRITE_LOCKED" Again;
    /// No room for more leaders of primary-key buckets.
    InsufficientKvLeaderReplicaCapacity = 71 "INSUFFICIENT_KV_LEADER_REPLICA_CAPACITY" Never;
    /// The key-value store refuses writes for now.
    StorageBackpressure = 72 "STORAGE_BACKPRESSURE_EXCEPTION" Again;
    /// Too much access to historical partitions for now.
    HistoricalPartitionThrottled = 73 "HISTORICAL_PARTITION_THROTTLED" Again;
    /// The bucket count of a request is missing or wrong.
    InvalidBucketRouting = 74 "INVALID_BUCKET_ROUTING" Never;
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The code of a number from the wire; an unknown number reads as
    /// [`ErrorCode::UnknownServerError`], as in every client.
    pub const fn from_wire(code: i32) -> Self {
        match Self::from_code(code) {
            Some(known) => known,
            None => Self::UnknownServerError,
        }
    }

    /// Whether Java clients try again.
    pub const fn is_retriable(self) -> bool {
        !matches!(self.retry(), Retry::Never)
    }

    /// Whether clients ask Metadata again because of it.
    pub const fn invalidates_metadata(self) -> bool {
        matches!(self.retry(), Retry::AfterRefresh)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_run_from_minus_one_to_seventy_four_without_a_gap() {
        let codes: Vec<i32> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
        assert_eq!(codes, (-1..=74).collect::<Vec<_>>());
    }

    #[test]
    fn every_code_is_found_by_its_number() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(code));
        }
    }

    #[test]
    fn unknown_numbers_read_as_unknown_server_error() {
        assert_eq!(ErrorCode::from_code(75), None);
        for code in [75, -2, i32::MIN, i32::MAX] {
            assert_eq!(ErrorCode::from_wire(code), ErrorCode::UnknownServerError);
        }
    }

    #[test]
    fn retriable_codes_are_those_of_the_specification() {
        let retriable: Vec<i32> = ErrorCode::ALL
            .iter()
            .filter(|code| code.is_retriable())
            .map(|code| code.code())
            .collect();
        assert_eq!(
            retriable,
            [1, 3, 9, 10, 11, 12, 14, 21, 25, 26, 28, 29, 44, 70, 72, 73]
        );
    }

    #[test]
    fn codes_that_refresh_metadata_are_12_21_and_44() {
        let refreshing: Vec<i32> = ErrorCode::ALL
            .iter()
            .filter(|code| code.invalidates_metadata())
            .map(|code| code.code())
            .collect();
        assert_eq!(refreshing, [12, 21, 44]);
    }

    #[test]
    fn a_code_prints_its_name_and_number() {
        assert_eq!(
            ErrorCode::InvalidTable.to_string(),
            "INVALID_TABLE_EXCEPTION (15)"
        );
    }
}
