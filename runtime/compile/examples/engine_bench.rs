//! The engine under a benchmark's command: compiles an ONNX file, runs it on the cores that it is given, one thread
//! each, and says how long each run took. `models/zoo/bench.py` spawns it and alternates it with onnxruntime.
//!
//! ```text
//! engine_bench NETWORK.onnx IMAGES.f32 CORES [ISA]
//! ```
//!
//! `IMAGES.f32` starts with normalised images `[image][channel][row][column]`, little-endian;
//! `CORES` are numbers with commas between. The first line printed names the instruction set. Each
//! line on standard input is then answered by one line:
//!
//! - `scores BATCH`: the class scores of the first images, `[exit][image][class]`;
//! - `run BATCH COUNT`: nanoseconds of each of `COUNT` runs, from the images in the engine's memory
//!   to the scores of every exit, all stages one by one;
//! - `measure ROUNDS BATCH...`: from now on with the fastest solution of each operator, measured by
//!   so many rounds at these batch sizes; answers `operator:batch=solution` for those that are not direct;
//! - `operators`: `name=nanoseconds` of each operator in the last run.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use punctual_compile::{Overrides, compile_with};
use punctual_device_cpu::Evaluator;
use punctual_device_cpu::{SolutionRequest, measure_solutions};
use punctual_kernels::Isa;
use punctual_model::{Network, SolutionChoice};
use punctual_platform::affinity::pin_current_thread;
use punctual_platform::clock;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engine_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (onnx, images, cores, isa) = match arguments.as_slice() {
        [onnx, images, cores] => (onnx, images, cores, Isa::detect()),
        [onnx, images, cores, isa] => (onnx, images, cores, available(isa)?),
        _ => return Err("usage: engine_bench NETWORK.onnx IMAGES.f32 CORES [ISA]".into()),
    };
    let cores = cores
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<usize>, _>>()?;
    let compiled = compile_with(Path::new(onnx), &Overrides::default())?;
    let network = compiled.package.network();
    let images = read_images(Path::new(images), network)?;
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    // Started first: the mates are pinned by name, not by what this thread hands down.
    let mut evaluator = Evaluator::with_mates(isa, network, images.len(), &cores[1..], &[])?;
    pin_current_thread(cores[0]).map_err(|missing| format!("core {}: {missing:?}", cores[0]))?;
    let mut output = std::io::stdout();
    writeln!(output, "{isa}")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["scores", batch] => scores(&mut evaluator, first(&images, batch)?),
            ["run", batch, count] => run(&mut evaluator, first(&images, batch)?, count.parse()?),
            ["operators"] => operators(&evaluator),
            ["measure", rounds, batches @ ..] => {
                let batches = batches
                    .iter()
                    .map(|batch| batch.parse())
                    .collect::<Result<Vec<u8>, _>>()?;
                let request = SolutionRequest {
                    isa,
                    batches: &batches,
                    mates: &cores[1..],
                    rounds: rounds.parse()?,
                };
                let choices = measure_solutions(network, &request)?;
                evaluator =
                    Evaluator::with_mates(isa, network, images.len(), &cores[1..], &choices)?;
                let choice =
                    |c: &SolutionChoice| format!("{}:{}={}", c.operator, c.batch, c.solution);
                spaced(choices.iter().map(choice))
            }
            _ => {
                return Err(
                    format!("`{line}` is none of `scores`, `run`, `measure`, `operators`").into(),
                );
            }
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn scores(evaluator: &mut Evaluator, images: &[&[f32]]) -> String {
    let scores = evaluator.scores(images);
    spaced(scores.into_iter().flatten().flatten())
}

fn run(evaluator: &mut Evaluator, images: &[&[f32]], count: usize) -> String {
    evaluator.load(images);
    let times = (0..count).map(|_| {
        let start = clock::now_ns();
        black_box(evaluator.run(black_box(images.len())));
        clock::now_ns() - start
    });
    spaced(times)
}

fn operators(evaluator: &Evaluator) -> String {
    let times = evaluator.operator_times().map(|operator| {
        let name = operator.name.replace(char::is_whitespace, "_");
        format!("{name}={}", operator.last.as_nanos())
    });
    spaced(times)
}

fn spaced(values: impl Iterator<Item = impl ToString>) -> String {
    values
        .map(|value| value.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

fn first<'a, 'b>(images: &'a [&'b [f32]], batch: &str) -> Result<&'a [&'b [f32]], String> {
    let there = images.len();
    let whole = batch
        .parse()
        .ok()
        .filter(|batch| (1..=there).contains(batch));
    whole
        .map(|batch: usize| &images[..batch])
        .ok_or_else(|| format!("a batch of `{batch}`: the file has 1 to {there} images"))
}

fn available(name: &str) -> Result<Isa, String> {
    let names: Vec<_> = Isa::available().map(Isa::name).collect();
    Isa::available()
        .find(|isa| isa.name() == name)
        .ok_or_else(|| {
            format!(
                "no instruction set `{name}` here; there are: {}",
                names.join(", ")
            )
        })
}

/// As many whole images as the file starts with, up to the largest batch.
fn read_images(path: &Path, network: &Network) -> Result<Vec<Vec<f32>>, std::io::Error> {
    let floats: Vec<f32> = std::fs::read(path)?
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let input = network.tensors[network.input_tensor().0 as usize];
    let image = (input.channels * input.height * input.width) as usize;
    let images = floats.chunks_exact(image).take(punctual_core::BATCH_MAX);
    Ok(images.map(<[f32]>::to_vec).collect())
}
