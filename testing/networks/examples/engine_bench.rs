//! The engine for a benchmark: compiles an ONNX file, runs it on the given cores, one thread each, and prints how long
//! each run took. `models/zoo/bench.py` spawns it and alternates it with onnxruntime.
//!
//! ```text
//! engine_bench NETWORK.onnx --cores CORES --out FOLDER --input NAME=FILE ... [--answer KIND] [--isa ISA]
//! ```
//!
//! `CORES` are numbers separated by commas; answers and inputs are as for the example `tensors`, of as many images as
//! the files have. The first line printed names the instruction set. Each line on standard input is then answered by
//! one line:
//!
//! - `outputs BATCH`: writes what all exits answer for the first images into files of `FOLDER`, and describes
//!   these as the example `tensors` does;
//! - `run BATCH COUNT`: nanoseconds of each of `COUNT` runs, from the inputs in the engine's memory
//!   to the outputs of every exit in a client's, all stages one by one;
//! - `measure ROUNDS BATCH...`: from now on uses the fastest solution of each operator, measured in
//!   `ROUNDS` rounds at these batch sizes; answers `operator:batch=solution` for those that are not direct;
//! - `stages`: nanoseconds that each stage's operators took in the last run;
//! - `operators`: for each operator of the last run `name:CHANNELSxROWSxCOLUMNS:MULTIPLICATIONS=nanoseconds`.
#![forbid(unsafe_code)]

mod tensor_files;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use punctual_compile::Compiled;
use punctual_device_cpu::{Evaluator, SolutionRequest, measure_solutions};
use punctual_kernels::Isa;
use punctual_model::{AnswerKind, SolutionChoice};
use punctual_platform::affinity::pin_current_thread;
use punctual_platform::clock;
use serde_json::Value;

use tensor_files::{compiled, load, on_cpu, read_images, written};

const USAGE: &str = "usage: engine_bench NETWORK.onnx --cores CORES --out FOLDER --input NAME=FILE ... \
[--answer classes|labels|detections|none] [--isa ISA]";

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engine_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    onnx: PathBuf,
    answer: Option<AnswerKind>,
    cores: Vec<usize>,
    isa: Isa,
    out: PathBuf,
    inputs: BTreeMap<String, PathBuf>,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut found = Arguments {
        onnx: words.next().ok_or(USAGE)?.into(),
        answer: None,
        cores: Vec::new(),
        isa: Isa::detect(),
        out: PathBuf::new(),
        inputs: BTreeMap::new(),
    };
    while let Some(option) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match option.as_str() {
            "--cores" => {
                found.cores = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--answer" => found.answer = Some(AnswerKind::named(&value).ok_or(USAGE)?),
            "--isa" => found.isa = available(&value)?,
            "--out" => found.out = value.into(),
            "--input" => {
                let (name, file) = value.split_once('=').ok_or(USAGE)?;
                found.inputs.insert(name.to_owned(), file.into());
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(found)
}

/// The engine, with the network and the requests that it runs.
struct Engine {
    evaluator: Evaluator,
    compiled: Compiled,
    images: Vec<Vec<Vec<f32>>>,
    isa: Isa,
    /// Cores of the calling thread's helpers.
    mates: Vec<usize>,
    out: PathBuf,
}

fn serve() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let (&leader, mates) = arguments.cores.split_first().ok_or(USAGE)?;
    let compiled = compiled(&arguments.onnx, arguments.answer)?;
    let network = compiled.package.network();
    let images = read_images(network, arguments.inputs)?;
    let isa = arguments.isa;
    // Started first: the mates are pinned by name, not by what this thread hands down.
    let mut evaluator = Evaluator::with_mates(isa, network, images.len(), mates, &[])?;
    load(&mut evaluator, &images);
    pin_current_thread(leader).map_err(|missing| format!("core {leader}: {missing:?}"))?;
    let mut engine = Engine {
        evaluator,
        compiled,
        images,
        isa,
        mates: mates.to_vec(),
        out: arguments.out,
    };
    let mut output = std::io::stdout();
    writeln!(output, "{isa}")?;
    for line in std::io::stdin().lock().lines() {
        writeln!(output, "{}", engine.answer(&line?)?)?;
        output.flush()?;
    }
    Ok(())
}

impl Engine {
    fn answer(&mut self, line: &str) -> Result<String, Box<dyn Error>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["outputs", batch] => self.outputs(batch.parse()?),
            ["run", batch, count] => {
                let (batch, count) = (batch.parse()?, count.parse()?);
                Ok(self.run(batch, count))
            }
            ["operators"] => Ok(operators(&self.evaluator)),
            ["stages"] => Ok(spaced(self.evaluator.stage_times())),
            ["measure", rounds, batches @ ..] => {
                let batches: Result<Vec<u8>, _> = batches.iter().map(|one| one.parse()).collect();
                self.measure(rounds.parse()?, &batches?)
            }
            _ => Err(format!(
                "`{line}` is none of `outputs`, `run`, `measure`, `operators`, `stages`"
            )
            .into()),
        }
    }

    fn outputs(&mut self, batch: usize) -> Result<String, Box<dyn Error>> {
        let found = on_cpu(&mut self.evaluator, batch);
        let tensors = written(&self.compiled, found, &self.out)?;
        Ok(Value::from(tensors).to_string())
    }

    fn run(&mut self, batch: usize, count: usize) -> String {
        let times = (0..count).map(|_| {
            let start = clock::now_ns();
            self.evaluator.run_for_time(batch);
            clock::now_ns() - start
        });
        spaced(times)
    }

    fn measure(&mut self, rounds: usize, batches: &[u8]) -> Result<String, Box<dyn Error>> {
        let network = self.compiled.package.network();
        let request = SolutionRequest {
            isa: self.isa,
            batches,
            mates: &self.mates,
            rounds,
        };
        let choices = measure_solutions(network, &request)?;
        let most = self.images.len();
        self.evaluator = Evaluator::with_mates(self.isa, network, most, &self.mates, &choices)?;
        load(&mut self.evaluator, &self.images);
        let choice = |c: &SolutionChoice| format!("{}:{}={}", c.operator, c.batch, c.solution);
        Ok(spaced(choices.iter().map(choice)))
    }
}

fn operators(evaluator: &Evaluator) -> String {
    let times = evaluator.operator_times().map(|operator| {
        let name = operator.name.replace(char::is_whitespace, "_");
        let [channels, rows, columns] = operator.shape;
        let (macs, took) = (operator.macs, operator.last.as_nanos());
        format!("{name}:{channels}x{rows}x{columns}:{macs}={took}")
    });
    spaced(times)
}

fn spaced(values: impl Iterator<Item = impl ToString>) -> String {
    values
        .map(|value| value.to_string())
        .collect::<Vec<_>>()
        .join(" ")
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
