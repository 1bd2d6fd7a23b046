use std::cell::RefCell;

use arrow_array::{Array, RecordBatch, new_null_array};
use mainstem_types::{DataType, Schema, TypeKind};
use proptest::prelude::*;

use super::*;
use crate::arrow_message::tests::MESSAGE;
use crate::arrow_testing::{
    CODECS, Random, arrow_schema, decode_batch, ipc_message, log_batch, random_batch, segments,
};
use crate::header::Magic;
use crate::log_batch::Batches;
use crate::log_batch_builder::BatchSpec;
use crate::testing::{all_types, any_table, column, hex, schema, schema_of};

type Versions = Vec<(i16, Arc<SchemaLayout>)>;

fn one_version(schema: &Schema) -> Versions {
    vec![(1, Arc::new(SchemaLayout::new(schema)))]
}

fn versions<'a>(schemas: impl IntoIterator<Item = (i16, &'a Schema)>) -> Versions {
    schemas
        .into_iter()
        .map(|(id, schema)| (id, Arc::new(SchemaLayout::new(schema))))
        .collect()
}

/// The first columns of a schema: an older version of it.
fn first_columns(schema: &Schema, count: usize) -> Schema {
    Schema {
        columns: schema.columns[..count].to_vec(),
        ..schema.clone()
    }
}

fn columns(schema: &Schema, fields: &[i32]) -> Schema {
    let columns = fields
        .iter()
        .map(|field| schema.columns[*field as usize].clone())
        .collect();
    Schema {
        columns,
        ..schema.clone()
    }
}

fn project(projection: &Projection, batch: &[u8]) -> Result<Vec<u8>, ProjectionError> {
    let mut window = ReadWindow::new(batch, batch.len() as u64);
    let header = window.batch_header(0)?.expect("a whole batch");
    let projected = projection.project(&mut window, 0, &header)?;
    let bytes = projected.assemble(batch).unwrap();
    assert_eq!(bytes.len(), projected.len);
    Ok(bytes)
}

/// Projects a batch and compares it with the same columns of all its rows.
/// Columns that the batch's schema lacks must be null.
#[track_caller]
fn check_projection(
    versions: &Versions,
    latest: &Schema,
    own: &Schema,
    batch: &[u8],
    fields: &[i32],
) {
    let projection = Projection::new(versions, fields).unwrap();
    let projected = project(&projection, batch).unwrap();
    let source = BatchHeader::parse(batch).unwrap();
    let header = BatchHeader::parse(&projected).unwrap();
    assert_eq!(header.total_len, projected.len());
    let expected = BatchHeader {
        total_len: header.total_len,
        statistics_len: header.statistics_len,
        ..source
    };
    assert_eq!(header, expected, "all else of the header is kept");
    if source.is_header_only() {
        assert_eq!(projected, batch);
        return;
    }
    let change_types = |bytes: &[u8]| {
        let batch = crate::LogBatch::parse(&Bytes::copy_from_slice(bytes)).unwrap();
        batch.change_types().unwrap().to_vec()
    };
    assert_eq!(change_types(&projected), change_types(batch));

    let all = decode_batch(batch, arrow_schema(own));
    let found = decode_batch(&projected, arrow_schema(&columns(latest, fields)));
    for (at, field) in fields.iter().enumerate() {
        let found = found.column(at);
        match all.columns().get(*field as usize) {
            Some(column) => assert_eq!(found, column, "column {field}"),
            None => assert_eq!(found, &new_null_array(found.data_type(), all.num_rows())),
        }
    }
    // Whatever is projected is itself a batch that would be accepted.
    let target = columns(latest, fields);
    let target = Arc::new(SchemaLayout::new(&target));
    let mut sealed = projected.clone();
    let crc_start = header.magic.crc_start();
    let crc = crc32c::crc32c(&sealed[crc_start..]).to_le_bytes();
    sealed[crc_start - 4..crc_start].copy_from_slice(&crc);
    crate::check_append(&sealed.into(), LogFormat::Arrow, &|_| Some(target.clone())).unwrap();
}

fn refused(versions: &Versions, fields: &[i32]) -> String {
    Projection::new(versions, fields).unwrap_err().to_string()
}

