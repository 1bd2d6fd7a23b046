//! Who leads a bucket (cluster.md §3.4).

use mainstem_meta::BucketState;
use mainstem_meta::records::BucketRecord;
use mainstem_types::{CoordinatorEpoch, LeaderEpoch, ServerId};

/// The first state of a bucket: the first live replica leads, and all live ones
/// are in sync, since there is nothing to be behind of. `None` if none is live:
/// then the bucket has no leader until a server comes.
pub fn initial(
    replicas: &[ServerId],
    is_live: &dyn Fn(ServerId) -> bool,
    epoch: CoordinatorEpoch,
) -> Option<BucketRecord> {
    let isr: Vec<i32> = replicas
        .iter()
        .filter(|server| is_live(**server))
        .map(|server| server.0)
        .collect();
    Some(BucketRecord {
        leader: Some(*isr.first()?),
        leader_epoch: 0,
        isr,
        coordinator_epoch: epoch.0,
        bucket_epoch: 0,
    })
}

/// The next state of a bucket whose leader is missing or gone: the first live
/// replica, in assignment order, that is in sync. `None` if there is none: a
/// replica that may lack acknowledged rows never leads. A bucket that never had
/// a state gets its first one.
pub fn elect(
    state: &BucketState,
    is_live: &dyn Fn(ServerId) -> bool,
    epoch: CoordinatorEpoch,
) -> Option<BucketRecord> {
    if state.bucket_epoch < 0 {
        return initial(&state.replicas, is_live, epoch);
    }
    let leader = state
        .replicas
        .iter()
        .find(|server| is_live(**server) && state.isr.contains(server))?;
    Some(BucketRecord {
        leader: Some(leader.0),
        leader_epoch: state.leader_epoch.0.checked_add(1)?,
        isr: state.isr.iter().map(|server| server.0).collect(),
        coordinator_epoch: epoch.0,
        bucket_epoch: state.bucket_epoch.checked_add(1)?,
    })
}

/// The state of a bucket that nobody may lead: without leader, the ISR as it
/// was, so that one of its members leads when it is back. `None` if that is what
/// it is already.
pub fn leaderless(state: &BucketState, epoch: CoordinatorEpoch) -> Option<BucketRecord> {
    state.leader?;
    Some(BucketRecord {
        leader: None,
        leader_epoch: state.leader_epoch.0.checked_add(1)?,
        isr: state.isr.iter().map(|server| server.0).collect(),
        coordinator_epoch: epoch.0,
        bucket_epoch: state.bucket_epoch.checked_add(1)?,
    })
}

/// The state of a bucket after a record was written for it.
pub fn after(state: &BucketState, record: &BucketRecord) -> BucketState {
    BucketState {
        replicas: state.replicas.clone(),
        leader: record.leader.map(ServerId),
        leader_epoch: LeaderEpoch(record.leader_epoch),
        isr: record.isr.iter().copied().map(ServerId).collect(),
        bucket_epoch: record.bucket_epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: CoordinatorEpoch = CoordinatorEpoch(7);

    fn servers(ids: &[i32]) -> Vec<ServerId> {
        ids.iter().copied().map(ServerId).collect()
    }

    fn live(ids: &'static [i32]) -> impl Fn(ServerId) -> bool {
        move |server| ids.contains(&server.0)
    }

    fn state(leader: Option<i32>, isr: &[i32]) -> BucketState {
        BucketState {
            replicas: servers(&[1, 2, 3]),
            leader: leader.map(ServerId),
            leader_epoch: LeaderEpoch(4),
            isr: servers(isr),
            bucket_epoch: 9,
        }
    }

    #[test]
    fn the_first_live_replica_leads_at_first_and_all_live_ones_are_in_sync() {
        let record = initial(&servers(&[1, 2, 3]), &live(&[2, 3]), EPOCH).expect("elected");
        assert_eq!(
            record,
            BucketRecord {
                leader: Some(2),
                leader_epoch: 0,
                isr: vec![2, 3],
                coordinator_epoch: 7,
                bucket_epoch: 0
            }
        );
        assert_eq!(initial(&servers(&[1]), &live(&[]), EPOCH), None);
    }

    #[test]
    fn an_election_takes_the_first_live_replica_in_sync_and_raises_both_epochs() {
        let record = elect(&state(Some(1), &[3, 2]), &live(&[2, 3]), EPOCH).expect("elected");
        assert_eq!(
            record,
            BucketRecord {
                leader: Some(2),
                leader_epoch: 5,
                isr: vec![3, 2],
                coordinator_epoch: 7,
                bucket_epoch: 10
            }
        );
    }

    #[test]
    fn a_replica_that_is_not_in_sync_never_leads() {
        assert_eq!(elect(&state(None, &[1]), &live(&[2, 3]), EPOCH), None);
    }

    #[test]
    fn a_bucket_that_nobody_may_lead_keeps_its_isr() {
        let lost = leaderless(&state(Some(1), &[1]), EPOCH).expect("had a leader");
        let lost = after(&state(Some(1), &[1]), &lost);
        assert_eq!((lost.leader, &lost.isr), (None, &servers(&[1])));
        assert_eq!(leaderless(&lost, EPOCH), None);
        let back = elect(&lost, &live(&[1]), EPOCH).expect("elected");
        assert_eq!(
            (back.leader, back.leader_epoch, back.bucket_epoch),
            (Some(1), 6, 11)
        );
    }

    #[test]
    fn a_bucket_without_state_gets_its_first_one_when_a_server_comes() {
        let unborn = BucketState::new(&[1, 2], None);
        let record = elect(&unborn, &live(&[2]), EPOCH).expect("elected");
        assert_eq!(
            (record.leader, record.leader_epoch, record.bucket_epoch),
            (Some(2), 0, 0)
        );
        assert_eq!(after(&unborn, &record).leader, Some(ServerId(2)));
    }
}
