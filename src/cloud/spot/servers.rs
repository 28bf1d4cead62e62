//! Which of a pool's servers is the claim's, when this process did not see it come.
//!
//! After a restart nothing is remembered of the server that became the node. A pool that lost it may have won another one since, which bills and
//! never becomes the claim's node (architecture §7.21). The platform names its servers, and the claim records its node: where the two agree, that
//! server is the one.
//!
//! Where they do not, nothing is ended. That a server has the name of its node is published nowhere (rackspace-spot §7 row 13): were it not so,
//! every node that is not heard for a moment after a restart would be taken for lost, and its running server ended. It is said instead, with what to
//! do. Whoever takes the Node away, the cloud controller as a rule, ends the claim and its pool anyway; so does the other server when it joins as a Node
//! while the claim's own is silent (`lifecycle::garbage`).
//!
//! Pure; called by the judgement of orders.

/// The server that is taken for the claim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First<'a> {
    /// Its key.
    pub key: &'a str,
    /// Whether it may be.
    pub likeness: Likeness,
}

/// How sure it is that a server is the one that became the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// It has the node's name, or there is nothing to compare with.
    Plausible,
    /// The claim has a node, all servers have names, and none has the node's.
    Stranger,
}

/// Picks from a pool's servers (key and name, in the order of the keys); `node` is the node that the claim became.
pub fn first_of<'a>(servers: &[(&'a str, &'a str)], node: Option<&str>) -> Option<First<'a>> {
    let of = |(key, _): &(&'a str, &'a str), likeness| First { key, likeness };
    let any = servers.first()?;
    let Some(node) = node else {
        return Some(of(any, Likeness::Plausible));
    };
    if let Some(own) = servers.iter().find(|(_, name)| *name == node) {
        return Some(of(own, Likeness::Plausible));
    }
    let named = servers.iter().all(|(_, name)| !name.is_empty());
    Some(of(any, if named { Likeness::Stranger } else { Likeness::Plausible }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_and_likeness(
        servers: &[(&'static str, &'static str)],
        node: Option<&str>,
    ) -> Option<(&'static str, Likeness)> {
        first_of(servers, node).map(|first| (first.key, first.likeness))
    }

    #[test]
    fn the_server_with_the_nodes_name_is_the_claims_wherever_it_stands() {
        let both = [("u-a", "prod-2"), ("u-z", "prod-1")];
        assert_eq!(
            key_and_likeness(&both, Some("prod-1")),
            Some(("u-z", Likeness::Plausible))
        );
    }

    #[test]
    fn a_server_of_another_name_than_the_claims_node_is_a_stranger() {
        // architecture §7.21
        let other = [("u-b", "prod-2")];
        assert_eq!(
            key_and_likeness(&other, Some("prod-1")),
            Some(("u-b", Likeness::Stranger))
        );
    }

    #[test]
    fn without_names_or_without_a_node_nothing_is_suspected() {
        assert_eq!(
            key_and_likeness(&[("u-b", "")], Some("prod-1")),
            Some(("u-b", Likeness::Plausible))
        );
        let one_without = [("u-b", "prod-2"), ("u-c", "")];
        assert_eq!(
            key_and_likeness(&one_without, Some("prod-1")),
            Some(("u-b", Likeness::Plausible))
        );
        assert_eq!(
            key_and_likeness(&[("u-b", "prod-2")], None),
            Some(("u-b", Likeness::Plausible))
        );
        assert_eq!(key_and_likeness(&[], Some("prod-1")), None);
    }
}
