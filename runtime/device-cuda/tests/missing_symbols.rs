//! Drivers that lack a call that we need, and machines without a GPU: typed errors, never a panic. A
//! process of its own, as a library that was loaded stays.

use emulated_cuda::{Config, Emulator};
use punctual_device_cuda::driver::{Driver, OpenError, exports};

#[test]
fn a_call_that_the_driver_lacks_is_named() {
    let config = Config {
        hide: vec!["cuStreamCreateWithPriority".to_owned()],
        ..Config::default()
    };
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let error = Driver::open().err().expect("it lacks a call");
    assert_eq!(
        error,
        OpenError::MissingSymbol("cuStreamCreateWithPriority")
    );
    assert!(error.to_string().contains("update"), "{error}");
    assert!(!exports(c"cuStreamCreateWithPriority"));
    assert!(exports(c"cuStreamQuery"));
}
