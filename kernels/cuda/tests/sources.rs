//! What is kept in the tree of the CUDA kernels agrees: sources, images, and the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use punctual_cuda_kernels::contract::Multiprocessor;
use punctual_cuda_kernels::images::{Archive, archives};
use punctual_cuda_kernels::{KERNELS, Kernel, Module, kernel};
use serde_json::Value;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest() -> Value {
    serde_json::from_str(&read(&folder().join("images/manifest.json"))).expect("JSON")
}

/// Fowler, Noll, Vo (64 bits, 1a), as build.py has it.
fn hash(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

fn hash_of_part(start: u64, part: &[u8]) -> u64 {
    hash(hash(start, part), b"\0")
}

/// Names of all headers that a source includes, and that these include.
fn headers_of(file: &str, found: &mut BTreeSet<String>) {
    for line in read(&folder().join("src").join(file)).lines() {
        let header = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        if let Some(header) = header
            && found.insert(header.to_owned())
        {
            headers_of(header, found);
        }
    }
}

/// `hash_of_sources` of build.py.
fn hash_of_sources(module: Module) -> u64 {
    let own = format!("{}.cu", module.name());
    let mut names = BTreeSet::new();
    headers_of(&own, &mut names);
    names.insert(own);
    let names = names.iter().map(|name| format!("src/{name}"));
    std::iter::once("nvrtc.py".to_owned())
        .chain(names)
        .fold(START, |found, file| {
            let name = file.rsplit('/').next().expect("a name");
            let found = hash_of_part(found, name.as_bytes());
            hash_of_part(found, read(&folder().join(&file)).as_bytes())
        })
}

/// A text of the manifest.
fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn images_are_those_of_the_sources() {
    let manifest = manifest();
    let toolchain = read(&folder().join("toolchain.txt"));
    let options = manifest["options"].as_array().expect("a list");
    for module in Module::ALL {
        let sources = hash_of_sources(module);
        for archive in archives()
            .iter()
            .filter(|a| module.runs_on(a.capability().0))
        {
            let image = &manifest["images"][archive.name()];
            let compiler = text(&image["compiler"]);
            assert!(toolchain.contains(&format!("\n{compiler} ")), "{compiler}");
            let inputs = [compiler, text(&image["architecture"])];
            let inputs = inputs.into_iter().chain(options.iter().map(text));
            let found = inputs.fold(sources, |found, part| hash_of_part(found, part.as_bytes()));
            assert_eq!(
                image["modules"][module.name()]["inputs"],
                format!("{found:016x}"),
                "{} of {} is stale: run python3 kernels/cuda/build.py",
                module.name(),
                archive.name()
            );
        }
    }
}

#[test]
fn images_are_those_of_the_manifest() {
    let manifest = manifest();
    let images = manifest["images"].as_object().expect("by name");
    assert_eq!(images.len(), archives().len());
    for archive in archives() {
        let image = &images[archive.name()];
        let found = format!("{:016x}", hash(START, archive.bytes()));
        assert_eq!(image["hash"], found, "{}", archive.name());
    }
    let ptx = fs::read(folder().join("images/ptx.images")).expect("a file");
    assert_eq!(
        manifest["ptx"]["hash"],
        format!("{:016x}", hash(START, &ptx))
    );
}

#[test]
fn all_images_together_are_smaller_than_eight_megabytes() {
    const LIMIT: u64 = 8_000_000;
    let files = fs::read_dir(folder().join("images")).expect("a folder");
    let bytes: u64 = files
        .map(|file| file.and_then(|file| file.metadata()).expect("a file").len())
        .sum();
    assert!(bytes < LIMIT, "{bytes} bytes, of at most {LIMIT}");
}

/// A number of an object of the manifest or of the figures.
fn number(of: &Value, key: &str) -> u32 {
    let value = of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of}"));
    value.try_into().expect("a small number")
}

#[test]
fn figures_of_the_gate_are_those_of_the_images_and_their_occupancy_is_that_of_the_contracts() {
    let figures: Value = serde_json::from_str(&read(&folder().join("figures.json"))).expect("JSON");
    let manifest = manifest();
    let modules = figures["modules"].as_array().expect("a list");
    let mut compared = 0;
    for of in modules {
        let (image, module) = (text(&of["image"]), text(&of["module"]));
        let known = &manifest["images"][image];
        assert_eq!(
            of["cubin"], known["modules"][module]["hash"],
            "run kernels/cuda/gate.py"
        );
        let limits = &figures["limits"][text(&known["architecture"])];
        let multiprocessor = Multiprocessor {
            threads: number(limits, "threads"),
            blocks: number(limits, "blocks"),
            registers: number(limits, "registers"),
            shared_bytes: number(limits, "shared_bytes"),
            reserved_bytes: number(limits, "reserved_bytes"),
        };
        let archive = archives().iter().find(|archive| archive.name() == image);
        let archive = archive.expect("an archive");
        for (name, row) in of["kernels"].as_object().expect("by name") {
            let kernel = kernel(name).expect("a kernel");
            let contract = archive.contract(kernel).expect("there").expect("a cubin");
            let blocks = contract.blocks_on(&multiprocessor);
            assert_eq!(
                number(row, "registers"),
                contract.registers,
                "{name} of {image}"
            );
            assert_eq!(
                number(row, "shared_bytes"),
                contract.shared_bytes,
                "{name} of {image}"
            );
            assert_eq!(number(row, "blocks"), blocks, "{name} of {image}");
            assert_eq!(
                number(row, "warps"),
                blocks * kernel.block.div_ceil(32),
                "{name} of {image}"
            );
            compared += 1;
        }
    }
    let runs = |archive: &&Archive, kernel: &Kernel| kernel.module.runs_on(archive.capability().0);
    let cubins = archives().iter().filter(|archive| !archive.is_ptx());
    let all: usize = cubins
        .map(|a| KERNELS.iter().filter(|k| runs(&a, k)).count())
        .sum();
    assert_eq!(compared, all);
}

#[test]
fn every_module_and_kernel_of_the_table_has_its_source() {
    let folder = folder().join("src");
    let mut declared = Vec::new();
    for module in Module::ALL {
        // What a module includes may declare kernels too.
        let source = read(&folder.join(format!("{}.cu", module.name())));
        let included = source.lines().filter_map(|line| {
            let file = line.strip_prefix("#include \"")?.strip_suffix('"')?;
            Some(read(&folder.join(file)))
        });
        let texts: Vec<String> = included.chain([source.clone()]).collect();
        for line in texts.iter().flat_map(|text| text.lines()) {
            let Some(rest) = line.strip_prefix("PUNCTUAL_KERNEL") else {
                continue;
            };
            let arguments = rest.split_once('(').expect("arguments").1;
            let mut arguments = arguments.split([',', ')']).map(str::trim);
            let mut next = || arguments.next().unwrap_or_default().to_owned();
            declared.push((next(), next(), module, next()));
        }
    }
    declared.sort();
    let row = |kernel: &Kernel| {
        let (name, parameters) = (kernel.name.to_owned(), kernel.parameters().to_owned());
        (name, parameters, kernel.module, kernel.block.to_string())
    };
    let mut table: Vec<_> = KERNELS.iter().map(row).collect();
    table.sort();
    assert_eq!(declared, table);
}
