//! Tables that come and go while they are used (known failures R13, B186), and a
//! disk that is full.

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{ab, until};

use crate::support::{durable, quick, server_with_table};

/// Known failure R13.
#[test]
fn a_name_is_free_for_another_table_as_soon_as_it_is_dropped() {
    let server = durable().start();
    let mut client = server.client();
    let mut last = -1;
    for number in 0..15 {
        let table = client.create_table("fluss.t", &ab(2));
        assert!(table.id > last);
        assert_eq!(client.end(&table, 1), 0, "round {number}");
        assert_eq!(
            client.append(&table, 1, &table.source().numbers(0..3)),
            Ok(0)
        );
        client.drop_table("fluss.t");
        assert_eq!(
            client.append(&table, 1, &table.source().numbers(0..3)),
            Err(21)
        );
        assert_eq!(client.fetch_one(&table.fetch([(1, 0)])), Err(21));
        last = table.id;
    }
    let log = server.data_dir().join("log");
    until("the files of dropped tables to go", || {
        let left = std::fs::read_dir(&log).expect("a directory").count();
        (left == 0).then_some(())
    });
}

#[test]
fn appends_and_reads_during_a_drop_are_answered() {
    let server = quick().start();
    let mut client = server.client();
    for _ in 0..10 {
        let table = client.create_table("fluss.t", &ab(1));
        let records = table.source().numbers([1]);
        let mut other = server.client();
        for _ in 0..30 {
            other.send(
                ApiKey::ProduceLog,
                &table.produce([(None, 0, &records[..])]),
            );
            other.send(ApiKey::FetchLog, &table.fetch([(0, 0)]));
        }
        client.drop_table("fluss.t");
        for _ in 0..60 {
            assert!(matches!(
                other.wire().receive(),
                mainstem_testkit::Answer::Success { .. }
            ));
        }
    }
}

/// Known failure B186.
#[test]
fn the_same_bucket_twice_has_a_defined_answer_everywhere() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    client
        .append(&table, 0, &table.source().numbers(0..3))
        .expect("appended");
    let entries = client.fetch(&table.fetch([(0, 0), (0, 3), (0, 9)]));
    let codes: Vec<_> = entries.iter().map(|entry| entry.error_code).collect();
    assert_eq!(codes, [None, None, Some(19)]);
    let mut twice = table.fetch([(0, 0)]);
    twice.tables_req.push(twice.tables_req[0].clone());
    let answer: pb::FetchLogResponse = client.call(ApiKey::FetchLog, &twice);
    assert_eq!(answer.tables_resp.len(), 2);
    let bucket = pb::PbTableStatsReqForBucket {
        bucket_id: Some(0),
        ..pb::PbTableStatsReqForBucket::default()
    };
    let request = pb::GetTableStatsRequest {
        table_id: Some(table.id),
        buckets_req: vec![bucket, bucket],
        target_columns: vec![],
    };
    let answer: pb::GetTableStatsResponse = client.call(ApiKey::GetTableStats, &request);
    assert!(
        answer
            .buckets_resp
            .iter()
            .all(|entry| entry.row_count == Some(3))
    );
}

/// Known failures B013, B035: 10 is what every client retries; 70 is fatal to
/// some.
#[test]
fn a_full_disk_refuses_writes_with_10_and_reads_go_on() {
    let mut server = durable().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1));
    client
        .append(&table, 0, &table.source().numbers(0..3))
        .expect("appended");
    server.stop();
    // Every disk is fuller than this.
    server.set("server.data-disk.write-limit-ratio", "0.000002");
    server.set("server.data-disk.write-recover-ratio", "0.000001");
    server.set("server.data-disk.check-interval", "1s");
    server.start_again();
    let mut client = server.client();
    until("the disk to be found full", || {
        let appended = client.append(&table, 0, &table.source().numbers([9]));
        assert!(matches!(appended, Ok(_) | Err(10)), "{appended:?}");
        appended.is_err().then_some(())
    });
    let end = client.end(&table, 0);
    assert!(client.fetch_one(&table.fetch([(0, 0)])).is_ok());
    let request = pb::AlterClusterConfigsRequest {
        alter_configs: [("limit", "0.999999"), ("recover", "0.999998")]
            .map(|(which, value)| pb::PbAlterConfig {
                config_key: Some(format!("server.data-disk.write-{which}-ratio")),
                config_value: Some(value.to_owned()),
                op_type: Some(0),
            })
            .to_vec(),
    };
    let _: pb::AlterClusterConfigsResponse = client.call(ApiKey::AlterClusterConfigs, &request);
    until("writes to be taken again", || {
        let appended = client.append(&table, 0, &table.source().numbers([9]));
        (appended == Ok(end)).then_some(())
    });
}
