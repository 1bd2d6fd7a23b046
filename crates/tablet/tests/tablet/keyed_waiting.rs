//! Requests and syncs that come while somebody else has the rows of a bucket.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use mainstem_env::SystemClock;
use mainstem_log::Syncer;
use mainstem_tablet::replica::Replica;
use mainstem_tablet::service::Refusal;
use tokio::runtime::Runtime;

use crate::common::keyed::*;
use crate::common::*;

/// Nobody waits for longer; all is over long before.
const LIMIT: Duration = Duration::from_secs(60);

/// Somebody has the rows while `bound` requests and some more come: so many wait for
/// him, and the others are refused.
fn check_waiting(replica: &Replica, bound: usize, ask: fn(&Replica) -> Result<(), Refusal>) {
    std::thread::scope(|scope| {
        let busy = replica.rows().expect("it leads").0.lock();
        let (answer, answers) = sync_channel(bound + 4);
        for _ in 0..bound + 4 {
            let answer = answer.clone();
            scope.spawn(move || answer.send(ask(replica).map_err(|refusal| refusal.code)));
        }
        for _ in 0..4 {
            assert_eq!(answers.recv(), Ok(Err(11)));
        }
        drop(busy);
        for _ in 0..bound {
            assert_eq!(answers.recv(), Ok(Ok(())));
        }
    });
}

/// Opening may take minutes, and each of those who wait keeps a thread.
#[test]
fn sixteen_requests_wait_for_rows_that_are_being_opened_and_more_are_refused() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::keyed(1, "t", 1));
    let server = Threaded::start(&disk(1), &catalog);
    let replica = server.replica(0);
    // Whoever has waited leaves its place to others.
    for _ in 0..2 {
        check_waiting(&replica, 16, |replica| replica.opened_rows().map(drop));
        assert!(replica.rows_are_open());
        replica.close_rows();
    }
}

#[test]
fn thirty_two_requests_wait_to_read_in_order_and_more_are_refused() {
    let waiting = Synced::start(1);
    let replica = waiting.server.replica(0);
    let call = waiting.put(0, "a");
    waiting.sync();
    assert_eq!(waiting.finish(call), Ok(1));
    check_waiting(&replica, 32, |replica| replica.row_snapshot().map(drop));
    assert!(replica.row_snapshot().is_ok(), "nobody waits any more");
}

/// A server with its own threads, except that it syncs when it is told to.
struct Synced {
    runtime: Runtime,
    server: Threaded,
    syncer: Arc<Syncer>,
}

impl Synced {
    fn start(buckets: i32) -> Self {
        let catalog = catalog();
        put_table(&catalog, &TableSpec::keyed(1, "t", buckets));
        let syncer = Arc::new(Syncer::simulated(Arc::new(SystemClock::new())));
        Self {
            runtime: runtime(),
            server: Threaded::start_synced_by(&disk(1), &catalog, syncer.clone()),
            syncer,
        }
    }

    /// Begins a put that waits for its sync.
    fn put(&self, bucket: i32, text: &str) -> Call {
        let _inside = self.runtime.enter();
        let body = put(1, None, bucket, -1, put_batch(-1, -1, &[upsert(1, text)]));
        let call = self.server.service.call(&session(1), request(1016, body));
        let mut call = Call::from(call);
        assert!(!call.is_answered(&self.runtime));
        call
    }

    /// Syncs one log, on a thread that must not wait for anybody.
    fn sync(&self) {
        let (done, finished) = sync_channel(1);
        let syncer = self.syncer.clone();
        std::thread::spawn(move || done.send(syncer.run_next()));
        assert_eq!(finished.recv_timeout(LIMIT), Ok(true), "a sync waits");
    }

    fn finish(&self, call: Call) -> Result<i64, i32> {
        let answer = async { tokio::time::timeout(LIMIT, call.ready()).await };
        put_outcome(self.runtime.block_on(answer).expect("it is forgotten"))
    }
}

#[test]
fn a_sync_waits_for_no_rows_and_the_writer_is_answered_when_they_are_free() {
    let world = Synced::start(1);
    let replica = world.server.replica(0);
    let mut writing = world.put(0, "a");
    let rows = replica.lock_rows().expect("rows");
    world.sync();
    assert_eq!(replica.log().durable_end_offset(), 1);
    assert_eq!(replica.high_watermark(), 0);
    assert!(!writing.is_answered(&world.runtime));
    drop(rows);
    // Nobody else comes to look at what is committed.
    assert_eq!(world.finish(writing), Ok(1));
    assert_eq!(replica.high_watermark(), 1);
}

#[test]
fn a_replica_whose_rows_others_have_waits_for_a_thread_once() {
    // More than there are threads, so that the last one stays in their queue.
    const BUCKETS: i32 = 17;
    let world = Synced::start(BUCKETS);
    let replicas: Vec<Arc<Replica>> = (0..BUCKETS)
        .map(|bucket| world.server.replica(bucket))
        .collect();
    let last = &replicas[replicas.len() - 1];
    let mut writing: Vec<Call> = Vec::new();
    let mut rows = Vec::new();
    for (bucket, replica) in (0..).zip(&replicas) {
        writing.push(world.put(bucket, "a"));
        rows.push(replica.lock_rows().expect("rows"));
        let owners = Arc::strong_count(replica);
        world.sync();
        assert_eq!(Arc::strong_count(replica), owners + 1, "bucket {bucket}");
    }
    rows.pop();
    let again = world.put(BUCKETS - 1, "b");
    let first = writing.pop().expect("a put");
    assert_eq!(world.finish(first), Ok(1), "by the put that came after it");
    rows.push(last.lock_rows().expect("rows"));
    let owners = Arc::strong_count(last);
    world.sync();
    assert_eq!(Arc::strong_count(last), owners, "it is in the queue");
    drop(rows);
    for call in writing {
        assert_eq!(world.finish(call), Ok(1));
    }
    assert_eq!(world.finish(again), Ok(3));
}