#[test]
fn bad_projections_are_refused_with_the_texts_of_the_reference() {
    let three = one_version(&schema_of([
        TypeKind::Int,
        TypeKind::String,
        TypeKind::String,
    ]));
    let out_of_bound = "Projected fields [3] is out of bound for schema with 3 fields.";
    assert_eq!(refused(&three, &[3]), out_of_bound); // PJ1
    let order = "The projection indexes should be in field order, but is [1, 0]";
    assert_eq!(refused(&three, &[1, 0]), order); // PJ2
    let duplicates = "The projection indexes should not contain duplicated fields, but is";
    assert_eq!(
        refused(&three, &[0, 0, 0]),
        format!("{duplicates} [0, 0, 0]")
    );
    assert_eq!(refused(&three, &[-1]), format!("{duplicates} [-1]"));
    assert_eq!(refused(&three, &[]), "Empty projection is not supported"); // PJ3
    assert!(Projection::check_format(LogFormat::Arrow).is_ok());
    for format in [LogFormat::Indexed, LogFormat::Compacted] {
        let text = Projection::check_format(format).unwrap_err().to_string();
        assert!(text.starts_with("Column projection is only supported for ARROW format, "));
    }
}

#[test]
fn kept_buffers_are_those_of_the_kept_columns() {
    // PJ4: buffers 0, 1 and 5, 6, 7 of 8.
    let table = schema_of([TypeKind::Int, TypeKind::String, TypeKind::String]);
    let rows = random_batch(&table, 100, &mut Random(7));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 100);
    let message_at = 48;
    let source = &mut crate::read_at::InMemory(&batch);
    let index = MessageIndex::locate(source, message_at, batch.len() as u64).unwrap();
    let entries = index.buffers(source, 0..8).unwrap();
    let at = |buffer: usize| index.body_start + BufferEntry::read(entries, buffer).offset as u64;

    let projection = Projection::new(&one_version(&table), &[0, 2]).unwrap();
    let mut window = ReadWindow::new(&batch, batch.len() as u64);
    let header = window.batch_header(0).unwrap().unwrap();
    let projected = projection.project(&mut window, 0, &header).unwrap();
    let ranges: Vec<_> = projected.parts.iter().skip(1).cloned().collect();
    let range = |start, end| {
        Part::Source(SourceRange {
            position: start,
            len: end - start,
        })
    };
    assert_eq!(
        ranges,
        [range(at(0), at(2)), range(at(5), batch.len() as u64)]
    );
    check_projection(&one_version(&table), &table, &table, &batch, &[0, 2]);
}

#[test]
fn an_older_batch_gets_columns_of_nulls() {
    // PJ5, PJ6
    let latest = schema_of([TypeKind::Int, TypeKind::String, TypeKind::BigInt]);
    let old = first_columns(&latest, 2);
    let versions = versions([(1, &old), (2, &latest)]);
    let batch = BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap();
    check_projection(&versions, &latest, &old, &batch, &[1]);
    check_projection(&versions, &latest, &old, &batch, &[0, 2]);
    check_projection(&versions, &latest, &old, &batch, &[2]);
    check_projection(&versions, &latest, &old, &batch, &[0, 1, 2]);
    assert!(matches!(
        Projection::new(&versions, &[0, 3]),
        Err(ProjectionError::OutOfBound {
            column_count: 3,
            ..
        })
    ));
}

#[test]
fn columns_of_nulls_have_every_type_in_every_codec() {
    let mut kinds = vec![TypeKind::Int];
    kinds.extend(all_types());
    let nested = crate::testing::row_type([
        ("a", crate::testing::array_of(TypeKind::String)),
        ("b", TypeKind::Boolean),
        (
            "c",
            crate::testing::map_of(TypeKind::Int, crate::testing::array_of(TypeKind::Date)),
        ),
        ("d", TypeKind::Int),
    ]);
    kinds.push(nested.clone());
    kinds.push(crate::testing::array_of(nested));
    let latest = schema_of(kinds);
    let old = first_columns(&latest, 1);
    let versions = versions([(1, &old), (2, &latest)]);
    let fields: Vec<i32> = (0..latest.columns.len() as i32).collect();
    for codec in CODECS {
        for rows in [1, 8, 9, 1000, 70_000] {
            let batch = random_batch(&old, rows, &mut Random(8));
            let batch = log_batch(&BatchSpec::default(), &ipc_message(&batch, codec, 64), rows);
            check_projection(&versions, &latest, &old, &batch, &fields);
            check_projection(&versions, &latest, &old, &batch, &fields[1..]);
        }
    }
}

