//! What the allocator keeps of what was given back.
#![expect(unsafe_code, reason = "the C library's own setting")]

/// Arenas of the C library's allocator. Otherwise each thread gets one of its own, up to eight a core, which keeps what was given back
/// there; and the Kafka clients of a source have more than ten threads, through which the same rows go one after the other.
const ARENAS: std::ffi::c_int = 2;

/// Bounds what a source keeps in memory. Has an effect only before the first thread begins.
pub fn few_arenas() {
    // SAFETY: no other thread runs yet that could allocate.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}
