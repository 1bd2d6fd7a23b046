//! Data types of columns (tables.md §2.1, formats.md §8.1).

/// A type with its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// The type itself.
    pub kind: TypeKind,
    /// Whether null is a value of it. The default in schemas is true.
    pub nullable: bool,
}

/// What values a type has, without nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the specification
pub enum TypeKind {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// At least 1 character; not padded.
    Char { length: u32 },
    String,
    /// Exactly `length` bytes.
    Binary { length: u32 },
    Bytes,
    /// `1 ≤ precision ≤ 38`, `scale ≤ precision`; an `i64` when precision ≤ 18.
    Decimal { precision: u8, scale: u8 },
    /// Days since 1970-01-01.
    Date,
    /// Milliseconds of the day, whatever the precision (0..=9).
    Time { precision: u8 },
    /// Epoch milliseconds and nanoseconds of the millisecond, without zone.
    Timestamp { precision: u8 },
    /// The same for an instant.
    TimestampLtz { precision: u8 },
    Array(Box<DataType>),
    /// The key is never null.
    Map { key: Box<DataType>, value: Box<DataType> },
    Row(Vec<RowField>),
}

/// A field of a ROW type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowField {
    /// Name, unique within the row.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Comment.
    pub description: Option<String>,
    /// Id from the schema's counter; −1 = not yet assigned.
    pub field_id: i32,
}

impl DataType {
    /// A nullable type.
    pub const fn nullable(kind: TypeKind) -> Self {
        Self { kind, nullable: true }
    }

    /// A type without null.
    pub const fn not_null(kind: TypeKind) -> Self {
        Self { kind, nullable: false }
    }
}
