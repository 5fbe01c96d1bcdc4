//! Processes as futures: what lies between two pauses is atomic, and a process may be killed or frozen at every pause.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

pub type Task = Pin<Box<dyn Future<Output = ()>>>;

struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The process may die, sleep or be overtaken here.
pub fn pause() -> impl Future<Output = ()> {
    Pause(false)
}

/// Runs a process to its next pause; true: it ended.
pub fn step(task: &mut Task) -> bool {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
