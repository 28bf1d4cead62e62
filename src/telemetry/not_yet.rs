//! Families of surface §5 that we do not show, and why.
//!
//! tests/surface/metrics.rs accounts for every family that upstream showed: it is declared, or it is here. An entry goes when its family is declared.

/// Why a family is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// What it counts does not exist yet.
    NotBuiltYet,
    /// It has no meaning here and stays absent.
    Never,
}

/// The absent families by name.
pub const NOT_YET: &[(&str, Absent)] = &[
    // conversion and admission webhooks: there are none
    ("certwatcher_read_certificate_errors_total", Absent::Never),
    ("certwatcher_read_certificate_total", Absent::Never),
    ("controller_runtime_conversion_webhook_panics_total", Absent::Never),
    ("controller_runtime_webhook_panics_total", Absent::Never),
    // interruption messages come with the pre-emption receiver
    (
        "karpenter_interruption_message_queue_duration_seconds",
        Absent::NotBuiltYet,
    ),
    ("karpenter_interruption_received_messages_total", Absent::NotBuiltYet),
    // node repair
    ("karpenter_nodeclaims_unhealthy_disrupted_total", Absent::NotBuiltYet),
    // consolidation of nodes that are not empty
    (
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        Absent::NotBuiltYet,
    ),
    // registered upstream, never moves (surface T10)
    ("rest_client_requests_total", Absent::Never),
];
