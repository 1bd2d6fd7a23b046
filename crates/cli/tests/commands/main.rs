//! The commands that a user types, against a real server.

mod primary_key;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use mainstem_testkit::{Server, ServerOptions};
use tempfile::TempDir;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_mainstem");

struct Shell {
    server: Server,
    files: TempDir,
}

impl Shell {
    fn new() -> Self {
        let server = ServerOptions::new(EXECUTABLE).start();
        Self {
            server,
            files: tempfile::tempdir().expect("a directory"),
        }
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(EXECUTABLE)
            .args(arguments)
            .env("MAINSTEM_SERVER", self.server.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the executable runs");
        let mut pipe = child.stdin.take().expect("standard input is piped");
        // A command that does not read its input closes it.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        child.wait_with_output().expect("the end of the command")
    }

    fn fed(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run_with(arguments, input);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.fed(arguments, "")
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run_with(arguments, "");
        assert_eq!(output.status.code(), Some(1), "{arguments:?} is refused");
        String::from_utf8(output.stderr).expect("text")
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, content).expect("writes");
        path
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn people() -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("score", DataType::Float64, true),
    ]);
    let ids = Arc::new(Int64Array::from_iter_values(1..=5));
    let names = Arc::new(StringArray::from(vec![
        Some("ann"),
        None,
        Some("c,d"),
        Some(""),
        Some("é"),
    ]));
    let scores = Arc::new(Float64Array::from(vec![
        Some(1.5),
        Some(2.0),
        None,
        Some(-1.0),
        None,
    ]));
    RecordBatch::try_new(Arc::new(schema), vec![ids, names, scores]).expect("a batch")
}

fn parquet() -> Vec<u8> {
    let mut bytes = Vec::new();
    let batch = people();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("writes");
    writer.close().expect("closes");
    bytes
}

fn arrow_stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    let batch = people();
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    writer.write(&batch).expect("writes");
    writer.finish().expect("finishes");
    drop(writer);
    bytes
}

#[test]
fn every_input_format_gives_the_same_rows() {
    let shell = Shell::new();
    let csv = "id,name,score\n1,ann,1.5\n2,NA,2.0\n3,\"c,d\",NA\n4,x,-1.0\n5,é,\n";
    let jsonl = "{\"id\":1,\"name\":\"ann\",\"score\":1.5}\n{\"id\":2,\"score\":2}\n\
                 {\"name\":\"c,d\",\"id\":3}\n{\"id\":4,\"name\":\"x\",\"score\":-1.0}\n\
                 {\"id\":5,\"name\":\"é\",\"score\":null}\n";
    let sources = [
        ("t_parquet", shell.file("people.parquet", &parquet())),
        ("t_arrow", shell.file("people.arrow", &arrow_stream())),
        ("t_csv", shell.file("people.csv", csv.as_bytes())),
        ("t_jsonl", shell.file("people.jsonl", jsonl.as_bytes())),
    ];
    for (table, path) in &sources {
        let name = format!("db.{table}");
        let said = shell.run(&["produce", &name, text(path), "--create", "--null", "NA"]);
        assert!(said.starts_with("5 rows in "), "{said}");
        let rows = shell.run(&["consume", &name, "--columns", "id,score"]);
        assert_eq!(rows, "id,score\n1,1.5\n2,2.0\n3,\n4,-1.0\n5,\n", "{table}");
        let names = shell.run(&[
            "consume",
            &name,
            "--where",
            "name is null",
            "--format",
            "json",
        ]);
        assert_eq!(names, "{\"id\":2,\"score\":2.0}\n", "{table}");
    }
}

