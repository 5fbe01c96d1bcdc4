//! Counts what is allocated: a length that a few bytes state must not take the memory that it states.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

struct Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn took(size: usize) {
    let live = LIVE.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: the system's allocator does it all; the numbers beside it touch no memory.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as asked of us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as asked of us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What any input may take.
const LEAST: usize = 256 << 10;

/// Runs `work` and fails where it held more than [`LEAST`] and `per_byte` for each of the input's bytes at one time.
pub fn bounded<T>(input: &[u8], per_byte: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    let held = PEAK.load(Relaxed) - before;
    let allowed = LEAST + per_byte * input.len();
    assert!(held <= allowed, "{held} bytes were held for an input of {}, {allowed} are allowed", input.len());
    result
}
