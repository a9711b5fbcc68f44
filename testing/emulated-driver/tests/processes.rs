//! The driver in processes of its own, found by the loader as CUDA's would be, and drivers of another age.
//!
//! Each test starts this executable once more, for the one test that is the child.
use std::process::{Command, Output};

use cudarc::driver::sys::{self, CUresult};
use emulated_cuda::{Config, ENVIRONMENT, Emulator, LibraryError};

const PART: &str = "EMULATED_DRIVER_TEST_PART";

/// Runs a part of [`child`] with the driver of `config` where the loader looks, told to be `text`.
fn run(part: &str, config: &Config, text: &str) -> Output {
    let folder = Emulator::library_folder(config).expect("the library is beside the test");
    Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "child", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .env(ENVIRONMENT, text)
        .env(PART, part)
        .output()
        .expect("this executable can be run")
}

#[track_caller]
fn passed(output: &Output) {
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
}

fn has(name: &str) -> bool {
    // SAFETY: the name is only looked up.
    unsafe {
        sys::culib()
            .get::<*const ()>(format!("{name}\0").as_bytes())
            .is_ok()
    }
}

fn init() -> CUresult {
    // SAFETY: no pointers.
    unsafe { sys::cuInit(0) }
}

/// What the processes do; nothing when this executable runs as a test.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    match part.as_str() {
        "configured" => {
            assert_eq!(init(), CUresult::CUDA_SUCCESS);
            let (mut version, mut multiprocessors) = (0, 0);
            let count = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
            // SAFETY: room for the results.
            unsafe {
                let code = sys::cuDriverGetVersion(&raw mut version);
                assert_eq!(code, CUresult::CUDA_SUCCESS);
                let code = sys::cuDeviceGetAttribute(&raw mut multiprocessors, count, 0);
                assert_eq!(code, CUresult::CUDA_SUCCESS);
            }
            assert_eq!((version, multiprocessors), (12040, 14));
            assert!(has("cuGreenCtxCreate") && !has("cuGreenCtxStreamCreate"));
        }
        "nonsense" => assert_eq!(init(), CUresult::CUDA_ERROR_INVALID_VALUE),
        "failing" => assert_eq!(init(), CUresult::CUDA_ERROR_UNKNOWN),
        "old" => {
            assert_eq!(init(), CUresult::CUDA_SUCCESS);
            assert!(!has("cuGreenCtxCreate") && !has("cuGetProcAddress_v2"));
            assert!(!has("cuMemHostRegister_v2"), "hidden");
            assert!(has("cuLaunchKernel") && has("cuGetProcAddress"));
        }
        "two ages" => {
            let old = Config {
                driver: 11040,
                ..Config::default()
            };
            let emulator = Emulator::start(&old).expect("starts");
            assert!(!has("cuGreenCtxCreate"));
            drop(emulator);
            let refused = Emulator::start(&Config::default()).expect_err("a library stays");
            assert!(matches!(refused, LibraryError::Loaded { .. }), "{refused}");
        }
        _ => panic!("no such part: {part}"),
    }
}

#[test]
fn a_process_finds_the_driver_and_its_machine_by_the_environment() {
    let config = Config {
        tpcs: 7,
        driver: 12040,
        ..Config::default()
    };
    passed(&run("configured", &config, &config.to_string()));
}

#[test]
fn a_machine_that_is_not_understood_does_not_start_and_says_why() {
    let output = run("nonsense", &Config::default(), "tpc=7");
    passed(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tpc: no such key"), "{said}");
}

#[test]
fn even_the_first_call_can_fail() {
    passed(&run("failing", &Config::default(), "fail=cuInit:0:999"));
}

#[test]
fn an_old_driver_lacks_what_came_after_it() {
    let config = Config {
        driver: 11040,
        hide: vec!["cuMemHostRegister_v2".into()],
        ..Config::default()
    };
    passed(&run("old", &config, &config.to_string()));
}

#[test]
fn a_process_keeps_the_library_that_it_loaded() {
    passed(&run("two ages", &Config::default(), ""));
}
