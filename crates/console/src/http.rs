//! The HTTP endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use mainstem_metrics::{Exposition, MetricSource};

/// What the endpoints report.
#[derive(Default)]
pub struct Console {
    sources: RwLock<Vec<Arc<dyn MetricSource>>>,
    ready: AtomicBool,
}

impl Console {
    /// Adds a source of metrics.
    pub fn add_source(&self, source: Arc<dyn MetricSource>) {
        self.sources.write().push(source);
    }

    /// Says whether the server takes requests.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// All metrics as text.
    pub fn metrics(&self) -> String {
        let mut out = Exposition::default();
        for source in self.sources.read().iter() {
            source.collect(&mut out);
        }
        out.finish()
    }
}

/// Serves until cancelled.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    console: Arc<Console>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(console);
    axum::serve(listener, router)
        .with_graceful_shutdown(async move { shutdown.cancelled().await })
        .await
}

async fn metrics(State(console): State<Arc<Console>>) -> Response {
    let content_type = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (content_type, console.metrics()).into_response()
}

async fn ready(State(console): State<Arc<Console>>) -> Response {
    if console.ready.load(Ordering::Relaxed) {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    }
}
