//! Sequences of idempotent writers (behaviour.md §8, wire.md §6.3; known
//! failures B024, R02, B022, B023).

use mainstem_testkit::{BatchBytes, Client, Table, until};

use crate::support::{check_appends, durable, quick, server_with_table};

fn batch(table: &Table, writer: i64, sequence: i32) -> BatchBytes {
    table
        .source()
        .with_writer(writer, sequence)
        .numbers([sequence])
}

#[test]
fn a_writer_begins_at_0_and_goes_on_without_gaps() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let writer = client.init_writer();
    let of = |writer, sequence| batch(&table, writer, sequence);
    check_appends(
        &mut client,
        &table,
        &[
            ("a new writer at 1", of(writer, 1), Err(31)),
            ("a new writer at 0", of(writer, 0), Ok(1)),
            ("the next", of(writer, 1), Ok(1)),
            ("a gap", of(writer, 3), Err(31)),
            ("the next after a gap was refused", of(writer, 2), Ok(1)),
            (
                "an id that was never handed out, at 0",
                of(1 << 40, 0),
                Ok(1),
            ),
            (
                "an id that was never handed out, at 4",
                of((1 << 40) + 1, 4),
                Err(31),
            ),
            ("writer -2 at 5", of(-2, 5), Err(31)),
            ("writer 77 at -1", of(77, -1), Err(31)),
            ("no writer, with a sequence", of(-1, 5), Ok(1)),
            ("no writer, the same again", of(-1, 5), Ok(1)),
        ],
    );
}

#[test]
fn a_repeated_batch_of_the_last_five_has_its_first_offset_and_is_not_stored() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let writer = client.init_writer();
    for sequence in 0..8 {
        assert_eq!(
            client.append(&table, 0, &batch(&table, writer, sequence)),
            Ok(sequence.into())
        );
    }
    for sequence in [7, 3, 5, 4, 6, 7, 3] {
        let repeated = client.append(&table, 0, &batch(&table, writer, sequence));
        assert_eq!(repeated, Ok(sequence.into()), "batch {sequence}");
    }
    for sequence in [2, 1, 0, 9, -1] {
        let refused = client.append(&table, 0, &batch(&table, writer, sequence));
        assert_eq!(refused, Err(31), "batch {sequence}");
    }
    assert_eq!(client.end(&table, 0), 8);
    assert_eq!(client.append(&table, 0, &batch(&table, writer, 8)), Ok(8));
}

#[test]
fn the_content_of_a_repeated_batch_is_not_compared_but_its_checksum_is() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let writer = client.init_writer();
    let source = table.source().with_writer(writer, 0);
    assert_eq!(client.append(&table, 0, &source.numbers([1])), Ok(0));
    assert_eq!(client.append(&table, 0, &source.numbers([2, 3, 4])), Ok(0));
    assert_eq!(
        client.append(&table, 0, &source.numbers([1]).with_wrong_checksum()),
        Err(14)
    );
    let mut repeat = table.produce([(None, 0, &source.numbers([1])[..])]);
    repeat.acks = Some(0);
    assert_eq!(client.produce(&repeat)[0].base_offset, Some(0));
    assert_eq!(client.end(&table, 0), 1);
}

#[test]
fn several_batches_of_one_entry_are_checked_together() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let writer = client.init_writer();
    let of = |sequence| batch(&table, writer, sequence);
    for sequence in 0..7 {
        assert_eq!(client.append(&table, 0, &of(sequence)), Ok(sequence.into()));
    }
    let append = |client: &mut Client, first: i32, second: i32| {
        let got = client.append(&table, 0, &of(first).then(&of(second)));
        (got, client.end(&table, 0))
    };
    assert_eq!(append(&mut client, 7, 8), (Ok(7), 9), "two new ones");
    assert_eq!(
        append(&mut client, 8, 9),
        (Ok(8), 9),
        "a repeated and a new one"
    );
    assert_eq!(
        append(&mut client, 9, 11),
        (Err(31), 9),
        "a gap between them"
    );
    assert_eq!(append(&mut client, 9, 10), (Ok(9), 11), "the ones due");
}

#[test]
fn writers_do_not_disturb_each_other() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    let writers: Vec<i64> = (0..50).map(|_| client.init_writer()).collect();
    for sequence in 0..3 {
        for writer in &writers {
            for bucket in [0, 1] {
                let appended = client.append(&table, bucket, &batch(&table, *writer, sequence));
                assert!(appended.is_ok(), "{appended:?}");
            }
        }
    }
    assert_eq!((client.end(&table, 0), client.end(&table, 1)), (150, 150));
}

#[test]
fn five_requests_in_flight_are_appended_in_their_order() {
    let (_server, mut client, table) = server_with_table(&durable(), 1);
    let writer = client.init_writer();
    for round in 0..20 {
        for sequence in round * 5..round * 5 + 5 {
            let records = batch(&table, writer, sequence);
            client.send(
                mainstem_protocol::ApiKey::ProduceLog,
                &table.produce([(None, 0, &records[..])]),
            );
        }
        for sequence in round * 5..round * 5 + 5 {
            let answer: mainstem_protocol::messages::ProduceLogResponse =
                client.receive().expect("an answer");
            // Answers may come in any order; all are of this round.
            let base = answer.buckets_resp[0].base_offset.expect("an offset");
            assert!(
                (i64::from(round * 5)..i64::from(round * 5 + 5)).contains(&base),
                "{sequence}"
            );
        }
    }
    assert_eq!(client.end(&table, 0), 100);
}

/// wire.md §6.3 and cluster.md §4.2: a writer whose state was removed goes on
/// where it is; and the largest sequence is followed by 0.
#[test]
fn a_forgotten_writer_goes_on_and_sequences_begin_anew_after_the_largest() {
    let options = quick()
        .with("server.writer-id.expiration-time", "2s")
        .with("server.writer-id.expiration-check-interval", "1s")
        .with("log.retention.check-interval", "1s");
    let (_server, mut client, table) = server_with_table(&options, 1);
    let writer = client.init_writer();
    let mut append = |sequence| client.append(&table, 0, &batch(&table, writer, sequence));
    for sequence in 0..7 {
        assert_eq!(append(sequence), Ok(sequence.into()));
    }
    assert_eq!(append(9), Err(31));
    let base = until("the writer to be forgotten", || {
        let largest = append(i32::MAX);
        assert!(matches!(largest, Ok(7) | Err(31)), "{largest:?}");
        largest.ok()
    });
    for (sequence, expected) in [
        (0, base + 1),
        (1, base + 2),
        (i32::MAX, base),
        (0, base + 1),
    ] {
        assert_eq!(append(sequence), Ok(expected), "sequence {sequence}");
    }
    assert_eq!(append(i32::MAX - 1), Err(31));
}
