//! Launches whose results are known, on the emulated driver, which runs the PTX that ships: what a GPU's outputs are compared
//! with. For a wanted change, run with `PUNCTUAL_REWRITE=1` and read the difference.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::path::Path;

use emulated_cuda::{Config, Emulator, Parameter, Shape, Source, Target};
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::images::archives;
use punctual_cuda_kernels::params::Guard;
use punctual_cuda_measuring::launcher::Launcher;
use punctual_cuda_measuring::recipe::rates::{self, Rated, Size};
use punctual_cuda_measuring::recipe::{Recipe, known};
use punctual_device_cuda::driver::{Context, Driver};
use punctual_ptx::{Arithmetic, Region, Space};

/// Kernel and hash, a line each.
fn on_the_emulated_driver() -> String {
    let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let gpu = Driver::open().and_then(|driver| driver.device(0));
    let context = Context::retain(gpu.expect("a device")).expect("a context");
    let launcher = Launcher::new(&context).expect("a stream");
    let mut lines = String::new();
    for recipe in known::all() {
        let name = recipe.name();
        let prepared = launcher.prepare(&recipe).expect(name);
        let output = launcher.output(&prepared).expect(name);
        let _ = writeln!(lines, "{name} {}", known::hash(&output));
    }
    drop(launcher);
    drop(context);
    drop(emulator);
    lines
}

#[test]
fn every_known_answer_is_that_of_the_ptx_that_ships() {
    let found = on_the_emulated_driver();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recipe/known_answers.txt");
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        std::fs::write(&file, &found).expect("the file of hashes");
    }
    let recorded = std::fs::read_to_string(&file).expect("the file of hashes");
    assert_eq!(found, recorded, "{}: see PUNCTUAL_REWRITE", file.display());
}

/// As device memory is aligned.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line([u8; 256]);

struct Raw<'a>(&'a Arguments);

// SAFETY: the structures in it are `repr(C)`, without gaps but the written ones.
unsafe impl Parameter for Raw<'_> {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn address(&self) -> *const c_void {
        self.0.as_ptr()
    }
}

/// What a launch writes on some machine.
fn interpreted(recipe: &Recipe, image: &str, arithmetic: Arithmetic, seed: u64) -> Vec<u8> {
    let space = Space::new();
    let mut memory: Vec<Vec<Line>> = Vec::new();
    for bytes in recipe.memory() {
        let mut lines = vec![Line([0; 256]); bytes.len().div_ceil(256)];
        for (line, bytes) in lines.iter_mut().zip(bytes.chunks(256)) {
            line.0[..bytes.len()].copy_from_slice(bytes);
        }
        memory.push(lines);
    }
    let addresses: Vec<u64> = memory
        .iter_mut()
        .map(|lines| lines.as_mut_ptr().expose_provenance() as u64)
        .collect();
    for (address, bytes) in addresses.iter().zip(recipe.memory()) {
        space.add(Region::written(*address, bytes.len() as u64));
    }
    let arguments = recipe.resolve(|index| addresses[index]);
    let kernel = recipe.kernel();
    let target = Target {
        space: &space,
        source: Source::Image(image),
        arithmetic,
        seed,
    };
    let shape = Shape {
        grid: kernel.grid(&arguments).expect("a recipe has a grid"),
        block: [kernel.block, 1, 1],
        shared_bytes: kernel.shared_bytes as usize,
    };
    let ran = target.run(
        kernel.name,
        shape,
        &[&Guard::default(), &Raw(&arguments)],
        |_| {},
    );
    ran.unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
    let output = std::hint::black_box(&memory[0]);
    let bytes = output.iter().flat_map(|line| line.0);
    bytes.take(recipe.memory()[0].len()).collect()
}

/// The manual of PTX leaves open how tensor cores and approximate functions round, and in which order warps run.
#[test]
fn known_answers_are_the_same_on_every_architecture_with_every_arithmetic_in_every_order() {
    for recipe in known::all() {
        let expected = known::expected(recipe.name()).expect("recorded");
        for archive in archives() {
            if !recipe.kernel().module.runs_on(archive.capability().0) {
                continue;
            }
            for (arithmetic, seed) in [(Arithmetic::Exact, 1), (Arithmetic::Coarse, 2)] {
                let output = interpreted(&recipe, archive.name(), arithmetic, seed);
                let (name, image) = (recipe.name(), archive.name());
                assert_eq!(
                    known::hash(&output),
                    expected,
                    "{name} of {image}, {arithmetic:?}"
                );
            }
        }
    }
}

/// In full size on a device; here only what is soon over.
#[test]
fn launches_that_are_timed_write_all_of_their_output() {
    let rated = [
        rates::looks(Size::Full, true),
        rates::looks(Size::Tiny, false),
        rates::copy(Size::Tiny),
        rates::tensor_products(Size::Tiny),
    ];
    for Rated { recipe, amount } in rated {
        assert!(amount >= 8, "{}", recipe.name());
        let output = interpreted(&recipe, "sm_87", Arithmetic::Exact, 1);
        let before = &recipe.memory()[0];
        // As halves: one byte of a value may be what it was.
        let pairs = output.chunks(2).zip(before.chunks(2));
        let unwritten = pairs.filter(|(after, before)| after == before).count();
        assert_eq!(unwritten, 0, "{}", recipe.name());
    }
}
