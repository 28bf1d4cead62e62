//! Which pools a list is about: label selector and page (rackspace-spot 3.0).

use super::answer::{Answer, Call};
use std::collections::BTreeMap;

/// Label selector and page of a list.
pub(super) struct Selector {
    equal: Vec<(String, String)>,
    unequal: Vec<(String, String)>,
    exist: Vec<String>,
    /// Length of a page.
    pub(super) limit: Option<usize>,
    /// The last name of the page before.
    pub(super) after: Option<String>,
}

impl Selector {
    /// Reads `labelSelector`, `limit` and `continue`.
    pub(super) fn read(call: &Call) -> Result<Self, Answer> {
        let mut selector = Self {
            equal: vec![],
            unequal: vec![],
            exist: vec![],
            limit: None,
            after: None,
        };
        for term in call
            .parameter("labelSelector")
            .unwrap_or_default()
            .split(',')
            .filter(|term| !term.is_empty())
        {
            let pair = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
            if let Some(found) = term.split_once("!=") {
                selector.unequal.push(pair(found));
            } else if let Some(found) = term.split_once("==").or_else(|| term.split_once('=')) {
                selector.equal.push(pair(found));
            } else if term.contains(['(', ')', '!', ' ']) {
                return Err(Answer::failure(
                    400,
                    "BadRequest",
                    &format!("unable to parse requirement: {term}"),
                ));
            } else {
                selector.exist.push(term.to_owned());
            }
        }
        let limit = call.parameter("limit").unwrap_or_default();
        if !limit.is_empty() {
            let number: usize = limit.parse().map_err(|_| {
                Answer::failure(
                    400,
                    "BadRequest",
                    &format!("strconv.ParseInt: parsing \"{limit}\": invalid syntax"),
                )
            })?;
            selector.limit = (number > 0).then_some(number);
        }
        selector.after = call.parameter("continue").filter(|after| !after.is_empty());
        Ok(selector)
    }

    /// Whether an object with these labels is meant.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let is = |(key, value): &(String, String)| labels.get(key) == Some(value);
        self.equal.iter().all(is)
            && !self.unequal.iter().any(is)
            && self.exist.iter().all(|key| labels.contains_key(key))
    }
}
