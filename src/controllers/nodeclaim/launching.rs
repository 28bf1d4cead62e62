//! Carries out the launch step: asks the provider, orders, waits, marks launched, or gives the claim up (lifecycle 3, architecture §7.3, §7.21).

use super::details;
use super::lifecycle::{Ended, Lifecycle, Pass, Step};
use super::machine::Earlier;
use crate::api::{Conditioned, NodeClaim, conditions};
use crate::cloud::{AWAITING_SERVER_ASSIGNMENT, CloudError, MachineState, Remedy, Stage};
use crate::controllers::Arrival;
use crate::k8s::events::{Event, EventType, Involved};
use crate::k8s::queue::{Next, ReconcileError};
use crate::lifecycle::launch::{
    AfterFailure, GiveUp, LaunchStep, Launched, Machine, OrderFailure, after_failure, next_step,
};
use crate::lifecycle::liveness::launch_deadline;
use crate::telemetry::Structured;
use chrono::TimeDelta;

/// Condition reason of a claim that arrived after its pods were planned anew.
const SENT_BY_EARLIER_LEADER: &str = "SentByEarlierLeader";

impl Lifecycle {
    /// The launch step of one pass.
    pub(super) async fn launch(&self, pass: &mut Pass<'_>) -> Result<Step, ReconcileError> {
        let launched = if pass.claim.is_unknown(conditions::LAUNCHED) {
            Launched::Open
        } else {
            Launched::Decided
        };
        let machine = self.machine(pass, launched).await;
        let timeout = TimeDelta::from_std(self.kit.provider.launch_timeout(&pass.claim)).unwrap_or(TimeDelta::MAX);
        let deadline = launch_deadline(pass.created, timeout);
        match next_step(launched, &machine, deadline, pass.now) {
            LaunchStep::Reassert { until } => {
                reassert(&mut pass.claim, conditions::LAUNCHED, pass.now);
                Ok(Step::Next(until.map_or(Next::Done, |until| pass.at(until))))
            }
            LaunchStep::Order => self.order(pass).await,
            LaunchStep::Wait { until, says } => {
                if let Some((reason, message)) = says {
                    self.fill_in(pass);
                    pass.claim
                        .set_unknown(conditions::LAUNCHED, &reason, &message, pass.now);
                }
                Ok(Step::Next(pass.at(until)))
            }
            LaunchStep::MarkLaunched => {
                self.fill_in(pass);
                match self.recover(pass).await {
                    // after the deadline its node alone has to do
                    Err(error) if pass.now < deadline => Ok(Step::Failed(again(error))),
                    Ok(()) | Err(_) => {
                        mark_launched(pass);
                        Ok(Step::Next(Next::Done))
                    }
                }
            }
            LaunchStep::GiveUp(GiveUp::Unneeded) => Ok(Step::End(unneeded(pass))),
            LaunchStep::GiveUp(why) => Ok(Step::End(self.give_up_launch(pass, why))),
        }
    }

    /// What is known of the machine. A claim whose node lives needs no question: a kubelet that reports is the stronger evidence (lifecycle 9.3), also
    /// while the platform does not show the server yet.
    async fn machine(&self, pass: &Pass<'_>, launched: Launched) -> Machine {
        if pass.node_is_heard() {
            return Machine::Alive;
        }
        if launched == Launched::Open && pass.node.is_some() {
            return Machine::Attached;
        }
        let never_ordered = pass.claim.provider_id().is_none() && self.orders.details(pass.claim.uid()).is_none();
        if launched == Launched::Open && never_ordered {
            return match self.kit.arrivals.of(&pass.claim) {
                Arrival::Late => Machine::Unneeded,
                Arrival::Undecided => Machine::Unreachable { says: None },
                Arrival::Sent | Arrival::There => Machine::NotOrdered,
            };
        }
        let identity = self.orders.identity(&pass.claim);
        let state = self
            .kit
            .provider
            .get(&identity)
            .await
            .unwrap_or_else(|error| match error.remedy() {
                Remedy::AlreadyDone => MachineState::Absent,
                _ => MachineState::Unknown,
            });
        match self.orders.facts(&pass.claim, &state, pass.now) {
            Machine::Unreachable { .. } => Machine::Unreachable {
                says: self.why_unreachable(),
            },
            known => known,
        }
    }

    /// What is wrong with the provider as a whole, such as a token that was revoked: each claim that waits because of it says so.
    fn why_unreachable(&self) -> Option<(String, String)> {
        let trouble = self.kit.provider.readiness().err()?;
        let words = format!("the cloud cannot be asked: {trouble}");
        Some((AWAITING_SERVER_ASSIGNMENT.to_owned(), words))
    }

