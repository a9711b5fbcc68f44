//! Manifest, board and profiles to a validated, frozen plan.
