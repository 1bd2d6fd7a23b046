use mainstem_types::Schema;
use proptest::prelude::*;

use super::LeafFunction::*;
use super::*;
use crate::arrow_testing::segments;
use crate::header::Magic;
use crate::log_batch_builder::BatchSpec;
use crate::read_at::ReadWindow;
use crate::statistics::{ColumnStatistics, encode_statistics};
use crate::testing::{any_value, column, schema, schema_of};
use crate::value::Timestamp;

fn leaf(function: LeafFunction, column_id: i32, literals: &[Value<'static>]) -> Predicate {
    Predicate::Leaf {
        function,
        column_id,
        literals: literals.to_vec(),
    }
}

fn header(schema_id: i16, record_count: i32) -> BatchHeader {
    let spec = BatchSpec {
        magic: Magic::V1,
        schema_id,
        ..BatchSpec::default()
    };
    let mut header = BatchHeader::parse(&spec.empty()).unwrap();
    header.record_count = record_count;
    header
}

fn versions(schema: &Schema) -> Vec<(i16, Arc<SchemaLayout>)> {
    vec![(1, Arc::new(SchemaLayout::new(schema)))]
}

/// A batch of 10 records with statistics of one column.
struct OneColumn {
    schema: Schema,
    min: Value<'static>,
    max: Value<'static>,
    null_count: i32,
}

impl OneColumn {
    fn new(kind: TypeKind, min: Value<'static>, max: Value<'static>, null_count: i32) -> Self {
        Self {
            schema: schema_of([kind]),
            min,
            max,
            null_count,
        }
    }

    fn ints(min: i32, max: i32, null_count: i32) -> Self {
        Self::new(TypeKind::Int, Value::Int(min), Value::Int(max), null_count)
    }

    fn keeps(&self, function: LeafFunction, literals: &[Value<'static>]) -> bool {
        let filter = Filter::new(&versions(&self.schema), 1, &leaf(function, 0, literals));
        let statistics = encode_statistics(&[ColumnStatistics {
            position: 0,
            data_type: &self.schema.columns[0].data_type,
            null_count: self.null_count,
            min: self.min.clone(),
            max: self.max.clone(),
        }]);
        filter
            .expect("usable")
            .may_match(&header(1, 10), &statistics.unwrap())
    }
}

#[test]
fn comparisons_keep_what_may_match() {
    let batch = OneColumn::ints(10, 20, 0);
    for (function, literal, keeps) in [
        (Equal, 9, false),
        (Equal, 10, true),
        (Equal, 20, true),
        (Equal, 21, false),
        (NotEqual, 15, true),
        (NotEqual, 10, true),
        (LessThan, 10, false),
        (LessThan, 11, true),
        (LessOrEqual, 9, false),
        (LessOrEqual, 10, true),
        (GreaterThan, 20, false),
        (GreaterThan, 19, true),
        (GreaterOrEqual, 21, false),
        (GreaterOrEqual, 20, true),
    ] {
        assert_eq!(
            batch.keeps(function, &[Value::Int(literal)]),
            keeps,
            "{function:?} {literal}"
        );
    }
    assert!(!OneColumn::ints(7, 7, 0).keeps(NotEqual, &[Value::Int(7)]));
}

#[test]
fn lists_keep_what_may_match() {
    let batch = OneColumn::ints(10, 20, 0);
    let ints = |values: &[i32]| values.iter().map(|v| Value::Int(*v)).collect::<Vec<_>>();
    assert!(batch.keeps(In, &ints(&[1, 15])));
    assert!(!batch.keeps(In, &ints(&[1, 25])));
    assert!(
        batch.keeps(In, &[Value::Null, Value::Int(15)]),
        "null in a list is ignored"
    );
    assert!(!batch.keeps(In, &[Value::Null]));
    assert!(batch.keeps(NotIn, &ints(&[10, 20])));
    assert!(
        !batch.keeps(NotIn, &[Value::Null, Value::Int(1)]),
        "nothing is not in (null)"
    );
    assert!(!OneColumn::ints(7, 7, 0).keeps(NotIn, &ints(&[1, 7])));
}

#[test]
fn null_tests_go_by_the_null_count() {
    for (null_count, is_null, is_not_null) in [(0, false, true), (3, true, true), (10, true, false)]
    {
        let batch = OneColumn::ints(1, 2, null_count);
        assert_eq!(batch.keeps(IsNull, &[]), is_null, "{null_count} nulls");
        assert_eq!(
            batch.keeps(IsNotNull, &[]),
            is_not_null,
            "{null_count} nulls"
        );
    }
    let unknown = OneColumn::ints(1, 2, -1);
    assert!(unknown.keeps(IsNull, &[]) && unknown.keeps(IsNotNull, &[]));
}

#[test]
fn all_nulls_match_nothing_but_is_null() {
    let batch = OneColumn::new(TypeKind::Int, Value::Null, Value::Null, 10);
    assert!(batch.keeps(IsNull, &[]));
    assert!(!batch.keeps(IsNotNull, &[]));
    for function in [
        Equal,
        NotEqual,
        LessThan,
        LessOrEqual,
        GreaterThan,
        GreaterOrEqual,
        In,
        NotIn,
    ] {
        assert!(!batch.keeps(function, &[Value::Int(1)]), "{function:?}");
    }
    let text = OneColumn::new(TypeKind::String, Value::Null, Value::Null, 10);
    for function in [StartsWith, Contains, EndsWith] {
        assert!(!text.keeps(function, &["x".into()]), "{function:?}");
    }
}

#[test]
fn without_least_and_greatest_value_a_batch_is_kept() {
    // The reference never fills them for CHAR.
    let batch = OneColumn::new(TypeKind::Char { length: 3 }, Value::Null, Value::Null, 2);
    for function in [Equal, NotEqual, LessThan, In, NotIn, StartsWith] {
        assert!(batch.keeps(function, &["x".into()]), "{function:?}");
        assert!(batch.keeps(function, &[Value::Null]), "{function:?} null");
    }
    assert!(batch.keeps(IsNull, &[]));
    let batch = OneColumn::new(TypeKind::Char { length: 3 }, Value::Null, Value::Null, 0);
    assert!(batch.keeps(IsNull, &[]));
}

#[test]
fn nothing_compares_to_null() {
    let batch = OneColumn::ints(1, 2, 0);
    for function in [
        Equal,
        NotEqual,
        LessThan,
        LessOrEqual,
        GreaterThan,
        GreaterOrEqual,
    ] {
        assert!(!batch.keeps(function, &[Value::Null]), "{function:?}");
    }
}

#[test]
fn strings_compare_by_bytes() {
    let batch = |min: &'static str, max: &'static str| {
        OneColumn::new(TypeKind::String, min.into(), max.into(), 0)
    };
    assert!(batch("b", "bx").keeps(Equal, &["b".into()]));
    assert!(!batch("b", "bx").keeps(Equal, &["by".into()]));
    assert!(batch("apple", "cherry").keeps(StartsWith, &["b".into()]));
    assert!(batch("apple", "cherry").keeps(StartsWith, &["app".into()]));
    assert!(batch("apple", "cherry").keeps(StartsWith, &["cherry".into()]));
    assert!(!batch("apple", "cherry").keeps(StartsWith, &["cherry pie".into()]));
    assert!(!batch("apple", "cherry").keeps(StartsWith, &["aa".into()]));
    assert!(!batch("apple", "cherry").keeps(StartsWith, &["d".into()]));
    assert!(batch("a", "b").keeps(Contains, &["zzz".into()]));
    assert!(batch("a", "b").keeps(EndsWith, &["zzz".into()]));
    // U+FFFF before U+10000 in bytes, behind its first half in UTF-16.
    assert!(batch("\u{ffff}", "\u{10001}").keeps(StartsWith, &["\u{10000}".into()]));
}

#[test]
fn zeros_and_nan_are_kept_whatever_their_order() {
    let batch = |min: f64, max: f64| {
        OneColumn::new(TypeKind::Double, Value::Double(min), Value::Double(max), 0)
    };
    let keeps = |batch: &OneColumn, function, literal: f64| {
        batch.keeps(function, &[Value::Double(literal)])
    };
    let zeros = batch(-0.0, -0.0);
    assert!(keeps(&zeros, Equal, 0.0), "−0 = 0 for SQL");
    assert!(keeps(&zeros, LessThan, 0.0), "−0 < 0 for Java");
    assert!(keeps(&zeros, NotEqual, 0.0));
    assert!(!keeps(&zeros, NotEqual, -0.0));
    assert!(!keeps(&zeros, GreaterThan, 0.0));
    let nan = batch(1.0, f64::NAN);
    for function in [Equal, NotEqual, GreaterThan, GreaterOrEqual] {
        assert!(keeps(&nan, function, 5.0), "{function:?}");
        assert!(
            keeps(&batch(1.0, 2.0), function, f64::NAN),
            "{function:?} NaN"
        );
    }
    assert!(!keeps(&nan, LessThan, 1.0));
}

#[test]
fn every_type_with_statistics_compares() {
    let timestamp = |millis, nanos_of_milli| {
        Value::Timestamp(Timestamp {
            millis,
            nanos_of_milli,
        })
    };
    let decimal = |precision| TypeKind::Decimal {
        precision,
        scale: 2,
    };
    for (kind, [below, min, max, above]) in [
        (TypeKind::TinyInt, [-3, -2, 3, 4].map(Value::TinyInt)),
        (
            TypeKind::SmallInt,
            [-300, -2, 300, 400].map(Value::SmallInt),
        ),
        (TypeKind::Int, [-3, -2, 3, 4].map(Value::Int)),
        (
            TypeKind::BigInt,
            [i64::MIN, -2, 1 << 40, i64::MAX].map(Value::BigInt),
        ),
        (TypeKind::Float, [-3.5, -2.5, 3.5, 4.0].map(Value::Float)),
        (TypeKind::Double, [-3.5, -2.5, 3.5, 4.0].map(Value::Double)),
        (decimal(10), [-300, -200, 300, 400].map(Value::Decimal)),
        (
            decimal(30),
            [-300, -200, 3 << 70, 4 << 70].map(Value::Decimal),
        ),
        (TypeKind::Date, [-3, -2, 3, 4].map(Value::Date)),
        (
            TypeKind::Time { precision: 3 },
            [1, 2, 3, 4].map(Value::Time),
        ),
        (
            TypeKind::Timestamp { precision: 3 },
            [
                timestamp(-9, 0),
                timestamp(-8, 0),
                timestamp(5, 0),
                timestamp(6, 0),
            ],
        ),
        (
            TypeKind::TimestampLtz { precision: 9 },
            [
                timestamp(5, 1),
                timestamp(5, 2),
                timestamp(5, 30),
                timestamp(5, 31),
            ],
        ),
        (
            TypeKind::String,
            ["a", "long enough to need space", "some", "sometime"].map(Value::from),
        ),
    ] {
        let batch = OneColumn::new(kind.clone(), min.clone(), max.clone(), 1);
        for (literal, inside) in [(below, false), (min, true), (max, true), (above, false)] {
            assert_eq!(
                batch.keeps(Equal, std::slice::from_ref(&literal)),
                inside,
                "{kind:?} {literal:?}"
            );
        }
    }
    let booleans = OneColumn::new(
        TypeKind::Boolean,
        Value::Boolean(true),
        Value::Boolean(true),
        0,
    );
    assert!(!booleans.keeps(Equal, &[Value::Boolean(false)]));
    assert!(booleans.keeps(Equal, &[Value::Boolean(true)]));
}

/// Two columns with ids 5 and 9, of which the second came with schema 2.
fn evolved() -> Vec<(i16, Arc<SchemaLayout>)> {
    let mut columns = vec![
        column("a", DataType::nullable(TypeKind::Int)),
        column("b", DataType::nullable(TypeKind::Int)),
    ];
    (columns[0].id, columns[1].id) = (5, 9);
    let new = Schema {
        columns,
        ..schema(Vec::new())
    };
    let old = Schema {
        columns: new.columns[..1].to_vec(),
        ..new.clone()
    };
    vec![
        (1, Arc::new(SchemaLayout::new(&old))),
        (2, Arc::new(SchemaLayout::new(&new))),
    ]
}

/// A block that has 10..=20 for each of some positions.
fn block(positions: &[i16]) -> Vec<u8> {
    let data_type = DataType::nullable(TypeKind::Int);
    let columns = positions.iter().map(|position| ColumnStatistics {
        position: *position,
        data_type: &data_type,
        null_count: 0,
        min: Value::Int(10),
        max: Value::Int(20),
    });
    encode_statistics(&columns.collect::<Vec<_>>()).unwrap()
}

#[test]
fn compounds_end_where_the_answer_is_known() {
    let no = leaf(Equal, 5, &[Value::Int(1)]);
    let yes = leaf(Equal, 5, &[Value::Int(15)]);
    let unknown = leaf(Equal, 9, &[Value::Int(1)]);
    let and = |children: &[&Predicate]| Predicate::And(children.iter().copied().cloned().collect());
    let or = |children: &[&Predicate]| Predicate::Or(children.iter().copied().cloned().collect());
    let keeps = |predicate: Predicate| {
        // Statistics of the first column only.
        Filter::new(&evolved(), 2, &predicate)
            .unwrap()
            .may_match(&header(2, 10), &block(&[0]))
    };
    assert!(keeps(and(&[&yes, &yes])));
    assert!(!keeps(and(&[&yes, &no])));
    assert!(keeps(or(&[&no, &yes])));
    assert!(!keeps(or(&[&no, &no])));
    assert!(keeps(unknown.clone()));
    assert!(
        !keeps(and(&[&no, &unknown])),
        "known before the unknown is looked at"
    );
    assert!(
        keeps(and(&[&unknown, &no])),
        "the unknown ends the evaluation"
    );
    assert!(keeps(or(&[&no, &unknown])));
    assert!(!keeps(or(&[&no, &and(&[&yes, &no])])));
}

#[test]
fn columns_are_found_by_id_in_the_schema_of_the_batch() {
    let on_b = leaf(Equal, 9, &[Value::Int(1)]);
    let filter = Filter::new(&evolved(), 2, &on_b).unwrap();
    assert!(!filter.may_match(&header(2, 10), &block(&[0, 1])));
    assert!(
        !filter.may_match(&header(2, 10), &block(&[1])),
        "in any place of the block"
    );
    assert!(
        filter.may_match(&header(1, 10), &block(&[0])),
        "schema 1 has no such column"
    );
    assert!(
        filter.may_match(&header(3, 10), &block(&[0, 1])),
        "schema 3 is unknown"
    );
    let on_a = Filter::new(&evolved(), 2, &leaf(Equal, 5, &[Value::Int(1)])).unwrap();
    assert!(!on_a.may_match(&header(1, 10), &block(&[0])));
}

#[test]
fn batches_without_usable_statistics_are_kept() {
    let filter = Filter::new(&evolved(), 2, &leaf(Equal, 5, &[Value::Int(1)])).unwrap();
    assert!(filter.may_match(&header(2, 10), &[]));
    let mut broken = block(&[0, 1]);
    broken[0] = 9;
    assert!(filter.may_match(&header(2, 10), &broken));
    assert!(filter.may_match(&header(2, 10), &block(&[0, 1])[..20]));
}

#[test]
fn batches_of_the_reference_are_filtered() {
    let segments = segments();
    let segment = segments
        .iter()
        .find(|segment| segment.name == "log_stats")
        .unwrap();
    let versions: Vec<_> = segment
        .schemas
        .iter()
        .map(|(id, schema)| (*id, Arc::new(SchemaLayout::new(schema))))
        .collect();
    // Four batches of five rows: ids 0 to 4, 10 to 14, 20 to 24, 30 to 34, names
    // n000 and so on, scores half of the id, days from 2024-01-01 on.
    for (predicate, kept) in [
        (leaf(Equal, 0, &[Value::Int(12)]), vec![5]),
        (leaf(Equal, 0, &[Value::Int(15)]), vec![]),
        (leaf(GreaterThan, 0, &[Value::Int(14)]), vec![10, 15]),
        (leaf(StartsWith, 1, &["n02".into()]), vec![10]),
        (leaf(LessThan, 2, &[Value::Double(5.0)]), vec![0]),
        (
            leaf(GreaterOrEqual, 3, &[Value::Date(19_723 + 34)]),
            vec![15],
        ),
        (leaf(IsNull, 3, &[]), vec![]),
        (leaf(IsNotNull, 3, &[]), vec![0, 5, 10, 15]),
    ] {
        let filter = Filter::new(&versions, 1, &predicate).unwrap();
        let mut window = ReadWindow::new(&segment.bytes, segment.bytes.len() as u64);
        let (mut position, mut found) = (0, Vec::new());
        while let Some(header) = window.batch_header(position).unwrap() {
            let statistics = window.statistics(position, &header).unwrap();
            if filter.may_match(&header, statistics) {
                found.push(header.base_offset);
            }
            position += header.total_len as u64;
        }
        assert_eq!(found, kept, "{predicate:?}");
    }
}

#[test]
fn unusable_predicates_are_no_filter() {
    let deep = (0..100).fold(leaf(IsNull, 5, &[]), |inner, _| Predicate::And(vec![inner]));
    let many = vec![Value::Int(1); 5000];
    for (what, predicate) in [
        ("an unknown column", leaf(IsNull, 7, &[])),
        (
            "a literal of another type",
            leaf(Equal, 5, &[Value::BigInt(1)]),
        ),
        (
            "text functions on numbers",
            leaf(StartsWith, 5, &[Value::Null]),
        ),
        ("no literal", leaf(Equal, 5, &[])),
        (
            "two literals",
            leaf(Equal, 5, &[Value::Int(1), Value::Int(2)]),
        ),
        ("an empty list", leaf(In, 5, &[])),
        (
            "a literal for a null test",
            leaf(IsNull, 5, &[Value::Int(1)]),
        ),
        ("no children", Predicate::And(Vec::new())),
        (
            "a bad child",
            Predicate::Or(vec![leaf(IsNull, 5, &[]), leaf(IsNull, 7, &[])]),
        ),
        ("too deep", deep),
        ("too many literals", leaf(In, 5, &many)),
    ] {
        assert!(Filter::new(&evolved(), 2, &predicate).is_none(), "{what}");
    }
    let fine = leaf(IsNull, 5, &[]);
    assert!(
        Filter::new(&evolved(), 3, &fine).is_none(),
        "an unknown filter schema"
    );
    assert!(Filter::new(&evolved(), 2, &fine).is_some());
    assert!(Filter::new(&evolved(), 1, &leaf(IsNull, 9, &[])).is_none());
    let nested = schema_of([crate::testing::array_of(TypeKind::Int)]);
    assert!(Filter::new(&versions(&nested), 1, &leaf(Equal, 0, &[Value::Null])).is_some());
}

#[test]
fn codes_are_those_of_the_specification() {
    assert_eq!(LeafFunction::from_code(0), Some(Equal));
    assert_eq!(LeafFunction::from_code(10), Some(EndsWith));
    assert_eq!(LeafFunction::from_code(12), Some(NotIn));
    assert_eq!(LeafFunction::from_code(13), None);
    assert_eq!(LeafFunction::from_code(-1), None);
}

/// Whether a row passes a test, by SQL.
fn passes(function: LeafFunction, value: &Value<'_>, literals: &[Value<'_>]) -> bool {
    let text = |value: &Value<'_>| match value {
        Value::String(text) => text.to_string(),
        _ => String::new(),
    };
    let order = |literal: &Value<'_>| match (value, literal) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        _ => None,
    };
    let first = || literals.first().and_then(order);
    match function {
        IsNull => value.is_null(),
        IsNotNull => !value.is_null(),
        Equal => first().is_some_and(|o| o.is_eq()),
        NotEqual => first().is_some_and(|o| o.is_ne()),
        LessThan => first().is_some_and(|o| o.is_lt()),
        LessOrEqual => first().is_some_and(|o| o.is_le()),
        GreaterThan => first().is_some_and(|o| o.is_gt()),
        GreaterOrEqual => first().is_some_and(|o| o.is_ge()),
        In => literals
            .iter()
            .any(|literal| order(literal).is_some_and(|o| o.is_eq())),
        NotIn => literals
            .iter()
            .all(|literal| order(literal).is_some_and(|o| o.is_ne())),
        StartsWith | Contains | EndsWith => {
            let (value, literal) = match (value, &literals[0]) {
                (Value::String(_), Value::String(_)) => (text(value), text(&literals[0])),
                _ => return false,
            };
            match function {
                StartsWith => value.starts_with(&literal),
                Contains => value.contains(&literal),
                _ => value.ends_with(&literal),
            }
        }
    }
}