#[test]
fn columns_of_nulls_cost_few_bytes_when_compressed() {
    let latest = schema_of([
        TypeKind::Int,
        TypeKind::Decimal {
            precision: 38,
            scale: 0,
        },
    ]);
    let old = first_columns(&latest, 1);
    let versions = versions([(1, &old), (2, &latest)]);
    let projection = Projection::new(&versions, &[1]).unwrap();
    let rows = 1_000_000;
    for (codec, at_most) in CODECS.into_iter().zip([17_000_000, 100_000, 2_000]) {
        let batch = random_batch(&old, rows, &mut Random(9));
        let batch = log_batch(&BatchSpec::default(), &ipc_message(&batch, codec, 8), rows);
        let len = project(&projection, &batch).unwrap().len();
        assert!(len < at_most, "{codec:?}: {len} bytes");
    }
}

#[test]
fn a_record_count_beyond_reason_gets_no_columns_of_nulls() {
    // 2^31 - 1 booleans that claim to be compressed into nothing.
    let latest = schema_of([TypeKind::Boolean, TypeKind::BigInt]);
    let old = first_columns(&latest, 1);
    let template = MessageTemplate::new(1, 2, Some(BodyCodec::Zstd));
    let rows = i32::MAX;
    let mut message = Vec::new();
    let mut draft = template.append(&mut message);
    let mut node = [0; ENTRY_LEN];
    crate::arrow_message::NodeEntry {
        length: rows.into(),
        null_count: 0,
    }
    .write(&mut node);
    draft.push_nodes(&node);
    BufferEntry { offset: 0, len: 0 }.write(draft.next_buffer());
    BufferEntry { offset: 0, len: 8 }.write(draft.next_buffer());
    draft.finish(rows.into(), 8);
    message.extend_from_slice(&(i64::from(rows) / 8 + 1).to_le_bytes());
    let batch = BatchSpec::default()
        .build(rows, &[], &[], &message)
        .unwrap();
    let versions = versions([(1, &old), (2, &latest)]);
    let error = project(&Projection::new(&versions, &[1]).unwrap(), &batch).unwrap_err();
    let limit = FormatError::LimitExceeded {
        what: "",
        actual: 0,
        limit: 0,
    };
    assert!(
        matches!(&error, ProjectionError::Read(ReadError::Format(e))
            if std::mem::discriminant(e) == std::mem::discriminant(&limit)),
        "{error}"
    );
}

#[test]
fn an_empty_batch_is_returned_unchanged() {
    // PJ8
    let table = schema_of([TypeKind::Int, TypeKind::String]);
    let projection = Projection::new(&one_version(&table), &[1]).unwrap();
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        let spec = BatchSpec {
            magic,
            base_offset: 77,
            append_only: false,
            ..BatchSpec::default()
        };
        assert_eq!(project(&projection, &spec.empty()).unwrap(), spec.empty());
    }
}

#[test]
fn all_columns_are_the_stored_batch() {
    let table = schema_of([TypeKind::Int, TypeKind::String]);
    let projection = Projection::new(&one_version(&table), &[0, 1]).unwrap();
    let batch = BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap();
    assert_eq!(project(&projection, &batch).unwrap(), batch);
}

#[test]
fn statistics_are_left_out_and_change_types_kept() {
    let table = schema_of([TypeKind::Int, TypeKind::String]);
    for magic in [Magic::V1, Magic::V2] {
        let spec = BatchSpec {
            magic,
            append_only: false,
            ..BatchSpec::default()
        };
        let batch = spec
            .build(2, b"statistics", &[2, 3], &hex(MESSAGE))
            .unwrap();
        let projection = Projection::new(&one_version(&table), &[1]).unwrap();
        let projected = project(&projection, &batch).unwrap();
        let projected = crate::LogBatch::parse(&projected.into()).unwrap();
        assert_eq!(projected.statistics(), b"");
        assert_eq!(projected.change_types().unwrap(), [2, 3]);
        check_projection(&one_version(&table), &table, &table, &batch, &[0]);
    }
}

