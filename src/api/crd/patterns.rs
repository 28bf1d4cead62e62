//! The patterns of surface §1.3, by their names there.

/// A length of time, as `terminationGracePeriod` takes it.
pub const TERMINATION_GRACE_PERIOD: &str = "^([0-9]+(s|m|h))+$";
/// A length of time, or `Never`.
pub const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";
/// For how long a budget is active: hours and minutes only.
pub const BUDGET_DURATION: &str = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
/// A number of nodes, or a percentage.
pub const BUDGET_NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
/// When a budget begins. Anchored on one side only, as upstream's: what slips through fails in the cron parser and the budget then allows nothing.
pub const BUDGET_SCHEDULE: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
/// A label key or a taint value.
pub const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value.
pub const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A quantity.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// An API group without a version.
pub const GROUP: &str = "^[^/]*$";
/// A price.
pub const PRICE: &str = r"^\d+(\.\d+)?$";
/// A change of price: a signed amount or percentage, at most -100 %.
pub const PRICE_ADJUSTMENT: &str = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
/// A condition's type.
pub const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// A condition's reason.
pub const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// A condition's reason where it may be empty (surface T22).
pub const CONDITION_REASON_OR_EMPTY: &str = "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";
