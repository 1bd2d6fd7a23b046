//! The rules of one replica as a synchronous state machine: leadership, the
//! in-sync set, the high watermark and fencing (cluster.md §4.3, 4.6).
//!
//! It does no I/O and reads no clock: the shell feeds it [`Event`]s and carries
//! out the [`Action`]s. One replica alone is the case of an assignment of one.
//!
//! **Invariants**, checked by the model test beside it:
//! - the high watermark never goes back while the replica leads or follows;
//! - as leader it never passes the durable end of any member of the maximal
//!   in-sync set (the committed set, and whatever a pending change adds);
//! - as follower it never passes what the leader said, nor the own durable end;
//! - it never passes what the open rows of a primary-key table hold;
//! - an event of an older leader epoch changes nothing.

use std::collections::BTreeMap;

use mainstem_types::{LeaderEpoch, ServerId};
use thiserror::Error;

/// What the coordinator decided for a bucket (cluster.md §0, "bucket state").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The leader; `None` while there is none.
    pub leader: Option<ServerId>,
    /// Its term.
    pub leader_epoch: LeaderEpoch,
    /// Version of this record.
    pub bucket_epoch: i32,
    /// Assigned replicas, preferred leader first.
    pub replicas: Vec<ServerId>,
    /// The in-sync set.
    pub isr: Vec<ServerId>,
}

/// Something that happened to the replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The coordinator's decision arrived.
    Leadership {
        /// The decision.
        state: Leadership,
        /// Local log end at this moment.
        log_end_offset: i64,
        /// Monotonic time.
        now_ms: i64,
    },
    /// The local log grew to this end offset (not yet durable).
    Appended {
        /// New end.
        log_end_offset: i64,
    },
    /// The local log is durable up to this end offset.
    Durable {
        /// New durable end.
        durable_end_offset: i64,
    },
    /// A follower asked for records from this offset, which proves that it has
    /// everything below durably.
    FollowerFetched {
        /// The follower.
        server: ServerId,
        /// Its next wanted offset.
        fetch_offset: i64,
        /// Monotonic time.
        now_ms: i64,
    },
    /// Primary-key tables: the rows hold every change below this offset. From now
    /// on the high watermark does not pass what they hold: a reader of the log must
    /// not be ahead of one who looks up.
    RowsApplied {
        /// What the rows hold.
        offset: i64,
    },
    /// The rows are closed: whoever opens them finds all that is committed.
    RowsClosed,
    /// As follower: the leader told its high watermark.
    LeaderHighWatermark {
        /// The leader's high watermark.
        high_watermark: i64,
    },
    /// The coordinator accepted a change of the in-sync set.
    IsrChanged {
        /// The set now stored.
        isr: Vec<ServerId>,
        /// Its version.
        bucket_epoch: i32,
    },
    /// The coordinator refused the change in flight.
    IsrRefused,
    /// Time passed.
    Tick {
        /// Monotonic time.
        now_ms: i64,
    },
}