#[test]
fn a_table_is_created_described_altered_and_dropped() {
    let shell = Shell::new();
    shell.run(&[
        "table",
        "create",
        "shop.orders",
        "--column",
        "id BIGINT NOT NULL",
        "--column",
        "amount DECIMAL(12, 2)",
        "--column",
        "tags ARRAY<STRING>",
        "--bucket-key",
        "id",
        "--buckets",
        "3",
        "--set",
        "table.log.ttl=1d",
        "--set",
        "owner=me",
    ]);
    assert_eq!(shell.run(&["table", "list"]), "shop.orders\n");
    let described = shell.run(&["table", "describe", "shop.orders"]);
    for part in [
        "BIGINT NOT NULL",
        "DECIMAL(12, 2)",
        "ARRAY<STRING>",
        "bucket key: id",
        "buckets: 3",
        "table.log.ttl = 1d",
        "owner = me",
    ] {
        assert!(described.contains(part), "{part} in {described}");
    }
    shell.run(&[
        "table",
        "alter",
        "shop.orders",
        "--add-column",
        "note STRING",
        "--reset",
        "table.log.ttl",
    ]);
    let json = shell.run(&["table", "describe", "shop.orders", "--format", "json"]);
    assert!(
        json.contains("\"note\"") && !json.contains("table.log.ttl"),
        "{json}"
    );
    let twice = shell.refused(&["table", "create", "shop.orders", "--column", "x INT"]);
    assert!(twice.contains("already exists"), "{twice}");
    shell.run(&["table", "drop", "shop.orders"]);
    assert_eq!(shell.run(&["table", "list", "shop"]), "");
    shell.run(&["table", "drop", "shop.orders", "--if-exists"]);
}

#[test]
fn partitioned_and_bucketed_rows_all_arrive() {
    let shell = Shell::new();
    shell.run(&[
        "table",
        "create",
        "db.events",
        "--column",
        "day STRING",
        "--column",
        "k INT",
        "--partition-by",
        "day",
        "--bucket-key",
        "k",
        "--buckets",
        "4",
    ]);
    let mut csv = String::from("day,k\n");
    for row in 0..2_000 {
        csv.push_str(&format!("2026-11-{:02},{row}\n", row % 7 + 1));
    }
    shell.fed(
        &[
            "produce",
            "db.events",
            "-",
            "--format",
            "csv",
            "--batch-rows",
            "100",
        ],
        &csv,
    );
    assert_eq!(shell.run(&["consume", "db.events", "--count"]), "2000\n");
    let day = [
        "consume",
        "db.events",
        "--where",
        "day = '2026-11-03'",
        "--columns",
        "k",
    ];
    assert_eq!(shell.run(&day).lines().count(), 1 + 286);
    let status = shell.run(&["status", "--format", "json"]);
    assert!(
        status.contains("\"partitions\":7") && status.contains("\"rows\":2000"),
        "{status}"
    );
}

#[test]
fn row_formats_are_written_and_read_as_well() {
    let shell = Shell::new();
    for format in ["COMPACTED", "INDEXED"] {
        let table = format!("db.{}", format.to_lowercase());
        let option = format!("table.log.format={format}");
        shell.run(&[
            "table",
            "create",
            &table,
            "--column",
            "id INT",
            "--column",
            "name STRING",
            "--set",
            &option,
        ]);
        shell.fed(
            &["produce", &table, "--format", "csv"],
            "id,name\n1,a\n2,\n3,c\n",
        );
        let rows = shell.run(&[
            "consume",
            &table,
            "--columns",
            "name,id",
            "--where",
            "id > 1",
        ]);
        assert_eq!(rows, "name,id\n,2\nc,3\n", "{format}");
    }
}

#[test]
fn old_rows_have_null_in_an_added_column() {
    let shell = Shell::new();
    shell.run(&["table", "create", "db.t", "--column", "id INT"]);
    shell.fed(&["produce", "db.t", "--format", "csv"], "id\n1\n2\n");
    shell.run(&["table", "alter", "db.t", "--add-column", "note STRING"]);
    shell.fed(&["produce", "db.t", "--format", "csv"], "id,note\n3,new\n");
    assert_eq!(shell.run(&["consume", "db.t"]), "id,note\n1,\n2,\n3,new\n");
    assert_eq!(
        shell.run(&["consume", "db.t", "--columns", "note"]),
        "note\n\"\"\n\"\"\nnew\n"
    );
    assert_eq!(
        shell.run(&["consume", "db.t", "--where", "note is null", "--count"]),
        "2\n"
    );
}

