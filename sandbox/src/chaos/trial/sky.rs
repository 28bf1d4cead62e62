//! What the weather is, who is at work, and since when both are good. Told by the trial of each change; instants are arguments.

use crate::chaos::weather::Spell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The weather, and who works in it.
#[derive(Debug)]
pub(super) struct Heaven {
    /// The spells that are on, by their numbers.
    spells: BTreeMap<u32, Spell>,
    /// The refresh token is worth nothing.
    is_revoked: bool,
    /// An operator is cut off until then.
    dark_until: Option<Instant>,
    /// No spell is on, and the token is good.
    good_since: Option<Instant>,
    /// Who works, and since when.
    at_work: Option<(String, Instant)>,
}

impl Heaven {
    /// Good weather, and nobody at work.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            spells: BTreeMap::new(),
            is_revoked: false,
            dark_until: None,
            good_since: Some(now),
            at_work: None,
        }
    }

    /// A spell begins.
    pub(super) fn begin(&mut self, number: u32, spell: Spell) {
        self.spells.insert(number, spell);
        self.good_since = None;
    }

    /// A spell ends.
    pub(super) fn end(&mut self, number: u32, now: Instant) {
        self.spells.remove(&number);
        self.brighten(now);
    }

    /// The token is revoked.
    pub(super) fn revoke(&mut self) {
        (self.is_revoked, self.good_since) = (true, None);
    }

    /// The token is good again.
    pub(super) fn restore(&mut self, now: Instant) {
        self.is_revoked = false;
        self.brighten(now);
    }

    /// An operator is cut off for so long.
    pub(super) fn darken(&mut self, until: Instant) {
        self.dark_until = self.dark_until.max(Some(until));
    }

    /// All spells end, and it is light again.
    pub(super) fn clear(&mut self, now: Instant) {
        self.spells.clear();
        self.dark_until = None;
        self.brighten(now);
    }

    fn brighten(&mut self, now: Instant) {
        if self.spells.is_empty() && !self.is_revoked {
            self.good_since = self.good_since.or(Some(now));
        }
    }

    /// Who works now; nobody, where an operator is cut off.
    pub(super) fn works(&mut self, who: Option<String>, now: Instant) {
        let who = who.filter(|_| self.dark_until.is_none_or(|until| until <= now));
        self.at_work = match (self.at_work.take(), who) {
            (Some((before, since)), Some(who)) if before == who => Some((who, since)),
            (_, who) => who.map(|who| (who, now)),
        };
    }

    /// The spells that are on, oldest first.
    pub(super) fn spells(&self) -> impl Iterator<Item = &Spell> {
        self.spells.values()
    }

    /// Whether the weather was good and the same operator at work ever since.
    pub(super) fn is_clear_since(&self, then: Instant) -> bool {
        let both = self.good_since.zip(self.at_work.as_ref());
        both.is_some_and(|(good, (_, works))| good <= then && *works <= then)
    }

    /// Whether nothing has kept an operator from renewing its lease for so long.
    pub(super) fn was_good_for(&self, time: Duration, now: Instant) -> bool {
        let past = |since: Instant| now.saturating_duration_since(since) > time;
        self.good_since.is_some_and(past) && self.dark_until.is_none_or(past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::weather::SpotSpell;

    const MINUTE: Duration = Duration::from_mins(1);

    fn outage() -> Spell {
        Spell::Spot(SpotSpell::Outage)
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_spells_the_end_of_one_is_not_the_end_of_the_other() {
        let start = Instant::now();
        let mut heaven = Heaven::new(start);
        heaven.works(Some("a".into()), start);
        assert!(heaven.is_clear_since(start));
        heaven.begin(1, outage());
        heaven.begin(2, outage());
        heaven.end(1, start + MINUTE);
        assert!(!heaven.is_clear_since(start + MINUTE));
        assert_eq!(heaven.spells().count(), 1);
        heaven.end(2, start + 2 * MINUTE);
        assert!(heaven.is_clear_since(start + 2 * MINUTE) && !heaven.is_clear_since(start + MINUTE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_good_again_clears_the_sky_and_a_spell_that_ends_meanwhile_does_not() {
        let start = Instant::now();
        let mut heaven = Heaven::new(start);
        heaven.works(Some("a".into()), start);
        heaven.begin(1, outage());
        heaven.revoke();
        heaven.end(1, start + MINUTE);
        assert!(!heaven.is_clear_since(start + MINUTE));
        heaven.restore(start + 2 * MINUTE);
        assert!(heaven.is_clear_since(start + 2 * MINUTE));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_just_begun_or_is_cut_off_has_not_had_its_chance() {
        let start = Instant::now();
        let mut heaven = Heaven::new(start);
        assert!(!heaven.is_clear_since(start));
        heaven.works(Some("a".into()), start + MINUTE);
        heaven.works(Some("b".into()), start + 2 * MINUTE);
        assert!(!heaven.is_clear_since(start + MINUTE) && heaven.is_clear_since(start + 2 * MINUTE));
        heaven.darken(start + 4 * MINUTE);
        heaven.works(Some("b".into()), start + 3 * MINUTE);
        assert!(!heaven.is_clear_since(start + 3 * MINUTE));
        heaven.works(Some("b".into()), start + 5 * MINUTE);
        assert!(heaven.is_clear_since(start + 5 * MINUTE));
        assert!(!heaven.was_good_for(MINUTE, start + 5 * MINUTE));
        assert!(heaven.was_good_for(MINUTE, start + 6 * MINUTE));
    }
}
