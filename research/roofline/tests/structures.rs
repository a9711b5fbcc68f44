//! The networks of the papers and the zoo are those that they stand for, and lower and score as any other.

#[path = "../../../runtime/device-cuda/tests/emulation/mod.rs"]
mod emulation;

use emulation::{Memory, assert_scores};
use punctual_conformance::networks;
use punctual_device_cuda::PAGE_BYTES;
use punctual_device_cuda::lower::{Program, Target};
use punctual_model::{DistinctWeights, Network, reference};
use punctual_roofline::structures::Structure;

fn target(multiprocessors: u32, page_bytes: u32) -> Target {
    Target {
        multiprocessors,
        compute_capability: (8, 7),
        page_bytes,
    }
}

fn lower(network: &Network, batches: &[u8], multiprocessors: u32) -> Program {
    let target = target(multiprocessors, PAGE_BYTES);
    Program::lower(network, batches, &target, &[]).expect("lowers")
}

/// Weights and biases of the network itself, without its early heads (four operators each but the mean).
fn own_weights(network: &Network) -> u64 {
    let early = network.stages.len() - 1;
    let stages = network.stages.iter().enumerate();
    let own = stages.flat_map(|(at, stage)| {
        let head = if at < early { 4 } else { 0 };
        &stage.operators[..stage.operators.len() - head]
    });
    DistinctWeights::of(own).count()
}

#[test]
fn the_networks_of_the_papers_are_valid_and_have_the_sizes_of_the_originals() {
    for (structure, exits, weights) in [
        // torchvision's counts, less one of the two figures a channel of each normalisation.
        (Structure::ResNet34, 8, 21_797_672 - 8_512),
        (Structure::ResNet50, 8, 25_557_032 - 26_560),
        (Structure::ResNet152, 1, 60_192_808 - 75_712),
        (Structure::MobileNetV2, 11, 3_504_872 - 17_056),
        (Structure::ShuffleNetV2, 8, 2_278_604 - 8_090),
        (Structure::Vgg19, 1, 143_667_240),
    ] {
        let outline = structure.outline(224);
        assert_eq!(own_weights(&outline), weights, "{structure:?}");
        let network = structure.network(32, 1);
        assert_eq!(network.exits().count(), exits);
        assert_eq!(network.validate(), Ok(()), "{structure:?}");
    }
}

#[test]
fn the_networks_of_the_zoo_are_valid_have_the_sizes_of_the_originals_and_lower() {
    for (structure, exits, weights) in [
        // Two 3x3 convolutions at each of nine places, four of one pixel between, and the head: maps.py of the zoo.
        (Structure::UNet, 1, 7_237_989),
        // torchvision's count, with the class token in the table of positions, and three heads more with layer norms.
        (
            Structure::VitB16,
            4,
            86_567_656 - 768 + 3 * (768 * 1000 + 1000 + 2 * 768),
        ),
    ] {
        let outline = structure.outline(224);
        let operators = outline.stages.iter().flat_map(|stage| &stage.operators);
        let own = DistinctWeights::of(operators).count();
        assert_eq!(own, weights, "{structure:?}");
        let network = structure.network(32, 1);
        assert_eq!(network.exits().count(), exits);
        assert_eq!(network.validate(), Ok(()), "{structure:?}");
        lower(&network, &[1, 8], 8);
    }
}

#[test]
fn weights_of_the_networks_of_the_papers_fill_pages_well_and_lie_in_the_same_ones_on_any_partition()
{
    for structure in Structure::ALL {
        let network = structure.outline(224);
        let [small, large] = [2, 132].map(|sms| lower(&network, &[1, 8], sms));
        assert_eq!(small.pages, large.pages);
        assert_eq!(small.request_bytes, large.request_bytes);
        let room = small.pages.count() as u64 * u64::from(small.pages.page_bytes());
        // Not counting the last page, nine tenths are used.
        let full = room - u64::from(small.pages.page_bytes());
        assert!(small.pages.used_bytes() * 10 >= full * 9, "{structure:?}");
        for stage in &small.stages {
            assert!(stage.pages.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

#[test]
fn a_pool_whose_window_is_the_image_takes_the_kernel_for_whole_images() {
    // Five pools of 2x2: the last one's image has that size.
    let network = Structure::Vgg19.outline(32);
    let program = lower(&network, &[1], 8);
    let steps = program
        .stages
        .iter()
        .flat_map(|stage| &stage.lists[0].steps);
    let names = steps.map(|step| step.kernel.name);
    let pools: Vec<&str> = names.filter(|name| name.ends_with("pool")).collect();
    assert_eq!(pools[..5], ["pool", "pool", "pool", "pool", "global_pool"]);
}

/// The networks of SEEB-GPU for tiny images, whose late layers have single pixels.
#[test]
fn the_networks_of_the_papers_score_as_the_reference() {
    for structure in [
        Structure::ShuffleNetV2,
        Structure::MobileNetV2,
        Structure::ResNet34,
    ] {
        let network = structure.network(32, 1);
        let target = target(16, 4 << 20);
        let program = Program::lower(&network, &[1], &target, &[]).expect("lowers");
        let image = networks::image(&network, 0);
        let expected = reference::run(&network, &image);
        let mut memory = Memory::new(&network, &program, &[image]);
        let mut layers = 0;
        for (number, stage) in network.stages.iter().enumerate() {
            layers += stage.operators.len();
            let found = memory.run(&program, number, 1);
            let what = format!("{}, stage {number}", network.name);
            assert_scores(&found[0], &expected[number], layers, &what);
        }
    }
}
