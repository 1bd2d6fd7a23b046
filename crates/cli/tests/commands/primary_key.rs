//! Tables whose rows change, as a user works with them.

use std::io::{BufRead, BufReader};

use super::*;

/// `id` by key, with a name and a score.
fn people(shell: &Shell) {
    shell.run(&[
        "table",
        "create",
        "db.people",
        "--column",
        "id INT",
        "--column",
        "name STRING",
        "--column",
        "score DOUBLE",
        "--primary-key",
        "id",
    ]);
}

fn upsert(shell: &Shell, options: &[&str], csv: &str) -> String {
    let mut arguments = vec!["upsert", "db.people", "--format", "csv"];
    arguments.extend(options);
    shell.fed(&arguments, csv)
}

/// Lines behind the header, sorted.
fn lines(csv: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = csv.lines().skip(1).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn rows_are_put_updated_in_part_deleted_and_found() {
    let shell = Shell::new();
    people(&shell);
    let said = upsert(&shell, &[], "score,id,name\n1.5,1,ann\n2.5,2,bob\n,3,cem\n");
    assert!(said.starts_with("3 rows in "), "{said}");
    // Fewer columns than the table's: the others stay.
    upsert(&shell, &[], "id,score\n1,7.0\n4,8.0\n");
    // Named columns: the others of the input do not count.
    upsert(&shell, &["--columns", "name"], "id,name,score\n2,bea,99\n");
    let said = upsert(&shell, &["--delete"], "name,id\nx,3\n");
    assert!(said.starts_with("1 rows deleted in "), "{said}");
    let rows = shell.run(&["consume", "db.people", "--rows"]);
    assert_eq!(rows.lines().next(), Some("id,name,score"));
    assert_eq!(lines(&rows), ["1,ann,7.0", "2,bea,2.5", "4,,8.0"]);
    let found = shell.run(&["lookup", "db.people", "2", "id=1"]);
    assert_eq!(found, "id,name,score\n2,bea,2.5\n1,ann,7.0\n");
    let found = shell.run(&[
        "lookup",
        "db.people",
        "2",
        "--columns",
        "name",
        "--format",
        "json",
    ]);
    assert_eq!(found, "{\"name\":\"bea\"}\n");
    let table = shell.run(&["lookup", "db.people", "2", "--format", "table"]);
    assert!(table.contains("bea") && table.contains("score"), "{table}");
}

#[test]
fn a_key_without_a_row_is_named_and_the_others_are_printed() {
    let shell = Shell::new();
    people(&shell);
    upsert(&shell, &[], "id,name\n1,ann\n");
    let output = shell.run_with(&["lookup", "db.people", "5", "1"], "");
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "mainstem: no row has the key id=5\n");
    let found = String::from_utf8_lossy(&output.stdout);
    assert_eq!(found, "id,name,score\n1,ann,\n");
}

#[test]
fn a_changelog_shows_what_each_row_stands_for() {
    let shell = Shell::new();
    people(&shell);
    upsert(&shell, &[], "id,name,score\n1,ann,1.0\n");
    upsert(&shell, &[], "id,name,score\n1,bea,1.0\n");
    upsert(&shell, &["--delete"], "id\n1\n");
    let changes = "_change_type,id,name\n+I,1,ann\n-U,1,ann\n+U,1,bea\n-D,1,bea\n";
    let columns = ["consume", "db.people", "--columns", "id,name"];
    assert_eq!(shell.run(&columns), changes);
    let json = shell.run(&[
        "consume",
        "db.people",
        "--columns",
        "id",
        "--format",
        "json",
    ]);
    let first = json.lines().next();
    assert_eq!(first, Some("{\"_change_type\":\"+I\",\"id\":1}"));
    let table = shell.run(&["consume", "db.people", "--format", "table", "--limit", "2"]);
    assert!(
        table.contains("_change_type") && table.contains("-U"),
        "{table}"
    );
    assert!(!table.contains("+U"), "{table}");
    let filtered = shell.run(&["consume", "db.people", "--where", "name = 'bea'", "--count"]);
    assert_eq!(filtered, "2\n");
    assert_eq!(shell.run(&["consume", "db.people", "--count"]), "4\n");
    assert_eq!(
        shell.run(&["consume", "db.people", "--rows", "--count"]),
        "0\n"
    );
}

