//! Health and metrics over HTTP (design.md §1).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use mainstem_testkit::{PATIENCE, ab, keyed_ab};

use crate::support::quick;

/// Status and text of an answer.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket option");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    (status, text)
}

#[test]
fn a_running_server_is_healthy_and_ready_and_counts_what_it_does() {
    let server = quick().with("mainstem.http.listen", "127.0.0.1:0").start();
    let http = server.http().expect("HTTP is on");
    assert_eq!(get(http, "/healthz").0, 200);
    assert_eq!(get(http, "/readyz").0, 200);
    assert_eq!(get(http, "/nothing-here").0, 404);
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(3));
    client
        .append(&table, 1, &table.source().numbers(0..7))
        .expect("appended");
    let (status, metrics) = get(http, "/metrics");
    assert_eq!(status, 200);
    let value = |part: &str| -> f64 {
        metrics
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains(part))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    };
    assert_eq!(value("replicaCount"), 3.0, "{metrics}");
    assert_eq!(value("leaderCount"), 3.0, "{metrics}");
    assert_eq!(value("recentRowsBytes"), 0.0, "{metrics}");
}

#[test]
fn rows_that_changed_last_are_in_memory_as_far_as_the_setting_allows() {
    for (setting, held) in [("64mb", true), ("0", false)] {
        let server = quick()
            .with("mainstem.http.listen", "127.0.0.1:0")
            .with("mainstem.kv.recent-rows.size", setting)
            .start();
        let mut client = server.client();
        let table = client.create_table("fluss.t", &keyed_ab(1));
        let records = table.puts().numbers([1]);
        assert_eq!(client.put_records(&table, 0, &records), Ok(1));
        let (_, metrics) = get(server.http().expect("HTTP is on"), "/metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("fluss_tabletserver_recentRowsBytes"));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert_eq!(value.map(|bytes| bytes > 0.0), Some(held), "{line:?}");
    }
}
