//! One column per data type and precision class, with the samples it is tried
//! with: extremes, odd values and nulls.

use fluss::metadata::{DataField, DataType, DataTypes, Schema, SchemaBuilder};

use crate::value::Value::{self, Array, Bytes, Date, Decimal, Map, Null, Row, Time, Timestamp};

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    pub samples: Vec<Value>,
}

fn column(name: &str, data_type: DataType, samples: Vec<Value>) -> Column {
    Column {
        name: name.to_string(),
        data_type,
        samples,
    }
}

/// Milliseconds of 9999-12-31T23:59:59 and of 0001-01-01T00:00:00.
const LATEST_MS: i64 = 253_402_300_799_000;
const EARLIEST_MS: i64 = -62_135_596_800_000;
/// The last millisecond of the day.
const DAY_END_MS: i32 = 86_399_999;

fn ten_to(digits: u32) -> i128 {
    10i128.pow(digits)
}

/// Decimals of `precision` digits: the extremes, small ones, zero. A long one
/// stands last: fluss-rs 1.0.0 refuses a map in a COMPACTED row whose last
/// decimal of more than 18 digits fits in 8 bytes.
fn decimals(precision: u32) -> Vec<Value> {
    let max = ten_to(precision) - 1;
    vec![
        Decimal(max),
        Decimal(0),
        Decimal(1),
        Decimal(-1),
        Null,
        Decimal(-max),
    ]
}

/// Times of day that a precision of `digits` can hold: Arrow stores seconds
/// for 0, milliseconds for 1 to 3 (the wire never has more).
fn times(digits: u32) -> Vec<Value> {
    if digits == 0 {
        vec![Time(0), Time(86_399_000), Time(43_200_000), Null]
    } else {
        vec![Time(0), Time(DAY_END_MS), Time(1), Null, Time(43_200_123)]
    }
}

/// Timestamps that a precision of `digits` can hold, some before 1970.
fn timestamps(digits: u32) -> Vec<Value> {
    let mut samples = vec![Timestamp(0, 0), Null, Timestamp(-1_000, 0)];
    if digits < 7 {
        samples.extend([Timestamp(LATEST_MS, 0), Timestamp(EARLIEST_MS, 0)]);
    } else {
        // 64 bits of nanoseconds reach from 1677 to 2262.
        samples.extend([
            Timestamp(9_223_372_036_854, 775_807),
            Timestamp(-9_223_372_036_854, 0),
        ]);
    }
    if digits > 0 {
        samples.extend([Timestamp(1_700_000_000_123, 0), Timestamp(-1, 0)]);
    }
    if digits > 3 {
        samples.extend([
            Timestamp(1_700_000_000_123, 456_000),
            Timestamp(-1, 999_000),
        ]);
    }
    if digits > 6 {
        samples.extend([Timestamp(1_700_000_000_123, 456_789), Timestamp(-1, 1)]);
    }
    samples
}

fn floats() -> Vec<Value> {
    [
        f32::MIN,
        f32::MAX,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
    ]
    .map(Value::float)
    .into_iter()
    .chain([Null])
    .collect()
}

fn doubles() -> Vec<Value> {
    [
        f64::MIN,
        f64::MAX,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
    ]
    .map(Value::double)
    .into_iter()
    .chain([Null])
    .collect()
}

fn texts() -> Vec<Value> {
    vec![
        Value::text(""),
        Value::text("plain"),
        Null,
        Value::text("Grüße, 世界 🌊"),
        Value::text("\u{0}\n\t\"'\\"),
        Value::text("x".repeat(70_000)),
    ]
}

