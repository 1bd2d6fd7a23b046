//! Unit and model tests of the replica's rules.

use proptest::prelude::*;

use super::*;

const LOCAL: ServerId = ServerId(0);

fn decision(leader: i32, leader_epoch: i32, bucket_epoch: i32, isr: &[i32]) -> Leadership {
    Leadership {
        leader: (leader >= 0).then_some(ServerId(leader)),
        leader_epoch: LeaderEpoch(leader_epoch),
        bucket_epoch,
        replicas: vec![ServerId(0), ServerId(1), ServerId(2)],
        isr: isr.iter().copied().map(ServerId).collect(),
    }
}

fn single() -> Leadership {
    Leadership {
        leader: Some(LOCAL),
        leader_epoch: LeaderEpoch(0),
        bucket_epoch: 0,
        replicas: vec![LOCAL],
        isr: vec![LOCAL],
    }
}

fn lead(core: &mut ReplicaCore, state: Leadership) -> Vec<Action> {
    let log_end_offset = core.log_end_offset();
    core.step(Event::Leadership {
        state,
        log_end_offset,
        now_ms: 0,
    })
    .expect("not fenced")
}

#[test]
fn a_single_replica_commits_its_whole_recovered_log() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 42, 42);
    let actions = lead(&mut core, single());
    assert_eq!(
        actions,
        [
            Action::StartEpoch(LeaderEpoch(0), 42),
            Action::HighWatermark(42)
        ]
    );
    assert_eq!(core.epoch_start_offset(), 42);
}

#[test]
fn a_recovered_tail_is_committed_only_when_it_is_durable() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 42, 40);
    let actions = lead(&mut core, single());
    assert_eq!(
        actions,
        [
            Action::StartEpoch(LeaderEpoch(0), 42),
            Action::HighWatermark(40)
        ]
    );
    let actions = core.step(Event::Durable {
        durable_end_offset: 42,
    });
    assert_eq!(actions, Ok(vec![Action::HighWatermark(42)]));
}

#[test]
fn a_log_opened_anew_goes_on_from_what_it_has() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, single());
    core.step(Event::Appended { log_end_offset: 10 })
        .expect("applies");
    core.step(Event::Durable {
        durable_end_offset: 4,
    })
    .expect("applies");
    core.log_reopened(6, 6);
    let actions = core.step(Event::Durable {
        durable_end_offset: 6,
    });
    assert_eq!(actions, Ok(vec![Action::HighWatermark(6)]));
}

#[test]
fn nothing_is_committed_before_it_is_durable() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, single());
    assert_eq!(
        core.step(Event::Appended { log_end_offset: 10 }),
        Ok(vec![])
    );
    assert_eq!(core.high_watermark(), 0);
    let actions = core.step(Event::Durable {
        durable_end_offset: 7,
    });
    assert_eq!(actions, Ok(vec![Action::HighWatermark(7)]));
}

#[test]
fn the_slowest_in_sync_follower_holds_the_high_watermark() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, decision(0, 0, 0, &[0, 1, 2]));
    core.step(Event::Appended { log_end_offset: 10 })
        .expect("applies");
    core.step(Event::Durable {
        durable_end_offset: 10,
    })
    .expect("applies");
    let fetch = |server, fetch_offset| Event::FollowerFetched {
        server: ServerId(server),
        fetch_offset,
        now_ms: 1,
    };
    assert_eq!(core.step(fetch(1, 10)), Ok(vec![]));
    assert_eq!(core.step(fetch(2, 4)), Ok(vec![Action::HighWatermark(4)]));
}

#[test]
fn a_caught_up_follower_is_proposed_once_and_counts_while_pending() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, decision(0, 0, 3, &[0]));
    let fetch = |fetch_offset| Event::FollowerFetched {
        server: ServerId(1),
        fetch_offset,
        now_ms: 1,
    };
    let proposal = Action::ProposeIsr {
        isr: vec![ServerId(0), ServerId(1)],
        bucket_epoch: 3,
    };
    assert_eq!(core.step(fetch(0)), Ok(vec![proposal]));
    assert_eq!(core.step(fetch(0)), Ok(vec![]));
    core.step(Event::Appended { log_end_offset: 5 })
        .expect("applies");
    assert_eq!(
        core.step(Event::Durable {
            durable_end_offset: 5
        }),
        Ok(vec![])
    );
    assert_eq!(
        core.step(Event::IsrRefused),
        Ok(vec![Action::HighWatermark(5)])
    );
}

#[test]
fn a_silent_follower_leaves_only_after_the_lag_time_and_the_coordinators_word() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, decision(0, 0, 0, &[0, 1]));
    core.step(Event::Appended { log_end_offset: 5 })
        .expect("applies");
    core.step(Event::Durable {
        durable_end_offset: 5,
    })
    .expect("applies");
    assert_eq!(core.step(Event::Tick { now_ms: 30_000 }), Ok(vec![]));
    let proposal = Action::ProposeIsr {
        isr: vec![ServerId(0)],
        bucket_epoch: 0,
    };
    assert_eq!(
        core.step(Event::Tick { now_ms: 30_001 }),
        Ok(vec![proposal])
    );
    assert_eq!(core.high_watermark(), 0);
    let changed = Event::IsrChanged {
        isr: vec![ServerId(0)],
        bucket_epoch: 1,
    };
    assert_eq!(core.step(changed), Ok(vec![Action::HighWatermark(5)]));
}

