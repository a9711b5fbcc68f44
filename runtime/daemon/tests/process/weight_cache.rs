//! A manifest gives the daemon a cache of weights that holds one of its two networks: both are
//! served, their weights coming and going.
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::support::{Daemon, Folder, assert_accounts, connect, package, profile, result, submit};
use punctual_device_cpu::{image_layout, pack_image};
use punctual_ipc::PixelFormat;
use punctual_kernels::Isa;
use punctual_model::{PAGE_FLOATS, Package};

const ROUNDS: u64 = 5;

/// Two best-effort tasks, each with a network of its own, and a cache of `pages`.
fn manifest(pages: usize) -> String {
    let cache = pages * PAGE_FLOATS * size_of::<f32>() / 1024;
    let task = |name: &str| {
        format!(
            "[[model]]\nname = \"{name}\"\npackage = \"{name}.punctual\"\n\n[[task]]\nname = \
             \"{name}\"\nmodel = \"{name}\"\npartition = \"main\"\ncriticality = \"best-effort\"\n\
             frame = {{ format = \"rgb8\", width = 320, height = 240, crop = [192, 192] }}\n\n"
        )
    };
    format!(
        "[daemon]\nboard = \"host\"\nweight_cache = \"{cache} KiB\"\n\n[[partition]]\nname = \
         \"main\"\nunits = 1\n\n{}{}",
        task("signs"),
        task("others")
    )
}

/// Another network of the same size, whose package has no packed weights.
fn another() -> Package {
    let signs = Package::decode(&package()).expect("a valid package");
    let mut network = signs.network().clone();
    for weight in network.weights.to_mut() {
        *weight *= 0.99;
    }
    Package::new(network, signs.calibration().clone()).expect("a valid network")
}

/// The demonstration network with its weights packed for this machine.
pub fn packed() -> Package {
    let signs = Package::decode(&package()).expect("a valid package");
    let isa = Isa::detect();
    let layout = image_layout(isa, signs.network()).expect("the device takes it");
    let image = pack_image(isa, signs.network()).expect("the device takes it");
    let signs = signs.with_layouts(vec![layout]).expect("its own layout");
    let packed = signs.with_image(isa.lanes() as u8, image);
    packed.expect("its own weights")
}

fn pages() -> usize {
    packed().images()[0].pages()
}

/// Both networks with figures, in the place of the demonstration alone.
fn folder(manifest: &str) -> Folder {
    let folder = Folder::with(manifest);
    let host = punctual_daemon::host::detect().expect("a machine");
    for (name, package) in [("signs", packed()), ("others", another())] {
        let figures = profile(&host.machine, &host.clocks, &package).to_json();
        folder.write(&format!("{name}.punctual"), &package.encode());
        folder.write(&format!("{name}.profile.json"), figures.as_bytes());
    }
    folder
}

#[test]
fn loads_are_told_where_details_are_wanted_and_not_by_who_loads() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let daemon = Daemon::start_as(folder(&manifest(pages())), |command| {
        command.args(["--log", "trace"]).stderr(writer);
    });
    for task in ["signs", "others"] {
        let mut client = connect(&daemon.socket(), task, PixelFormat::Rgb8);
        submit(&mut client);
        assert!(result(&mut client).answer.is_some());
    }
    let report = daemon.stop();
    assert_eq!(report.lines_dropped, 0, "real-time threads say nothing");
    let mut said = String::new();
    let read = std::io::Read::read_to_string(&mut reader, &mut said);
    read.expect("what was said");
    for expected in ["its weights were loaded in", "its weights were evicted"] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn two_networks_in_a_cache_of_one_are_both_answered_and_their_comings_and_goings_are_counted() {
    let daemon = Daemon::start_in(folder(&manifest(pages())));
    let mut signs = connect(&daemon.socket(), "signs", PixelFormat::Rgb8);
    let mut others = connect(&daemon.socket(), "others", PixelFormat::Rgb8);
    for _ in 0..ROUNDS {
        for client in [&mut signs, &mut others] {
            submit(client);
            assert!(result(client).answer.is_some());
        }
    }
    drop((signs, others));
    let report = daemon.stop();
    assert_accounts(&report);
    let paging = &report.paging;
    assert_eq!(paging.failed, 0, "{paging:?}");
    // One asks after the other has been answered: each finds the other's weights in the cache.
    assert_eq!((paging.hits, paging.misses), (0, 2 * ROUNDS), "{paging:?}");
    assert_eq!(paging.load_us.count, 2 * ROUNDS, "{paging:?}");
    assert!(paging.evictions >= 2 * ROUNDS - 1, "{paging:?}");
    // Where memory is not locked, only what was used is resident: the plan is then an upper bound.
    let (planned, peak) = (report.memory.planned_bytes, report.memory.peak_bytes);
    println!("{:?}", report.memory);
    assert!(peak as f64 <= planned as f64 * 1.05, "{peak} of {planned}");
}

#[test]
fn frames_of_both_networks_at_once_are_answered_too() {
    let daemon = Daemon::start_in(folder(&manifest(pages())));
    let mut signs = connect(&daemon.socket(), "signs", PixelFormat::Rgb8);
    let mut others = connect(&daemon.socket(), "others", PixelFormat::Rgb8);
    for _ in 0..ROUNDS {
        submit(&mut signs);
        submit(&mut others);
        assert!(result(&mut signs).answer.is_some());
        assert!(result(&mut others).answer.is_some());
    }
    drop((signs, others));
    assert_accounts(&daemon.stop());
}

/// Changes a bit of a network's packed weights where they lie in the file.
fn damage(path: &Path, package: &Package) {
    let floats = package.images()[0].page(0).expect("sound");
    let start: Vec<u8> = floats[..64].iter().flat_map(|f| f.to_le_bytes()).collect();
    let bytes = package.encode();
    let at = bytes
        .windows(start.len())
        .position(|window| *window == start);
    let at = at.expect("an image lies in the file as it is");
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.write_all_at(&[bytes[at] ^ 1], at as u64)
        .expect("a byte");
}

#[test]
fn weights_that_are_damaged_are_counted_and_the_other_network_is_served() {
    let daemon = Daemon::start_in(folder(&manifest(pages())));
    damage(&daemon.folder.path("signs.punctual"), &packed());
    let mut signs = connect(&daemon.socket(), "signs", PixelFormat::Rgb8);
    let mut others = connect(&daemon.socket(), "others", PixelFormat::Rgb8);
    submit(&mut signs);
    assert!(result(&mut signs).answer.is_none());
    submit(&mut others);
    assert!(result(&mut others).answer.is_some());
    drop((signs, others));
    let report = daemon.stop();
    assert_eq!((report.paging.failed, report.paging.load_us.count), (1, 1));
    let failed: Vec<u64> = report
        .tasks
        .iter()
        .map(|task| task.failed.total())
        .collect();
    assert_eq!(failed, [1, 0]);
}

#[test]
fn a_cache_that_holds_neither_is_refused_with_the_size_that_does() {
    let (code, said) = folder(&manifest(0)).refusal(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("KiB\" or more"), "{said}");
}
