//! Leases of KV snapshots, on a server that makes none (wire.md §4.12, §6.9).
//!
//! A lease keeps snapshots from being deleted. Here no snapshot exists: every one
//! that a reader wants is reported as unavailable, and no lease ever holds one.
//! A lease without snapshots does not exist, so there is nothing to store,
//! renew, release or drop.

use mainstem_protocol::messages::{
    AcquireKvSnapshotLeaseRequest, AcquireKvSnapshotLeaseResponse, DropKvSnapshotLeaseRequest,
    DropKvSnapshotLeaseResponse, ReleaseKvSnapshotLeaseRequest, ReleaseKvSnapshotLeaseResponse,
};
use mainstem_types::{ErrorCode, TableId};

use crate::snapshot_api::check_primary_key;
use crate::{ApiError, Coordinator};

impl Coordinator {
    pub(crate) fn acquire_kv_snapshot_lease(
        &self,
        request: AcquireKvSnapshotLeaseRequest,
    ) -> Result<AcquireKvSnapshotLeaseResponse, ApiError> {
        for wanted in &request.snapshots_to_lease {
            let table_id = wanted.table_id.unwrap_or_default();
            let table = self.catalog.table_by_id(TableId(table_id)).ok_or_else(|| {
                ApiError::new(
                    ErrorCode::UnknownTableOrBucket,
                    format!("This server does not know the table id {table_id}."),
                )
            })?;
            check_primary_key(&table)?;
        }
        let mut unavailable_snapshots = request.snapshots_to_lease;
        unavailable_snapshots.retain(|table| !table.bucket_snapshots.is_empty());
        Ok(AcquireKvSnapshotLeaseResponse {
            unavailable_snapshots,
        })
    }

    /// Success also for a lease that does not exist.
    pub(crate) fn release_kv_snapshot_lease(
        &self,
        _request: ReleaseKvSnapshotLeaseRequest,
    ) -> Result<ReleaseKvSnapshotLeaseResponse, ApiError> {
        Ok(ReleaseKvSnapshotLeaseResponse {})
    }

    /// Success also for a lease that does not exist.
    pub(crate) fn drop_kv_snapshot_lease(
        &self,
        _request: DropKvSnapshotLeaseRequest,
    ) -> Result<DropKvSnapshotLeaseResponse, ApiError> {
        Ok(DropKvSnapshotLeaseResponse {})
    }
}
