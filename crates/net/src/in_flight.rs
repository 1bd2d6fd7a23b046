//! Requests whose answer comes later.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use mainstem_protocol::ApiError;
use mainstem_types::ErrorCode;
use tokio::time::Instant;

use crate::Response;

/// A request and when it went where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) request_id: i32,
    pub(crate) api_key: i16,
    pub(crate) request_bytes: u64,
    /// `None` if nobody observes.
    pub(crate) times: Option<Times>,
}

/// See [`RequestOutcome`](crate::RequestOutcome).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) arrived: Instant,
    pub(crate) called: Instant,
}

/// Waits for the answer to one request. A panic is an answer too.
pub(crate) struct InFlight {
    pub(crate) ticket: Ticket,
    pub(crate) future: BoxFuture<'static, Response>,
}

/// Text of an answer whose making panicked. The message of the panic may tell
/// what is nobody's business; it is in the log.
const PANIC_TEXT: &str = "internal error";

/// The answer to a request whose handling panicked.
pub(crate) fn panicked() -> Response {
    ApiError::new(ErrorCode::UnknownServerError, PANIC_TEXT).into()
}

impl Future for InFlight {
    /// `None` in place of a response: it panicked.
    type Output = (Ticket, Option<Response>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket;
        let future = &mut self.future;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(response)) => Poll::Ready((ticket, Some(response))),
            Err(_) => Poll::Ready((ticket, None)),
        }
    }
}
