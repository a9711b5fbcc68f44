//! When this process was started.

use crate::clock;

/// When this process began, in nanoseconds of [`clock::now_ns`]; to be asked first thing in `main`.
///
/// The kernel tells it in hundredths of a second only. So it is now, less the processor time that the process has used: all
/// that it did until here is being loaded and linked. On a busy machine, where it waited meanwhile, this is a little late.
#[must_use]
pub fn began_ns() -> u64 {
    clock::now_ns().saturating_sub(clock::process_cpu_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_began_before_now_and_after_its_machine() {
        let began = began_ns();
        assert!(0 < began && began < clock::now_ns());
    }
}