    async fn order(&self, pass: &mut Pass<'_>) -> Result<Step, ReconcileError> {
        let uid = pass.claim.uid().to_owned();
        let earlier = match self.kit.arrivals.of(&pass.claim) {
            Arrival::Sent => {
                self.kit.provider.made_here(&uid);
                Earlier::None
            }
            Arrival::There | Arrival::Undecided | Arrival::Late => Earlier::Possible,
        };
        self.orders.sending(&uid, earlier);
        let error = match self.kit.provider.create(&pass.claim).await {
            Ok(accepted) => {
                self.orders.accepted(&uid, accepted.clone());
                details::populate(&mut pass.claim, &accepted);
                return Ok(Step::Next(match accepted.stage {
                    Stage::Attached => {
                        mark_launched(pass);
                        Next::Done
                    }
                    Stage::Waiting { reason, message } => {
                        pass.claim.set_unknown(conditions::LAUNCHED, reason, &message, pass.now);
                        Next::After(crate::lifecycle::launch::POLL.to_std().unwrap_or_default())
                    }
                }));
            }
            Err(error) => error,
        };
        if error.remedy() != Remedy::LookFirst {
            self.orders.refused(&uid);
        }
        match after_failure(failure(&error)) {
            AfterFailure::DeleteClaim { reason, event } => {
                tracing::error!(
                    NodeClaim = pass.claim.metadata.name,
                    error = error.full_text(),
                    "failed launching nodeclaim"
                );
                if let Some(text) = event {
                    self.kit.recorder.publish(insufficient_capacity(&pass.claim, &text));
                }
                Ok(Step::End(Ended {
                    reason,
                    unhealthy: None,
                }))
            }
            AfterFailure::Retry { reason, message } => {
                pass.claim
                    .set_unknown(conditions::LAUNCHED, &reason, &message, pass.now);
                Ok(Step::Failed(again(error)))
            }
        }
    }

    fn give_up_launch(&self, pass: &Pass<'_>, why: GiveUp) -> Ended {
        if why == GiveUp::TimedOut {
            return self.launch_timed_out(pass);
        }
        tracing::info!(
            NodeClaim = pass.claim.metadata.name,
            "provider-id" = pass.claim.provider_id(),
            taken = why == GiveUp::Taken,
            "machine is gone, deleting nodeclaim"
        );
        Ended {
            reason: "garbage_collected",
            unhealthy: None,
        }
    }

    /// Asks the provider what was accepted for a claim of which nothing is known but its node: it joined while no operator ran, or no answer was heard.
    async fn recover(&self, pass: &mut Pass<'_>) -> Result<(), CloudError> {
        if pass.claim.instance_type().is_some() {
            return Ok(());
        }
        let found = match self.kit.provider.recover(&pass.claim).await {
            Err(error) if error.remedy() == Remedy::TellTheUser => None,
            found => found?,
        };
        if let Some(accepted) = found {
            details::populate(&mut pass.claim, &accepted);
        }
        Ok(())
    }

    /// Puts what was accepted on a claim whose own record of it was never written.
    fn fill_in(&self, pass: &mut Pass<'_>) {
        if pass.claim.instance_type().is_none()
            && let Some(accepted) = self.orders.details(pass.claim.uid())
        {
            details::populate(&mut pass.claim, &accepted);
        }
    }
}

/// Tried again, not sooner than the cloud asks for.
fn again(error: CloudError) -> ReconcileError {
    let after = match error.remedy() {
        Remedy::TryAgain { after } => after,
        _ => None,
    };
    let error = ReconcileError::new(error);
    match after {
        Some(after) => error.not_before(after),
        None => error,
    }
}

/// Ends a claim that arrived after its pods were planned anew (architecture §3.5).
fn unneeded(pass: &mut Pass<'_>) -> Ended {
    tracing::warn!(
        NodeClaim = pass.claim.metadata.name,
        "an earlier leader sent this nodeclaim and it arrived after its pods were planned anew, deleting it before a machine is ordered"
    );
    let message = "An earlier leader sent this NodeClaim, and it arrived after the present one had planned its pods anew; no machine \
                   was ordered for it, and it is being deleted";
    pass.claim
        .set_unknown(conditions::LAUNCHED, SENT_BY_EARLIER_LEADER, message, pass.now);
    Ended {
        reason: "garbage_collected",
        unhealthy: None,
    }
}

/// Sets a condition as it is, so that its generation follows the object's (lifecycle 1.6).
pub(super) fn reassert(claim: &mut NodeClaim, type_: &str, now: chrono::DateTime<chrono::Utc>) {
    if let Some(known) = claim.condition(type_).cloned() {
        claim.set_condition(type_, known.status, &known.reason, &known.message, now);
    }
}

fn failure(error: &CloudError) -> OrderFailure {
    match error {
        CloudError::InsufficientCapacity { .. } => OrderFailure::InsufficientCapacity(error.full_text()),
        CloudError::NodeClassNotReady { .. } => OrderFailure::NodeClassNotReady(error.full_text()),
        CloudError::Create { reason, message, .. } => OrderFailure::Typed {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        other => OrderFailure::Other(other.full_text()),
    }
}

/// surface §4.2: InsufficientCapacityError.
fn insufficient_capacity(claim: &NodeClaim, text: &str) -> Event {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let message = format!("NodeClaim {name} event: {text}");
    Event::new(
        EventType::Warning,
        "InsufficientCapacityError",
        Involved::object(claim),
        message,
    )
    .deduped_by([claim.uid()])
}

fn mark_launched(pass: &mut Pass<'_>) {
    pass.claim.set_true(conditions::LAUNCHED, pass.now);
    tracing::info!(
        NodeClaim = pass.claim.metadata.name,
        "provider-id" = pass.claim.provider_id(),
        "instance-type" = pass.claim.instance_type(),
        zone = pass.claim.zone(),
        "capacity-type" = pass.claim.capacity_type(),
        allocatable = ?Structured(pass.allocatable().to_value()),
        "launched nodeclaim"
    );
}
