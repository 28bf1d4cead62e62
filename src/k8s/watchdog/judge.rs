//! What signs of life mean. Pure: how long something has lasted is an argument.

use super::vital::Signs;
use std::fmt;
use std::time::Duration;

/// How long things may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A watch says something each half minute, if only that it is over; a server that is slow to open the next one has the rest.
    pub silence: Duration,
    /// Relisting did not bring a watch back, and no error of this time says why.
    pub mute: Duration,
    /// Work takes seconds.
    pub busy: Duration,
    /// No work goes on for so long without any progress; what waits within a known limit, like a call to a cloud, makes some.
    pub stuck: Duration,
    /// Work waits although nobody works.
    pub idle: Duration,
    /// The cluster task answers at once.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(50),
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
    if signs.stuck_for > limits.stuck {
        let trouble = format!(
            "one run takes {} s and has made no progress for {} s",
            seconds(signs.running_for.max(signs.stuck_for)),
            seconds(signs.stuck_for)
        );
        return found(trouble, Cure::End);
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

/// How a watch is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched<'a> {
    /// How long it has given no sign of life.
    pub(super) silent: Duration,
    /// How long that is known.
    pub(super) known: Duration,
    /// Its last error, if nothing went right since, and how old that is.
    pub(super) trouble: Option<(&'a str, Duration)>,
}

/// A watch by its signs. One that tries and says why it does not succeed is left to it; one that has stopped to say anything is not.
pub(super) fn of_watch(name: &str, watched: Watched<'_>, limits: &Limits) -> Option<Finding> {
    if watched.silent <= limits.silence {
        return None;
    }
    let seconds = watched.silent.as_secs();
    let why = watched
        .trouble
        .map(|(error, _)| format!(": {error}"))
        .unwrap_or_default();
    let (trouble, cure) = match watched.trouble {
        Some((_, age)) if age <= limits.mute => (format!("silent for {seconds} s{why}"), Cure::Wait),
        _ if watched.known > limits.mute => (
            format!("silent for {seconds} s, and listing again does not help{why}"),
            Cure::End,
        ),
        _ => (format!("silent for {seconds} s{why}"), Cure::Relist),
    };
    Some(Finding {
        part: Part::Watch(name.to_owned()),
        trouble,
        cure,
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
        stuck_work(running_for, running_for, running, waiting_for)
    }

    fn stuck_work(running_for: u64, stuck_for: u64, running: usize, waiting_for: u64) -> Option<Cure> {
        let signs = Signs {
            running_for: seconds(running_for),
            stuck_for: seconds(stuck_for),
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
    fn work_that_makes_progress_is_told_and_never_ends_the_process() {
        assert_eq!(stuck_work(100_000, 900, 1, 0), Some(Cure::Wait));
        assert_eq!(stuck_work(100_000, 901, 1, 0), Some(Cure::End));
    }

    fn cure(silent: u64, known: u64, trouble: Option<(&str, u64)>) -> Option<Cure> {
        let watched = Watched {
            silent: seconds(silent),
            known: seconds(known),
            trouble: trouble.map(|(words, age)| (words, seconds(age))),
        };
        of_watch("Pod", watched, &Limits::default()).map(|finding| finding.cure)
    }

    #[test]
    fn a_silent_watch_lists_again_unless_it_knows_what_is_wrong_and_ends_the_process_if_that_does_not_help() {
        assert_eq!(cure(50, 0, None), None);
        assert_eq!(cure(51, 0, None), Some(Cure::Relist));
        assert_eq!(cure(500, 301, None), Some(Cure::End));
        assert_eq!(cure(5_000, 4_000, Some(("connection refused", 180))), Some(Cure::Wait));
    }

    #[test]
    fn a_watch_that_failed_once_and_says_nothing_since_is_not_waited_for() {
        assert_eq!(cure(302, 250, Some(("connection refused", 301))), Some(Cure::Relist));
        assert_eq!(cure(360, 301, Some(("connection refused", 340))), Some(Cure::End));
    }

    #[test]
    fn everything_is_noticed_within_a_minute() {
        let limits = Limits::default();
        // each look asks the cluster state first, and waits as long again for its answer
        let look = 2 * super::super::run::LOOK_EVERY;
        for limit in [
            limits.silence,
            limits.busy,
            limits.answer + super::super::run::LOOK_EVERY,
        ] {
            assert!(limit + look <= seconds(60), "{limit:?}");
        }
    }
}
