//! What the networks of the papers and `signs` are lowered to, as a table:
//! `cargo run -p punctual-roofline --example lowering -- [multiprocessors]` (16 by default).
//!
//! Needs no GPU and no driver; the same numbers on every machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use punctual_device_cuda::PAGE_BYTES;
use punctual_device_cuda::lower::{LaunchList, LowerError, Program, Target};
use punctual_model::{Network, Package};
use punctual_roofline::structures::Structure;

const SIDE: u32 = 224;
const BATCHES: [u8; 2] = [1, 8];

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let multiprocessors = argument.map_or(Ok(16), |argument| argument.parse());
    let Ok(multiprocessors) = multiprocessors else {
        eprintln!("usage: lowering [multiprocessors of the partition]");
        return ExitCode::FAILURE;
    };
    match print(multiprocessors) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(multiprocessors: u32) -> Result<(), LowerError> {
    println!(
        "| network | stages | operators | launches, batch 1 / 8 | sums cut, batch 1 / 8 \
         | workspace MiB, batch 1 / 8 | request KiB | weights MiB | pages | pages full |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut kernels = BTreeMap::new();
    let structures = Structure::ALL.map(|structure| structure.outline(SIDE));
    for network in structures.into_iter().chain(signs()) {
        let target = Target {
            multiprocessors,
            compute_capability: (8, 7),
            page_bytes: PAGE_BYTES,
        };
        let program = Program::lower(&network, &BATCHES, &target, &[])?;
        row(&network, &program);
        for list in program.stages.iter().flat_map(|stage| &stage.lists) {
            for step in &list.steps {
                let count: &mut [usize; 2] = kernels.entry(step.kernel.name).or_default();
                count[usize::from(list.batch != BATCHES[0])] += 1;
            }
        }
    }
    println!("\n| kernel | launches of all networks, batch 1 | batch 8 |");
    println!("|---|---|---|");
    for (name, [one, eight]) in kernels {
        println!("| `{name}` | {one} | {eight} |");
    }
    Ok(())
}

/// The demonstration network, if this runs in the tree.
fn signs() -> Option<Network> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.punctual");
    let package = Package::read(&file).ok()?;
    Some(package.network().clone())
}

fn row(network: &Network, program: &Program) {
    const MIB: f64 = (1 << 20) as f64;
    let operators: usize = network
        .stages
        .iter()
        .map(|stage| stage.operators.len())
        .sum();
    let of = |batch: u8, count: fn(&LaunchList) -> usize| {
        let lists = (0..program.stages.len()).filter_map(|stage| program.list(stage, batch));
        lists.map(count).sum::<usize>()
    };
    let launches = |list: &LaunchList| list.steps.len();
    let cut = |list: &LaunchList| {
        let added = |name: &str| name == "conv_reduce" || name == "linear_reduce";
        list.steps
            .iter()
            .filter(|step| added(step.kernel.name))
            .count()
    };
    let workspace = |batch: u8| {
        let lists = (0..program.stages.len()).filter_map(|stage| program.list(stage, batch));
        let bytes = lists.map(|list| list.workspace_bytes).max();
        bytes.unwrap_or(0) as f64 / MIB
    };
    let pages = &program.pages;
    let room = pages.count() as f64 * f64::from(pages.page_bytes());
    println!(
        "| {} | {} | {operators} | {} / {} | {} / {} | {:.2} / {:.2} | {:.0} | {:.1} | {} | {:.0} % |",
        network.name,
        network.stages.len(),
        of(1, launches),
        of(8, launches),
        of(1, cut),
        of(8, cut),
        workspace(1),
        workspace(8),
        program.request_bytes as f64 / 1024.0,
        pages.used_bytes() as f64 / MIB,
        pages.count(),
        100.0 * pages.used_bytes() as f64 / room,
    );
}
