//! Partitions: ranges of a device's units, given to streams so that launches run on them and nowhere else.
//!
//! | module | what it gives |
//! |---|---|
//! | [`sms`], [`units`] | sets of multiprocessors; the units that a mechanism divides the device into |
//! | [`calibration`] | which bit governs which multiprocessors, or why a mechanism is refused |
//! | [`record`] | what calibration found, kept in a file |
//! | [`trial`] | a calibration in a process that may die of it |
//! | [`place`], [`search`] | where a driver keeps masks if that is not known, found by trying |
//! | `mechanism` | the mechanisms that there are, and what one grants |
//! | [`choice`] | the first mechanism that holds what it promises |
//! | `facts` | a device, as its driver and the machine describe it |
//! | [`offer`] | all of that for a device: what plans and reports are made from |
//! | [`means`] | [`Partitioner`]: streams that are kept to their partition |
//!
//! A plan's units are those of the mechanism that was chosen, so any range that the core asks for, SEEB's
//! Algorithm 1 included, is one that can be granted as it stands.

pub mod calibration;
pub mod choice;
mod facts;
pub mod means;
mod mechanism;
pub mod offer;
pub mod place;
pub mod record;
pub mod search;
mod sm_probe;
pub mod sms;
pub mod trial;
pub mod units;

pub use libsmctrl_sys::CudaVersion;

pub use calibration::{Expected, Probe, Refusal, calibrate};
pub use choice::{Choice, NotWholeUnits, Undivided};
pub use means::{Division, Partitioner, StreamError};
pub use mechanism::{Granted, Mechanism, NoSuchUnits};
pub use offer::{How, Offer};
pub use place::MaskPlace;
pub use sms::SmSet;
pub use trial::{Program, Trial};
pub use units::{Unit, UnitMap};
