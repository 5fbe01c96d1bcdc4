//! The hash of a row's key: one multiplication for eight bytes, with a seed that is the process's own.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::LazyLock,
};

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes keys within one batch.
#[derive(Debug, Clone)]
pub(super) struct KeyHash(u64);

impl Default for KeyHash {
    fn default() -> Self {
        Self(*SEED)
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

#[derive(Debug)]
pub(super) struct KeyHasher(u64);

impl KeyHasher {
    /// Both halves of the product are kept, so that every bit of the word tells.
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word).wrapping_mul(u128::from(ODD));
        self.0 = (product as u64) ^ ((product >> 64) as u64).wrapping_add(word.rotate_left(32));
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(last));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(ODD);
        mixed ^ (mixed >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbouring_keys_spread_over_the_low_and_the_high_bits() {
        let hash = KeyHash::default();
        let keys: Vec<Vec<u8>> = (0..4096u32).map(|n| n.to_le_bytes()[..2].to_vec()).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| hash.hash_one(key.as_slice())).collect();
        for shift in [0, 52] {
            let places: HashSet<u64> = hashes.iter().map(|h| (h >> shift) & 4095).collect();
            // As many as chance gives: 4096 · (1 − 1/e) = 2589.
            assert!(places.len() > 2300, "{} of 4096 places at bit {shift}", places.len());
        }
    }

    #[test]
    fn keys_that_differ_in_zeros_at_the_end_differ() {
        let hash = KeyHash::default();
        assert_ne!(hash.hash_one(&b"a"[..]), hash.hash_one(&b"a\0"[..]));
    }
}
