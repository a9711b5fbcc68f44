//! One operator by itself, as the reference interpreter runs it: what kernels are compared with.

use punctual_model::reference::{Values, run_stage};
use punctual_model::{
    AnswerKind, Floats, InputForm, InputSpec, Network, Operands, Operator, OperatorKind, Quantised,
    Stage, Tensor, TensorId, WeightRange,
};
use punctual_types::Quantisation;

/// An operator, what it reads for one image, and its weights. Tensors are given as channels, rows and columns, their values
/// in this order.
///
/// ```
/// use punctual_conformance::Alone;
/// use punctual_model::Linear;
/// use punctual_types::Activation;
///
/// let linear = Linear { activation: Activation::Relu };
/// let layer = Alone::new(linear).reads([2, 1, 1], &[3.0, 4.0]);
/// let layer = layer.weights(&[1.0, 10.0, -1.0, -1.0]).weights(&[0.5, 0.0]);
/// assert_eq!(layer.run(), [43.5, 0.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Alone {
    kind: OperatorKind,
    /// What it reads; their numbers are their positions.
    tensors: Vec<Tensor>,
    values: Values,
    quantised: Quantised,
    floats: Vec<f32>,
    weights: Vec<WeightRange>,
    output: Option<Tensor>,
}

impl Alone {
    #[must_use]
    pub fn new(kind: impl Into<OperatorKind>) -> Self {
        Self {
            kind: kind.into(),
            tensors: Vec::new(),
            values: Values::new(),
            quantised: Quantised::default(),
            floats: Vec::new(),
            weights: Vec::new(),
            output: None,
        }
    }

    /// What it reads next: first its input, then its other operands.
    ///
    /// # Panics
    /// If there are more or fewer values than the tensor has.
    #[must_use]
    pub fn reads(mut self, sides: [u32; 3], values: &[f32]) -> Self {
        let tensor = Tensor::of_sides(sides);
        assert_eq!(values.len() as u64, tensor.elements(), "values of {tensor}");
        self.values.insert(self.next(), values.to_vec());
        self.tensors.push(tensor);
        self
    }

    /// As [`reads`](Self::reads), of bytes.
    #[must_use]
    pub fn reads_bytes(mut self, sides: [u32; 3], of: Quantisation, bytes: &[u8]) -> Self {
        self.quantised.tensors.insert(self.next(), of);
        let values: Vec<f32> = bytes.iter().copied().map(f32::from).collect();
        self.reads(sides, &values)
    }

    /// Its next weights, in the order that its kind says.
    #[must_use]
    pub fn weights(mut self, weights: &[f32]) -> Self {
        self.weights.push(range(self.floats.len(), weights.len()));
        self.floats.extend(weights);
        self
    }

    /// Its next weights, which are integers.
    #[must_use]
    pub fn integers(mut self, weights: &[i8]) -> Self {
        let all = &mut self.quantised.weights;
        self.weights.push(range(all.len(), weights.len()));
        all.extend(weights);
        self
    }

    /// The shape of its result, in place of the one that follows from what it reads. A window may lie wholly in the
    /// padding then: no network has such a one, but kernels take it.
    #[must_use]
    pub fn writes(mut self, sides: [u32; 3]) -> Self {
        self.output = Some(Tensor::of_sides(sides));
        self
    }

    /// What it computes.
    ///
    /// # Panics
    /// If what it reads and its weights do not fit the operator.
    #[must_use]
    pub fn run(mut self) -> Vec<f32> {
        let reads: Vec<TensorId> = (0..self.next().0).map(TensorId).collect();
        let output = self.next();
        self.tensors.push(self.shape());
        let operator = Operator::new("alone", &reads, output, self.kind);
        let network = network(self.tensors, self.floats.into(), self.quantised);
        let stage = Stage {
            inputs: reads,
            outputs: vec![output],
            operators: vec![operator.with_weights(self.weights)],
            exit: None,
        };
        let _ = run_stage(&network, &stage, &mut self.values);
        self.values.remove(&output).expect("the stage's output")
    }

    /// As [`run`](Self::run), with a result of bytes.
    #[must_use]
    pub fn run_to_bytes(mut self, to: Quantisation) -> Vec<u8> {
        self.quantised.tensors.insert(self.next(), to);
        let byte = |value: f32| {
            let byte = value as u8;
            assert_eq!(f32::from(byte), value, "a byte");
            byte
        };
        self.run().into_iter().map(byte).collect()
    }

    /// The tensor behind those that it reads.
    fn next(&self) -> TensorId {
        TensorId(self.tensors.len() as u32)
    }

    /// That of its result, for which its weights are checked.
    fn shape(&self) -> Tensor {
        let lengths: Vec<u32> = self.weights.iter().map(|range| range.len).collect();
        let (&input, others) = self.tensors.split_first().expect("it reads something");
        let of = Operands {
            input,
            others,
            weights: &lengths,
        };
        let output = match self.output {
            Some(output) => Ok(output),
            None => self.kind.output_shape(&of),
        };
        let output = output.unwrap_or_else(|problem| panic!("{problem}"));
        let held = self.kind.weight_lengths(&of, output);
        let lengths: Vec<u64> = lengths.into_iter().map(u64::from).collect();
        assert_eq!(lengths, held, "elements of its weights");
        output
    }
}

fn range(start: usize, len: usize) -> WeightRange {
    WeightRange {
        start: start as u32,
        len: len as u32,
    }
}

/// No more of a network than an operator sees.
fn network(tensors: Vec<Tensor>, weights: Floats, quantised: Quantised) -> Network {
    Network {
        name: String::new(),
        input: InputSpec {
            channels: 0,
            height: 0,
            width: 0,
            form: InputForm::Prepared,
        },
        vectors: Vec::new(),
        answer: AnswerKind::None,
        classes: Vec::new(),
        tensors,
        stages: Vec::new(),
        weights,
        quantised,
    }
}
