//! What the platform tells a cloudspace's webhook (rackspace-spot 5.6, §7 rows 16 to 18).
//!
//! The pure part: which deliveries are due, with which body, and when a failed one is tried again. Sending is the service's.

use super::options::{WebhookServer, WebhookShape};
use super::platform::Platform;
use super::pool::time;
use super::server::Server;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

/// A POST to a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Number of the delivery.
    pub id: u64,
    /// URL.
    pub url: String,
    /// Body.
    pub body: Value,
    /// When it is due.
    pub due: DateTime<Utc>,
    /// Tries so far.
    pub tries: u32,
    /// Whether one try is under way.
    pub sending: bool,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver said 2xx.
    Delivered,
    /// It never did.
    GivenUp,
}

impl Platform {
    /// Queues a call to the webhook of a server's cloudspace, if it has one.
    pub(super) fn notify(&mut self, server: &Server) {
        let Some(url) = self
            .cloudspaces
            .get(&server.cloudspace)
            .and_then(|space| space.seed.webhook.clone())
        else {
            return;
        };
        let quirks = &self.options.quirks;
        let id = match quirks.webhook_server {
            WebhookServer::Nova => &server.uuid,
            WebhookServer::Unrelated => &server.internal_id,
        };
        let notice = json!({"cloudspace": server.cloudspace, "Server": id, "IP": server.ip, "Time": time(self.now)});
        let body = match quirks.webhook_shape {
            WebhookShape::Bare => notice,
            WebhookShape::Slack => json!({"text": notice.to_string()}),
        };
        let id = u64::try_from(self.deliveries.len()).unwrap_or(u64::MAX);
        self.deliveries.push(Delivery {
            id,
            url,
            body,
            due: self.now,
            tries: 0,
            sending: false,
            outcome: None,
        });
        self.revision += 1;
    }

    /// The deliveries that are due now; each must be reported with [`Platform::delivered`].
    pub fn take_due_deliveries(&mut self) -> Vec<Delivery> {
        let now = self.now;
        self.deliveries
            .iter_mut()
            .filter(|delivery| delivery.outcome.is_none() && !delivery.sending && delivery.due <= now)
            .map(|delivery| {
                delivery.sending = true;
                delivery.tries += 1;
                delivery.clone()
            })
            .collect()
    }

    /// Reports how a try went.
    pub fn delivered(&mut self, id: u64, accepted: bool) {
        let retry = self.in_(self.options.delays.webhook_retry);
        let tries = self.options.quirks.webhook_tries;
        if let Some(delivery) = self.deliveries.iter_mut().find(|delivery| delivery.id == id) {
            delivery.sending = false;
            delivery.due = retry;
            delivery.outcome = match accepted {
                true => Some(Outcome::Delivered),
                false if delivery.tries >= tries => Some(Outcome::GivenUp),
                false => None,
            };
        }
        self.revision += 1;
    }

    /// Every delivery so far.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// How long one try may take; it passes in real time.
    pub fn webhook_timeout(&self) -> std::time::Duration {
        super::chance::delta(self.options.delays.webhook_timeout)
            .max(TimeDelta::zero())
            .to_std()
            .unwrap_or_default()
    }
}
