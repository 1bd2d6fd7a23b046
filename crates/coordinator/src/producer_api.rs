//! Offsets that exactly-once writers leave behind (cluster.md §5.9, wire.md §4.15).

use bytes::Bytes;
use mainstem_meta::records::{
    ProducerBucketOffset, ProducerOffsetsRecord, ProducerTableOffsets, Record,
};
use mainstem_meta::{Transaction, keys};
use mainstem_protocol::messages::{
    DeleteProducerOffsetsRequest, DeleteProducerOffsetsResponse, GetProducerOffsetsRequest,
    GetProducerOffsetsResponse, PbBucketOffset, PbProducerTableOffsets,
    RegisterProducerOffsetsRequest, RegisterProducerOffsetsResponse,
};
use mainstem_types::names::invalid_name_reason;
use mainstem_types::{ErrorCode, TableId};

use crate::wire::refused;
use crate::{ApiError, Coordinator};

const CREATED: i32 = 0;
const ALREADY_EXISTS: i32 = 1;

impl Coordinator {
    pub(crate) fn register_producer_offsets(
        &self,
        request: RegisterProducerOffsetsRequest,
    ) -> Result<RegisterProducerOffsetsResponse, ApiError> {
        let id = producer_id(request.producer_id)?;
        let now_ms = self.now_ms();
        let ttl_ms = request
            .ttl_ms
            .unwrap_or(self.config.producer_offsets_ttl_ms);
        let tables = request
            .table_offsets
            .into_iter()
            .map(|table| self.table_offsets(table));
        let record = ProducerOffsetsRecord {
            expiration_time: now_ms.saturating_add(ttl_ms),
            tables: tables.collect::<Result<_, _>>()?,
        };
        let mut change = self.change()?;
        if self.producer_offsets(&id, now_ms)?.is_some() {
            return Ok(RegisterProducerOffsetsResponse {
                result: Some(ALREADY_EXISTS),
            });
        }
        change.commit(Transaction::new().put(keys::producer(&id), record.encode()))?;
        Ok(RegisterProducerOffsetsResponse {
            result: Some(CREATED),
        })
    }

    pub(crate) fn get_producer_offsets(
        &self,
        request: GetProducerOffsetsRequest,
    ) -> Result<GetProducerOffsetsResponse, ApiError> {
        let id = producer_id(request.producer_id)?;
        let Some(record) = self.producer_offsets(&id, self.now_ms())? else {
            return Ok(GetProducerOffsetsResponse::default());
        };
        Ok(GetProducerOffsetsResponse {
            producer_id: Some(id),
            expiration_time: Some(record.expiration_time),
            table_offsets: record.tables.into_iter().map(pb_table_offsets).collect(),
        })
    }

    pub(crate) fn delete_producer_offsets(
        &self,
        request: DeleteProducerOffsetsRequest,
    ) -> Result<DeleteProducerOffsetsResponse, ApiError> {
        let id = producer_id(request.producer_id)?;
        self.change()?
            .commit(Transaction::new().delete(keys::producer(&id)))?;
        Ok(DeleteProducerOffsetsResponse {})
    }

    /// Removes offsets whose time has passed; to be called from time to time
    /// (`coordinator.producer-offsets.cleanup-interval`). Returns how many.
    ///
    /// # Errors
    /// The store failed.
    pub fn clean_producer_offsets(&self) -> Result<usize, ApiError> {
        let now_ms = self.now_ms();
        let mut change = self.change()?;
        let mut transaction = Transaction::new();
        for (key, entry) in self.store.list(keys::PRODUCERS)?.entries {
            let record = ProducerOffsetsRecord::decode(&key, &entry.value)?;
            if record.expiration_time <= now_ms {
                transaction = transaction.delete(key);
            }
        }
        let expired = transaction.len();
        if expired > 0 {
            change.commit(transaction)?;
        }
        Ok(expired)
    }

    fn producer_offsets(
        &self,
        id: &str,
        now_ms: i64,
    ) -> Result<Option<ProducerOffsetsRecord>, ApiError> {
        let key = keys::producer(id);
        let Some(entry) = self.store.get(&key)? else {
            return Ok(None);
        };
        let record = decode(&key, &entry.value)?;
        Ok(Some(record).filter(|record| record.expiration_time > now_ms))
    }

    fn table_offsets(
        &self,
        table: PbProducerTableOffsets,
    ) -> Result<ProducerTableOffsets, ApiError> {
        let table_id = table.table_id.unwrap_or_default();
        if self.catalog.table_by_id(TableId(table_id)).is_none() {
            return Err(ApiError::new(
                ErrorCode::TableNotExist,
                format!("Table with id {table_id} does not exist."),
            ));
        }
        let buckets = table.bucket_offsets.into_iter().map(|offset| {
            let bucket = offset.bucket_id.unwrap_or_default();
            let log_end_offset = offset.log_end_offset.ok_or_else(|| {
                refused(format!(
                    "The log end offset of bucket {bucket} of table {table_id} is missing."
                ))
            })?;
            Ok(ProducerBucketOffset {
                partition_id: offset.partition_id,
                bucket,
                log_end_offset,
            })
        });
        Ok(ProducerTableOffsets {
            table_id,
            buckets: buckets.collect::<Result<_, ApiError>>()?,
        })
    }
}

fn decode(key: &str, value: &Bytes) -> Result<ProducerOffsetsRecord, ApiError> {
    Ok(ProducerOffsetsRecord::decode(key, value)?)
}

fn producer_id(id: Option<String>) -> Result<String, ApiError> {
    let id = id.unwrap_or_default();
    match invalid_name_reason(&id) {
        None => Ok(id),
        Some(reason) => Err(ApiError::new(
            ErrorCode::InvalidProducerId,
            format!("The producer id is invalid: {reason}"),
        )),
    }
}

fn pb_table_offsets(table: ProducerTableOffsets) -> PbProducerTableOffsets {
    PbProducerTableOffsets {
        table_id: Some(table.table_id),
        bucket_offsets: table
            .buckets
            .into_iter()
            .map(|offset| PbBucketOffset {
                partition_id: offset.partition_id,
                bucket_id: Some(offset.bucket),
                log_end_offset: Some(offset.log_end_offset),
            })
            .collect(),
    }
}
