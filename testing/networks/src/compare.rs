//! One network on all engines, each compared with the reference interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_compile::{CompileError, CompileOptions, Compiled, InputOptions, compile};
use punctual_model::reference::Exited;
use punctual_model::reference::agreement::{Compared, ExpectedExit, Precision, expected};
use punctual_model::{AnswerKind, Calibration};

use crate::draw::{Drawn, Numbers};
use crate::engines::{Answers, Engine, Run, RunError, Subject, comparable, start};
use crate::panics;
use crate::requests::{self, Request};
use crate::second_look;

/// What came of a network.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The compiler does not take it, and says why.
    Refused(String),
    /// What was compared on each engine.
    Compared(Vec<(Engine, Result<Compared, Failure>)>),
    /// The compiler or the interpreter panicked.
    Broken(String),
}

/// What is wrong with an engine's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// In a few words, the same for the same fault: what networks are shrunk by.
    pub kind: FailureKind,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    Wrong,
    Panicked,
    /// It did not start, or ended with an error.
    Refused,
}

impl FailureKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Panicked => "panicked",
            Self::Refused => "refused",
        }
    }
}

impl Verdict {
    /// The engines that failed.
    pub fn failures(&self) -> impl Iterator<Item = (Engine, &Failure)> {
        let compared = match self {
            Self::Compared(compared) => compared.as_slice(),
            _ => &[],
        };
        compared
            .iter()
            .filter_map(|(engine, result)| Some((*engine, result.as_ref().err()?)))
    }

    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Broken(_)) || self.failures().next().is_some()
    }
}

/// Compares a network on these engines.
#[must_use]
pub fn compare(drawn: &Drawn, engines: &[Engine]) -> Verdict {
    let compiled = match caught(|| compiled(drawn)) {
        Ok(Ok(compiled)) => compiled,
        Ok(Err(refusal)) => return Verdict::Refused(reason(refusal)),
        Err(panic) => return Verdict::Broken(format!("the compiler panicked: {panic}")),
    };
    let subject = Subject {
        drawn,
        compiled: &compiled,
    };
    let requests = Requests::of(drawn, &compiled);
    let mut of_precision = Vec::new();
    for precision in [Precision::Single, Precision::Half] {
        if engines.iter().all(|engine| engine.precision() != precision) {
            continue;
        }
        match caught(|| all_expected(&compiled, &requests.prepared, precision, drawn.seed)) {
            Ok(expected) => of_precision.push((precision, expected)),
            Err(panic) => return Verdict::Broken(format!("the interpreter panicked: {panic}")),
        }
    }
    let on = |engine: &Engine| {
        let mut all = of_precision.iter();
        let expected = all.find(|(precision, _)| *precision == engine.precision());
        let expected = expected.map_or(&[][..], |(_, expected)| expected);
        let result = caught(|| on_engine(*engine, &subject, &requests, expected));
        let result = result.unwrap_or_else(|what| {
            let kind = FailureKind::Panicked;
            Err(Failure { kind, what })
        });
        (*engine, result)
    };
    Verdict::Compared(engines.iter().map(on).collect())
}

/// What is asked, as the file takes it and as the network does.
struct Requests {
    of_file: Vec<Request>,
    prepared: Vec<Request>,
}

impl Requests {
    fn of(drawn: &Drawn, compiled: &Compiled) -> Self {
        let of_file = requests::compared(drawn);
        let network = compiled.package.network();
        let prepared = of_file.iter();
        let prepared = prepared.map(|request| requests::prepared(drawn, network, request));
        Self {
            prepared: prepared.collect(),
            of_file,
        }
    }

    /// As an engine takes them.
    fn on(&self, engine: Engine) -> &[Request] {
        match engine {
            Engine::Onnxruntime => &self.of_file,
            _ => &self.prepared,
        }
    }
}

