//! UIDs and name suffixes, from a seed: the same run gets the same ones.
//!
//! Relies on being asked in a deterministic order, which the server's lock gives.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Kubernetes' alphabet for generated names: no vowels, so no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Debug)]
pub(crate) struct Ids {
    rng: ChaCha8Rng,
}

impl Ids {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    pub(crate) fn uid(&mut self) -> String {
        let mut bytes = [0_u8; 16];
        self.rng.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters for `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        (0..5)
            .filter_map(|_| ALPHABET.get(self.rng.random_range(0..ALPHABET.len())))
            .map(|b| char::from(*b))
            .collect()
    }

    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.rng.random_range(least..=most.max(least))
    }
}
