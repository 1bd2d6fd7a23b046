//! Placement of the replicas of a new table or partition (cluster.md §3.3).

use std::collections::{BTreeMap, BTreeSet};

use mainstem_types::{ErrorCode, ServerId};

use crate::ApiError;

/// A server that can take replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: ServerId,
    /// The rack it stands in.
    pub rack: Option<String>,
}

/// Where the round begins: random, so that first buckets do not all land on the
/// same servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Server of the first bucket's first replica.
    pub start: usize,
    /// Distance of the second replica.
    pub shift: usize,
}

/// Replicas of each bucket, the preferred leader first.
///
/// Leaders go round the servers. The other replicas follow at a distance that
/// grows by one in every round, so that the followers of one leader are spread
/// over all servers. If every server has a rack, replicas of a bucket share one
/// only when there are more replicas than racks.
///
/// # Errors
/// [`ErrorCode::InvalidReplicationFactor`] if there are fewer servers than
/// replicas; [`ErrorCode::InvalidTable`] without buckets.
pub fn assign(
    buckets: i32,
    replication_factor: i32,
    candidates: &[Candidate],
    origin: Origin,
) -> Result<Vec<Vec<ServerId>>, ApiError> {
    let count = usize::try_from(buckets)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| {
            ApiError::new(
                ErrorCode::InvalidTable,
                "Number of buckets must be larger than 0.",
            )
        })?;
    let factor = usize::try_from(replication_factor).unwrap_or(0);
    if factor == 0 {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0.",
        ));
    }
    if factor > candidates.len() {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            format!(
                "Replication factor: {factor} larger than available tablet servers: {}.",
                candidates.len()
            ),
        ));
    }
    let racks = racks_of(candidates);
    let servers = match &racks {
        Some(racks) => interleaved(racks),
        None => {
            let mut ids: Vec<ServerId> = candidates.iter().map(|candidate| candidate.id).collect();
            ids.sort_unstable();
            ids
        }
    };
    let mut shift = origin.shift;
    let mut assignment = Vec::with_capacity(count);
    for bucket in 0..count {
        if bucket > 0 && bucket % servers.len() == 0 {
            shift += 1;
        }
        let first = (bucket + origin.start) % servers.len();
        assignment.push(match &racks {
            Some(racks) => rack_aware(&servers, racks, first, shift, factor),
            None => plain(&servers, first, shift, factor),
        });
    }
    Ok(assignment)
}

/// Position of the follower number `step`, going round the other servers.
fn follower(first: usize, shift: usize, step: usize, servers: usize) -> usize {
    (first + 1 + (shift + step) % (servers - 1)) % servers
}

fn plain(servers: &[ServerId], first: usize, shift: usize, factor: usize) -> Vec<ServerId> {
    let mut replicas = vec![servers[first]];
    for step in 0..factor - 1 {
        replicas.push(servers[follower(first, shift, step, servers.len())]);
    }
    replicas
}

type Racks = BTreeMap<String, Vec<ServerId>>;

/// Servers by rack, or `None` if any has none.
fn racks_of(candidates: &[Candidate]) -> Option<Racks> {
    let mut racks = Racks::new();
    for candidate in candidates {
        racks
            .entry(candidate.rack.clone()?)
            .or_default()
            .push(candidate.id);
    }
    for servers in racks.values_mut() {
        servers.sort_unstable();
    }
    Some(racks)
}

/// One server of each rack in turn.
fn interleaved(racks: &Racks) -> Vec<ServerId> {
    let longest = racks.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| racks.values().filter_map(move |rack| rack.get(turn)))
        .copied()
        .collect()
}

