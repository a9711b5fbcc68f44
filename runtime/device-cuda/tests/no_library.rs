//! A machine without a CUDA driver. A process of its own: no emulated driver is loaded into it.

use punctual_device_cuda::driver::{Driver, OpenError, exports};

#[test]
fn without_a_library_the_error_says_what_to_do_and_nothing_panics() {
    if exports(c"cuInit") {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    let error = Driver::open().err().expect("there is nothing to open");
    assert_eq!(error, OpenError::NoLibrary);
    assert!(error.to_string().contains("CPU device"), "{error}");
    assert!(!exports(c"cuGreenCtxCreate"));
}
