//! A request that was handed to the service.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use mainstem_net::{Reply, Response, Segment};
use tokio::runtime::Runtime;

/// A request under way. Moves only when it is polled.
pub enum Call {
    /// Its answer.
    Answered(Response),
    /// It waits.
    Waiting(BoxFuture<'static, Response>),
}

impl From<Reply> for Call {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Now(response) => Self::Answered(response),
            Reply::Later(future) => Self::Waiting(future),
        }
    }
}

impl Call {
    /// Polls once and says whether the answer is there.
    pub fn is_answered(&mut self, runtime: &Runtime) -> bool {
        if let Self::Waiting(future) = self {
            let polled = runtime.block_on(poll_fn(|context| {
                Poll::Ready(match future.as_mut().poll(context) {
                    Poll::Ready(response) => Some(response),
                    Poll::Pending => None,
                })
            }));
            if let Some(response) = polled {
                *self = Self::Answered(response);
            }
        }
        matches!(self, Self::Answered(_))
    }

    /// Polls once and says whether that alone makes it want to be polled again:
    /// a request that waits must not.
    pub fn wakes_itself(&mut self, runtime: &Runtime) -> bool {
        let Self::Waiting(future) = self else {
            return false;
        };
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        // The first poll may find what was told before.
        for _ in 0..2 {
            wakes.0.store(0, Ordering::Relaxed);
            // Inside of the runtime a future that never rests is made to yield.
            let polled = runtime.block_on(poll_fn(|_| {
                Poll::Ready(future.as_mut().poll(&mut Context::from_waker(&waker)))
            }));
            assert!(polled.is_pending(), "it is answered");
        }
        wakes.0.load(Ordering::Relaxed) > 0
    }

    /// The answer, on a runtime of the caller's.
    pub async fn ready(self) -> Response {
        match self {
            Self::Answered(response) => response,
            Self::Waiting(future) => future.await,
        }
    }

    /// Lets (simulated) time pass until the answer is there.
    pub fn wait(self, runtime: &Runtime) -> Response {
        match self {
            Self::Answered(response) => response,
            Self::Waiting(future) => runtime.block_on(future),
        }
    }

    /// The answer, which is there.
    pub fn answer(self) -> Response {
        match self {
            Self::Answered(response) => response,
            Self::Waiting(_) => panic!("the request waits"),
        }
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The bytes of a success.
pub fn body(response: Response) -> Vec<u8> {
    match response {
        Response::Success(segments) => segments
            .into_iter()
            .flat_map(|segment| match segment {
                Segment::Bytes(bytes) => bytes.to_vec(),
                Segment::File { .. } => panic!("simulated files have no descriptor"),
            })
            .collect(),
        Response::Error { code, message } => panic!("error {code}: {message}"),
    }
}
