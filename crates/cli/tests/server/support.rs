//! What most of the tests begin with.

use mainstem_testkit::{BatchBytes, Client, Server, ServerOptions, Table, ab};

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
