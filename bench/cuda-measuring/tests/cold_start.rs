//! A network started in every order on the emulated driver answers as it does when it runs; what fails or
//! hangs ends every order with its error.

use std::path::{Path, PathBuf};

use emulated_cuda::{Config, Emulator};
use punctual_cuda_kernels::Module;
use punctual_cuda_measuring::cold_start::{
    ColdStartError, FirstAnswers, Order, Start, first_answers,
};
use punctual_device::conformance::networks;
use punctual_device_cuda::driver::{Driver, Gpu};
use punctual_model::{Calibration, Network, Package, reference};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;

fn package(name: &str) -> PathBuf {
    let network = networks::residual(3);
    let package = Package::new(network, Calibration::default()).expect("a valid network");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    package.write(&path).expect("written");
    path
}

fn image(network: &Network) -> Vec<f32> {
    networks::image(network, 5)
}

fn gpu() -> Gpu {
    let driver = Driver::open().expect("the emulated driver");
    driver.device(0).expect("a device")
}

fn start(path: &Path, order: Order) -> Result<FirstAnswers, ColdStartError> {
    let start = Start {
        page_bytes: 64 << 10,
        // The emulation takes its time, on a machine that others use.
        stage_limit_ns: 120_000_000_000,
        ..Start::new(order)
    };
    first_answers(gpu(), path, image, &start)
}

#[test]
fn every_order_gives_the_answers_of_the_reference() {
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let path = package("orders.punctual");
    let network = networks::residual(3);
    let expected = reference::run(&network, &image(&network));
    for order in Order::ALL {
        let answers = start(&path, order).unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert_eq!(answers.exits.len(), expected.len(), "{order:?}");
        for (exit, expected) in answers.exits.iter().zip(&expected) {
            // As in the tests of numerics: halves, and at most eleven layers.
            let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            for (found, expected) in exit.scores.iter().zip(expected) {
                let error = (found - expected).abs();
                assert!(
                    error <= largest / 100.0,
                    "{order:?}: {found} for {expected}"
                );
            }
            let (class, confidence) = reference::classify(&exit.scores);
            assert_eq!(exit.class as usize, class);
            assert!((exit.confidence - confidence).abs() < 1e-5);
        }
        let in_order = answers.exits.windows(2).all(|pair| pair[0].at < pair[1].at);
        assert!(in_order && answers.opened < answers.lowered, "{order:?}");
        match order {
            // As it comes.
            Order::Interleaved => {}
            Order::NoMilestone => assert!(!answers.replaced.is_empty()),
            Order::Reactive => assert!(answers.replaced.is_empty()),
        }
        // What was replaced came after all.
        for replaced in &answers.replaced {
            assert_ne!(replaced.wanted, replaced.used);
            let wanted = punctual_cuda_kernels::kernel(replaced.wanted).expect("in the table");
            let loads = &answers.loads;
            assert!(loads.iter().any(|load| load.module == wanted.module));
        }
    }
    drop(emulator);
}

#[test]
fn without_a_milestone_everything_runs_from_the_general_module_and_the_rest_is_loaded_last() {
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let path = package("general.punctual");
    let answers = start(&path, Order::NoMilestone).expect("it starts");
    assert_eq!(answers.loads[0].module, Module::General);
    assert!(answers.loads.len() > 1);
    let last = answers.exits.last().expect("an exit").at;
    assert!(answers.loads[1..].iter().all(|load| load.from >= last));
    let launches = emulator.launches();
    assert!(
        launches
            .iter()
            .all(|launch| !launch.kernel.starts_with("conv_gemm"))
    );
}

#[test]
fn a_module_or_a_copy_that_fails_ends_every_order_with_its_error() {
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let path = package("failing.punctual");
    for order in Order::ALL {
        emulator.fail_call("cuModuleLoadData", 0, OUT_OF_MEMORY);
        let error = start(&path, order).expect_err("no code");
        assert!(
            matches!(error, ColdStartError::Kernel(_)),
            "{order:?}: {error}"
        );
        // The first copy is the input's.
        emulator.fail_call("cuMemcpyHtoDAsync_v2", 1, OUT_OF_MEMORY);
        let error = start(&path, order).expect_err("no weights");
        assert!(
            matches!(error, ColdStartError::Driver(_)),
            "{order:?}: {error}"
        );
    }
    let missing = start(Path::new("no such package"), Order::Reactive);
    assert!(matches!(missing, Err(ColdStartError::Package(_))));
}

#[test]
fn a_launch_that_hangs_ends_the_start_after_its_limit() {
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let path = package("hanging.punctual");
    for order in [Order::ALL[0], Order::Reactive] {
        // Initialises the driver, which faults are planted in.
        let gpu = gpu();
        emulator.hang_launch(1);
        let start = Start {
            page_bytes: 64 << 10,
            stage_limit_ns: 50_000_000,
            ..Start::new(order)
        };
        let error = first_answers(gpu, &path, image, &start).expect_err("nothing answers");
        assert!(
            matches!(error, ColdStartError::Hang { stage: 0, .. }),
            "{order:?}: {error}"
        );
        emulator.release_hangs();
    }
}