/// The compiled network of a drawn one.
///
/// # Errors
/// [`CompileError`], when the compiler does not take it.
pub fn compiled(drawn: &Drawn) -> Result<Compiled, CompileError> {
    let mut options = CompileOptions::of("drawn.onnx".as_ref());
    options.input = match drawn.inputs[0].numbers {
        Numbers::Picture(picture) if picture.bytes => InputOptions::default(),
        Numbers::Picture(picture) => InputOptions {
            mean: Some(vec![picture.mean]),
            std: Some(vec![picture.std]),
            ..InputOptions::default()
        },
        _ => InputOptions {
            prepared: Some(true),
            ..InputOptions::default()
        },
    };
    options.answer = Some(if drawn.has_classes {
        AnswerKind::Classes
    } else {
        AnswerKind::None
    });
    compile(&drawn.bytes(), Calibration::default(), &options)
}

/// `[request][exit]`
fn all_expected(
    compiled: &Compiled,
    requests: &[Request],
    precision: Precision,
    seed: u64,
) -> Vec<Vec<ExpectedExit>> {
    let of_one = |request: &Request| {
        let inputs: Vec<&[f32]> = request.iter().map(Vec::as_slice).collect();
        let exits = expected(compiled.package.network(), &inputs, precision, seed);
        exits.into_iter().flatten().collect()
    };
    requests.iter().map(of_one).collect()
}

fn on_engine(
    engine: Engine,
    subject: &Subject<'_>,
    all_requests: &Requests,
    expected: &[Vec<ExpectedExit>],
) -> Result<Compared, Failure> {
    let requests = all_requests.on(engine);
    let refused = |error: RunError| Failure {
        kind: FailureKind::Refused,
        what: error.to_string(),
    };
    let mut running = start(engine, subject, requests.len()).map_err(refused)?;
    if engine.isa().is_some() {
        let stale = requests::stale(subject.drawn, requests.len());
        // Its answers to these are not compared.
        let _ = running.run(&stale.iter().collect::<Vec<_>>());
    }
    let mut all = Compared::default();
    let alone: Vec<&Request> = requests.iter().take(1).collect();
    // In another order than before, so that each member has another's place.
    let together: Vec<&Request> = requests.iter().rev().collect();
    for batch in [alone, together] {
        let found = answers(&mut *running, &batch)?;
        for (request, found) in batch.iter().zip(&found) {
            let at = requests.iter().position(|one| std::ptr::eq(one, *request));
            let at = at.unwrap_or(0);
            let prepared = &all_requests.prepared[at];
            match agreed(engine, subject, &expected[at], found) {
                Ok(compared) => all.add(compared),
                Err(_) if second_look::agrees(engine, subject, prepared, found) => {}
                Err(what) => {
                    let kind = FailureKind::Wrong;
                    let what = format!("batch {}: {what}", batch.len());
                    return Err(Failure { kind, what });
                }
            }
        }
    }
    Ok(all)
}

fn answers(running: &mut dyn Run, batch: &[&Request]) -> Result<Answers, Failure> {
    let refused = |error: RunError| Failure {
        kind: match error {
            RunError::Class { .. } => FailureKind::Wrong,
            _ => FailureKind::Refused,
        },
        what: error.to_string(),
    };
    running.run(batch).map_err(refused)
}

/// Compares the exits of one request.
fn agreed(
    engine: Engine,
    subject: &Subject<'_>,
    expected: &[ExpectedExit],
    found: &[Exited],
) -> Result<Compared, String> {
    let mut all = Compared::default();
    if expected.len() != found.len() {
        return Err(format!("{} exits, not {}", found.len(), expected.len()));
    }
    for (name, expected, found) in comparable(engine, subject, expected, found) {
        let compared = expected.compare(&found);
        all.add(compared.map_err(|mismatch| format!("{name}: {mismatch}"))?);
    }
    Ok(all)
}

/// Why the compiler refuses, without names.
pub(crate) fn reason(error: CompileError) -> String {
    match error {
        CompileError::Nodes(unsupported) => match unsupported.nodes.first() {
            Some(node) => format!("{}: {}", node.operator, node.problem),
            None => "nodes".to_owned(),
        },
        other => other.to_string(),
    }
}

/// What `work` gives, or what it said when it panicked.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| panics::last())
}
