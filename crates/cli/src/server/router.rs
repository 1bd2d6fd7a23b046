//! One port for both roles: hands each request to the coordinator or to the
//! tablet server.

use std::sync::Arc;

use mainstem_coordinator::{Coordinator, is_read_only};
use mainstem_net::{Reply, Request, Response, Segment, Service, Session};
use mainstem_tablet::service::{APIS as TABLET_APIS, TabletService};
use tokio::sync::Semaphore;

/// Requests of the coordinator that change something, at the same time: one, so
/// that they are applied in the order in which a connection sent them. The store
/// takes one at a time anyway.
const CONCURRENT_CHANGES: usize = 1;

/// See the module.
pub struct Router {
    coordinator: Arc<Coordinator>,
    tablet: Arc<TabletService>,
    apis: Vec<(i16, i16, i16)>,
    changes: Arc<Semaphore>,
}

impl Router {
    /// A service of both.
    pub fn new(coordinator: Arc<Coordinator>, tablet: Arc<TabletService>) -> Self {
        let mut apis = mainstem_coordinator::APIS.to_vec();
        apis.extend(TABLET_APIS);
        apis.sort_unstable();
        Self { coordinator, tablet, apis, changes: Arc::new(Semaphore::new(CONCURRENT_CHANGES)) }
    }
}

impl Service for Router {
    fn apis(&self) -> &[(i16, i16, i16)] {
        &self.apis
    }

    fn call(&self, session: &Arc<Session>, request: Request) -> Reply {
        if TABLET_APIS.iter().any(|(key, ..)| *key == request.api_key) {
            return self.tablet.call(session, request.api_key, request.body);
        }
        let handle = {
            let (coordinator, session) = (self.coordinator.clone(), session.clone());
            move || {
                let Request { api_key, api_version, body } = request;
                match coordinator.handle(&session, api_key, api_version, body) {
                    Ok(body) => Response::Success(vec![Segment::Bytes(body)]),
                    Err(error) => {
                        Response::Error { code: error.code.code(), message: error.message }
                    }
                }
            }
        };
        if is_read_only(request.api_key) {
            return Reply::Now(handle());
        }
        let changes = self.changes.clone();
        Reply::Later(Box::pin(async move {
            // The semaphore is never closed.
            let _permit = changes.acquire_owned().await;
            let done = tokio::task::spawn_blocking(handle).await;
            done.unwrap_or_else(|_| Response::Error {
                code: -1,
                message: "the coordinator failed at this request".to_owned(),
            })
        }))
    }

    fn closed(&self, session: &Arc<Session>) {
        self.tablet.closed(session);
    }
}
