//! behaviour.md §3.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages::{
    AlterDatabaseRequest, AlterDatabaseResponse, CreateDatabaseRequest, CreateDatabaseResponse,
    DatabaseExistsRequest, DatabaseExistsResponse, GetDatabaseInfoRequest, GetDatabaseInfoResponse,
    ListDatabasesRequest, ListDatabasesResponse, ListTablesRequest, ListTablesResponse,
};

use super::fixture::*;
use crate::ApiError;

fn create(fixture: &Fixture, name: &str, json: Option<&'static [u8]>, ignore: bool) -> i32 {
    let request = CreateDatabaseRequest {
        database_name: Some(name.to_owned()),
        ignore_if_exists: Some(ignore),
        database_json: json.map(Into::into),
    };
    code(fixture.call::<CreateDatabaseResponse>(ApiKey::CreateDatabase, &request))
}

fn drop_database(fixture: &Fixture, name: &str, ignore: bool, cascade: bool) -> i32 {
    code(fixture.drop_database(name, ignore, cascade))
}

fn info(fixture: &Fixture, name: &str) -> Result<GetDatabaseInfoResponse, ApiError> {
    let request = GetDatabaseInfoRequest {
        database_name: Some(name.to_owned()),
    };
    fixture.call(ApiKey::GetDatabaseInfo, &request)
}

fn json_of(fixture: &Fixture, name: &str) -> String {
    let json = info(fixture, name)
        .expect("the database is there")
        .database_json
        .expect("sent");
    String::from_utf8(json.to_vec()).expect("text")
}

fn alter(fixture: &Fixture, request: AlterDatabaseRequest) -> i32 {
    code(fixture.call::<AlterDatabaseResponse>(ApiKey::AlterDatabase, &request))
}

fn alteration(name: &str, changes: &[(&str, Option<&str>, i32)]) -> AlterDatabaseRequest {
    AlterDatabaseRequest {
        database_name: Some(name.to_owned()),
        ignore_if_not_exists: Some(false),
        config_changes: changes
            .iter()
            .map(|(key, value, op)| config(key, *value, *op))
            .collect(),
        comment: None,
    }
}

fn list(fixture: &Fixture, include_summary: Option<bool>) -> ListDatabasesResponse {
    let request = ListDatabasesRequest { include_summary };
    fixture
        .call(ApiKey::ListDatabases, &request)
        .expect("listed")
}

#[test]
fn a_database_is_created_once_unless_that_is_ignored() {
    let fixture = Fixture::new();
    assert_eq!(create(&fixture, "db", None, false), OK);
    assert_eq!(create(&fixture, "db", None, false), 6);
    assert_eq!(create(&fixture, "db", None, true), OK);
}

#[test]
fn impossible_names_are_refused() {
    let fixture = Fixture::new();
    let long = "x".repeat(201);
    for name in ["", ".", "..", "__x", "a b", "a.b", "ä", long.as_str()] {
        assert_eq!(create(&fixture, name, None, false), 16, "{name}");
    }
    assert_eq!(create(&fixture, &long[..200], None, false), OK);
}

#[test]
fn descriptors_are_read_leniently_but_must_be_complete() {
    let fixture = Fixture::new();
    for json in [
        &b"{"[..],
        b"",
        b"{}",
        br#"{"version":1,"comment":"c"}"#,
        b"\xff",
    ] {
        assert_eq!(create(&fixture, "bad", Some(json), false), 16);
    }
    let json = br#"{"version":2,"comment":null,"custom_properties":{"k":"v"}}"#;
    assert_eq!(create(&fixture, "good", Some(json), false), OK);
    assert_eq!(
        json_of(&fixture, "good"),
        r#"{"version":1,"custom_properties":{"k":"v"}}"#
    );
}

#[test]
fn a_missing_database_is_an_error_or_false() {
    let fixture = Fixture::new();
    for name in ["missing", "a b", ""] {
        assert_eq!(code(info(&fixture, name)), 4);
        let request = DatabaseExistsRequest {
            database_name: Some(name.to_owned()),
        };
        let exists: DatabaseExistsResponse = fixture
            .call(ApiKey::DatabaseExists, &request)
            .expect("answered");
        assert_eq!(exists.exists, Some(false));
        let request = ListTablesRequest {
            database_name: Some(name.to_owned()),
        };
        assert_eq!(
            code(fixture.call::<ListTablesResponse>(ApiKey::ListTables, &request)),
            4
        );
        assert_eq!(drop_database(&fixture, name, false, false), 4);
        assert_eq!(drop_database(&fixture, name, true, false), OK);
    }
}

