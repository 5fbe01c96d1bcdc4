//! The simulation of the order protocol: the product's own state machine under seeded schedules.
//!
//! Replay one seed with its trace:
//! `INSTAR_SEED=4711 cargo test --release -p schemas --test order replay -- --nocapture`
//! (`INSTAR_AIM=reload` for an aimed one, `INSTAR_WITHOUT=Fence` takes a protection out; `INSTAR_SCHEDULES=1000` and
//! `INSTAR_FIRST=5000` set how many the other tests run, and from which seed).

mod aims;
mod apply;
mod capture;
mod database;
mod random;
mod sabotage;
mod schedule;
mod target;
mod task;
mod transport;
mod world;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use schemas::order::protection::{Protection, Protections};

use crate::aims::Aim;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs schedules on all cores until one finds something; the seed and what it found.
fn search(aim: &Aim, protections: Protections, schedules: u64) -> Option<(u64, String)> {
    let first = number("INSTAR_FIRST").unwrap_or(0);
    let (next, found) = (AtomicU64::new(first), Mutex::new(None::<(u64, String)>));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + schedules || found.lock().is_ok_and(|f| f.is_some()) {
                        break;
                    }
                    if let Some(what) = schedule::run(seed, aim, protections, false)
                        && let Ok(mut found) = found.lock()
                    {
                        found.get_or_insert((seed, what));
                    }
                }
            });
        }
    });
    found.into_inner().ok().flatten()
}

/// Schedules of a test: fewer in builds that are not optimised, never none.
fn schedules(release: u64) -> u64 {
    number("INSTAR_SCHEDULES").unwrap_or(if cfg!(debug_assertions) { release.div_ceil(50) } else { release })
}

fn holds(aim: &str, release: u64) {
    if let Some((seed, what)) = search(&aims::named(aim), Protections::ALL, schedules(release)) {
        panic!(
            "seed {seed} of {aim}: {what}\nreplay: INSTAR_SEED={seed} INSTAR_AIM={aim} cargo test --release -p schemas --test order replay -- --nocapture"
        );
    }
}

#[test]
fn nothing_breaks_in_seeded_schedules() {
    holds("random", 100_000);
}

#[test]
fn nothing_breaks_in_aimed_schedules() {
    for aim in aims::NAMES {
        holds(aim, 5_000);
    }
}

#[test]
fn replay() {
    let Some(seed) = number("INSTAR_SEED") else { return };
    let aim = std::env::var("INSTAR_AIM").unwrap_or_else(|_| "random".into());
    let without = std::env::var("INSTAR_WITHOUT").ok().and_then(|name| Protection::ALL.into_iter().find(|p| format!("{p:?}") == name));
    let protections = without.map_or(Protections::ALL, |p| Protections::ALL.without(p));
    let found = schedule::run(seed, &aims::named(&aim), protections, true);
    assert_eq!(found, None, "seed {seed} of {aim}");
}
