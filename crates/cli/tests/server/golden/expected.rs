//! Where this server answers otherwise, and what cannot be replayed.

use mainstem_protocol::ApiKey;

/// APIs that are refused with code 2 until they are built.
pub const NOT_BUILT: &[ApiKey] = &[
    ApiKey::PutKv,
    ApiKey::Lookup,
    ApiKey::PrefixLookup,
    ApiKey::ScanKv,
    ApiKey::GetKvSnapshotMetadata,
    ApiKey::AcquireKvSnapshotLease,
    ApiKey::ReleaseKvSnapshotLease,
    ApiKey::DropKvSnapshotLease,
    ApiKey::CommitKvSnapshot,
    ApiKey::NotifyKvSnapshotOffset,
    ApiKey::UpdateMetadata,
    ApiKey::NotifyLeaderAndIsr,
    ApiKey::StopReplica,
    ApiKey::AdjustIsr,
    ApiKey::ControlledShutdown,
    ApiKey::CommitRemoteLogManifest,
    ApiKey::NotifyRemoteLogOffsets,
    ApiKey::CommitLakeTableSnapshot,
    ApiKey::PrepareLakeTableSnapshot,
    ApiKey::NotifyLakeTableOffset,
    ApiKey::LakeTieringHeartbeat,
    ApiKey::AddServerTag,
    ApiKey::RemoveServerTag,
    ApiKey::Rebalance,
    ApiKey::ListRebalanceProgress,
    ApiKey::CancelRebalance,
    ApiKey::AddServerTagByRack,
    ApiKey::RemoveServerTagByRack,
];

/// Exchanges with another code here (0 = success), and why.
pub const OTHER_CODES: &[(u64, i32, &str)] = &[];

/// Codes inside of a success that are others here: exchange, theirs, ours, why.
pub const OTHER_INNER_CODES: &[(u64, i32, i32, &str)] = &[];

/// Exchanges that are not replayed, and why.
pub const SKIPPED: &[(&[u64], &str)] = &[];
