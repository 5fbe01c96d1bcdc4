//! A sink process: one decider and its workers, over one target and one transport.

use std::sync::Arc;

use runtime::{config::Sink, shutdown::Shutdown};
use schemas::order::events::Events;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

pub use crate::evolve::Ended;
use crate::{
    consumer::Consumer,
    error::SinkError,
    evolve::Decider,
    shared::{RowProblem, Shared, Task},
    target::Target,
    worker::Worker,
};

/// One instance of a sink. Several may run at once: the target keeps them in order.
pub struct SinkProcess<T: Target, C: Consumer> {
    sink: Arc<Sink>,
    target: Arc<T>,
    consumer: C,
    shared: Arc<Shared>,
    problems: mpsc::UnboundedReceiver<RowProblem>,
}

impl<T: Target, C: Consumer> SinkProcess<T, C> {
    pub fn new(sink: Sink, target: T, consumer: C) -> Self {
        let (shared, problems) = Shared::new(Events::new(&sink.name));
        Self { sink: Arc::new(sink), target: Arc::new(target), consumer, shared, problems }
    }

    /// What the process is doing, for the admin pages.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Runs until the end is asked for, or until a person must act and the configuration says to end then.
    ///
    /// # Errors
    ///
    /// [`SinkError::Refused`]: exit 1. [`SinkError::Stop`]: a stop that is not in the ledger (the target or the topics are not
    /// what they were), found again at every start: exit 3, as [`Ended::Stopped`].
    pub async fn run(self, shutdown: Shutdown) -> Result<Ended, SinkError> {
        if !self.prepare(&shutdown).await? {
            return Ok(Ended::Shutdown);
        }
        let (end, ended) = watch::channel(false);
        let decider =
            Decider::new(self.sink.clone(), self.target.clone(), self.consumer.clone(), self.shared.clone(), self.problems, ended.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(decider.run());
        for number in 0..self.sink.workers.max(1) {
            let (sink, target, shared) = (self.sink.clone(), self.target.clone(), self.shared.clone());
            let worker = Worker::new(number, sink, target, self.consumer.clone(), shared, ended.clone());
            tasks.spawn(async move { worker.run().await.map(|()| Ended::Shutdown) });
        }
        let first = tokio::select! {
            first = tasks.join_next() => first,
            () = shutdown.wait() => None,
        };
        end.send_replace(true);
        let mut result = first.map_or(Ok(Ended::Shutdown), joined);
        while let Some(next) = tasks.join_next().await {
            result = worse(result, joined(next));
        }
        result
    }

    /// Makes what Instar keeps in the target. False: shut down meanwhile.
    async fn prepare(&self, shutdown: &Shutdown) -> Result<bool, SinkError> {
        let mut pause = self.sink.retry.initial;
        while !shutdown.requested() {
            match self.target.prepare().await {
                Ok(()) => {
                    self.shared.retrying(Task::Decider, None);
                    return Ok(true);
                }
                Err(SinkError::Transient(reason) | SinkError::SessionLost(reason)) => {
                    tracing::warn!(sink = %self.sink.name, %reason, "retrying");
                    self.shared.retrying(Task::Decider, Some(reason));
                    let _ = timeout(pause, shutdown.wait()).await;
                    pause = (pause * 2).min(self.sink.retry.max);
                }
                Err(
                    error @ (SinkError::BadValue { .. } | SinkError::Incomplete { .. } | SinkError::Stop { .. } | SinkError::Refused(_)),
                ) => {
                    return Err(error);
                }
            }
        }
        Ok(false)
    }
}

fn joined(result: Result<Result<Ended, SinkError>, tokio::task::JoinError>) -> Result<Ended, SinkError> {
    match result {
        Ok(result) => result,
        Err(error) => Err(SinkError::Refused(format!("a task of the sink broke: {error}"))),
    }
}

/// Of two endings the one that says more.
fn worse(a: Result<Ended, SinkError>, b: Result<Ended, SinkError>) -> Result<Ended, SinkError> {
    match (a, b) {
        (Ok(Ended::Shutdown), b) => b,
        (a @ (Ok(Ended::Stopped { .. }) | Err(_)), _) => a,
    }
}
