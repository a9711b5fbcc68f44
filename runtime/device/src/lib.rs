//! The Device trait, the CPU device, the virtual-time device and the conformance suite.
