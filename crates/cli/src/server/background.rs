//! What runs by the clock: partitions, retention, clean-ups, the disk guard.

use std::sync::Arc;
use std::time::Duration;

use mainstem_coordinator::Coordinator;
use mainstem_env::Clock;
use mainstem_tablet::registry::Replicas;
use mainstem_tablet::replica::RetentionPolicy;
use mainstem_types::config::ServerConfig;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::data_dir::DataDir;

/// How often checkpoints that are due are looked for, and failed logs opened anew.
const MAINTENANCE: Duration = Duration::from_secs(1);

/// Something that is done again and again.
pub type Work = Box<dyn Fn() + Send + Sync>;

/// The periodic tasks.
pub struct Background {
    tasks: JoinSet<()>,
}

impl Background {
    /// Starts them all, and `more` with their periods.
    pub fn start(
        config: &ServerConfig,
        coordinator: Arc<Coordinator>,
        replicas: Arc<Replicas>,
        more: Vec<(Duration, Work)>,
        clock: Arc<dyn Clock>,
        data_dir: Arc<DataDir>,
        shutdown: CancellationToken,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let mut every = |period: Duration, work: Work| {
            tasks.spawn(repeat(period, Arc::from(work), shutdown.clone()));
        };
        let (partitions, settings_source) = (coordinator.clone(), coordinator.clone());
        every(
            config.auto_partition_check_interval,
            Box::new(move || partitions.tick()),
        );
        every(
            config.producer_offsets_cleanup_interval,
            Box::new(move || clean_producer_offsets(&coordinator)),
        );
        let (expiring, settings) = (replicas.clone(), settings_source);
        let retain_bytes = config.log.retention_bytes;
        let expiry_clock = clock.clone();
        every(
            config.log.retention_check_interval,
            Box::new(move || {
                let key = "log.retention.roll-active-segment.enabled";
                let policy = RetentionPolicy {
                    retain_bytes,
                    // May be changed while the server runs.
                    roll_active_segment: settings.effective_config(key).as_deref() == Some("true"),
                };
                expiring.expire(&policy, expiry_clock.now_ms());
            }),
        );
        let maintained = replicas.clone();
        every(MAINTENANCE, Box::new(move || maintained.maintain()));
        for (period, work) in more {
            every(period, work);
        }
        every(
            config.disk.check_interval,
            Box::new(move || watch_disk(&data_dir, &replicas)),
        );
        Self { tasks }
    }

    /// Waits until all have ended; the token has been cancelled.
    pub async fn stop(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn repeat(period: Duration, work: Arc<dyn Fn() + Send + Sync>, shutdown: CancellationToken) {
    // A period of zero would spin: once a second is as often as anything here helps.
    let mut ticks = tokio::time::interval(period.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.cancelled() => return,
        }
        let work = work.clone();
        let done: JoinHandle<()> = tokio::task::spawn_blocking(move || work());
        if done.await.is_err() {
            warn!("a periodic task has failed; it runs again at its next time");
        }
    }
}

fn clean_producer_offsets(coordinator: &Coordinator) {
    if let Err(error) = coordinator.clean_producer_offsets() {
        warn!(
            "expired producer offsets stay until the next round: {}",
            error.message
        );
    }
}

fn watch_disk(data_dir: &DataDir, replicas: &Replicas) {
    match data_dir.used_ratio() {
        Ok(used) => {
            let guard = replicas.disk();
            if guard.observe(used) {
                let percent = (used * 100.0).round();
                if guard.is_locked() {
                    warn!("the disk is {percent} % full: writes are refused until there is space");
                } else {
                    info!("the disk is {percent} % full: writes are accepted again");
                }
            }
        }
        Err(error) => warn!("the volume of the data directory does not answer: {error}"),
    }
}
