//! Feature gates (surface §6.3).
//!
//! Parsed once at start from the setting `FEATURE_GATES`; a gate that is not named keeps its compiled default (surface T11).

use super::parse;

/// The gates.
#[allow(clippy::struct_excessive_bools)] // five independent switches of the public surface
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// Unhealthy nodes are replaced.
    pub node_repair: bool,
    /// Reserved offerings are considered.
    pub reserved_capacity: bool,
    /// A spot node may be replaced by a cheaper spot node.
    pub spot_to_spot_consolidation: bool,
    /// NodeOverlays change prices and capacity.
    pub node_overlay: bool,
    /// NodePools with `spec.replicas` are acted upon.
    pub static_capacity: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
        }
    }
}

/// An item of the setting that is no gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parsing feature gates, {item:?} is not of the form Name=true or Name=false")]
pub struct GatesError {
    /// The item as written.
    pub item: String,
}

impl Gates {
    /// Reads the setting. The last mention of a gate wins; unknown names are ignored, as upstream does.
    pub fn parse(text: &str) -> Result<Self, GatesError> {
        let blank: &[char] = &[' ', '\t'];
        let mut gates = Self::default();
        for item in text
            .split(',')
            .map(|item| item.trim_matches(blank))
            .filter(|item| !item.is_empty())
        {
            let malformed = || GatesError {
                item: item.chars().take(80).collect(),
            };
            let (name, value) = item.split_once('=').ok_or_else(malformed)?;
            let value = parse::boolean(value.trim_matches(blank)).ok_or_else(malformed)?;
            if let Some(gate) = gates.by_name(name.trim_matches(blank)) {
                *gate = value;
            }
        }
        Ok(gates)
    }

    fn by_name(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "NodeRepair" => Some(&mut self.node_repair),
            "ReservedCapacity" => Some(&mut self.reserved_capacity),
            "SpotToSpotConsolidation" => Some(&mut self.spot_to_spot_consolidation),
            "NodeOverlay" => Some(&mut self.node_overlay),
            "StaticCapacity" => Some(&mut self.static_capacity),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Gates)) -> Gates {
        let mut gates = Gates::default();
        change(&mut gates);
        gates
    }

    // surface §6.3, one line per row of its table
    #[test]
    fn gates_are_read_as_upstream_reads_them() {
        assert_eq!(Gates::parse(""), Ok(Gates::default()));
        assert_eq!(Gates::parse("NodeRepair=true"), Ok(with(|g| g.node_repair = true)));
        assert_eq!(
            Gates::parse("ReservedCapacity=false"),
            Ok(with(|g| g.reserved_capacity = false))
        );
        let two = with(|g| (g.node_repair, g.node_overlay) = (true, true));
        assert_eq!(Gates::parse("NodeRepair=true,\t NodeOverlay = 1"), Ok(two));
        assert_eq!(Gates::parse("NodeRepair=true,,NodeOverlay=T,"), Ok(two));
        assert_eq!(Gates::parse("NodeRepair=true,NodeRepair=false"), Ok(Gates::default()));
        assert_eq!(Gates::parse("Foo=true"), Ok(Gates::default()));
        assert_eq!(Gates::parse("noderepair=true"), Ok(Gates::default()));
        for bad in ["NodeRepair", "NodeRepair=yes", "NodeRepair=", "Foo=maybe"] {
            let error = Gates::parse(bad).unwrap_err().to_string();
            assert!(
                error.starts_with("parsing feature gates, ") && error.contains(bad),
                "{error}"
            );
        }
    }

    #[test]
    fn the_default_text_means_the_compiled_defaults() {
        assert_eq!(
            Gates::parse(super::super::settings::DEFAULT_GATES),
            Ok(Gates::default())
        );
    }
}