#[test]
fn altering_sets_then_deletes_and_only_a_change_counts_as_modification() {
    let fixture = Fixture::new();
    create(
        &fixture,
        "db",
        Some(br#"{"comment":"c","custom_properties":{"a":"1"}}"#),
        false,
    );
    let times = |fixture: &Fixture| {
        let info = info(fixture, "db").expect("there");
        (
            info.created_time.expect("sent"),
            info.modified_time.expect("sent"),
        )
    };
    fixture.clock.advance_ms(10);
    // Nothing of this changes anything.
    for changes in [
        &[("a", Some("1"), 0)][..],
        &[("missing", None, 1)],
        &[("x", None, 1), ("x", Some("1"), 0)],
        &[],
    ] {
        assert_eq!(alter(&fixture, alteration("db", changes)), OK);
        assert_eq!(times(&fixture), (NOW_MS, NOW_MS));
    }
    let changes = [("b", Some("1"), 0), ("b", Some("2"), 0), ("a", None, 1)];
    assert_eq!(alter(&fixture, alteration("db", &changes)), OK);
    assert_eq!(times(&fixture), (NOW_MS, NOW_MS + 10));
    assert_eq!(
        json_of(&fixture, "db"),
        r#"{"version":1,"comment":"c","custom_properties":{"b":"2"}}"#
    );

    let clear = AlterDatabaseRequest {
        comment: Some(String::new()),
        ..alteration("db", &[])
    };
    assert_eq!(alter(&fixture, clear), OK);
    assert_eq!(
        json_of(&fixture, "db"),
        r#"{"version":1,"custom_properties":{"b":"2"}}"#
    );
}

#[test]
fn altering_knows_two_operations_and_needs_the_database() {
    let fixture = Fixture::new();
    for change in [
        ("a", Some("1"), 2),
        ("a", Some("1"), 3),
        ("a", Some("1"), 9),
        ("a", None, 0),
    ] {
        assert_eq!(alter(&fixture, alteration("fluss", &[change])), -1);
    }
    assert_eq!(
        alter(&fixture, alteration("missing", &[("a", Some("1"), 0)])),
        4
    );
    assert_eq!(alter(&fixture, alteration("missing", &[])), 4);
    let ignored = AlterDatabaseRequest {
        ignore_if_not_exists: Some(true),
        ..alteration("missing", &[])
    };
    assert_eq!(alter(&fixture, ignored), OK);
}

#[test]
fn the_default_database_stays_and_others_go_when_empty_or_with_their_tables() {
    let fixture = Fixture::new();
    for (ignore, cascade) in [(false, false), (true, false), (true, true)] {
        assert_ne!(drop_database(&fixture, "fluss", ignore, cascade), OK);
    }
    fixture.create_database("db");
    fixture.create("db/t", &log_table());
    fixture.create("db/p", &partitioned_table());
    fixture
        .create_partition("db/p", &[("b", "1")], false)
        .expect("created");
    let before = fixture.info("db/t").table_id;
    assert_eq!(drop_database(&fixture, "db", false, false), 5);
    assert_eq!(drop_database(&fixture, "db", true, false), 5);
    assert_eq!(drop_database(&fixture, "db", false, true), OK);
    assert_eq!(code(info(&fixture, "db")), 4);

    // Nothing is left of the tables, neither in the catalog nor in the store.
    let left = fixture.store.list("").expect("listed").entries;
    let left: Vec<&str> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        left,
        [
            "coordinator/epoch",
            "counters/partition",
            "counters/table",
            "databases/fluss"
        ]
    );
    fixture.create_database("db");
    assert_eq!(fixture.coordinator.catalog().tables().len(), 0);
    fixture.create("db/t", &log_table());
    assert_ne!(fixture.info("db/t").table_id, before);
}

#[test]
fn databases_are_listed_in_order_by_name_or_as_summaries() {
    let fixture = Fixture::new();
    for name in ["zoo", "b", "Za"] {
        fixture.create_database(name);
    }
    fixture.create("b/t1", &log_table());
    fixture.create("b/t2", &log_table());
    for plain in [None, Some(false)] {
        let answer = list(&fixture, plain);
        assert_eq!(answer.database_name, ["Za", "b", "fluss", "zoo"]);
        assert!(answer.database_summary.is_empty());
    }
    let answer = list(&fixture, Some(true));
    assert!(answer.database_name.is_empty());
    let summaries: Vec<_> = answer
        .database_summary
        .into_iter()
        .map(|summary| (summary.database_name.expect("sent"), summary.table_count))
        .collect();
    let expected = [("Za", 0), ("b", 2), ("fluss", 0), ("zoo", 0)];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, count)| (name.to_owned(), Some(count)))
        .collect();
    assert_eq!(summaries, expected);
}
