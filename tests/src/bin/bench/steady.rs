//! Rows at a steady rate, and how long after its commit each of them is seen.

use std::time::{Duration, Instant};

use tests::{postgres, source};

use crate::NAME;

/// Rows a second.
pub const RATE: u64 = 2_000;
/// Rows of one commit.
const TOGETHER: u64 = 10;

/// The greatest id that was committed, or seen, and when.
pub type Mark = (u64, Instant);

/// Commits the rows 1 to `rows` at the rate. `insert` gives the statement for the ids from one to another.
pub async fn rows(session: &mut source::Session, rows: u64, insert: impl Fn(u64, u64) -> String) -> Vec<Mark> {
    let begin = Instant::now();
    let mut committed = Vec::new();
    for from in (0..rows).step_by(TOGETHER as usize) {
        tokio::time::sleep_until((begin + Duration::from_micros(from * 1_000_000 / RATE)).into()).await;
        session.run(&insert(from + 1, from + TOGETHER)).await;
        committed.push((from + TOGETHER, Instant::now()));
    }
    committed
}

/// Looks for the newest row on the target until it is `last`.
pub async fn watch_target(last: u64) -> Vec<Mark> {
    let target = postgres::Session::connect(&postgres::database_url(NAME)).await;
    let mut seen: Vec<Mark> = Vec::new();
    while seen.last().is_none_or(|(newest, _)| *newest < last) {
        let now: u64 = target.value("SELECT coalesce(max(id), 0) FROM t").await.and_then(|n| n.parse().ok()).unwrap_or_default();
        if seen.last().is_none_or(|(newest, _)| *newest < now) {
            seen.push((now, Instant::now()));
        }
        // A look in a row would take a core from those that are measured.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    seen
}

/// Milliseconds from each commit until its last row was seen; both in the order of ids.
pub fn delays(committed: &[Mark], seen: &[Mark]) -> Vec<f64> {
    let delay = |(id, at): &Mark| {
        let (_, when) = seen.get(seen.partition_point(|(newest, _)| newest < id)).expect("every row is seen");
        when.saturating_duration_since(*at).as_secs_f64() * 1000.0
    };
    committed.iter().map(delay).collect()
}
