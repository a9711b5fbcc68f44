//! The CUDA device beyond what all devices have in common, on the emulated driver.

mod device {
    mod eviction;
    mod faults;
    mod profile;
    mod start;
}
mod subject;
mod unlowered;
