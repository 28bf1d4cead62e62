//! Sets of small numbers as words of bits: instance types of a pool, machines, claims.

/// Bits per word.
const WORD: usize = u64::BITS as usize;

/// How many words hold `count` bits.
pub(super) const fn words(count: usize) -> usize {
    count.div_ceil(WORD)
}

/// The set of the numbers below `count`.
pub(super) fn full(count: usize) -> Vec<u64> {
    let mut result = vec![u64::MAX; words(count)];
    if let (Some(last), rest @ 1..) = (result.last_mut(), count % WORD) {
        *last = (1 << rest) - 1;
    }
    result
}

/// Adds a number, growing as needed.
pub(super) fn insert(set: &mut Vec<u64>, number: usize) {
    let word = number / WORD;
    if word >= set.len() {
        set.resize(word + 1, 0);
    }
    add(set, number);
}

/// Adds a number for which there is room.
pub(super) fn add(set: &mut [u64], number: usize) {
    if let Some(word) = set.get_mut(number / WORD) {
        *word |= 1 << (number % WORD);
    }
}

/// Takes a number out.
pub(super) fn remove(set: &mut [u64], number: usize) {
    if let Some(word) = set.get_mut(number / WORD) {
        *word &= !(1 << (number % WORD));
    }
}

/// Whether a number is in the set.
pub(super) fn contains(set: &[u64], number: usize) -> bool {
    set.get(number / WORD)
        .is_some_and(|word| word >> (number % WORD) & 1 == 1)
}

/// Keeps what is in both; says whether anything is left.
pub(super) fn keep(set: &mut [u64], other: &[u64]) -> bool {
    let mut left = 0;
    for (own, other) in set.iter_mut().zip(other) {
        *own &= other;
        left |= *own;
    }
    left != 0
}

/// Adds everything of another set of the same size.
pub(super) fn join(set: &mut [u64], other: &[u64]) {
    for (own, other) in set.iter_mut().zip(other) {
        *own |= other;
    }
}

/// Whether two sets share a number.
pub(super) fn meet(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// Whether nothing is in the set.
pub(super) fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|word| *word == 0)
}

/// How many numbers are in the set.
pub(super) fn count(set: &[u64]) -> usize {
    set.iter().map(|word| word.count_ones() as usize).sum()
}

/// The numbers in the set, ascending.
pub(super) fn iter(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(index, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(index * WORD + bit)
        })
    })
}

/// The first number at or after `from` below `limit` that is not in the set.
pub(super) fn first_absent(set: &[u64], from: usize, limit: usize) -> Option<usize> {
    let mut number = from;
    while number < limit {
        let word = set.get(number / WORD).copied().unwrap_or(0) >> (number % WORD);
        let skipped = (!word).trailing_zeros() as usize;
        if skipped == 0 {
            return Some(number);
        }
        // Within a word only what was shifted in counts; the rest of the word is looked at next.
        number += skipped.min(WORD - number % WORD);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_of_bits_is_a_set(numbers in proptest::collection::btree_set(0_usize..300, 0..60), from in 0_usize..300) {
            let mut set = Vec::new();
            for n in &numbers {
                insert(&mut set, *n);
            }
            prop_assert_eq!(iter(&set).collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(count(&set), numbers.len());
            prop_assert_eq!(contains(&set, from), numbers.contains(&from));
            let absent = (from..300).find(|n| !numbers.contains(n));
            prop_assert_eq!(first_absent(&set, from, 300), absent);
        }
    }

    #[test]
    fn a_full_set_has_exactly_its_numbers() {
        for n in [0, 1, 63, 64, 65, 128] {
            assert_eq!(count(&full(n)), n);
        }
    }
}
