//! The order in which planned claims are tried: fewest pods first (scheduling 15-1).
//!
//! Upstream sorts the list before every pod. A claim that gets one more pod moves behind all claims with as many as it had and, the sort being
//! stable, before those with as many as it has now; a linked list does that in constant time.
//!
//! Differs: upstream's sort is unstable beyond twelve claims (scheduling 15-1).

use super::bits;

const NONE: usize = usize::MAX;

/// Claims are sorted out rather than walked past when fewer than one in so many may answer.
const FEW: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Link {
    before: usize,
    after: usize,
    pods: usize,
    /// Among claims with as many pods: who opened earlier comes before, who grew later comes before.
    turn: i64,
}

/// Claims in the order they are tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    links: Vec<Link>,
    head: Option<usize>,
    /// For each number of pods the first and last claim that has so many.
    runs: Vec<Option<(usize, usize)>>,
    /// Changes so far.
    changes: i64,
}

impl Line {
    /// The claim tried first.
    pub(super) const fn first(&self) -> Option<usize> {
        self.head
    }

    /// The claim tried after this one.
    pub(super) fn next(&self, claim: usize) -> Option<usize> {
        self.links
            .get(claim)
            .map(|link| link.after)
            .filter(|after| *after != NONE)
    }

    /// What claims sort by to come in the order they are tried.
    pub(super) fn rank(&self, claim: usize) -> (usize, i64) {
        self.links.get(claim).map_or((0, 0), |link| (link.pods, link.turn))
    }

    /// The claims in the order they are tried; where few are not in `never`, only those.
    pub(super) fn walk<'l>(&'l self, never: &[u64], few: &'l mut Vec<usize>) -> Walk<'l> {
        let all = self.links.len();
        if (all - bits::count(never).min(all)) * FEW > all {
            return Walk::All(self, self.first());
        }
        few.clear();
        let left = |from| bits::first_absent(never, from, all);
        few.extend(std::iter::successors(left(0), |at| left(at + 1)));
        few.sort_unstable_by_key(|claim| self.rank(*claim));
        Walk::Few(few.iter())
    }

    /// No claims.
    pub(super) fn clear(&mut self) {
        self.links.clear();
        self.runs.clear();
        self.head = None;
    }

    fn run(&self, pods: usize) -> Option<(usize, usize)> {
        self.runs.get(pods).copied().flatten()
    }

    fn set_run(&mut self, pods: usize, run: Option<(usize, usize)>) {
        if pods >= self.runs.len() {
            self.runs.resize(pods + 1, None);
        }
        if let Some(entry) = self.runs.get_mut(pods) {
            *entry = run;
        }
    }

    /// A new claim, numbered after all others, with its first pod.
    pub(super) fn open(&mut self) {
        let claim = self.links.len();
        self.changes += 1;
        self.links.push(Link {
            before: NONE,
            after: NONE,
            pods: 1,
            turn: self.changes,
        });
        if let Some((first, last)) = self.run(1) {
            self.insert_after(claim, last);
            self.set_run(1, Some((first, claim)));
        } else {
            self.insert_first(claim);
            self.set_run(1, Some((claim, claim)));
        }
    }

    /// A claim got one more pod.
    pub(super) fn grow(&mut self, claim: usize) {
        let Some(link) = self.links.get(claim).copied() else {
            return;
        };
        let pods = link.pods;
        let run = self.run(pods).unwrap_or((claim, claim));
        let target = run.1;
        self.set_run(
            pods,
            match run {
                (first, last) if first == claim && last == claim => None,
                (first, last) if first == claim => Some((link.after, last)),
                (first, last) if last == claim => Some((first, link.before)),
                unchanged => Some(unchanged),
            },
        );
        if target != claim {
            self.unlink(link);
            self.insert_after(claim, target);
        }
        self.changes += 1;
        if let Some(link) = self.links.get_mut(claim) {
            link.pods = pods + 1;
            link.turn = -self.changes;
        }
        let last = self.run(pods + 1).map_or(claim, |(_, last)| last);
        self.set_run(pods + 1, Some((claim, last)));
    }

    fn unlink(&mut self, link: Link) {
        match self.links.get_mut(link.before) {
            Some(before) => before.after = link.after,
            None => self.head = Some(link.after).filter(|after| *after != NONE),
        }
        if let Some(after) = self.links.get_mut(link.after) {
            after.before = link.before;
        }
    }

    fn insert_first(&mut self, claim: usize) {
        let after = self.head.unwrap_or(NONE);
        if let Some(next) = self.links.get_mut(after) {
            next.before = claim;
        }
        if let Some(link) = self.links.get_mut(claim) {
            (link.before, link.after) = (NONE, after);
        }
        self.head = Some(claim);
    }

    fn insert_after(&mut self, claim: usize, place: usize) {
        let after = self.links.get(place).map_or(NONE, |link| link.after);
        if let Some(link) = self.links.get_mut(place) {
            link.after = claim;
        }
        if let Some(next) = self.links.get_mut(after) {
            next.before = claim;
        }
        if let Some(link) = self.links.get_mut(claim) {
            (link.before, link.after) = (place, after);
        }
    }
}

/// A walk along the line.
pub(super) enum Walk<'l> {
    All(&'l Line, Option<usize>),
    Few(std::slice::Iter<'l, usize>),
}

impl Iterator for Walk<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::All(line, next) => {
                let claim = (*next)?;
                *next = line.next(claim);
                Some(claim)
            }
            Self::Few(claims) => claims.next().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_line_is_what_a_stable_sort_before_every_pod_gives(steps in proptest::collection::vec(0_usize..12, 1..200)) {
            let mut line = Line::default();
            let mut sorted: Vec<(usize, usize)> = Vec::new();
            let mut never = Vec::new();
            for (at, step) in steps.into_iter().enumerate() {
                sorted.sort_by_key(|(_, pods)| *pods);
                if step < sorted.len() {
                    let claim = sorted[step].0;
                    line.grow(claim);
                    sorted[step].1 += 1;
                } else {
                    sorted.push((sorted.len(), 1));
                    line.open();
                }
                let mut expected = sorted.clone();
                expected.sort_by_key(|(_, pods)| *pods);
                let order: Vec<usize> = std::iter::successors(line.first(), |claim| line.next(*claim)).collect();
                let mut ranked = order.clone();
                ranked.sort_by_key(|claim| line.rank(*claim));
                prop_assert_eq!(&ranked, &order);
                if at % 3 == 0 {
                    bits::insert(&mut never, order[0]);
                }
                let mut few = Vec::new();
                let walked: Vec<usize> = line.walk(&never, &mut few).filter(|claim| !bits::contains(&never, *claim)).collect();
                let left = order.iter().copied().filter(|claim| !bits::contains(&never, *claim));
                prop_assert_eq!(walked, left.collect::<Vec<_>>());
                prop_assert_eq!(order, expected.iter().map(|(claim, _)| *claim).collect::<Vec<_>>());
            }
        }
    }
}
