//! The vectors PC1–PC10 and PC15 of tables.md §9.6, and the cases of
//! behaviour.md §7.

use super::*;

fn table() -> TablePath {
    TablePath::new("db", "t")
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn age(value: &str) -> Partition {
    PartitionSpec::new([("age", value)])
        .resolve(&keys(&["age"]), &table())
        .unwrap()
}

#[track_caller]
fn check_refused<T: fmt::Debug>(result: Result<T, TableError>, code: ErrorCode, fragment: &str) {
    let error = result.expect_err("must be refused");
    assert_eq!(error.code, code, "{error}");
    assert!(error.message.contains(fragment), "{error}");
    assert!(
        error.message.len() < 5_000,
        "a hostile value fills the message"
    );
}

#[test]
fn pc1_and_pc2_messages_name_the_partition() {
    check_refused(
        Err::<(), _>(age("11").already_exists(&table())),
        ErrorCode::PartitionAlreadyExists,
        "Partition 'age=11' already exists for table db.t",
    );
    check_refused(
        Err::<(), _>(age("13").does_not_exist(&table())),
        ErrorCode::PartitionNotExists,
        "Partition 'age=13' does not exist for table db.t",
    );
}

#[test]
fn pc3_and_pc6_bad_values_are_refused() {
    let code = ErrorCode::PartitionSpecInvalid;
    check_refused(
        age("$10").check_values(true),
        code,
        "The partition value $10 is invalid: '$10' contains one or more characters",
    );
    check_refused(
        age("?1").check_values(true),
        code,
        "The partition value ?1 is invalid: ",
    );
    check_refused(
        age("__18").check_values(true),
        code,
        "'__' is not allowed as prefix",
    );
    assert_eq!(age("__p1").check_values(false), Ok(()));
    for value in [
        "",
        ".",
        "..",
        "a b",
        "a$b",
        "é",
        &"x".repeat(201),
        &"é".repeat(1 << 20),
    ] {
        check_refused(age(value).check_values(false), code, "is invalid: ");
    }
    for value in ["NULL", "-", "abc", &"x".repeat(200)] {
        assert_eq!(age(value).check_values(true), Ok(()));
    }
}

#[test]
fn pc4_and_pc5_keys_must_be_those_of_the_table() {
    let code = ErrorCode::PartitionSpecInvalid;
    let resolve = |entries: &[(&str, &str)], names: &[&str]| {
        PartitionSpec::new(entries.iter().copied()).resolve(&keys(names), &table())
    };
    check_refused(
        resolve(&[("name", "10")], &["age"]),
        code,
        "PartitionSpec {name=10} does not contain partition key 'age' for partitioned table db.t.",
    );
    let size = "PartitionSpec size is not equal to partition keys size";
    check_refused(resolve(&[], &["age"]), code, size);
    check_refused(resolve(&[("age", "1"), ("x", "2")], &["age"]), code, size);
    // A repeated key counts once, so the second key is missing.
    check_refused(resolve(&[("a", "1"), ("a", "2")], &["a", "b"]), code, size);
    let long = "k".repeat(1 << 20);
    check_refused(
        resolve(&[(&long, &long)], &["age"]),
        code,
        "does not contain",
    );
}

#[test]
fn of_a_repeated_key_the_last_value_wins() {
    let spec = PartitionSpec::new([("age", "1"), ("age", "2")]);
    assert_eq!(spec.resolve(&keys(&["age"]), &table()).unwrap().name(), "2");
}

#[test]
fn values_are_stored_in_the_order_of_the_keys() {
    let spec = PartitionSpec::new([("region", "eu"), ("dt", "20240101")]);
    let partition = spec.resolve(&keys(&["dt", "region"]), &table()).unwrap();
    assert_eq!(partition.name(), "20240101$eu");
    assert_eq!(partition.qualified(), "dt=20240101/region=eu");
    assert_eq!(partition.values(), ["20240101", "eu"]);
}

#[test]
fn names_read_back_only_with_one_value_per_key() {
    let two = keys(&["dt", "region"]);
    let partition = Partition::from_name(&two, "20240101$eu").unwrap();
    assert_eq!(partition.qualified(), "dt=20240101/region=eu");
    for name in ["20240101", "a$b$c", ""] {
        assert_eq!(Partition::from_name(&two, name), None, "{name}");
    }
}

#[test]
fn pc7_and_pc8_filters_select_by_equality() {
    let two = keys(&["pt", "age"]);
    let names = ["2025$10", "2025$11", "2026$12"];
    let select = |entries: &[(&str, &str)]| {
        let spec = PartitionSpec::new(entries.iter().copied());
        spec.check_filter(&two, &table()).unwrap();
        names
            .into_iter()
            .filter(|name| spec.matches(&two, name))
            .collect::<Vec<_>>()
    };
    assert_eq!(select(&[("pt", "2025")]), ["2025$10", "2025$11"]);
    assert_eq!(select(&[("age", "12")]), ["2026$12"]);
    assert_eq!(select(&[("age", "11"), ("pt", "2025")]), ["2025$11"]);
    assert_eq!(select(&[("pt", "2024")]), Vec::<&str>::new());
    assert_eq!(select(&[("pt", "not a $ value")]), Vec::<&str>::new());
    assert_eq!(select(&[]), names);
}

#[test]
fn pc9_a_filter_with_an_unknown_key_is_refused() {
    check_refused(
        PartitionSpec::new([("pt1", "2025")]).check_filter(&keys(&["pt"]), &table()),
        ErrorCode::PartitionSpecInvalid,
        "don't contains this partitionKey: pt1",
    );
}

#[test]
fn pc15_partitions_are_counted() {
    assert_eq!(check_partition_count(9, 10, &table()), Ok(()));
    check_refused(
        check_partition_count(10, 10, &table()),
        ErrorCode::PartitionMaxNum,
        "only allow 10 partitions.",
    );
}