#[test]
fn consume_starts_at_a_time_follows_and_ends_at_a_limit() {
    let shell = Shell::new();
    shell.run(&["table", "create", "db.t", "--column", "id INT"]);
    shell.fed(&["produce", "db.t", "--format", "csv"], "id\n1\n2\n");
    assert_eq!(
        shell.run(&["consume", "db.t", "--from", "latest", "--count"]),
        "0\n"
    );
    assert_eq!(
        shell.run(&["consume", "db.t", "--from", "1", "--limit", "1"]),
        "id\n1\n"
    );
    let follower = Command::new(EXECUTABLE)
        .args(["consume", "db.t", "--follow", "--limit", "3"])
        .env("MAINSTEM_SERVER", shell.server.address().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    shell.fed(&["produce", "db.t", "--format", "csv"], "id\n3\n");
    let output = follower.wait_with_output().expect("it ends by itself");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "id\n1\n2\n3\n");
}

#[test]
fn mistakes_are_one_line_that_says_what_to_do() {
    let shell = Shell::new();
    shell.run(&["table", "create", "db.t", "--column", "id INT NOT NULL"]);
    let csv = shell.file("wrong.csv", b"id,nope\n1,2\n");
    let bad = shell.file("bad.csv", b"id\nx\n");
    let nothing = shell.files.path().join("missing.csv");
    let cases: [(&[&str], &str); 9] = [
        (&["consume", "db.none"], "does not exist"),
        (
            &["consume", "db.t", "--columns", "x"],
            "there is no column 'x'; there are id",
        ),
        (
            &["consume", "db.t", "--where", "id >"],
            "expected a literal",
        ),
        (&["produce", "db.none", text(&csv)], "add --create"),
        (
            &["produce", "db.t", text(&csv)],
            "the table has no column 'nope'",
        ),
        (&["produce", "db.t", text(&bad)], "x"),
        (&["produce", "db.t", text(&nothing)], "cannot read"),
        (
            &["table", "create", "db.u", "--column", "id NUMBER"],
            "type of column 'id'",
        ),
        (&["table", "create", "db.u"], "a table needs columns"),
    ];
    for (arguments, expected) in cases {
        let said = shell.refused(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "one line: {said}");
    }
    let output = Command::new(EXECUTABLE)
        .args(["status", "--server", "127.0.0.1:1"])
        .output()
        .expect("the executable runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot reach a server"));
}

#[test]
fn a_load_goes_on_through_a_restart_without_loss_or_repeat() {
    let mut shell = Shell::new();
    // The port has to be the same after each restart.
    let listener = format!("FLUSS://{}", shell.server.address());
    shell.server.set("bind.listeners", &listener);
    shell.run(&[
        "table",
        "create",
        "db.t",
        "--column",
        "id BIGINT",
        "--buckets",
        "3",
    ]);
    let mut child = Command::new(EXECUTABLE)
        .args([
            "produce",
            "db.t",
            "-",
            "--format",
            "csv",
            "--batch-rows",
            "50",
            "--quiet",
        ])
        .env("MAINSTEM_SERVER", shell.server.address().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    let mut pipe = child.stdin.take().expect("standard input is piped");
    let feeder = std::thread::spawn(move || {
        writeln!(pipe, "id").expect("the command reads");
        for row in 0..200_000 {
            writeln!(pipe, "{row}").expect("the command reads");
        }
    });
    mainstem_testkit::until("the first rows", || {
        (shell.run(&["consume", "db.t", "--count"]) != "0\n").then_some(())
    });
    for _ in 0..3 {
        shell.server.kill();
        shell.server.start_again();
    }
    feeder.join().expect("all rows are handed over");
    let output = child.wait_with_output().expect("it ends by itself");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("200000 rows in "));
    let rows = shell.run(&["consume", "db.t"]);
    let mut ids: Vec<u32> = rows
        .lines()
        .skip(1)
        .map(|line| line.parse().expect("a number"))
        .collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..200_000), "{} rows", ids.len());
}
