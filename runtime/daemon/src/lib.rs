//! punctuald: startup, real-time threads, ingress, intake, egress, shutdown, metrics.