/// Something that the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wake everybody who waits for committed records below this offset.
    HighWatermark(i64),
    /// Apply the changes below this offset to the rows, and tell with
    /// [`Event::RowsApplied`].
    ApplyRows(i64),
    /// Fail waiting writers and readers: this replica no longer leads.
    LostLeadership,
    /// Start a new epoch in the log at this offset.
    StartEpoch(LeaderEpoch, i64),
    /// Ask the coordinator for this in-sync set.
    ProposeIsr {
        /// The wanted set.
        isr: Vec<ServerId>,
        /// Version of the record that it replaces.
        bucket_epoch: i32,
    },
    /// Follow this leader from the agreed offset on.
    Follow(ServerId),
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fenced {
    /// The leader epoch is older than the known one (24).
    #[error("leader epoch is older than {0}")]
    LeaderEpoch(LeaderEpoch),
    /// The bucket epoch is older than the known one (22).
    #[error("bucket epoch is older than {0}")]
    BucketEpoch(i32),
    /// This server is not in the assignment (21).
    #[error("this server is not a replica")]
    NotAssigned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Follower {
    end_offset: i64,
    last_caught_up_ms: i64,
    last_fetch_ms: i64,
    leader_end_at_last_fetch: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower(ServerId),
    Idle,
}

/// State of one replica. See the module documentation.
#[derive(Clone, Debug)]
pub struct ReplicaCore {
    local: ServerId,
    max_lag_ms: i64,
    role: Role,
    state: Option<Leadership>,
    pending_isr: Option<Vec<ServerId>>,
    followers: BTreeMap<ServerId, Follower>,
    log_end_offset: i64,
    durable_end_offset: i64,
    high_watermark: i64,
    /// What the open rows of a primary-key table hold.
    rows_applied: Option<i64>,
    epoch_start_offset: i64,
}

impl ReplicaCore {
    /// A replica that knows its recovered log but no leader yet. Alone it commits
    /// everything recovered as soon as that is durable; no old high watermark is
    /// needed, and none may cut the log (known failure R01).
    pub fn new(
        local: ServerId,
        max_lag_ms: i64,
        recovered_end: i64,
        durable_end_offset: i64,
    ) -> Self {
        Self {
            local,
            max_lag_ms,
            role: Role::Idle,
            state: None,
            pending_isr: None,
            followers: BTreeMap::new(),
            log_end_offset: recovered_end,
            durable_end_offset: durable_end_offset.min(recovered_end),
            high_watermark: 0,
            rows_applied: None,
            epoch_start_offset: recovered_end,
        }
    }

    /// The log was opened anew after its storage failed: what it has now is the
    /// truth. Nothing committed is missing, because only durable records were.
    pub fn log_reopened(&mut self, log_end_offset: i64, durable_end_offset: i64) {
        self.log_end_offset = log_end_offset;
        self.durable_end_offset = durable_end_offset.min(log_end_offset);
        self.epoch_start_offset = self.epoch_start_offset.min(log_end_offset);
    }

    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    /// Exclusive end of the committed records.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> i64 {
        self.log_end_offset
    }

    /// Log end at the moment this replica became leader (ListOffsets type 3).
    pub fn epoch_start_offset(&self) -> i64 {
        self.epoch_start_offset
    }

    /// The current leader epoch, if a decision is known.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.state.as_ref().map(|state| state.leader_epoch)
    }

    /// The committed in-sync set.
    pub fn isr(&self) -> &[ServerId] {
        self.state.as_ref().map_or(&[], |state| &state.isr)
    }

    /// Whether the server is one of the assigned replicas.
    pub fn is_assigned(&self, server: ServerId) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| state.replicas.contains(&server))
    }

    /// Applies one event.
    ///
    /// # Errors
    /// [`Fenced`] if a decision is older than the known one; nothing changed.
    pub fn step(&mut self, event: Event) -> Result<Vec<Action>, Fenced> {
        let mut actions = Vec::new();
        match event {
            Event::Leadership {
                state,
                log_end_offset,
                now_ms,
            } => {
                self.apply_leadership(state, log_end_offset, now_ms, &mut actions)?;
            }
            Event::Appended { log_end_offset } => {
                self.log_end_offset = self.log_end_offset.max(log_end_offset);
            }
            Event::Durable { durable_end_offset } => {
                self.durable_end_offset = self
                    .durable_end_offset
                    .max(durable_end_offset.min(self.log_end_offset));
                self.advance(&mut actions);
            }
            Event::FollowerFetched {
                server,
                fetch_offset,
                now_ms,
            } => {
                self.follower_fetched(server, fetch_offset, now_ms, &mut actions);
            }
            Event::RowsApplied { offset } => {
                self.rows_applied = Some(offset);
                self.advance(&mut actions);
            }
            Event::RowsClosed => {
                self.rows_applied = None;
                self.advance(&mut actions);
            }
            Event::LeaderHighWatermark { high_watermark } => {
                if matches!(self.role, Role::Follower(_)) {
                    self.raise(high_watermark.min(self.durable_end_offset), &mut actions);
                }
            }
            Event::IsrChanged { isr, bucket_epoch } => {
                self.pending_isr = None;
                if let Some(state) = &mut self.state
                    && bucket_epoch > state.bucket_epoch
                {
                    state.isr = isr;
                    state.bucket_epoch = bucket_epoch;
                }
                self.advance(&mut actions);
            }
            Event::IsrRefused => {
                self.pending_isr = None;
                self.advance(&mut actions);
            }
            Event::Tick { now_ms } => self.shrink(now_ms, &mut actions),
        }
        Ok(actions)
    }

    fn apply_leadership(
        &mut self,
        state: Leadership,
        log_end_offset: i64,
        now_ms: i64,
        actions: &mut Vec<Action>,
    ) -> Result<(), Fenced> {
        if !state.replicas.contains(&self.local) {
            return Err(Fenced::NotAssigned);
        }
        let mut new_epoch = true;
        if let Some(known) = &self.state {
            if state.leader_epoch < known.leader_epoch {
                return Err(Fenced::LeaderEpoch(known.leader_epoch));
            }
            if state.bucket_epoch < known.bucket_epoch {
                return Err(Fenced::BucketEpoch(known.bucket_epoch));
            }
            new_epoch = state.leader_epoch > known.leader_epoch;
        }
        // Whatever was asked of the coordinator belongs to the old decision
        // (known failure B083).
        self.pending_isr = None;
        self.log_end_offset = log_end_offset;
        self.durable_end_offset = self.durable_end_offset.min(log_end_offset);
        let role = match state.leader {
            Some(leader) if leader == self.local => Role::Leader,
            Some(leader) => Role::Follower(leader),
            None => Role::Idle,
        };
        if self.role == Role::Leader && role != Role::Leader {
            actions.push(Action::LostLeadership);
        }
        if role == Role::Leader && (new_epoch || self.role != Role::Leader) {
            self.epoch_start_offset = log_end_offset;
            actions.push(Action::StartEpoch(state.leader_epoch, log_end_offset));
            self.followers.clear();
        }
        self.followers
            .retain(|server, _| state.replicas.contains(server));
        if role == Role::Leader {
            for server in state
                .replicas
                .iter()
                .filter(|server| **server != self.local)
            {
                self.followers.entry(*server).or_insert(Follower {
                    end_offset: 0,
                    last_caught_up_ms: now_ms,
                    last_fetch_ms: now_ms,
                    leader_end_at_last_fetch: 0,
                });
            }
        }
        if let Role::Follower(leader) = role
            && (new_epoch || self.role != role)
        {
            actions.push(Action::Follow(leader));
        }
        self.role = role;
        self.state = Some(state);
        self.advance(actions);
        Ok(())
    }

    fn follower_fetched(
        &mut self,
        server: ServerId,
        fetch_offset: i64,
        now_ms: i64,
        actions: &mut Vec<Action>,
    ) {
        if self.role != Role::Leader {
            return;
        }
        let leader_end = self.log_end_offset;
        let Some(follower) = self.followers.get_mut(&server) else {
            return;
        };
        follower.end_offset = fetch_offset.min(leader_end);
        if fetch_offset >= leader_end {
            follower.last_caught_up_ms = now_ms;
        } else if fetch_offset >= follower.leader_end_at_last_fetch {
            follower.last_caught_up_ms = follower.last_fetch_ms;
        }
        follower.last_fetch_ms = now_ms;
        follower.leader_end_at_last_fetch = leader_end;
        let end_offset = follower.end_offset;
        self.advance(actions);
        let in_sync = self.isr().contains(&server);
        if !in_sync && self.pending_isr.is_none() && end_offset >= self.high_watermark {
            let mut isr = self.isr().to_vec();
            isr.push(server);
            self.propose(isr, actions);
        }
    }

    fn shrink(&mut self, now_ms: i64, actions: &mut Vec<Action>) {
        if self.role != Role::Leader || self.pending_isr.is_some() {
            return;
        }
        let leader_end = self.log_end_offset;
        let kept: Vec<ServerId> = self
            .isr()
            .iter()
            .copied()
            .filter(|server| {
                *server == self.local
                    || self.followers.get(server).is_some_and(|follower| {
                        follower.end_offset == leader_end
                            || now_ms - follower.last_caught_up_ms <= self.max_lag_ms
                    })
            })
            .collect();
        if kept.len() < self.isr().len() {
            self.propose(kept, actions);
        }
    }

    fn propose(&mut self, isr: Vec<ServerId>, actions: &mut Vec<Action>) {
        let Some(state) = &self.state else { return };
        let bucket_epoch = state.bucket_epoch;
        self.pending_isr = Some(isr.clone());
        actions.push(Action::ProposeIsr { isr, bucket_epoch });
    }

    /// Leader only: the committed end is what every member of the maximal
    /// in-sync set has durably. A pending expansion counts at once, a pending
    /// shrink only when confirmed.
    fn advance(&mut self, actions: &mut Vec<Action>) {
        if self.role != Role::Leader {
            return;
        }
        let pending = self.pending_isr.as_deref().unwrap_or_default();
        let mut committed = self.durable_end_offset;
        for server in self.isr().iter().chain(pending) {
            if *server != self.local {
                let end = self
                    .followers
                    .get(server)
                    .map_or(0, |follower| follower.end_offset);
                committed = committed.min(end);
            }
        }
        self.raise(committed, actions);
    }

    fn raise(&mut self, committed: i64, actions: &mut Vec<Action>) {
        let mut high_watermark = committed;
        if let Some(applied) = self.rows_applied
            && committed > applied
        {
            actions.push(Action::ApplyRows(committed));
            high_watermark = applied;
        }
        if high_watermark > self.high_watermark {
            self.high_watermark = high_watermark;
            actions.push(Action::HighWatermark(high_watermark));
        }
    }
}

#[cfg(test)]
mod tests;
