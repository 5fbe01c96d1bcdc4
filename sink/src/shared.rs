//! What one sink process's tasks share: the view of the ledger, wake-ups, problems and the process's state.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemas::{
    event::{Epoch, Offset},
    order::{
        events::Events,
        ledger::{Lane, Ledger},
    },
};
use tokio::sync::{Notify, mpsc, watch};

use crate::{status::Liveness, versions::Versions};

/// One snapshot of what decides about rows. `number` grows with every new one.
#[derive(Debug, Clone)]
pub struct View {
    pub number: u64,
    /// Read in one snapshot.
    pub ledger: Arc<Ledger>,
    pub events: Arc<Events>,
    pub versions: Arc<Versions>,
}

/// What is to be recorded of a row that cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowAction {
    Stop,
    Hold,
}

/// A row that cannot be applied. Everything before it in its lane is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    pub lane: Lane,
    /// The stored position of the lane: if it has moved, the problem is void.
    pub position: Offset,
    pub epoch: Epoch,
    pub action: RowAction,
    pub message: String,
}

/// A task of the process, for the state it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    Decider,
    Worker(usize),
}

#[derive(Debug)]
pub struct Shared {
    view: watch::Sender<Arc<View>>,
    state: watch::Sender<Liveness>,
    retrying: Mutex<BTreeMap<Task, String>>,
    stopped: Mutex<Option<String>>,
    idle: Mutex<BTreeMap<usize, u64>>,
    idle_changed: Notify,
    /// Wakes the decider.
    wake: Notify,
    problems: mpsc::UnboundedSender<RowProblem>,
}

impl Shared {
    /// The receiver belongs to the decider.
    pub fn new(events: Events) -> (Arc<Self>, mpsc::UnboundedReceiver<RowProblem>) {
        let first = View { number: 0, ledger: Arc::default(), events: Arc::new(events), versions: Arc::default() };
        let (problems, receiver) = mpsc::unbounded_channel();
        let shared = Self {
            view: watch::channel(Arc::new(first)).0,
            state: watch::channel(Liveness::Running).0,
            retrying: Mutex::default(),
            stopped: Mutex::default(),
            idle: Mutex::default(),
            idle_changed: Notify::new(),
            wake: Notify::new(),
            problems,
        };
        (Arc::new(shared), receiver)
    }

    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    pub fn publish(&self, view: View) {
        self.view.send_replace(Arc::new(view));
    }

    /// The process's state, for the admin pages.
    pub fn state(&self) -> watch::Receiver<Liveness> {
        self.state.subscribe()
    }

    /// Tells the decider that there may be something to decide.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Hands a row's problem to the decider, who records it under the lock.
    pub fn report(&self, problem: RowProblem) {
        // The decider holds the receiver for as long as the process runs.
        let _ = self.problems.send(problem);
        self.wake();
    }

    /// A task waits for a transient fault to pass; None: it goes on.
    pub fn retrying(&self, task: Task, reason: Option<String>) {
        let mut retrying = lock(&self.retrying);
        let changed = match reason {
            Some(reason) => retrying.insert(task, reason.clone()).as_ref() != Some(&reason),
            None => retrying.remove(&task).is_some(),
        };
        drop(retrying);
        if changed {
            self.update();
        }
    }

    /// Why the ledger stands, if it does.
    pub fn stopped(&self, message: Option<String>) {
        let mut stopped = lock(&self.stopped);
        let changed = *stopped != message;
        *stopped = message;
        drop(stopped);
        if changed {
            self.update();
        }
    }

    fn update(&self) {
        let stopped = lock(&self.stopped).clone();
        let retrying = lock(&self.retrying).values().next().cloned();
        self.state.send_replace(match (stopped, retrying) {
            (Some(message), _) => Liveness::Stopped(message),
            (None, Some(reason)) => Liveness::Retrying(reason),
            (None, None) => Liveness::Running,
        });
    }

    /// A worker found nothing to do under this view.
    pub fn idle(&self, worker: usize, view: u64) {
        let seen = lock(&self.idle).insert(worker, view);
        if seen != Some(view) {
            self.idle_changed.notify_one();
        }
    }

    /// Waits until each of so many workers has found nothing to do under this view or a later one.
    pub async fn drained(&self, workers: usize, view: u64) {
        loop {
            let changed = self.idle_changed.notified();
            if lock(&self.idle).values().filter(|seen| **seen >= view).count() >= workers {
                return;
            }
            changed.await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