/// The types that may be keys, too.
pub fn scalars() -> Vec<Column> {
    let mut columns = vec![
        column(
            "bool",
            DataTypes::boolean(),
            vec![Value::Bool(true), Value::Bool(false), Null],
        ),
        column(
            "tinyint",
            DataTypes::tinyint(),
            vec![
                Value::Byte(i8::MIN),
                Value::Byte(i8::MAX),
                Value::Byte(0),
                Null,
            ],
        ),
        column(
            "smallint",
            DataTypes::smallint(),
            vec![Value::Short(i16::MIN), Value::Short(i16::MAX), Null],
        ),
        column(
            "int",
            DataTypes::int(),
            vec![
                Value::Int(i32::MIN),
                Value::Int(i32::MAX),
                Value::Int(0),
                Null,
            ],
        ),
        column(
            "bigint",
            DataTypes::bigint(),
            vec![Value::Long(i64::MIN), Value::Long(i64::MAX), Null],
        ),
        column("float", DataTypes::float(), floats()),
        column("double", DataTypes::double(), doubles()),
        column(
            "char_1",
            DataTypes::char(1),
            vec![Value::text("a"), Null, Value::text("ü")],
        ),
        column(
            "char_10",
            DataTypes::char(10),
            vec![
                Value::text("ten chars!"),
                Value::text("short"),
                Value::text(""),
                Null,
            ],
        ),
        column("string", DataTypes::string(), texts()),
        column(
            "binary_1",
            DataTypes::binary(1),
            vec![Bytes(vec![0]), Bytes(vec![255]), Null],
        ),
        column(
            "binary_16",
            DataTypes::binary(16),
            vec![Bytes((0..16).collect()), Null, Bytes(vec![255; 16])],
        ),
        column(
            "bytes",
            DataTypes::bytes(),
            vec![
                Bytes(vec![]),
                Bytes((0..=255).collect()),
                Null,
                Bytes(vec![7; 100_000]),
            ],
        ),
        column(
            "date",
            DataTypes::date(),
            vec![
                Date(0),
                Date(-719_162),
                Date(2_932_896),
                Date(-1),
                Date(i32::MIN),
                Date(i32::MAX),
                Null,
            ],
        ),
    ];
    // Both kinds: 64 bits up to precision 18, 128 bits above.
    for (precision, scale) in [
        (1, 0),
        (10, 2),
        (18, 18),
        (18, 0),
        (19, 0),
        (38, 10),
        (38, 38),
    ] {
        columns.push(column(
            &format!("decimal_{precision}_{scale}"),
            DataTypes::decimal(precision, scale),
            decimals(precision),
        ));
    }
    for digits in [0, 1, 3, 6, 9] {
        columns.push(column(
            &format!("time_{digits}"),
            DataTypes::time_with_precision(digits),
            times(digits),
        ));
        columns.push(column(
            &format!("timestamp_{digits}"),
            DataTypes::timestamp_with_precision(digits),
            timestamps(digits),
        ));
        columns.push(column(
            &format!("timestamp_ltz_{digits}"),
            DataTypes::timestamp_ltz_with_precision(digits),
            timestamps(digits),
        ));
    }
    columns
}

/// Arrays of every scalar type, then maps, rows, and all of them in each other.
fn nested(scalars: &[Column]) -> Vec<Column> {
    let pair = DataTypes::row(vec![
        DataField::new("n", DataTypes::int(), None),
        DataField::new("label", DataTypes::string(), None),
    ]);
    let pair_of = |n: i32, label: &str| Row(vec![Value::Int(n), Value::text(label)]);
    let mut columns: Vec<Column> = scalars
        .iter()
        .map(|scalar| {
            column(
                &format!("array_{}", scalar.name),
                DataTypes::array(scalar.data_type.clone()),
                vec![
                    Array(scalar.samples.clone()),
                    Null,
                    Array(vec![]),
                    Array(vec![Null, Null]),
                ],
            )
        })
        .collect();
    for scalar in scalars {
        columns.push(column(
            &format!("map_string_{}", scalar.name),
            DataTypes::map(DataTypes::string(), scalar.data_type.clone()),
            vec![
                Map(scalar
                    .samples
                    .iter()
                    .enumerate()
                    .map(|(key, value)| (Value::text(format!("k{key}")), value.clone()))
                    .collect()),
                Null,
                Map(vec![]),
            ],
        ));
    }
    columns.push(column(
        "map_int_row",
        DataTypes::map(DataTypes::int(), pair.clone()),
        vec![
            Map(vec![
                (Value::Int(i32::MIN), pair_of(1, "one")),
                (Value::Int(i32::MAX), Row(vec![Null, Null])),
                (Value::Int(0), Null),
            ]),
            Null,
            Map(vec![]),
        ],
    ));
    columns.push(column(
        "map_date_array",
        DataTypes::map(DataTypes::date(), DataTypes::array(DataTypes::bigint())),
        vec![
            Map(vec![
                (Date(-1), Array(vec![Value::Long(i64::MIN), Null])),
                (Date(1), Array(vec![])),
                (Date(2), Null),
            ]),
            Null,
        ],
    ));
    columns.push(column(
        "map_string_map",
        DataTypes::map(
            DataTypes::string(),
            DataTypes::map(DataTypes::string(), DataTypes::double()),
        ),
        vec![
            Map(vec![
                (
                    Value::text("outer"),
                    Map(vec![(Value::text(""), Value::double(f64::NAN))]),
                ),
                (Value::text("empty"), Map(vec![])),
            ]),
            Null,
        ],
    ));
    columns.push(column(
        "array_array",
        DataTypes::array(DataTypes::array(DataTypes::int())),
        vec![
            Array(vec![
                Array(vec![Value::Int(1), Null, Value::Int(3)]),
                Array(vec![]),
                Null,
            ]),
            Null,
            Array(vec![]),
        ],
    ));
    columns.push(column(
        "array_row",
        DataTypes::array(pair.clone()),
        vec![
            Array(vec![pair_of(-1, ""), Row(vec![Null, Null]), Null]),
            Null,
        ],
    ));
    columns.push(column(
        "array_map",
        DataTypes::array(DataTypes::map(DataTypes::string(), DataTypes::int())),
        vec![
            Array(vec![Map(vec![(Value::text("k"), Null)]), Map(vec![]), Null]),
            Null,
        ],
    ));
    columns.push(column("row_pair", pair.clone(), {
        vec![
            pair_of(i32::MAX, "max"),
            Null,
            Row(vec![Null, Null]),
            pair_of(i32::MIN, ""),
        ]
    }));
    // A row with a field of every scalar type; its n-th sample is made of
    // their n-th samples.
    let width = scalars.iter().map(|s| s.samples.len()).max().unwrap_or(0);
    columns.push(column(
        "row_all",
        DataTypes::row(
            scalars
                .iter()
                .map(|s| DataField::new(format!("f_{}", s.name), s.data_type.clone(), None))
                .collect(),
        ),
        (0..width)
            .map(|n| {
                Row(scalars
                    .iter()
                    .map(|s| s.samples[n % s.samples.len()].clone())
                    .collect())
            })
            .chain([Null])
            .collect(),
    ));
    columns.push(column(
        "row_deep",
        DataTypes::row(vec![
            DataField::new("pair", pair.clone(), None),
            DataField::new("pairs", DataTypes::array(pair.clone()), None),
            DataField::new(
                "by_name",
                DataTypes::map(DataTypes::string(), DataTypes::array(pair)),
                None,
            ),
        ]),
        vec![
            Row(vec![
                pair_of(1, "deep"),
                Array(vec![pair_of(2, "er"), Null]),
                Map(vec![(
                    Value::text("est"),
                    Array(vec![pair_of(3, "x"), Row(vec![Null, Null])]),
                )]),
            ]),
            Row(vec![Null, Null, Null]),
            Null,
        ],
    ));
    columns
}

