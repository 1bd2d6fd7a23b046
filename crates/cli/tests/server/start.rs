//! Starts that cannot succeed: one line that says what and what to do, and exit
//! status 1 (design.md §1). And what a start says about odd settings.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use mainstem_testkit::{Client, ServerOptions, ab, failed_start, until};

use crate::support::{assert_all_right, quick};

/// The one line of a start that must fail.
fn line(options: &ServerOptions, data_dir: &Path) -> Result<String, String> {
    let (status, errors) = failed_start(options, data_dir);
    let lines: Vec<&str> = errors.lines().collect();
    match (status.code(), lines.as_slice()) {
        (Some(1), [line]) if line.starts_with("mainstem: ") => Ok((*line).to_owned()),
        _ => Err(format!("{status}, with\n{errors}")),
    }
}

fn check(cases: &[(&str, ServerOptions, &Path, &[&str])]) {
    let mut wrong = Vec::new();
    for (sentence, options, data_dir, words) in cases {
        match line(options, data_dir) {
            Ok(line) if words.iter().all(|word| line.contains(word)) => {}
            other => wrong.push(format!("{sentence}: {other:?} lacks one of {words:?}")),
        }
    }
    assert_all_right(&wrong);
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "text").expect("written");
    let below = file.join("data");
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).expect("created");
    std::fs::write(foreign.join("VERSION"), "mainstem 99\n").expect("written");
    let damaged = dir.path().join("damaged");
    std::fs::create_dir(&damaged).expect("created");
    std::fs::write(damaged.join("meta.redb"), vec![0xAB; 10_000]).expect("written");
    let log_in_the_way = dir.path().join("log-in-the-way");
    std::fs::create_dir(&log_in_the_way).expect("created");
    std::fs::write(log_in_the_way.join("log"), "text").expect("written");
    let names = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    check(&[
        ("a file", quick(), &file, &[&names(&file), "--data-dir"]),
        (
            "below a file",
            quick(),
            &below,
            &[&names(&below), "--data-dir"],
        ),
        (
            "where nothing can be created",
            quick(),
            Path::new("/proc/mainstem-data"),
            &["/proc/mainstem-data", "--data-dir"],
        ),
        (
            "of another layout",
            quick(),
            &foreign,
            &["mainstem 99", "mainstem 1"],
        ),
        (
            "a damaged metadata store",
            quick(),
            &damaged,
            &["meta.redb"],
        ),
        (
            "a file where logs go",
            quick(),
            &log_in_the_way,
            &[&names(&log_in_the_way)],
        ),
    ]);
}

/// It refuses them only when it opens a store, which must not be taken for damage.
#[test]
fn values_that_rocksdb_does_not_open_a_store_with_are_refused_before_any_is_opened() {
    let mut server = quick().start();
    server.client().create_table("fluss.t", &ab(1));
    server.stop();
    let data_dir = server.data_dir();
    check(&[(
        "blocks beyond what RocksDB can have",
        quick().with("kv.rocksdb.block.blocksize", "8gb"),
        &data_dir,
        &["kv.rocksdb", "block size"],
    )]);
    assert!(!data_dir.join("kv/probe").exists());
    server.start_again();
}

#[test]
fn a_data_directory_in_use_is_refused_and_its_user_undisturbed() {
    let server = quick().start();
    let data_dir = server.data_dir();
    check(&[(
        "in use",
        quick(),
        &data_dir,
        &["in use by another process", "--data-dir"],
    )]);
    let mut client = server.client();
    client.create_table("fluss.t", &mainstem_testkit::ab(1));
}

#[test]
fn a_port_in_use_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let holder = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = holder.local_addr().expect("an address").to_string();
    check(&[
        (
            "the protocol port",
            quick().with("bind.listeners", &format!("FLUSS://{address}")),
            &data_dir,
            &[&address, "bind.listeners"],
        ),
        (
            "one of two listeners",
            quick().with(
                "bind.listeners",
                &format!("FLUSS://127.0.0.1:0,CLIENT://{address}"),
            ),
            &data_dir,
            &[&address],
        ),
        (
            "the HTTP port, asked for",
            quick().with("mainstem.http.listen", &address),
            &data_dir,
            &["mainstem.http.listen", &address],
        ),
        (
            "a host that does not exist",
            quick().with("bind.listeners", "FLUSS://no-such-host.invalid:0"),
            &data_dir,
            &["bind.listeners", "no-such-host.invalid"],
        ),
    ]);
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let missing = dir
        .path()
        .join("missing.yaml")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let folder = dir.path().to_str().expect("UTF-8").to_owned();
    let with = |path: &str| quick().with_argument("--config").with_argument(path);
    check(&[
        (
            "missing",
            with(&missing),
            &data_dir,
            &["cannot read the configuration", &missing],
        ),
        (
            "a directory",
            with(&folder),
            &data_dir,
            &["cannot read the configuration", &folder],
        ),
        (
            "a bad value in it",
            quick().with_config_file("default.bucket.number: many\n"),
            &data_dir,
            &["default.bucket.number", "many"],
        ),
    ]);
}