#[test]
fn a_batch_of_an_unknown_schema_is_refused() {
    let table = schema_of([TypeKind::Int, TypeKind::String]);
    let spec = BatchSpec {
        schema_id: 0,
        ..BatchSpec::default()
    };
    let batch = spec.build(2, &[], &[], &hex(MESSAGE)).unwrap();
    let projection = Projection::new(&one_version(&table), &[1]).unwrap();
    let result = project(&projection, &batch);
    assert!(matches!(result, Err(ProjectionError::UnknownSchema(0))));
}

#[test]
fn segments_of_the_reference_are_projected() {
    for segment in segments() {
        let (_, latest) = segment.schemas.last().unwrap();
        let versions = versions(segment.schemas.iter().map(|(id, schema)| (*id, schema)));
        let count = latest.columns.len() as i32;
        let singles = (0..count).map(|field| vec![field]);
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| vec![a, b]));
        let fields: Vec<_> = singles.chain(pairs).collect();
        for batch in Batches::new(&segment.bytes) {
            let batch = batch.unwrap();
            let own = segment.schema(batch.header().schema_id);
            for fields in &fields {
                check_projection(&versions, latest, own, batch.bytes(), fields);
            }
        }
    }
}

/// Bytes that note how much was read of them.
struct Counted<'a> {
    bytes: &'a [u8],
    reads: RefCell<Vec<usize>>,
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reads.borrow_mut().push(buffer.len());
        self.bytes.read_at(position, buffer)
    }
}

fn reads(column_count: usize, fields: &[i32]) -> Vec<usize> {
    let table = schema_of(std::iter::repeat_n(TypeKind::BigInt, column_count));
    let batch = random_batch(&table, 10, &mut Random(10));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&batch, None, 8), 10);
    let source = Counted {
        bytes: &batch,
        reads: RefCell::default(),
    };
    let projection = Projection::new(&one_version(&table), fields).unwrap();
    let mut window = ReadWindow::new(&source, batch.len() as u64);
    let header = window.batch_header(0).unwrap().unwrap();
    projection.project(&mut window, 0, &header).unwrap();
    source.reads.into_inner()
}

#[test]
fn only_metadata_of_kept_columns_is_read() {
    assert_eq!(
        reads(100, &[3, 50, 97]).len(),
        1,
        "one read for header and metadata"
    );
    let wide = reads(10_000, &[7, 50, 99]);
    assert_eq!(
        wide[1..],
        [512, 101 * 16],
        "the nodes came with the header; one read for the place and the first of the \
         buffers, one for those from column 50 to 99"
    );
    let spread = reads(10_000, &[3, 5000, 9997]);
    assert!(
        spread.len() == 6 && spread.iter().sum::<usize>() <= 16 * 1024,
        "as above, and one for buffers and node of each other column: {spread:?}"
    );
}

#[test]
fn batches_are_walked_and_projected_where_they_lie() {
    let table = schema_of([TypeKind::Int, TypeKind::String]);
    let batch = BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap();
    let bytes = [&batch[..], &batch[..], &batch[..100]].concat();
    let projection = Projection::new(&one_version(&table), &[1]).unwrap();
    let alone = project(&projection, &batch).unwrap();
    let mut window = ReadWindow::new(&bytes, bytes.len() as u64);
    let mut position = 0;
    while let Some(header) = window.batch_header(position).unwrap() {
        let projected = projection.project(&mut window, position, &header).unwrap();
        assert_eq!(projected.assemble(&bytes).unwrap(), alone);
        position += header.total_len as u64;
    }
    assert_eq!(
        position as usize,
        2 * batch.len(),
        "the cut batch is not returned"
    );
}

#[test]
fn neighbouring_columns_are_one_range() {
    let table = schema_of([
        TypeKind::Int,
        TypeKind::String,
        TypeKind::Int,
        TypeKind::Int,
    ]);
    let rows = random_batch(&table, 100, &mut Random(11));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 100);
    let projection = Projection::new(&one_version(&table), &[1, 2]).unwrap();
    let mut window = ReadWindow::new(&batch, batch.len() as u64);
    let header = window.batch_header(0).unwrap().unwrap();
    let projected = projection.project(&mut window, 0, &header).unwrap();
    assert_eq!(projected.parts.len(), 2);
}