fn any_function() -> impl Strategy<Value = LeafFunction> {
    (0i32..13).prop_map(|code| LeafFunction::from_code(code).unwrap())
}

proptest! {
    /// The promise of a filter: a batch with a matching row is never dropped.
    #[test]
    fn a_batch_with_a_match_is_kept(
        (kind, values, literals) in prop_oneof![
            Just(TypeKind::Int), Just(TypeKind::String), Just(TypeKind::Double),
        ].prop_flat_map(|kind| {
            // Few different values, so that something matches.
            let value = match kind {
                TypeKind::Int => (-3i32..3).prop_map(Value::Int).boxed(),
                TypeKind::String => "[ab\u{ffff}\u{10000}]{0,3}"
                    .prop_map(|text: String| Value::String(text.into()))
                    .boxed(),
                _ => any_value(&DataType::not_null(kind.clone())),
            };
            let nullable = prop_oneof![1 => Just(Value::Null), 5 => value];
            (
                Just(kind),
                prop::collection::vec(nullable.clone(), 1..6),
                prop::collection::vec(nullable, 1..3),
            )
        }),
        function in any_function(),
    ) {
        let literals = match function {
            IsNull | IsNotNull => Vec::new(),
            In | NotIn => literals,
            _ => literals[..1].to_vec(),
        };
        let schema = schema_of([kind]);
        let predicate = leaf(function, 0, &literals);
        let Some(filter) = Filter::new(&versions(&schema), 1, &predicate) else { return Ok(()) };
        let present: Vec<_> = values.iter().filter(|value| !value.is_null()).cloned().collect();
        let fold = |pick: fn(std::cmp::Ordering) -> bool| {
            present.iter().cloned().reduce(|a, b| {
                let order = match (&a, &b) {
                    (Value::Int(a), Value::Int(b)) => a.cmp(b),
                    (Value::String(a), Value::String(b)) => a.cmp(b),
                    (Value::Double(a), Value::Double(b)) => a.total_cmp(b),
                    _ => unreachable!(),
                };
                if pick(order) { a } else { b }
            })
        };
        let statistics = encode_statistics(&[ColumnStatistics {
            position: 0,
            data_type: &schema.columns[0].data_type,
            null_count: (values.len() - present.len()) as i32,
            min: fold(|order| order.is_lt()).unwrap_or(Value::Null),
            max: fold(|order| order.is_gt()).unwrap_or(Value::Null),
        }]).unwrap();
        let matches = values.iter().any(|value| passes(function, value, &literals));
        let kept = filter.may_match(&header(1, values.len() as i32), &statistics);
        prop_assert!(kept || !matches);
    }

    #[test]
    fn any_statistics_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut bytes = bytes;
        if bytes.len() > 3 {
            bytes[..3].copy_from_slice(&[1, 1, 0]);
        }
        let filter = Filter::new(&evolved(), 2, &leaf(Equal, 5, &[Value::Int(1)])).unwrap();
        let _ = filter.may_match(&header(2, 10), &bytes);
    }
}
