//! The CUDA device beyond what all devices have in common, on the emulated driver.

mod device {
    mod eviction;
    mod faults;
    mod frames;
    mod lending;
    mod profile;
    mod start;
}
mod places;
mod subject;
mod unlowered;
