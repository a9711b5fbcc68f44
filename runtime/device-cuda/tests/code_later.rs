//! A device that is ready with the general kernels alone, and gets the others while it runs.

mod subject;

use emulated_cuda::{Config, Emulator};
use punctual_conformance::networks;
use punctual_device_cuda::{Code, CudaSpec};
use punctual_model::{Network, reference};
use subject::{Cuda, cuda};

fn general_first() -> CudaSpec {
    CudaSpec {
        code: Code::GeneralFirst,
        ..cuda()
    }
}

/// The answer of the first stage for the image of request buffer 0, which must be right.
fn answer(device: &mut Cuda, network: &Network) {
    let answers = device.answers(0, &[0]);
    let scores = &reference::run(network, &networks::image(network, 0))[0];
    let (class, _) = reference::classify(scores);
    // Two classes may score the same within what halves tell apart.
    let behind = scores[class] - scores[usize::from(answers[0].class)];
    assert!(behind < 0.05, "{behind}");
}

fn tiles(device: &Cuda) -> usize {
    let launches = device.emulator.launches();
    let tile = |kernel: &str| kernel.starts_with("conv_gemm");
    launches.iter().filter(|each| tile(&each.kernel)).count()
}

#[test]
fn stages_run_from_general_kernels_until_the_keeper_has_loaded_the_others() {
    let network = networks::residual(4);
    let mut device = Cuda::with(&Config::default(), &network, &general_first(), 1);
    let mut rounds = 0;
    while tiles(&device) == 0 {
        answer(&mut device, &network);
        rounds += 1;
        assert!(rounds < 1000, "the other modules do not come");
    }
    assert!(device.device.counters().read().loaded_later > 0);
    answer(&mut device, &network);
}

#[test]
fn a_module_that_cannot_be_loaded_later_is_stood_in_for() {
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    const OUT_OF_MEMORY: u32 = 2;
    let network = networks::residual(4);
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    // The general module is the first one; no network has more than four others.
    for later in 1..5 {
        emulator.fail_call("cuModuleLoadData", later, OUT_OF_MEMORY);
    }
    let mut device = Cuda::of_network(emulator, &network, &general_first(), 1);
    let mut rounds = 0;
    while device.device.counters().read().not_loaded == 0 {
        answer(&mut device, &network);
        rounds += 1;
        assert!(rounds < 1000, "the recovery thread loads nothing");
    }
    answer(&mut device, &network);
    assert_eq!(device.device.counters().read().failed, 0);
}
