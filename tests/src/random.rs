//! A small generator of random numbers: the same seed gives the same numbers, so that a failing run can be looked at again.

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are spread far apart, and none is zero.
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The seed from INSTAR_TEST_SEED, else this one; printed with the test's name.
    pub fn seeded(name: &str, seed: u64) -> Self {
        let seed = std::env::var("INSTAR_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
        println!("{name}: INSTAR_TEST_SEED={seed}");
        Random::new(seed)
    }

    /// A number from 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let n = self.below(from.len() as u64);
        &from[usize::try_from(n).expect("an index")]
    }
}