/// Every data type: an `id` that is never null and counts rows, the scalars
/// nullable, some NOT NULL, the nested ones.
pub fn every_type() -> Vec<Column> {
    let scalars = scalars();
    let nested = nested(&scalars);
    let not_null = [
        column(
            "int_not_null",
            DataTypes::int().as_non_nullable(),
            vec![Value::Int(i32::MIN), Value::Int(i32::MAX)],
        ),
        column(
            "string_not_null",
            DataTypes::string().as_non_nullable(),
            vec![Value::text(""), Value::text("never null")],
        ),
        column(
            "array_not_null",
            DataTypes::array(DataTypes::int().as_non_nullable()).as_non_nullable(),
            vec![Array(vec![Value::Int(1), Value::Int(2)]), Array(vec![])],
        ),
    ];
    scalars.into_iter().chain(not_null).chain(nested).collect()
}

/// Rows so that every sample of every column occurs; the first cell is the
/// row's number. `Null` everywhere (where allowed) in the last one.
pub fn rows(columns: &[Column]) -> Vec<Vec<Value>> {
    let count = columns.iter().map(|c| c.samples.len()).max().unwrap_or(0);
    let mut rows: Vec<Vec<Value>> = (0..count)
        .map(|n| {
            let cells = columns
                .iter()
                .map(|c| c.samples[n % c.samples.len()].clone());
            std::iter::once(Value::Long(n as i64))
                .chain(cells)
                .collect()
        })
        .collect();
    let nulls = columns.iter().map(|c| {
        if c.data_type.is_nullable() {
            Null
        } else {
            c.samples[0].clone()
        }
    });
    rows.push(
        std::iter::once(Value::Long(count as i64))
            .chain(nulls)
            .collect(),
    );
    rows
}

/// The schema of `columns` behind an `id BIGINT NOT NULL`.
pub fn schema(columns: &[Column]) -> fluss::error::Result<Schema> {
    builder(columns).build()
}

/// The same, with the `id` as primary key.
pub fn keyed_schema(columns: &[Column]) -> fluss::error::Result<Schema> {
    builder(columns).primary_key(["id"])?.build()
}

fn builder(columns: &[Column]) -> SchemaBuilder {
    columns.iter().fold(
        Schema::builder().column("id", DataTypes::bigint().as_non_nullable()),
        |builder, column| builder.column(&column.name, column.data_type.clone()),
    )
}
