//! What most of the tests begin with.

use mainstem_format::Value;
use mainstem_testkit::{
    BatchBytes, Changes, Client, Rows, Server, ServerOptions, Table, ab, decode_batches,
    decode_changes,
};
use mainstem_types::{LogFormat, TableDescriptor};

/// Options for the executable under test, with everything durable.
pub fn durable() -> ServerOptions {
    ServerOptions::new(env!("CARGO_BIN_EXE_mainstem"))
}

/// Options for the executable under test, without syncs: for what does not depend
/// on them.
pub fn quick() -> ServerOptions {
    durable().with("mainstem.durability", "os")
}

/// A server with a table `fluss.t` of the columns `a INT, b STRING`.
pub fn server_with_table(options: &ServerOptions, buckets: i32) -> (Server, Client, Table) {
    let server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(buckets));
    (server, client, table)
}

/// A server with a table `fluss.t`.
pub fn server_with(descriptor: &TableDescriptor) -> (Server, Client, Table) {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", descriptor);
    (server, client, table)
}

/// Fails with all that went wrong.
pub fn assert_all_right(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} cases are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What becomes of the records of one produce entry: so many offsets are taken,
/// or the bucket is refused with this code and nothing is stored.
pub type Outcome = Result<i64, i32>;

/// Appends each case to bucket 0 and compares.
pub fn check_appends(client: &mut Client, table: &Table, cases: &[(&str, BatchBytes, Outcome)]) {
    let mut wrong = Vec::new();
    for (sentence, records, expected) in cases {
        let before = client.end(table, 0);
        let got = client.append(table, 0, records);
        let taken = client.end(table, 0) - before;
        let right = match expected {
            Ok(offsets) => got == Ok(before) && taken == *offsets,
            Err(code) => got == Err(*code) && taken == 0,
        };
        if !right {
            wrong.push(format!(
                "{sentence}: {expected:?} was expected; at {before} it was {got:?}, {taken} offsets taken"
            ));
        }
    }
    assert_all_right(&wrong);
}

/// All rows of a bucket, read in small pieces.
pub fn all_rows(client: &mut Client, table: &Table, bucket: i32) -> Rows {
    let end = client.end(table, bucket);
    let mut rows: Rows = Vec::new();
    let mut next = 0;
    while next < end {
        let mut request = table.fetch([(bucket, next)]);
        request.tables_req[0].buckets_req[0].max_fetch_bytes = Some(8_000);
        let entry = client.fetch_one(&request).expect("readable");
        let read = decode_batches(
            &entry.records.expect("records"),
            table.schema(),
            LogFormat::Arrow,
        );
        assert!(!read.is_empty(), "nothing at {next} of {end}");
        rows.extend(read.into_iter().filter(|(offset, _)| *offset >= next));
        next = rows.last().map_or(end, |(offset, _)| offset + 1);
    }
    rows
}

/// Changes of a bucket of a plain table from an offset on, whose records are all
/// of its newest schema.
pub fn changes(client: &mut Client, table: &Table, bucket: i32, from: i64) -> Changes {
    let end = client.end(table, bucket);
    let format = table.descriptor.log_format().expect("a format");
    let mut changes = Changes::new();
    let mut next = from;
    while next < end {
        let entry = client
            .fetch_one(&table.fetch([(bucket, next)]))
            .expect("readable");
        let records = entry.records.expect("records");
        let read = decode_changes(&records, table.schema(), format);
        changes.extend(read.into_iter().filter(|(offset, ..)| *offset >= next));
        let bounds = mainstem_testkit::offsets(&records);
        next = bounds.last().expect("a batch").1;
    }
    changes
}

/// Change types of a changelog with the last column of their rows.
pub fn brief(changes: &Changes) -> Vec<(&'static str, Value<'static>)> {
    let name = |change_type: u8| ["+A", "+I", "-U", "+U", "-D"][usize::from(change_type)];
    changes
        .iter()
        .map(|(_, change_type, row)| (name(*change_type), row.last().expect("a column").clone()))
        .collect()
}

/// Values of their first column.
pub fn numbers(rows: &Rows) -> Vec<i32> {
    let number = |row: &Vec<Value<'_>>| match &row[0] {
        Value::Int(number) => *number,
        other => panic!("{other:?}"),
    };
    rows.iter().map(|(_, row)| number(row)).collect()
}
