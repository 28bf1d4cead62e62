//! What signs of life mean. Pure: how long something has lasted is an argument.

use super::vital::Signs;
use std::fmt;
use std::time::Duration;

/// How long things may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A watch says something each minute, if only a bookmark.
    pub silence: Duration,
    /// Relisting did not bring a watch back, and no error says why.
    pub mute: Duration,
    /// Work takes seconds.
    pub busy: Duration,
    /// No work takes this long: the longest calls to a cloud are given up before.
    pub stuck: Duration,
    /// Work waits although nobody works.
    pub idle: Duration,
    /// The cluster task answers at once.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(80),
            mute: Duration::from_mins(5),
            busy: Duration::from_secs(50),
            stuck: Duration::from_mins(15),
            idle: Duration::from_mins(2),
            answer: Duration::from_secs(40),
        }
    }
}

/// What is looked after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// One watch.
    Watch(String),
    /// A queue or loop.
    Work(&'static str),
    /// The task that owns the cluster state.
    ClusterState,
}

impl Part {
    /// Kind and name, for metrics.
    pub(super) fn labels(&self) -> [&str; 2] {
        match self {
            Self::Watch(name) => ["watch", name],
            Self::Work(name) => ["controller", name],
            Self::ClusterState => ["task", "cluster state"],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, name] = self.labels();
        write!(f, "{kind} {name}")
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cure {
    /// Nothing but telling: it may come back by itself.
    Wait,
    /// List again.
    Relist,
    /// End the process, so that another starts afresh.
    End,
}

/// Something that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) part: Part,
    pub(super) trouble: String,
    pub(super) cure: Cure,
}

/// A queue or loop by its signs.
pub(super) fn of_work(name: &'static str, signs: Signs, limits: &Limits) -> Option<Finding> {
    let found = |trouble, cure| {
        Some(Finding {
            part: Part::Work(name),
            trouble,
            cure,
        })
    };
    let seconds = |time: Duration| time.as_secs();
    if signs.running_for > limits.stuck {
        return found(format!("one run takes {} s", seconds(signs.running_for)), Cure::End);
    }
    if signs.running == 0 && signs.waiting_for > limits.idle {
        let trouble = format!("work waits for {} s and nobody works", seconds(signs.waiting_for));
        return found(trouble, Cure::End);
    }
    if signs.running_for > limits.busy {
        return found(format!("one run takes {} s", seconds(signs.running_for)), Cure::Wait);
    }
    if signs.waiting_for > limits.busy {
        let trouble = format!(
            "work waits for {} s while {} run",
            seconds(signs.waiting_for),
            signs.running
        );
        return found(trouble, Cure::Wait);
    }
    None
}

/// A watch by how long it has been silent, how long that is known, and what its last error was.
pub(super) fn of_watch(
    name: &str,
    silent: Duration,
    known: Duration,
    trouble: Option<&str>,
    limits: &Limits,
) -> Option<Finding> {
    if silent <= limits.silence {
        return None;
    }
    let part = Part::Watch(name.to_owned());
    let seconds = silent.as_secs();
    Some(match trouble {
        // it is trying, and says why it does not succeed
        Some(error) => Finding {
            part,
            trouble: format!("silent for {seconds} s: {error}"),
            cure: Cure::Wait,
        },
        None if known > limits.mute => Finding {
            part,
            trouble: format!("silent for {seconds} s, and listing again does not help"),
            cure: Cure::End,
        },
        None => Finding {
            part,
            trouble: format!("silent for {seconds} s"),
            cure: Cure::Relist,
        },
    })
}

/// The cluster task by how long a question has been without an answer.
pub(super) fn of_cluster_state(unanswered: Duration, limits: &Limits) -> Option<Finding> {
    (unanswered > limits.answer).then(|| Finding {
        part: Part::ClusterState,
        trouble: format!("no answer for {} s", unanswered.as_secs()),
        cure: Cure::End,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn work(running_for: u64, running: usize, waiting_for: u64) -> Option<Cure> {
        let signs = Signs {
            running_for: seconds(running_for),
            running,
            waiting_for: seconds(waiting_for),
        };
        of_work("queue", signs, &Limits::default()).map(|finding| finding.cure)
    }

    #[test]
    fn work_that_takes_or_waits_a_minute_is_told_and_work_that_cannot_end_ends_the_process() {
        assert_eq!(work(0, 0, 0), None);
        assert_eq!(work(50, 3, 50), None);
        assert_eq!(work(59, 3, 0), Some(Cure::Wait));
        assert_eq!(work(10, 10, 59), Some(Cure::Wait), "all workers are busy");
        assert_eq!(work(0, 0, 59), Some(Cure::Wait));
        assert_eq!(work(0, 0, 121), Some(Cure::End), "nobody works");
        assert_eq!(work(901, 1, 0), Some(Cure::End));
    }

    #[test]
    fn a_silent_watch_lists_again_unless_it_knows_what_is_wrong_and_ends_the_process_if_that_does_not_help() {
        let limits = Limits::default();
        let cure = |silent, known, trouble| {
            of_watch("Pod", seconds(silent), seconds(known), trouble, &limits).map(|finding| finding.cure)
        };
        assert_eq!(cure(75, 0, None), None);
        assert_eq!(cure(81, 0, None), Some(Cure::Relist));
        assert_eq!(cure(500, 301, None), Some(Cure::End));
        assert_eq!(cure(500, 301, Some("connection refused")), Some(Cure::Wait));
    }

    #[test]
    fn everything_is_noticed_within_a_minute_of_when_it_should_have_moved() {
        let limits = Limits::default();
        let bookmark = seconds(60);
        let look = super::super::run::LOOK_EVERY;
        for (limit, due) in [
            (limits.silence, bookmark),
            (limits.busy, seconds(0)),
            // a question takes a look by itself
            (limits.answer + look, seconds(0)),
        ] {
            assert!(limit + look <= due + seconds(60));
        }
    }
}
