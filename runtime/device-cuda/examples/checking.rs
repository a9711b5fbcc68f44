//! How long the checkers take, that of launches and that of a processor's steps, beside lowering and packing, for the networks of
//! the papers and the zoo:
//! `cargo run --release -p punctual-device-cuda --example checking`. Needs no GPU and no driver.

use punctual_device_cpu::{image_layout, pack_image};
use punctual_device_cuda::PAGE_BYTES;
use punctual_device_cuda::lower::{Packer, Program, Target};
use punctual_device_cuda::structures::Structure;
use punctual_kernels::Isa;
use punctual_platform::clock;

const SIDE: u32 = 224;
const BATCHES: [u8; 4] = [1, 2, 4, 8];
/// Of each time the least is printed.
const REPETITIONS: usize = 5;

fn main() {
    println!(
        "| network | launches | lowering, ms | of it the checker, ms | packing, ms \
         | on the processor: lowering with the checker, ms | packing, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    let zoo = [Structure::UNet, Structure::VitB16];
    for structure in Structure::ALL.into_iter().chain(zoo) {
        row(structure);
    }
}

fn row(structure: Structure) {
    let network = structure.network(SIDE, 1);
    let target = Target {
        multiprocessors: 16,
        compute_capability: (8, 7),
        page_bytes: PAGE_BYTES,
    };
    let lower = || Program::lower(&network, &BATCHES, &target, &[]).expect("lowers");
    let program = lower();
    let lists = program.stages.iter().flat_map(|stage| &stage.lists);
    let launches: usize = lists.map(|list| list.steps.len()).sum();
    let check = || {
        program
            .check((&network, None))
            .expect("it computes the network")
    };
    let isa = Isa::detect();
    let pack = || {
        let packer = Packer::new(&network, &program.pages);
        for page in 0..program.pages.count() {
            let mut bytes = vec![0; program.pages.page_bytes() as usize];
            packer.pack(page, &mut bytes).expect("halves hold it");
        }
    };
    println!(
        "| {} | {launches} | {:.2} | {:.2} | {:.1} | {:.2} | {:.1} |",
        network.name,
        milliseconds(|| {
            lower();
        }),
        milliseconds(check),
        milliseconds(pack),
        milliseconds(|| {
            image_layout(isa, &network).expect("lowers");
        }),
        milliseconds(|| {
            pack_image(isa, &network).expect("packs");
        }),
    );
}

fn milliseconds(work: impl Fn()) -> f64 {
    let times = (0..REPETITIONS).map(|_| {
        let start = clock::now_ns();
        work();
        clock::now_ns() - start
    });
    times.min().unwrap_or(0) as f64 / 1e6
}
