//! Tables with a primary key in the crash loop: what is written to each, and
//! by whom.
//!
//! What a writer does with its n-th write is a function of the seed, the writer
//! and n, so the two numbers that the ledger keeps of each writer tell the whole
//! history, and what every key must hold.

pub mod check;
pub mod probe;
pub mod writer;

use anyhow::Result;
use fluss::client::FlussConnection;
use fluss::metadata::{DataTypes, Schema, TablePath};
use mainstem_conformance::{keyed, table};

/// Writers of all tables.
pub const WRITERS: usize = 6;
/// Keys of a writer that upserts and deletes; few, so that each changes often.
const KEYS: u64 = 150;

/// What the writes of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole rows (id, writer, version), and deletes, by one writer a key.
    Upserts,
    /// Rows (id, left, right): one writer updates and empties `left` of every
    /// key, another one `right`.
    Halves,
    /// Rows (id, uid, version): the server numbers them.
    Numbered,
}

pub struct Table {
    pub name: &'static str,
    pub kind: Kind,
    pub writers: &'static [usize],
    buckets: i32,
    property: Option<(&'static str, &'static str)>,
}

pub const TABLES: [Table; 4] = [
    Table {
        name: "upserted",
        kind: Kind::Upserts,
        writers: &[0, 1],
        buckets: 4,
        property: None,
    },
    Table {
        name: "upserted_wal",
        kind: Kind::Upserts,
        writers: &[2],
        buckets: 2,
        property: Some(("table.changelog.image", "WAL")),
    },
    Table {
        name: "halves",
        kind: Kind::Halves,
        writers: &[3, 4],
        buckets: 2,
        property: None,
    },
    Table {
        name: "numbered",
        kind: Kind::Numbered,
        writers: &[5],
        buckets: 2,
        property: Some(("table.auto-increment.cache-size", "50")),
    },
];

/// One write of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    pub id: i64,
    pub delete: bool,
}

/// The plan of all writers.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
}

impl Plan {
    /// The `sequence`-th write of a writer. The version of a row is this number.
    pub fn write(self, kind: Kind, writer: usize, sequence: i64) -> Write {
        let dice = mixed(self.seed ^ ((writer as u64) << 48) ^ sequence as u64);
        let key = dice % KEYS;
        match kind {
            Kind::Upserts => Write {
                id: (writer as u64 * 1_000_000 + key) as i64,
                delete: (dice >> 32).is_multiple_of(4),
            },
            Kind::Halves => Write {
                id: key as i64,
                delete: (dice >> 32).is_multiple_of(3),
            },
            // Mostly new keys, now and then one that may be there.
            Kind::Numbered => Write {
                id: match (dice >> 32) % 4 {
                    0 => (dice % (sequence as u64 + 1)) as i64,
                    _ => sequence,
                },
                delete: false,
            },
        }
    }

    /// The first `count` writes of a writer, with their versions.
    pub fn writes(
        self,
        kind: Kind,
        writer: usize,
        count: i64,
    ) -> impl Iterator<Item = (i64, Write)> {
        (0..count).map(move |sequence| (sequence, self.write(kind, writer, sequence)))
    }
}

fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

pub fn table_of(writer: usize) -> &'static Table {
    TABLES
        .iter()
        .find(|table| table.writers.contains(&writer))
        .unwrap_or(&TABLES[0])
}

pub fn path(table: &Table) -> TablePath {
    table::path(table.name)
}

pub async fn create_tables(connection: &FlussConnection) -> Result<()> {
    for table in &TABLES {
        let builder = Schema::builder().column("id", DataTypes::bigint());
        let schema = match table.kind {
            Kind::Upserts => builder
                .column("writer", DataTypes::int())
                .column("version", DataTypes::bigint())
                .column("filler", DataTypes::string()),
            Kind::Halves => builder
                .column("left", DataTypes::bigint())
                .column("right", DataTypes::bigint()),
            Kind::Numbered => builder
                .column("uid", DataTypes::bigint())
                .column("version", DataTypes::bigint())
                .enable_auto_increment("uid")?,
        }
        .primary_key(["id"])?
        .build()?;
        let properties = table.property.as_slice();
        let buckets = Some((table.buckets, &[][..]));
        keyed::create(connection, table.name, schema, buckets, properties).await?;
    }
    Ok(())
}
