//! The APIs of the protocol: keys, names, versions (wire.md §2.1).

/// Versions of an API, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest version.
    pub min: i16,
    /// Highest version.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` is one of them.
    pub fn contains(self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }
}

macro_rules! api_keys {
    ($($variant:ident = $key:literal, $name:literal, $max:literal, $visibility:ident;)*) => {
        /// An API of the protocol. Which of them a server offers is decided by the
        /// server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = $name]
                $variant = $key,
            )*
        }

        impl ApiKey {
            /// All of them, ascending.
            pub const ALL: [ApiKey; 67] = [$(ApiKey::$variant),*];

            /// The API of a key; `None` if the protocol has none.
            pub fn from_code(key: i16) -> Option<ApiKey> {
                match key {
                    $($key => Some(ApiKey::$variant),)*
                    _ => None,
                }
            }

            /// Name as in the specification, for logs and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$variant => $name,)*
                }
            }

            /// Versions that release 1.0.0 has.
            pub fn versions(self) -> VersionRange {
                match self {
                    $(ApiKey::$variant => VersionRange { min: 0, max: $max },)*
                }
            }

            /// Whether it is meant for traffic between servers only. A label:
            /// private APIs are advertised like others.
            pub fn is_private(self) -> bool {
                match self {
                    $(ApiKey::$variant => api_keys!(@private $visibility),)*
                }
            }
        }
    };
    (@private public) => { false };
    (@private private) => { true };
}

api_keys! {
    ApiVersions = 1000, "API_VERSIONS", 0, public;
    CreateDatabase = 1001, "CREATE_DATABASE", 0, public;
    DropDatabase = 1002, "DROP_DATABASE", 0, public;
    ListDatabases = 1003, "LIST_DATABASES", 0, public;
    DatabaseExists = 1004, "DATABASE_EXISTS", 0, public;
    CreateTable = 1005, "CREATE_TABLE", 0, public;
    DropTable = 1006, "DROP_TABLE", 0, public;
    GetTableInfo = 1007, "GET_TABLE_INFO", 0, public;
    ListTables = 1008, "LIST_TABLES", 0, public;
    ListPartitionInfos = 1009, "LIST_PARTITION_INFOS", 0, public;
    TableExists = 1010, "TABLE_EXISTS", 0, public;
    GetTableSchema = 1011, "GET_TABLE_SCHEMA", 0, public;
    GetMetadata = 1012, "GET_METADATA", 0, public;
    UpdateMetadata = 1013, "UPDATE_METADATA", 0, private;
    ProduceLog = 1014, "PRODUCE_LOG", 1, public;
    FetchLog = 1015, "FETCH_LOG", 0, public;
    PutKv = 1016, "PUT_KV", 3, public;
    Lookup = 1017, "LOOKUP", 1, public;
    NotifyLeaderAndIsr = 1018, "NOTIFY_LEADER_AND_ISR", 0, private;
    StopReplica = 1019, "STOP_REPLICA", 0, private;
    AdjustIsr = 1020, "ADJUST_ISR", 0, private;
    ListOffsets = 1021, "LIST_OFFSETS", 0, public;
    CommitKvSnapshot = 1022, "COMMIT_KV_SNAPSHOT", 0, private;
    GetLatestKvSnapshots = 1023, "GET_LATEST_KV_SNAPSHOTS", 0, public;
    GetKvSnapshotMetadata = 1024, "GET_KV_SNAPSHOT_METADATA", 1, public;
    GetFilesystemSecurityToken = 1025, "GET_FILESYSTEM_SECURITY_TOKEN", 0, public;
    InitWriter = 1026, "INIT_WRITER", 0, public;
    CommitRemoteLogManifest = 1027, "COMMIT_REMOTE_LOG_MANIFEST", 0, private;
    NotifyRemoteLogOffsets = 1028, "NOTIFY_REMOTE_LOG_OFFSETS", 0, private;
    NotifyKvSnapshotOffset = 1029, "NOTIFY_KV_SNAPSHOT_OFFSET", 0, private;
    CommitLakeTableSnapshot = 1030, "COMMIT_LAKE_TABLE_SNAPSHOT", 0, private;
    NotifyLakeTableOffset = 1031, "NOTIFY_LAKE_TABLE_OFFSET", 0, private;
    GetLakeSnapshot = 1032, "GET_LAKE_SNAPSHOT", 0, public;
    LimitScan = 1033, "LIMIT_SCAN", 0, public;
    PrefixLookup = 1034, "PREFIX_LOOKUP", 1, public;
    GetDatabaseInfo = 1035, "GET_DATABASE_INFO", 0, public;
    CreatePartition = 1036, "CREATE_PARTITION", 0, public;
    DropPartition = 1037, "DROP_PARTITION", 0, public;
    Authenticate = 1038, "AUTHENTICATE", 0, public;
    CreateAcls = 1039, "CREATE_ACLS", 0, public;
    ListAcls = 1040, "LIST_ACLS", 0, public;
    DropAcls = 1041, "DROP_ACLS", 0, public;
    LakeTieringHeartbeat = 1042, "LAKE_TIERING_HEARTBEAT", 0, private;
    ControlledShutdown = 1043, "CONTROLLED_SHUTDOWN", 0, private;
    AlterTable = 1044, "ALTER_TABLE", 1, public;
    DescribeClusterConfigs = 1045, "DESCRIBE_CLUSTER_CONFIGS", 0, public;
    AlterClusterConfigs = 1046, "ALTER_CLUSTER_CONFIGS", 0, public;
    AddServerTag = 1047, "ADD_SERVER_TAG", 0, public;
    RemoveServerTag = 1048, "REMOVE_SERVER_TAG", 0, public;
    Rebalance = 1049, "REBALANCE", 0, public;
    ListRebalanceProgress = 1050, "LIST_REBALANCE_PROGRESS", 0, public;
    CancelRebalance = 1051, "CANCEL_REBALANCE", 0, public;
    PrepareLakeTableSnapshot = 1052, "PREPARE_LAKE_TABLE_SNAPSHOT", 0, private;
    RegisterProducerOffsets = 1053, "REGISTER_PRODUCER_OFFSETS", 0, public;
    GetProducerOffsets = 1054, "GET_PRODUCER_OFFSETS", 0, public;
    DeleteProducerOffsets = 1055, "DELETE_PRODUCER_OFFSETS", 0, public;
    AcquireKvSnapshotLease = 1056, "ACQUIRE_KV_SNAPSHOT_LEASE", 0, public;
    ReleaseKvSnapshotLease = 1057, "RELEASE_KV_SNAPSHOT_LEASE", 0, public;
    DropKvSnapshotLease = 1058, "DROP_KV_SNAPSHOT_LEASE", 0, public;
    GetTableStats = 1059, "GET_TABLE_STATS", 0, public;
    AlterDatabase = 1060, "ALTER_DATABASE", 0, public;
    ScanKv = 1061, "SCAN_KV", 0, public;
    GetClusterHealth = 1062, "GET_CLUSTER_HEALTH", 0, public;
    ListRemoteLogManifests = 1063, "LIST_REMOTE_LOG_MANIFESTS", 0, public;
    ListKvSnapshots = 1064, "LIST_KV_SNAPSHOTS", 0, public;
    AddServerTagByRack = 1065, "ADD_SERVER_TAG_BY_RACK", 0, public;
    RemoveServerTagByRack = 1066, "REMOVE_SERVER_TAG_BY_RACK", 0, public;
}

