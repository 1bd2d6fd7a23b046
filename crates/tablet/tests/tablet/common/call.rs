//! A request that was handed to the service.

use std::future::poll_fn;
use std::task::Poll;

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