#[test]
fn schemas_that_disagree_about_a_column_are_refused() {
    let (old, latest) = (
        schema_of([TypeKind::Int]),
        schema_of([TypeKind::String, TypeKind::Int]),
    );
    assert!(Projection::new(&versions([(1, &old), (2, &latest)]), &[0]).is_err());
    assert!(Projection::new(&[], &[0]).is_err());
}

#[test]
fn a_failed_read_is_an_error() {
    let batch = BatchSpec::default()
        .build(2, &[], &[], &hex(MESSAGE))
        .unwrap();
    let cut = &batch[..100];
    // The window is told of more bytes than there are.
    let mut window = ReadWindow::new(cut, batch.len() as u64);
    let result = window.batch_header(0);
    assert!(matches!(result, Err(ReadError::Io(_))), "{result:?}");
}

/// Some ascending positions below `count`.
fn fields(count: usize, mask: u64) -> Vec<i32> {
    let chosen: Vec<i32> = (0..count as i32)
        .filter(|field| mask >> field & 1 == 1)
        .collect();
    if chosen.is_empty() {
        vec![(mask % count as u64) as i32]
    } else {
        chosen
    }
}

fn with_nullable_tail(table: &Schema, from: usize) -> Schema {
    let mut table = table.clone();
    for column in &mut table.columns[from..] {
        column.data_type.nullable = true;
    }
    table
}

proptest! {
    #[test]
    fn any_columns_of_any_table_are_those_of_arrow(
        (table, _) in any_table(8, 0), rows in 1usize..50, seed: u64, mask: u64,
        codec in 0usize..3, wide: bool, append_only: bool, own in 1usize..9,
    ) {
        let own = own.min(table.columns.len());
        // Added columns are nullable.
        let latest = with_nullable_tail(&table, own);
        let old = first_columns(&latest, own);
        let batch = random_batch(&old, rows, &mut Random(seed));
        let message = ipc_message(&batch, CODECS[codec], if wide { 64 } else { 8 });
        let batch = log_batch(&BatchSpec { append_only, ..BatchSpec::default() }, &message, rows);
        let versions = if own == latest.columns.len() {
            versions([(1, &latest)])
        } else {
            versions([(2, &latest), (1, &old)])
        };
        check_projection(&versions, &latest, &old, &batch, &fields(latest.columns.len(), mask));
    }

    #[test]
    fn any_batch_is_projected_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..200), rows in 0i32..20, append_only: bool,
    ) {
        let table = schema_of([TypeKind::Int, TypeKind::String]);
        let spec = BatchSpec { append_only, ..BatchSpec::default() };
        let batch = spec.build(rows, &[], &[], &body).unwrap();
        let projection = Projection::new(&one_version(&table), &[1]).unwrap();
        let _ = project(&projection, &batch);
    }

    #[test]
    fn a_damaged_batch_is_projected_or_refused(
        seed: u64, codec in 0usize..3, mask: u64,
        changes in prop::collection::vec((40usize..3000, any::<u8>()), 1..4),
    ) {
        let latest = schema_of(all_types());
        let old = first_columns(&latest, 15);
        let versions = versions([(1, &old), (2, &latest)]);
        let message = ipc_message(&random_batch(&old, 5, &mut Random(seed)), CODECS[codec], 8);
        let mut batch = BatchSpec::default().build(5, &[], &[], &message).unwrap();
        for (at, byte) in changes {
            let at = at % batch.len();
            if at >= 40 {
                batch[at] = byte;
            }
        }
        let projection = Projection::new(&versions, &fields(21, mask)).unwrap();
        if BatchHeader::parse(&batch).is_ok() {
            let _ = project(&projection, &batch);
        }
    }
}

#[test]
fn rows_without_columns_to_keep_are_still_counted() {
    let latest = schema(vec![
        column("a", DataType::nullable(TypeKind::Int)),
        column("b", DataType::nullable(TypeKind::Int)),
    ]);
    let old = first_columns(&latest, 1);
    let versions = versions([(1, &old), (2, &latest)]);
    let rows: RecordBatch = random_batch(&old, 17, &mut Random(12));
    let batch = log_batch(&BatchSpec::default(), &ipc_message(&rows, None, 8), 17);
    let projected = project(&Projection::new(&versions, &[1]).unwrap(), &batch).unwrap();
    let found = decode_batch(&projected, arrow_schema(&columns(&latest, &[1])));
    assert_eq!((found.num_rows(), found.column(0).null_count()), (17, 17));
}