fn rack_aware(
    servers: &[ServerId],
    racks: &Racks,
    first: usize,
    shift: usize,
    factor: usize,
) -> Vec<ServerId> {
    let rack_of = |server: ServerId| {
        racks
            .iter()
            .find(|(_, members)| members.contains(&server))
            .map(|(rack, _)| rack.as_str())
    };
    let mut replicas = vec![servers[first]];
    let mut used: BTreeSet<Option<&str>> = BTreeSet::from([rack_of(servers[first])]);
    let mut step = 0;
    // Every server is met in `servers - 1` steps, so a second round is only
    // needed once all racks have a replica.
    while replicas.len() < factor {
        let server = servers[follower(first, shift * racks.len(), step, servers.len())];
        step += 1;
        let rack = rack_of(server);
        let rack_is_taken = used.contains(&rack) && used.len() < racks.len();
        if !rack_is_taken && !replicas.contains(&server) {
            used.insert(rack);
            replicas.push(server);
        }
    }
    replicas
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn servers(count: i32) -> Vec<Candidate> {
        (0..count)
            .map(|id| Candidate {
                id: ServerId(id),
                rack: None,
            })
            .collect()
    }

    fn in_racks(racks: &[(i32, &str)]) -> Vec<Candidate> {
        racks
            .iter()
            .map(|(id, rack)| Candidate {
                id: ServerId(*id),
                rack: Some((*rack).to_owned()),
            })
            .collect()
    }

    fn ids(assignment: &[Vec<ServerId>]) -> Vec<Vec<i32>> {
        assignment
            .iter()
            .map(|bucket| bucket.iter().map(|server| server.0).collect())
            .collect()
    }

    #[test]
    fn leaders_go_round_and_followers_shift_each_round() {
        let assignment = assign(10, 3, &servers(5), Origin::default()).expect("possible");
        assert_eq!(
            ids(&assignment),
            [
                [0, 1, 2],
                [1, 2, 3],
                [2, 3, 4],
                [3, 4, 0],
                [4, 0, 1],
                [0, 2, 3],
                [1, 3, 4],
                [2, 4, 0],
                [3, 0, 1],
                [4, 1, 2]
            ]
        );
    }

    #[test]
    fn one_server_takes_everything() {
        let assignment =
            assign(4, 1, &servers(1), Origin { start: 0, shift: 0 }).expect("possible");
        assert_eq!(ids(&assignment), [[0], [0], [0], [0]]);
    }

    #[test]
    fn replicas_of_a_bucket_are_distinct_and_load_is_even_from_any_origin() {
        for count in 1..7 {
            for factor in 1..=count {
                for start in 0..count as usize {
                    for shift in 0..count as usize {
                        let origin = Origin { start, shift };
                        let buckets = count * (count - 1).max(1);
                        let assignment =
                            assign(buckets, factor, &servers(count), origin).expect("possible");
                        let mut load: HashMap<ServerId, i32> = HashMap::new();
                        for replicas in &assignment {
                            let distinct: BTreeSet<_> = replicas.iter().collect();
                            assert_eq!(distinct.len() as i32, factor);
                            for replica in replicas {
                                *load.entry(*replica).or_default() += 1;
                            }
                        }
                        assert!(load.values().all(|load| *load == buckets * factor / count));
                    }
                }
            }
        }
    }

    #[test]
    fn replicas_are_spread_over_racks_before_one_is_used_twice() {
        let candidates = in_racks(&[(0, "a"), (1, "b"), (2, "c"), (3, "a"), (4, "a"), (5, "b")]);
        let rack = |server: &ServerId| {
            candidates
                .iter()
                .find(|candidate| candidate.id == *server)
                .expect("known")
                .rack
                .clone()
        };
        for start in 0..6 {
            for shift in 0..6 {
                for factor in 1..=6 {
                    let origin = Origin { start, shift };
                    let assignment = assign(24, factor, &candidates, origin).expect("possible");
                    for replicas in assignment {
                        let distinct: BTreeSet<_> = replicas.iter().collect();
                        assert_eq!(distinct.len() as i32, factor);
                        let racks: BTreeSet<_> = replicas.iter().map(rack).collect();
                        assert_eq!(racks.len() as i32, factor.min(3));
                    }
                }
            }
        }
    }

    #[test]
    fn a_server_without_rack_makes_racks_irrelevant() {
        let mut candidates = in_racks(&[(0, "a"), (1, "a")]);
        candidates.push(Candidate {
            id: ServerId(2),
            rack: None,
        });
        let assignment = assign(3, 2, &candidates, Origin::default()).expect("possible");
        assert_eq!(ids(&assignment), [[0, 1], [1, 2], [2, 0]]);
    }

    #[test]
    fn too_many_replicas_and_no_buckets_are_refused() {
        let error = assign(1, 3, &servers(2), Origin::default()).expect_err("refused");
        assert_eq!(error.code, ErrorCode::InvalidReplicationFactor);
        assert_eq!(
            error.message,
            "Replication factor: 3 larger than available tablet servers: 2."
        );
        for buckets in [0, -1] {
            let error = assign(buckets, 1, &servers(1), Origin::default()).expect_err("refused");
            assert_eq!(error.code, ErrorCode::InvalidTable);
        }
        let error = assign(1, 0, &servers(1), Origin::default()).expect_err("refused");
        assert_eq!(error.code, ErrorCode::InvalidReplicationFactor);
    }
}