#[test]
fn bad_values_are_refused_with_their_key_and_value() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let set = |key: &str, value: &str| quick().with(key, value);
    check(&[
        (
            "durability",
            set("mainstem.durability", "maybe"),
            &data_dir,
            &["mainstem.durability", "maybe", "fsync"],
        ),
        (
            "a number",
            set("default.bucket.number", "three"),
            &data_dir,
            &["default.bucket.number", "three"],
        ),
        (
            "a number out of range",
            set("default.bucket.number", "0"),
            &data_dir,
            &["default.bucket.number", "0"],
        ),
        (
            "a size",
            set("log.segment.file-size", "12 parsecs"),
            &data_dir,
            &["log.segment.file-size", "parsecs"],
        ),
        (
            "a time",
            set("auto-partition.check.interval", "soon"),
            &data_dir,
            &["auto-partition.check.interval", "soon"],
        ),
        (
            "a ratio",
            set("server.data-disk.write-limit-ratio", "1.5"),
            &data_dir,
            &["server.data-disk.write-limit-ratio"],
        ),
        (
            "listeners",
            set("bind.listeners", "here"),
            &data_dir,
            &["bind.listeners", "NAME://host:port"],
        ),
        (
            "no listener",
            set("bind.listeners", ""),
            &data_dir,
            &["bind.listeners"],
        ),
        (
            "a protocol",
            set("security.protocol.map", "FLUSS:TLS"),
            &data_dir,
            &["security.protocol.map", "TLS"],
        ),
        (
            "an address",
            set("mainstem.http.listen", "nowhere"),
            &data_dir,
            &["mainstem.http.listen", "nowhere"],
        ),
        (
            "a log level",
            set("mainstem.log.level", "info,=x=y"),
            &data_dir,
            &["mainstem.log.level"],
        ),
        (
            "the authorizer",
            set("authorizer.enabled", "true"),
            &data_dir,
            &["authorizer.enabled", "not built"],
        ),
        (
            "a JAAS text",
            set("security.protocol.map", "FLUSS:SASL")
                .with("security.sasl.enabled.mechanisms", "PLAIN")
                .with(
                    "security.sasl.plain.jaas.config",
                    "PlainLoginModule required user_a=",
                ),
            &data_dir,
            &["security.sasl.plain.jaas.config"],
        ),
        (
            "SASL without users",
            set("security.protocol.map", "FLUSS:SASL")
                .with("security.sasl.enabled.mechanisms", "PLAIN"),
            &data_dir,
            &["security.sasl"],
        ),
        (
            "an override without a value",
            quick().with_argument("-D").with_argument("justakey"),
            &data_dir,
            &["justakey", "key=value"],
        ),
    ]);
    assert!(
        !data_dir.exists(),
        "nothing is created by a start that fails"
    );
}

#[test]
fn secrets_are_not_repeated_in_refusals() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = quick()
        .with("security.protocol.map", "FLUSS:SASL")
        .with("security.sasl.enabled.mechanisms", "PLAIN")
        .with("security.sasl.plain.credentials", "a b:hunter2");
    let line = line(&options, &dir.path().join("data")).expect("a refusal");
    assert!(!line.contains("hunter2"), "{line}");
}

#[test]
fn odd_keys_are_reported_with_the_nearest_known_one() {
    let server = quick()
        .with("defualt.bucket.number", "3")
        .with("completely.different", "1")
        .with("zookeeper.address", "localhost:2181")
        .with_config_file("log.segmnt.file-size: 1mb\ntablet-server.rack: r#1\n")
        .start();
    let log = server.log();
    for words in [
        "defualt.bucket.number is not a known option, did you mean default.bucket.number?",
        "completely.different is not a known option and has no effect",
        "log.segmnt.file-size is not a known option, did you mean log.segment.file-size?",
        "zookeeper.address matters only to a cluster",
        "the '#' begins a comment",
    ] {
        assert!(log.contains(words), "{words} is not in\n{log}");
    }
}

#[test]
fn the_greeting_tells_where_to_connect() {
    let server = quick()
        .with("mainstem.http.listen", "127.0.0.1:0")
        .with("bind.listeners", "FLUSS://127.0.0.1:0,CLIENT://127.0.0.1:0")
        .start();
    let greeting = server.greeting().join("\n");
    for words in [
        server.listener("FLUSS").to_string(),
        server.listener("CLIENT").to_string(),
        server.http().expect("HTTP is on").to_string(),
        server.data_dir().display().to_string(),
    ] {
        assert!(greeting.contains(&words), "{words} is not in\n{greeting}");
    }
}

/// A pipe whose reader has gone must not end the server.
#[test]
fn a_server_lives_on_when_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|holder| holder.local_addr());
    let address = port.expect("a free port");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_mainstem"))
        .args(["start", "--data-dir"])
        .arg(dir.path().join("data"))
        .args([
            "-D",
            &format!("bind.listeners=FLUSS://{address}"),
            "-D",
            "mainstem.http.listen=",
        ])
        .args(["-D", "mainstem.log.level=trace"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    drop((child.stdout.take(), child.stderr.take()));
    let served = until("an answer", || {
        let ended = child.try_wait().expect("the state of a child");
        assert_eq!(ended, None, "it has ended");
        let mut client = TcpStream::connect(address)
            .ok()
            .map(|_| Client::connect(address))?;
        client.create_database("a");
        client.create_table("a.t", &mainstem_testkit::ab(1));
        Some(client.table("a.t").name)
    });
    assert_eq!(served, "a.t");
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// design.md §1.
#[test]
fn a_busy_http_port_is_no_reason_not_to_start_unless_it_was_asked_for() {
    // Ours or somebody else's: the default port is busy.
    let holder = TcpListener::bind("127.0.0.1:9124");
    let server = quick().without("mainstem.http.listen").start();
    let mut client = server.client();
    client.create_table("fluss.t", &mainstem_testkit::ab(1));
    assert!(
        server.log().contains("set mainstem.http.listen"),
        "{}",
        server.log()
    );
    drop(holder);
}
