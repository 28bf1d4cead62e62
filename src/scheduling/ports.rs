//! Ports that pods take on their machine (scheduling §9).

use std::net::IpAddr;

/// A port of the machine itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address as written; unspecified when empty.
    pub ip: String,
    /// The port number.
    pub port: i32,
    /// TCP, UDP or SCTP as written; the API server fills TCP in.
    pub protocol: String,
}

impl HostPort {
    fn is_everywhere(&self) -> bool {
        self.ip.is_empty() || self.ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }

    fn same_address(&self, other: &Self) -> bool {
        match (self.ip.parse::<IpAddr>(), other.ip.parse::<IpAddr>()) {
            (Ok(a), Ok(b)) => a == b,
            _ => self.ip == other.ip,
        }
    }

    /// Whether both cannot be taken on one machine by different pods (scheduling 9-2).
    pub fn conflicts(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.port == other.port
            && (self.is_everywhere() || other.is_everywhere() || self.same_address(other))
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ip = if self.ip.is_empty() { "0.0.0.0" } else { &self.ip };
        write!(f, "IP={ip} Port={} Proto={}", self.port, self.protocol)
    }
}
