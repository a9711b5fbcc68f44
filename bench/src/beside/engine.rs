//! The demo's networks on ONNX Runtime, and what their outputs mean.

use punctual::demo;
use punctual_decode::{
    Activation, BoxForm, BoxHead, Candidates, Detection, Detections, Keep, Layout, Suppression,
    View,
};
use punctual_device_ort::{Library, OrtError, Part, Values};
use punctual_model::{InputSpec, OperatorKind, Package, PackageError};
use punctual_platform::clock;
use punctual_types::{Decoder, Size};

use super::contestants::Depth;
use super::graph::Graph;

/// The input of both networks.
const IMAGE: &str = "image";

/// How often each part is run before a turn, and which of its times counts then, by length.
const ROUNDS: usize = 40;
const COUNTED: usize = ROUNDS * 9 / 10;

/// One of the demo's networks: the file that a loop runs, and what the package says about it.
pub struct Network {
    graph: Graph,
    exits: usize,
    pub input: InputSpec,
    /// None: it answers with a class.
    boxes: Option<BoxHead>,
}

impl Network {
    /// In the order of the manifest's models.
    pub fn all() -> Result<[Self; 2], PackageError> {
        Ok([
            Self::new(
                demo::SIGNS,
                include_bytes!("../../../models/signs/signs.onnx"),
            )?,
            Self::new(
                demo::STREETS,
                include_bytes!("../../../models/streets/streets.onnx"),
            )?,
        ])
    }

    fn new(package: &[u8], onnx: &[u8]) -> Result<Self, PackageError> {
        let package = Package::decode(package)?;
        let network = package.network();
        let operators = network.stages.iter().flat_map(|stage| &stage.operators);
        let mut decoders = operators.filter_map(|operator| match &operator.kind {
            OperatorKind::Detections(detections) => Some(detections.decoder),
            _ => None,
        });
        let classes = network.classes.len();
        Ok(Self {
            graph: Graph::of(onnx),
            exits: network.stages.len(),
            input: network.input,
            boxes: decoders.next().map(|decoder| box_head(&decoder, classes)),
        })
    }

    /// What a frame of a camera is prepared in.
    pub fn slot(&self) -> Result<Values, OrtError> {
        let InputSpec {
            channels,
            height,
            width,
            ..
        } = self.input;
        let shape = [1, channels, height, width].map(|side| side as usize);
        let mut values = Values::default();
        values.add_zeros(IMAGE, &shape)?;
        Ok(values)
    }
}

/// As the package's own decoder does it.
fn box_head(decoder: &Decoder, classes: usize) -> BoxHead {
    let [width, height] = decoder.size;
    let overlap = decoder.overlap.unwrap_or(1.0);
    BoxHead {
        // Every place: known when a frame is decoded.
        places: 0,
        form: BoxForm::Corners,
        classes,
        activation: Activation::None,
        background: None,
        layout: Layout::Places,
        input: Size { width, height },
        keep: Keep {
            threshold: decoder.threshold,
            candidates: Candidates::OfEachLevel(decoder.candidates as usize),
            several_classes: false,
            suppression: Suppression::PerClass { overlap },
            limit: decoder.rows as usize,
        },
    }
}

/// What a network found in a frame.
pub struct Found {
    pub exit: usize,
    pub class: Option<usize>,
    /// In pixels of the frame.
    pub boxes: Option<Vec<Detection>>,
}

/// A thread's sessions of one network.
pub struct Engine {
    parts: Vec<Part>,
    /// The exit that each part ends with.
    exits: Vec<usize>,
    /// How long each part takes, in ns.
    times_ns: Vec<u64>,
    boxes: Option<BoxHead>,
    /// Reused from frame to frame.
    found: Detections,
    /// What it is warmed up with.
    warm_up: Values,
}

impl Engine {
    pub fn load(library: Library, network: &Network, depth: Depth) -> Result<Self, OrtError> {
        let files: Vec<(usize, Vec<u8>)> = match depth {
            Depth::Exit(exit) => vec![(exit, network.graph.up_to(exit))],
            Depth::Adaptive => {
                let stages = 0..network.exits;
                stages
                    .map(|exit| (exit, network.graph.stage(exit)))
                    .collect()
            }
        };
        let parts = files.iter().map(|(_, onnx)| Part::new(library, onnx));
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            exits: files.iter().map(|(exit, _)| *exit).collect(),
            times_ns: Vec::new(),
            boxes: network.boxes.clone(),
            found: Detections::default(),
            warm_up: network.slot()?,
        })
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// How long a part takes, in ns.
    pub fn time_ns(&self, part: usize) -> u64 {
        self.times_ns[part]
    }

    pub fn run(&mut self, part: usize, values: &mut Values) -> Result<(), OrtError> {
        self.parts[part].run(values)
    }

    /// How sure the network is after a part, 0 to 1.
    pub fn confidence(&self, part: usize, values: &Values) -> f32 {
        let exit = self.exits[part];
        if self.boxes.is_some() {
            return values.floats(&format!("exit_{exit}/confidence"))[0];
        }
        let scores = values.floats(&format!("exit_{exit}"));
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = scores.iter().map(|score| (score - best).exp()).sum();
        1.0 / sum
    }

    /// What it found, after a part.
    pub fn found(&mut self, part: usize, values: &Values, view: &View) -> Found {
        let exit = self.exits[part];
        let Some(head) = &mut self.boxes else {
            let scores = values.floats(&format!("exit_{exit}"));
            let best = |a: &(usize, &f32), b: &(usize, &f32)| a.1.total_cmp(b.1);
            return Found {
                exit,
                class: scores
                    .iter()
                    .enumerate()
                    .max_by(best)
                    .map(|(class, _)| class),
                boxes: None,
            };
        };
        let scores = values.floats(&format!("exit_{exit}/scores"));
        head.places = scores.len() / head.classes;
        let boxes = values.floats(&format!("exit_{exit}/boxes"));
        head.decode(boxes, scores, &mut self.found)
            .expect("tensors of the network");
        view.detections(&mut self.found);
        Found {
            exit,
            class: None,
            boxes: Some(self.found.to_vec()),
        }
    }
}

/// Runs engines in turns, so that each finds the caches as another one leaves them, and takes their times.
pub fn measure<'e>(engines: impl IntoIterator<Item = &'e mut Engine>) -> Result<(), OrtError> {
    let mut engines: Vec<&mut Engine> = engines.into_iter().collect();
    let mut times: Vec<Vec<Vec<u64>>> = engines
        .iter()
        .map(|engine| vec![Vec::new(); engine.parts()])
        .collect();
    for _ in 0..ROUNDS {
        for (engine, times) in engines.iter_mut().zip(&mut times) {
            for (part, times) in engine.parts.iter_mut().zip(times) {
                let begun_ns = clock::now_ns();
                part.run(&mut engine.warm_up)?;
                times.push(clock::now_ns() - begun_ns);
            }
        }
    }
    for (engine, times) in engines.iter_mut().zip(times) {
        let counted = |mut times: Vec<u64>| *times.select_nth_unstable(COUNTED).1;
        engine.times_ns = times.into_iter().map(counted).collect();
    }
    Ok(())
}

/// Where the network's input goes.
pub fn image(slot: &mut Values) -> &mut [f32] {
    slot.floats_mut(IMAGE)
}
