//! Ids and epochs. Each is its own type, so that two of them are never swapped.
//!
//! Offsets stay plain `i64` named `*_offset`: they are added and subtracted all
//! over the log, always within one bucket. *End* offsets are exclusive.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

id!(
    /// Cluster-wide table id; a re-created table has a new one.
    TableId(i64)
);
id!(
    /// Cluster-wide partition id; a re-created partition has a new one.
    PartitionId(i64)
);
id!(
    /// Bucket number within a table or partition, from 0.
    BucketId(i32)
);
id!(
    /// Server id; the coordinator is reported to clients as 0.
    ServerId(i32)
);
id!(
    /// Schema version of a table, from 1. 16 bits on the wire.
    SchemaId(i32)
);
id!(
    /// Id of an idempotent writer; [`WriterId::NONE`] means not idempotent.
    WriterId(i64)
);
id!(
    /// Term of a bucket's leader.
    LeaderEpoch(i32)
);
id!(
    /// Term of the coordinator.
    CoordinatorEpoch(i32)
);

impl WriterId {
    /// The id of batches without an idempotent writer.
    pub const NONE: Self = Self(-1);
}

/// One bucket of a table, or of one of its partitions: the unit of order,
/// replication and storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableBucket {
    /// The table.
    pub table_id: TableId,
    /// The partition; `None` for a table without partitions.
    pub partition_id: Option<PartitionId>,
    /// The bucket within it.
    pub bucket_id: BucketId,
}

impl fmt::Display for TableBucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition_id {
            Some(partition) => {
                write!(
                    formatter,
                    "{}/p{partition}/{}",
                    self.table_id, self.bucket_id
                )
            }
            None => write!(formatter, "{}/{}", self.table_id, self.bucket_id),
        }
    }
}
