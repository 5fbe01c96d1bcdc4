//! Pauses between attempts: longer each time, never the same for two processes.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use crate::{config::Retry, shutdown::Shutdown};

/// The pauses of one thing that is tried again and again.
#[derive(Debug, Clone)]
pub struct Backoff {
    retry: Retry,
    next: Duration,
    attempts: u32,
}

impl Backoff {
    pub fn new(retry: Retry) -> Self {
        Self { retry, next: retry.initial, attempts: 0 }
    }

    /// How many pauses there were since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The next pause: between half and the whole of a time that doubles up to the longest.
    pub fn next_pause(&mut self) -> Duration {
        let whole = self.next.min(self.retry.max);
        self.next = whole.saturating_mul(2).min(self.retry.max);
        self.attempts = self.attempts.saturating_add(1);
        whole / 2 + whole.mul_f64(share() / 2.0)
    }

    /// After a success: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.retry.initial;
        self.attempts = 0;
    }

    /// Waits for the next pause; false where the process is to end.
    pub async fn pause(&mut self, shutdown: &Shutdown) -> bool {
        let pause = self.next_pause();
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = shutdown.wait() => false,
        }
    }
}

/// A random number from 0 to 1.
fn share() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(Retry { initial: Duration::from_millis(100), max: Duration::from_millis(500) });
        for whole in [100, 200, 400, 500, 500] {
            let pause = backoff.next_pause().as_micros();
            assert!((whole * 500..=whole * 1000).contains(&pause), "{pause} of {whole} ms");
        }
        assert_eq!(backoff.attempts(), 5);
        backoff.reset();
        assert_eq!(backoff.attempts(), 0);
        assert!(backoff.next_pause() <= Duration::from_millis(100));
    }

    #[test]
    fn two_processes_do_not_pause_alike() {
        let retry = Retry { initial: Duration::from_secs(1), max: Duration::from_secs(1) };
        let pauses: std::collections::BTreeSet<Duration> = (0..20).map(|_| Backoff::new(retry).next_pause()).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
    }

    #[tokio::test]
    async fn a_pause_ends_with_the_process() {
        let (handle, shutdown) = Shutdown::new();
        let mut backoff = Backoff::new(Retry { initial: Duration::from_millis(1), max: Duration::from_millis(1) });
        assert!(backoff.pause(&shutdown).await);
        let mut long = Backoff::new(Retry { initial: Duration::from_secs(3600), max: Duration::from_secs(3600) });
        handle.request();
        assert!(!long.pause(&shutdown).await);
    }
}
