//! What can be looked after, and its signs of life.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Signs of life of a queue or a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signs {
    /// How long the oldest piece of work that runs has been running.
    pub running_for: Duration,
    /// How long the piece of work that runs and has made no progress for longest has made none.
    pub stuck_for: Duration,
    /// How many run.
    pub running: usize,
    /// How long the oldest piece of work has been waiting for its turn.
    pub waiting_for: Duration,
}

/// Something that is looked after.
pub struct Vital {
    /// Its name, as in metrics.
    pub name: &'static str,
    /// Its signs; nothing while it is not meant to work.
    look: Box<dyn Fn() -> Option<Signs> + Send + Sync>,
}

impl Vital {
    /// Something of this name that shows these signs when asked.
    pub fn new(name: &'static str, look: impl Fn() -> Option<Signs> + Send + Sync + 'static) -> Self {
        Self {
            name,
            look: Box::new(look),
        }
    }

    /// Its signs; nothing while it is not meant to work.
    pub fn signs(&self) -> Option<Signs> {
        (self.look)()
    }
}

impl fmt::Debug for Vital {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vital").field(&self.name).finish()
    }
}

/// All that is looked after; cheap to clone, filled by the wiring.
#[derive(Debug, Clone, Default)]
pub struct Vitals(Arc<Mutex<Vec<Vital>>>);

impl Vitals {
    /// Looks after this too.
    pub fn add(&self, vital: Vital) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(vital);
    }

    /// The signs of all that work, by name.
    pub(super) fn signs(&self) -> Vec<(&'static str, Signs)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(|vital| Some((vital.name, vital.signs()?)))
            .collect()
    }
}
