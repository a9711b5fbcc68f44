//! Partitions on an emulated driver from before CUDA 12: masks of 64 TPCs, no green contexts. What a
//! library exports cannot change within a process, so these tests have one to themselves.

use std::ffi::OsString;

use emulated_cuda::{Config, Emulator};
use libsmctrl_sys::CudaVersion;
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::partition::{Mechanism, Refusal, Trial, UnitMap};

/// The last version of the old layout that the table has for this processor.
const DRIVER: u32 = if cfg!(target_arch = "aarch64") {
    11040
} else {
    11080
};

fn tried(mechanism: Mechanism) -> Result<UnitMap, Refusal> {
    let driver = DRIVER;
    let config = Config {
        driver,
        tpcs: 9,
        compute: (8, 6),
        ..Config::default()
    };
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let trial = Trial {
        mechanism,
        device: 0,
        version: CudaVersion::from_driver(driver as i32).expect("a version"),
        compute_capability: config.compute,
        libsmctrl: OsString::from("libsmctrl-that-is-not-there.so"),
        place: None,
    };
    trial.run()
}

#[test]
fn orin_under_a_driver_of_cuda_11_gets_code_of_a_compiler_of_cuda_11() {
    let config = Config {
        driver: DRIVER,
        compute: (8, 7),
        ..Config::default()
    };
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let gpu = Driver::open().expect("a driver").device(0).expect("a GPU");
    let mut archives = gpu.archives().expect("a version and a capability");
    assert_eq!(archives.next().expect("one").name(), "sm_87-cuda11");
}

#[test]
fn masks_of_64_tpcs_have_their_upper_half_first() {
    let map = tried(Mechanism::StreamMask).expect("the table is right");
    assert_eq!(map.count(), 9);
    for (tpc, unit) in (0..).zip(map.units()) {
        assert_eq!(unit.bit, tpc);
        let first = 2 * u32::from(tpc);
        assert_eq!(unit.sms.iter().collect::<Vec<_>>(), [first, first + 1]);
    }
}

#[test]
fn a_driver_without_green_contexts_says_which_call_it_lacks() {
    let refused = tried(Mechanism::GreenContexts);
    assert!(
        matches!(&refused, Err(Refusal::NoSymbol { symbol }) if symbol == "cuDeviceGetDevResource"),
        "{refused:?}"
    );
}

#[test]
fn a_libsmctrl_that_is_not_there_is_the_reason() {
    let refused = tried(Mechanism::Libsmctrl);
    assert!(
        matches!(&refused, Err(Refusal::Libsmctrl { said }) if said.contains("LIBSMCTRL_PATH")),
        "{refused:?}"
    );
}