#[test]
fn rows_can_be_filtered_limited_counted_and_followed_by_their_changes() {
    let shell = Shell::new();
    people(&shell);
    let mut csv = String::from("id,name,score\n");
    for id in 0..3_000 {
        csv.push_str(&format!("{id},n{},{}.5\n", id % 3, id));
    }
    upsert(&shell, &[], &csv);
    let count = |arguments: &[&str]| {
        let mut all = vec!["consume", "db.people", "--rows", "--count"];
        all.extend(arguments);
        shell.run(&all)
    };
    assert_eq!(count(&[]), "3000\n");
    assert_eq!(count(&["--where", "name = 'n1' and score < 100"]), "33\n");
    assert_eq!(count(&["--limit", "70"]), "70\n");
    assert_eq!(count(&["--limit", "5", "--where", "name = 'n2'"]), "5\n");
    let some = shell.run(&[
        "consume",
        "db.people",
        "--rows",
        "--where",
        "id = 7",
        "--columns",
        "score,name",
    ]);
    assert_eq!(some, "score,name\n7.5,n1\n");
    let mut follower = Command::new(EXECUTABLE)
        .args([
            "consume",
            "db.people",
            "--rows",
            "--follow",
            "--columns",
            "id,name",
        ])
        .args(["--where", "id = 7", "--limit", "3"])
        .env("MAINSTEM_SERVER", shell.server.address().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    let pipe = follower.stdout.take().expect("standard output is piped");
    let mut printed = BufReader::new(pipe).lines().map(|line| line.expect("text"));
    let rows: Vec<String> = printed.by_ref().take(2).collect();
    assert_eq!(rows, ["_change_type,id,name", "+I,7,n1"]);
    upsert(&shell, &[], "id,name\n7,seven\n");
    assert_eq!(printed.collect::<Vec<_>>(), ["-U,7,n1", "+U,7,seven"]);
    assert!(follower.wait().expect("it ends by itself").success());
}

#[test]
fn produce_puts_rows_of_a_primary_key_table_and_makes_one() {
    let shell = Shell::new();
    let file = shell.file("people.parquet", &parquet());
    shell.run(&[
        "produce",
        "db.made",
        text(&file),
        "--create",
        "--primary-key",
        "id",
        "--buckets",
        "2",
    ]);
    let said = shell.run(&["produce", "db.made", text(&file)]);
    assert!(said.starts_with("5 rows in "), "{said}");
    assert_eq!(
        shell.run(&["consume", "db.made", "--rows", "--count"]),
        "5\n"
    );
    assert_eq!(shell.run(&["consume", "db.made", "--count"]), "15\n");
    let json = "{\"id\":9,\"name\":\"x\"}\n{\"name\":\"y\",\"id\":10}\n";
    shell.fed(&["upsert", "db.made", "--format", "jsonl"], json);
    let found = shell.run(&["lookup", "db.made", "9", "10"]);
    assert_eq!(found, "id,name,score\n9,x,\n10,y,\n");
    // A later line with another column is not cut down.
    let output = shell.run_with(
        &["upsert", "db.made", "--format", "jsonl"],
        "{\"id\":9,\"name\":\"z\"}\n{\"id\":10,\"score\":1.0}\n",
    );
    assert_eq!(output.status.code(), Some(1));
    let refused = String::from_utf8_lossy(&output.stderr);
    assert!(refused.contains("score"), "{refused}");
    shell.fed(&["upsert", "db.made", "--format", "jsonl"], "");
}

#[test]
fn keys_of_several_columns_are_found_whole_and_by_prefix_in_partitions() {
    let shell = Shell::new();
    shell.run(&[
        "table",
        "create",
        "db.status",
        "--column",
        "day STRING",
        "--column",
        "carrier STRING",
        "--column",
        "flight INT",
        "--column",
        "status STRING",
        "--primary-key",
        "day,carrier,flight",
        "--bucket-key",
        "carrier",
        "--partition-by",
        "day",
        "--buckets",
        "3",
    ]);
    let csv = "day,carrier,flight,status\nmon,UA,15,on time\nmon,UA,16,late\n\
               mon,B6,15,on time\ntue,UA,15,cancelled\n";
    shell.fed(&["upsert", "db.status", "--format", "csv"], csv);
    let found = shell.run(&[
        "lookup",
        "db.status",
        "tue",
        "UA",
        "15",
        "--columns",
        "status",
    ]);
    assert_eq!(found, "status\ncancelled\n");
    let found = shell.run(&["lookup", "db.status", "flight=16,carrier=UA,day=mon"]);
    assert_eq!(found, "day,carrier,flight,status\nmon,UA,16,late\n");
    let found = shell.run(&["lookup", "db.status", "--prefix", "mon", "UA"]);
    assert_eq!(lines(&found), ["mon,UA,15,on time", "mon,UA,16,late"]);
    let missing = shell.refused(&["lookup", "db.status", "wed,UA,15"]);
    assert_eq!(
        missing,
        "mainstem: no row has the key day=wed carrier=UA flight=15\n"
    );
    assert_eq!(
        shell.run(&["consume", "db.status", "--rows", "--count"]),
        "4\n"
    );
}

#[test]
fn engines_and_numbers_are_declared_on_the_command_line() {
    let shell = Shell::new();
    shell.run(&[
        "table",
        "create",
        "db.totals",
        "--column",
        "k STRING",
        "--column",
        "total BIGINT",
        "--column",
        "tags STRING",
        "--primary-key",
        "k",
        "--merge-engine",
        "aggregation",
        "--aggregate",
        "total=sum",
        "--aggregate",
        "tags=listagg:delimiter=|",
    ]);
    for row in ["a,1,x", "a,2,y", "b,5,z"] {
        shell.fed(
            &["upsert", "db.totals", "--format", "csv"],
            &format!("k,total,tags\n{row}\n"),
        );
    }
    let found = shell.run(&["lookup", "db.totals", "a", "b"]);
    assert_eq!(found, "k,total,tags\na,3,x|y\nb,5,z\n");
    shell.fed(
        &["upsert", "db.totals", "--format", "csv", "--overwrite"],
        "k,total,tags\na,0,\n",
    );
    assert_eq!(
        shell.run(&["lookup", "db.totals", "a"]),
        "k,total,tags\na,0,\n"
    );
    let described = shell.run(&["table", "describe", "db.totals"]);
    assert!(described.contains("BIGINT, sum"), "{described}");

    shell.run(&[
        "table",
        "create",
        "db.words",
        "--column",
        "word STRING",
        "--column",
        "id BIGINT",
        "--primary-key",
        "word",
        "--auto-increment",
        "id",
    ]);
    shell.fed(&["upsert", "db.words", "--format", "csv"], "word\none\n");
    let found = shell.run(&["lookup", "db.words", "one", "two", "--insert-if-missing"]);
    assert_eq!(found, "word,id\none,1\ntwo,2\n");

    shell.run(&[
        "table",
        "create",
        "db.newest",
        "--column",
        "k INT",
        "--column",
        "v INT",
        "--primary-key",
        "k",
        "--merge-engine",
        "versioned",
        "--version-column",
        "v",
    ]);
    shell.fed(
        &["upsert", "db.newest", "--format", "csv"],
        "k,v\n1,5\n1,3\n",
    );
    assert_eq!(shell.run(&["lookup", "db.newest", "1"]), "k,v\n1,5\n");
}

#[test]
fn mistakes_with_keys_are_one_line_that_says_what_to_do() {
    let shell = Shell::new();
    people(&shell);
    shell.run(&["table", "create", "db.log", "--column", "id INT"]);
    let no_key = shell.file("no_key.csv", b"name\nann\n");
    let cases: [(&[&str], &str); 9] = [
        (&["lookup", "db.log", "1"], "mainstem consume"),
        (&["lookup", "db.people", "x"], "column 'id' is INT"),
        (&["lookup", "db.people", "--prefix", "1"], "bucket key"),
        (&["consume", "db.log", "--rows"], "leave --rows out"),
        (&["upsert", "db.log", text(&no_key)], "mainstem produce"),
        (
            &["upsert", "db.people", text(&no_key)],
            "column 'id' of the primary key is not in the input",
        ),
        (
            &["upsert", "db.people", text(&no_key), "--columns", "nope"],
            "no column 'nope'",
        ),
        (
            &[
                "produce",
                "db.people",
                text(&no_key),
                "--compression",
                "lz4",
            ],
            "--compression is for log tables",
        ),
        (
            &[
                "table",
                "create",
                "db.x",
                "--column",
                "a INT",
                "--aggregate",
                "b=sum",
            ],
            "no such column",
        ),
    ];
    for (arguments, expected) in cases {
        let said = shell.refused(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "one line: {said}");
    }
}

#[test]
fn upserts_go_on_through_restarts_and_every_change_happens_once() {
    const KEYS: u32 = 10_000;
    const ROUNDS: u32 = 4;
    let mut shell = Shell::new();
    // The port has to be the same after each restart.
    let listener = format!("FLUSS://{}", shell.server.address());
    shell.server.set("bind.listeners", &listener);
    people(&shell);
    let mut child = Command::new(EXECUTABLE)
        .args(["upsert", "db.people", "-", "--format", "csv"])
        .args(["--batch-rows", "50", "--quiet"])
        .env("MAINSTEM_SERVER", shell.server.address().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    let mut pipe = child.stdin.take().expect("standard input is piped");
    let feeder = std::thread::spawn(move || {
        writeln!(pipe, "id,name").expect("the command reads");
        for row in 0..KEYS * ROUNDS {
            writeln!(pipe, "{},round {}", row % KEYS, row / KEYS).expect("the command reads");
        }
    });
    mainstem_testkit::until("the first rows", || {
        (shell.run(&["consume", "db.people", "--count"]) != "0\n").then_some(())
    });
    for _ in 0..3 {
        shell.server.kill();
        shell.server.start_again();
    }
    feeder.join().expect("all rows are handed over");
    let output = child.wait_with_output().expect("it ends by itself");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("40000 rows in "), "{said}");
    let last = [
        "consume",
        "db.people",
        "--rows",
        "--count",
        "--where",
        "name = 'round 3'",
    ];
    assert_eq!(shell.run(&last), format!("{KEYS}\n"));
    assert_eq!(
        shell.run(&["consume", "db.people", "--rows", "--count"]),
        "10000\n"
    );
    // An insertion of each key, and two records for each later round.
    let changes = KEYS + 2 * KEYS * (ROUNDS - 1);
    assert_eq!(
        shell.run(&["consume", "db.people", "--count"]),
        format!("{changes}\n")
    );
    let found = shell.run(&["lookup", "db.people", "9999", "0"]);
    assert_eq!(found, "id,name,score\n9999,round 3,\n0,round 3,\n");
}