#[test]
fn older_decisions_are_fenced() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, decision(0, 5, 9, &[0]));
    let old = |state| Event::Leadership {
        state,
        log_end_offset: 0,
        now_ms: 0,
    };
    assert_eq!(
        core.step(old(decision(1, 4, 10, &[1]))),
        Err(Fenced::LeaderEpoch(LeaderEpoch(5)))
    );
    assert_eq!(
        core.step(old(decision(1, 5, 8, &[1]))),
        Err(Fenced::BucketEpoch(9))
    );
    let foreign = Leadership {
        replicas: vec![ServerId(7)],
        ..decision(7, 6, 10, &[7])
    };
    assert_eq!(core.step(old(foreign)), Err(Fenced::NotAssigned));
    assert!(core.is_leader());
}

#[test]
fn losing_leadership_is_told_once() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 3, 3);
    lead(&mut core, decision(0, 0, 0, &[0, 1]));
    let actions = lead(&mut core, decision(1, 1, 1, &[0, 1]));
    assert_eq!(
        actions,
        [Action::LostLeadership, Action::Follow(ServerId(1))]
    );
    assert!(lead(&mut core, decision(1, 1, 2, &[1])).is_empty());
}

#[test]
fn a_follower_never_shows_more_than_the_leader_committed() {
    let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
    lead(&mut core, decision(1, 0, 0, &[0, 1]));
    core.step(Event::Appended { log_end_offset: 9 })
        .expect("applies");
    core.step(Event::Durable {
        durable_end_offset: 6,
    })
    .expect("applies");
    assert_eq!(core.high_watermark(), 0);
    core.step(Event::LeaderHighWatermark { high_watermark: 8 })
        .expect("applies");
    assert_eq!(core.high_watermark(), 6);
}

#[derive(Clone, Debug)]
enum Step {
    Append(i64),
    Sync(i64),
    Fetch(i32, i64),
    Leadership(i32, i32, i32),
    Confirm,
    Refuse,
    Tick(i64),
    LeaderWatermark(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..20i64).prop_map(Step::Append),
        (0..300i64).prop_map(Step::Sync),
        (1..3i32, 0..300i64).prop_map(|(server, offset)| Step::Fetch(server, offset)),
        (-1..3i32, 0..6i32, 0..6i32).prop_map(|(l, e, b)| Step::Leadership(l, e, b)),
        Just(Step::Confirm),
        Just(Step::Refuse),
        (0..100_000i64).prop_map(Step::Tick),
        (0..300i64).prop_map(Step::LeaderWatermark),
    ]
}

proptest! {
    #[test]
    fn random_schedules_keep_the_invariants(steps in prop::collection::vec(any_step(), 1..200)) {
        let mut core = ReplicaCore::new(LOCAL, 30_000, 0, 0);
        let mut durable = 0;
        let mut proposal: Option<(Vec<ServerId>, i32)> = None;
        for step in steps {
            let before = core.clone();
            let mut decided = false;
            let event = match step {
                Step::Append(records) => {
                    Event::Appended { log_end_offset: core.log_end_offset() + records }
                }
                Step::Sync(end) => {
                    durable = durable.max(end.min(core.log_end_offset()));
                    Event::Durable { durable_end_offset: end }
                }
                Step::Fetch(server, fetch_offset) => {
                    Event::FollowerFetched { server: ServerId(server), fetch_offset, now_ms: 0 }
                }
                Step::Leadership(leader, epoch, bucket_epoch) => {
                    decided = true;
                    Event::Leadership {
                        state: decision(leader, epoch, bucket_epoch, &[0, 1, 2]),
                        log_end_offset: core.log_end_offset(),
                        now_ms: 0,
                    }
                }
                Step::Confirm => match proposal.take() {
                    Some((isr, epoch)) => Event::IsrChanged { isr, bucket_epoch: epoch + 1 },
                    None => continue,
                },
                Step::Refuse => {
                    proposal = None;
                    Event::IsrRefused
                }
                Step::Tick(now_ms) => Event::Tick { now_ms },
                Step::LeaderWatermark(high_watermark) => {
                    Event::LeaderHighWatermark { high_watermark }
                }
            };
            match core.step(event) {
                Err(_) => {
                    prop_assert!(decided);
                    prop_assert_eq!(core.high_watermark(), before.high_watermark());
                    prop_assert_eq!(core.leader_epoch(), before.leader_epoch());
                }
                Ok(actions) => {
                    for action in actions {
                        if let Action::ProposeIsr { isr, bucket_epoch } = action {
                            prop_assert!(isr.contains(&LOCAL));
                            proposal = Some((isr, bucket_epoch));
                        }
                    }
                }
            }
            if decided {
                proposal = None;
            }
            prop_assert!(core.high_watermark() >= before.high_watermark());
            prop_assert!(core.high_watermark() <= durable, "committed before durable");
            if core.is_leader() && core.high_watermark() > before.high_watermark() {
                for server in core.isr().to_vec() {
                    if server != LOCAL {
                        let end = core.followers.get(&server).map_or(0, |f| f.end_offset);
                        prop_assert!(end >= core.high_watermark());
                    }
                }
            }
        }
    }
}