impl ApiKey {
    /// Key on the wire.
    pub fn code(self) -> i16 {
        self as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_contiguous_and_found_by_their_code() {
        for (index, api) in ApiKey::ALL.into_iter().enumerate() {
            assert_eq!(usize::try_from(api.code()).unwrap(), 1000 + index);
            assert_eq!(ApiKey::from_code(api.code()), Some(api));
        }
        for code in [i16::MIN, -1, 0, 18, 999, 1067, 2000, i16::MAX] {
            assert_eq!(ApiKey::from_code(code), None);
        }
    }

    #[test]
    fn versions_above_zero_are_those_of_the_release() {
        let above: Vec<(i16, i16)> = ApiKey::ALL
            .into_iter()
            .filter(|api| api.versions().max > 0)
            .map(|api| (api.code(), api.versions().max))
            .collect();
        assert_eq!(
            above,
            [
                (1014, 1),
                (1016, 3),
                (1017, 1),
                (1024, 1),
                (1034, 1),
                (1044, 1)
            ]
        );
        assert!(!ApiKey::PutKv.versions().contains(-1));
        assert!(ApiKey::PutKv.versions().contains(3));
        assert!(!ApiKey::PutKv.versions().contains(4));
    }

    #[test]
    fn private_apis_are_those_between_servers() {
        let private: Vec<i16> = ApiKey::ALL
            .into_iter()
            .filter(|api| api.is_private())
            .map(ApiKey::code)
            .collect();
        assert_eq!(
            private,
            [
                1013, 1018, 1019, 1020, 1022, 1027, 1028, 1029, 1030, 1031, 1042, 1043, 1052
            ]
        );
    }
}
