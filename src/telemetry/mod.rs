//! Leaves that all may use: the metrics and log fields we declare.
