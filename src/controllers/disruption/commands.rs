//! The commands under way. Nothing of it survives a restart; what half-done commands left on objects is undone then (disruption 11.8).

use crate::cluster::MachineId;
use crate::disruption::command::Command;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names a command in the queue.
pub type Number = u64;

#[derive(Debug, Default)]
struct Book {
    last: Number,
    under_way: BTreeMap<Number, Command>,
}

/// The commands under way; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Commands(Arc<Mutex<Book>>);

impl Commands {
    /// Machines that some command is under way for.
    pub fn busy(&self) -> BTreeSet<MachineId> {
        let book = self.book();
        let commands = book.under_way.values();
        commands.flat_map(|command| command.machines().cloned()).collect()
    }

    /// What names the next command in logs: unique among processes by the time, within one by the count.
    pub(super) fn name(&self, now: DateTime<Utc>) -> String {
        let mut book = self.book();
        book.last += 1;
        let time = u128::from(now.timestamp_micros().unsigned_abs());
        uuid::Uuid::from_u128((time << 64) | u128::from(book.last)).to_string()
    }

    /// Enters a command, unless one is under way for any of its machines (disruption 9.1).
    pub(super) fn enter(&self, command: Command) -> Option<Number> {
        let busy = self.busy();
        if command.machines().any(|machine| busy.contains(machine)) {
            return None;
        }
        let mut book = self.book();
        book.last += 1;
        let number = book.last;
        book.under_way.insert(number, command);
        Some(number)
    }

    pub(super) fn get(&self, number: Number) -> Option<Command> {
        self.book().under_way.get(&number).cloned()
    }

    /// Puts a changed command in the place of the former.
    pub(super) fn replace(&self, number: Number, command: Command) {
        if let Some(place) = self.book().under_way.get_mut(&number) {
            *place = command;
        }
    }

    pub(super) fn remove(&self, number: Number) {
        self.book().under_way.remove(&number);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
