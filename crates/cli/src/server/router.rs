//! One port for both roles: hands each request to the coordinator or to the
//! tablet server.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mainstem_coordinator::{Coordinator, is_read_only};
use mainstem_net::{Reply, Request, Response, Segment, Service, Session};
use mainstem_tablet::service::{APIS as TABLET_APIS, TabletService};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Requests of the coordinator that change something, at the same time: one, so
/// that they are applied in the order in which a connection sent them. The store
/// takes one at a time anyway.
const CONCURRENT_CHANGES: usize = 1;
/// Between two answers to the same question about a missing partition: 50 a
/// second.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
const METADATA: i16 = 1012;
const PARTITION_NOT_EXISTS: i32 = 36;

/// See the module.
pub struct Router {
    coordinator: Arc<Coordinator>,
    tablet: Arc<TabletService>,
    apis: Vec<(i16, i16, i16)>,
    changes: Arc<Semaphore>,
    /// Per connection the last question about a missing partition, and when it
    /// is answered.
    missing: Mutex<HashMap<u64, (u64, Instant)>>,
}

impl Router {
    /// A service of both.
    pub fn new(coordinator: Arc<Coordinator>, tablet: Arc<TabletService>) -> Self {
        let mut apis = mainstem_coordinator::APIS.to_vec();
        apis.extend(TABLET_APIS);
        apis.sort_unstable();
        Self {
            coordinator,
            tablet,
            apis,
            changes: Arc::new(Semaphore::new(CONCURRENT_CHANGES)),
            missing: Mutex::default(),
        }
    }
}

impl Router {
    /// Some clients repeat the question for a missing partition without a pause
    /// (known failure R09): the first is answered at once, repeats of the same
    /// question on the connection at [`REPEAT_PAUSE`].
    fn slowed(&self, session: &Session, question: u64, response: Response) -> Reply {
        if !matches!(
            response,
            Response::Error {
                code: PARTITION_NOT_EXISTS,
                ..
            }
        ) {
            return Reply::Now(response);
        }
        let now = Instant::now();
        let due = {
            let mut missing = self.missing.lock();
            let last = missing
                .get(&session.id)
                .filter(|(last, _)| *last == question);
            let due = last.map_or(now, |(_, answered)| (*answered + REPEAT_PAUSE).max(now));
            missing.insert(session.id, (question, due));
            due
        };
        if due <= now {
            return Reply::Now(response);
        }
        Reply::Later(Box::pin(async move {
            tokio::time::sleep_until(due).await;
            response
        }))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Service for Router {
    fn apis(&self) -> &[(i16, i16, i16)] {
        &self.apis
    }

    fn call(&self, session: &Arc<Session>, request: Request) -> Reply {
        if TABLET_APIS.iter().any(|(key, ..)| *key == request.api_key) {
            return self.tablet.call(session, request);
        }
        let handle = {
            let (coordinator, session) = (self.coordinator.clone(), session.clone());
            move |request: Request| {
                let Request {
                    api_key,
                    api_version,
                    body,
                } = request;
                match coordinator.handle(&session, api_key, api_version, body) {
                    Ok(body) => Response::Success(vec![Segment::Bytes(body)]),
                    Err(error) => Response::Error {
                        code: error.code.code(),
                        message: error.message,
                    },
                }
            }
        };
        if is_read_only(request.api_key) {
            let question = (request.api_key == METADATA).then(|| hash(&request.body));
            let response = handle(request);
            return match question {
                Some(question) => self.slowed(session, question, response),
                None => Reply::Now(response),
            };
        }
        let handle = move || handle(request);
        let changes = self.changes.clone();
        Reply::Later(Box::pin(async move {
            // The semaphore is never closed. The permit goes with the work: that
            // goes on when the connection, and with it this future, is gone.
            let permit = changes.acquire_owned().await;
            let handle = move || {
                let _permit = permit;
                handle()
            };
            let done = tokio::task::spawn_blocking(handle).await;
            done.unwrap_or_else(|_| Response::Error {
                code: -1,
                message: "the coordinator failed at this request".to_owned(),
            })
        }))
    }

    fn closed(&self, session: &Arc<Session>) {
        self.missing.lock().remove(&session.id);
        self.tablet.closed(session);
    }
}
