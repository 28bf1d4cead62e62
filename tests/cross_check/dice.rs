//! Chance from a seed: the same seed gives the same case on every machine (splitmix64).

/// A source of chance.
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed; `salt` keeps different uses of one seed apart.
    pub fn new(seed: u64, salt: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    /// A number of a range, both ends included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// True in so many of a hundred throws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// At least one of several, in their order.
    pub fn some<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let must = self.below(all.len());
        let mut chosen = Vec::new();
        for (at, one) in all.iter().enumerate() {
            if at == must || self.chance(50) {
                chosen.push(one.clone());
            }
        }
        chosen
    }

    /// Puts a list into another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}
