//! What of a stage runs behind its session: reductions that ONNX has no operators for, on the CPU device's kernels.
//!
//! They are a network of one stage. Its input is a row of pixels with a plane for each channel, and for each vector, of
//! what they read; copies make tensors of these planes again.

use std::collections::BTreeMap;
use std::iter::zip;

use punctual_compile::{StageFile, tensor_name};
use punctual_device_cpu::{Evaluator, StartError};
use punctual_kernels::Isa;
use punctual_model::{
    AnswerKind, Copy, Exit, InputForm, InputSpec, Network, Operator, Output, Quantised, Stage,
    Tensor, TensorId,
};
use punctual_types::{Axis, Digit, Element, Piece, View};

/// The reductions of a stage, ready to run on the calling thread.
pub(crate) struct Tail {
    evaluator: Evaluator,
    reads: Vec<Read>,
    /// Its input, member after member.
    images: Vec<f32>,
    input: InputSpec,
    /// What the stage leaves of what the tail makes: of the last run, member after member.
    made: Vec<(TensorId, Vec<Vec<f32>>)>,
}

/// A tensor that the tail reads, and where it lies in the tail's input.
#[derive(Clone, Copy)]
struct Read {
    tensor: TensorId,
    plane: u32,
    shape: Tensor,
}

impl Tail {
    /// The tail of stage `stage` of a valid network, for at most `batch_max` members; none if its session does all of it.
    pub(crate) fn new(
        network: &Network,
        stage: usize,
        file: &StageFile<'_>,
        batch_max: usize,
    ) -> Result<Option<Self>, StartError> {
        if file.behind.is_empty() {
            return Ok(None);
        }
        let stage = &network.stages[stage];
        let mut left = stage.outputs.clone();
        left.extend(stage.exit.iter().flat_map(Exit::reads));
        left.retain(|left| file.behind.iter().any(|operator| operator.output == *left));
        left.sort_unstable();
        left.dedup();
        let reads = reads(network, &file.read_behind());
        let own = reductions(network, &file.behind, &reads, &left);
        let elements = own.input.tensor().elements() as usize;
        Ok(Some(Self {
            evaluator: Evaluator::new(Isa::detect(), &own, batch_max)?,
            reads,
            images: vec![0.0; batch_max * elements],
            input: own.input,
            made: left.into_iter().map(|left| (left, Vec::new())).collect(),
        }))
    }

    /// Runs it for `members`; `read` gives a tensor of a member, planar.
    pub(crate) fn run<'a>(&mut self, members: usize, read: impl Fn(TensorId, usize) -> &'a [f32]) {
        let elements = self.input.tensor().elements() as usize;
        let images = self.images.chunks_exact_mut(elements).take(members);
        for (member, image) in images.enumerate() {
            for of in &self.reads {
                let planes = image.chunks_exact_mut(self.input.width as usize);
                let planes = planes.skip(of.plane as usize);
                let values = read(of.tensor, member).chunks_exact(of.columns() as usize);
                for (to, from) in zip(planes, values) {
                    to[..from.len()].copy_from_slice(from);
                }
            }
        }
        let images: Vec<&[f32]> = self.images.chunks_exact(elements).take(members).collect();
        self.evaluator.load(&images);
        let exits = self.evaluator.exits(members).concat();
        for (at, (_, made)) in self.made.iter_mut().enumerate() {
            let floats = |bytes: &Vec<u8>| {
                let (floats, _) = bytes.as_chunks();
                floats.iter().copied().map(f32::from_ne_bytes).collect()
            };
            made.clear();
            made.extend(exits.iter().map(|exit| floats(&exit.outputs[at])));
        }
    }

    /// A tensor that it made for a member of the last run, planar; none of another tensor.
    pub(crate) fn values(&self, tensor: TensorId, member: usize) -> Option<&[f32]> {
        let (_, members) = self.made.iter().find(|(made, _)| *made == tensor)?;
        members.get(member).map(Vec::as_slice)
    }
}

impl Read {
    fn is_vector(&self) -> bool {
        self.shape.pixels() == 1
    }

    fn planes(&self) -> u32 {
        if self.is_vector() {
            1
        } else {
            self.shape.channels
        }
    }

    /// Values of each of its planes.
    fn columns(&self) -> u32 {
        self.shape.elements() as u32 / self.planes()
    }

    /// The tensor out of the tail's input.
    fn copy(&self) -> Copy {
        let Tensor {
            channels,
            height,
            width,
        } = self.shape;
        let digit = |axis, step, extent| Digit { axis, step, extent };
        let digits = if self.is_vector() {
            vec![digit(Axis::Column, 1, channels)]
        } else {
            vec![
                digit(Axis::Channel, 1, channels),
                digit(Axis::Column, width, height),
                digit(Axis::Column, 1, width),
            ]
        };
        let start = [self.plane, 0, 0];
        let view = View { start, digits };
        let pieces = vec![Piece::whole(view, [channels, height, width])];
        Copy { pieces }
    }
}

/// Those tensors, one behind the other.
fn reads(network: &Network, tensors: &[TensorId]) -> Vec<Read> {
    let mut plane = 0;
    let read = |&tensor: &TensorId| {
        let shape = network.tensors[tensor.index()];
        let read = Read {
            tensor,
            plane,
            shape,
        };
        plane += read.planes();
        read
    };
    tensors.iter().map(read).collect()
}

/// The network of these operators, which gives back what is `left`.
fn reductions(
    network: &Network,
    behind: &[&Operator],
    reads: &[Read],
    left: &[TensorId],
) -> Network {
    let input = InputSpec {
        channels: reads.iter().map(Read::planes).sum(),
        height: 1,
        width: reads.iter().map(Read::columns).max().unwrap_or(1),
        form: InputForm::Prepared,
    };
    let all = reads.iter().map(|read| read.tensor);
    let all: Vec<TensorId> = all.chain(behind.iter().map(|each| each.output)).collect();
    let own: BTreeMap<TensorId, TensorId> = zip(all.iter().copied(), (1..).map(TensorId)).collect();
    let shapes = all.iter().map(|tensor| network.tensors[tensor.index()]);
    let copied = reads.iter().map(|read| {
        let name = tensor_name(read.tensor);
        Operator::new(name, &[TensorId(0)], own[&read.tensor], read.copy())
    });
    let renamed = behind.iter().map(|&operator| {
        let mut operator = operator.clone();
        operator.reads_mut().for_each(|read| *read = own[read]);
        operator.output = own[&operator.output];
        operator
    });
    let outputs = left.iter().map(|tensor| {
        let shape = network.tensors[tensor.index()].sides();
        Output {
            name: tensor_name(*tensor),
            tensor: own[tensor],
            shape: shape.to_vec(),
            view: View::plain(shape),
            element: Element::F32,
        }
    });
    Network {
        name: format!("{} (reductions)", network.name),
        input,
        vectors: Vec::new(),
        answer: AnswerKind::None,
        classes: Vec::new(),
        tensors: [input.tensor()].into_iter().chain(shapes).collect(),
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: Vec::new(),
            operators: copied.chain(renamed).collect(),
            exit: Some(Exit {
                outputs: outputs.collect(),
                scores: None,
                confidence: None,
            }),
        }],
        weights: network.weights.clone(),
        quantised: Quantised::default(),
    }
}
