//! Records that are no longer kept (tables.md §3; known failures B031, B110,
//! B166).

use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Table, ab, offsets, until};

use crate::support::durable;

fn set_ttl(client: &mut Client, table: &Table, ttl: &str) {
    let request = pb::AlterTableRequest {
        table_path: Some(table.path()),
        ignore_if_not_exists: Some(false),
        config_changes: vec![pb::PbAlterConfig {
            config_key: Some("table.log.ttl".to_owned()),
            config_value: Some(ttl.to_owned()),
            op_type: Some(0),
        }],
        ..pb::AlterTableRequest::default()
    };
    let _: pb::AlterTableResponse = client.call(ApiKey::AlterTable, &request);
}

#[test]
fn a_shorter_retention_takes_effect_without_a_restart_and_readers_are_told() {
    let options = durable()
        .with("log.segment.file-size", "700")
        .with("log.retention.check-interval", "1s");
    let mut server = options.start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1).with_property("table.log.ttl", "7d"));
    for number in 0..30 {
        client
            .append(&table, 0, &table.source().numbers([number]))
            .expect("appended");
    }
    assert_eq!(client.offset(&table, None, 0, 0, None), Ok(0));
    set_ttl(&mut client, &table, "1ms");
    // The newest segment stays.
    let start = until("old segments to be deleted", || {
        let start = client.offset(&table, None, 0, 0, None).expect("an offset");
        (start > 20).then_some(start)
    });
    assert_eq!(client.end(&table, 0), 30);
    assert_eq!(client.fetch_one(&table.fetch([(0, start - 1)])), Err(19));
    assert_eq!(client.fetch_one(&table.fetch([(0, 0)])), Err(19));
    let message = client
        .fetch(&table.fetch([(0, 0)]))
        .remove(0)
        .error_message
        .expect("a text");
    assert!(
        message.contains(&start.to_string()) && message.contains("30"),
        "{message}"
    );
    let entry = client.fetch_one(&table.fetch([(0, -2)])).expect("readable");
    assert_eq!(entry.log_start_offset, Some(start));
    let kept = offsets(&entry.records.expect("records"));
    assert_eq!(
        (
            kept.first().map(|(base, _)| *base),
            kept.last().map(|(_, end)| *end)
        ),
        (Some(start), Some(30))
    );
    // A time before the first record that is left leads to it.
    assert_eq!(client.offset(&table, None, 0, 2, Some(1)), Ok(start));
    let scan = pb::LimitScanRequest {
        table_id: Some(table.id),
        bucket_id: Some(0),
        limit: Some(1_000),
        ..pb::LimitScanRequest::default()
    };
    let scanned: pb::LimitScanResponse = client.call(ApiKey::LimitScan, &scan);
    assert_eq!(offsets(&scanned.records.expect("records")), kept);
    let statistics = pb::GetTableStatsRequest {
        table_id: Some(table.id),
        buckets_req: vec![pb::PbTableStatsReqForBucket {
            bucket_id: Some(0),
            ..pb::PbTableStatsReqForBucket::default()
        }],
        target_columns: vec![],
    };
    let counted: pb::GetTableStatsResponse = client.call(ApiKey::GetTableStats, &statistics);
    assert_eq!(counted.buckets_resp[0].row_count, Some(30 - start));
    // Offsets are never given out again.
    set_ttl(&mut client, &table, "7d");
    server.crash();
    let mut client = server.client();
    assert_eq!(client.offset(&table, None, 0, 0, None), Ok(start));
    assert_eq!(
        client.append(&table, 0, &table.source().numbers([30])),
        Ok(30)
    );
}
