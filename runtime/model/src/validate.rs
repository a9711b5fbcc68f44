//! What every device may rely on. A network that passes can be laid out and run without a further
//! check of indices, ranges or shapes.

mod error;
mod exits;

use std::collections::BTreeSet;

use punctual_core::STAGES_MAX;

use punctual_types::Quantisation;

use crate::limits::{
    CLASSES_MAX, DIMENSION_MAX, NAME_BYTES_MAX, OPERATORS_MAX, TENSOR_ELEMENTS_MAX,
    VECTOR_LENGTH_MAX, VECTORS_MAX, WEIGHTS_MAX,
};
use crate::{InputForm, InputSpec, Network, Stage, Tensor, TensorId, WeightRange};

pub use error::{ExitError, NetworkError, OperatorError, StageError};

impl Network {
    /// Checks every rule that devices rely on: names and counts within their limits, finite weights,
    /// indices and weight ranges in range, shapes consistent operator by operator, each tensor written
    /// once and before it is read, nothing dead, and stages that take and carry exactly what they need.
    pub fn validate(&self) -> Result<(), NetworkError> {
        self.validate_structure()?;
        self.validate_weights()
    }

    /// Every rule but that weights are finite, so that no weight is looked at.
    pub(crate) fn validate_structure(&self) -> Result<(), NetworkError> {
        self.check_sizes()?;
        self.check_inputs()?;
        self.check_quantised()?;
        let mut written = vec![false; self.tensors.len()];
        let mut carried: BTreeSet<TensorId> = self.input_tensors().collect();
        for input in &carried {
            written[input.index()] = true;
        }
        for (index, stage) in self.stages.iter().enumerate() {
            let wrong = |problem| NetworkError::Stage {
                stage: index,
                problem,
            };
            if stage.operators.is_empty() {
                return Err(wrong(StageError::NoOperators));
            }
            check_lists(stage, &carried).map_err(wrong)?;
            self.check_operators(index, stage, &mut written)?;
            self.check_results(index, stage)?;
            carried.extend(&stage.outputs);
        }
        if let Some(tensor) = written.iter().position(|&written| !written) {
            return Err(NetworkError::NeverWritten { tensor });
        }
        let taken = |input: &TensorId| self.stages.iter().any(|stage| stage.inputs.contains(input));
        match self.input_tensors().find(|input| !taken(input)) {
            Some(input) => {
                let vector = input.index().checked_sub(1);
                let vector = vector.map(|at| self.vectors[at].name.clone());
                Err(NetworkError::UnreadInput { vector })
            }
            None => self.check_exits(),
        }
    }

    /// The tensor that holds the network's first input.
    #[must_use]
    pub const fn input_tensor(&self) -> TensorId {
        TensorId(0)
    }

    /// The tensors that come with a request: the input, then the vectors.
    pub fn input_tensors(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..=self.vectors.len() as u32).map(TensorId)
    }

    /// Inputs are the first tensors, and each can be prepared.
    fn check_inputs(&self) -> Result<(), NetworkError> {
        let InputSpec { channels, form, .. } = self.input;
        let fits = match form {
            InputForm::Image { .. } => matches!(channels, 1 | 3 | 4),
            InputForm::Prepared => true,
            InputForm::Tokens { mask } => channels == 1 + u32::from(mask),
        };
        if !fits {
            return Err(NetworkError::InputChannels { channels });
        }
        if let InputForm::Image { mean, std } = form {
            check_normalisation(&mean, &std)?;
        }
        if self.vectors.len() > VECTORS_MAX {
            return Err(NetworkError::Vectors {
                found: self.vectors.len(),
            });
        }
        let vectors = self.vectors.iter();
        if let Some(vector) = vectors
            .clone()
            .find(|v| !(1..=VECTOR_LENGTH_MAX).contains(&v.length))
        {
            let (name, length) = (vector.name.clone(), vector.length);
            return Err(NetworkError::VectorLength { name, length });
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = vectors.clone().find(|vector| !names.insert(&vector.name)) {
            let (what, name) = ("vector", twice.name.clone());
            return Err(NetworkError::NameTwice { what, name });
        }
        let shapes = std::iter::once(self.input.tensor());
        let shapes = shapes.chain(vectors.map(|vector| Tensor::features(vector.length)));
        for (at, expected) in shapes.enumerate() {
            if self.tensors.get(at) != Some(&expected) {
                return Err(NetworkError::Input {
                    tensor: at,
                    expected,
                });
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), NetworkError> {
        let operators = self.stages.iter().map(|stage| stage.operators.len()).sum();
        for (what, found, limit) in [
            ("stages", self.stages.len(), STAGES_MAX),
            ("operators", operators, OPERATORS_MAX),
            (
                "tensors",
                self.tensors.len(),
                OPERATORS_MAX + 1 + VECTORS_MAX,
            ),
            ("weights", self.weights.len(), WEIGHTS_MAX),
        ] {
            // What moves and combines values needs no weights.
            let least = usize::from(what != "weights");
            if !(least..=limit).contains(&found) {
                return Err(NetworkError::Count { what, found, limit });
            }
        }
        let (found, limit) = (self.classes.len(), CLASSES_MAX);
        if found > limit || found == 0 && self.answer.has_class() {
            let what = "classes";
            return Err(NetworkError::Count { what, found, limit });
        }
        let operators = self.stages.iter().flat_map(|stage| &stage.operators);
        let outputs = self.exits().flat_map(|(_, exit)| &exit.outputs);
        let names = std::iter::once(("network", &self.name))
            .chain(self.classes.iter().map(|name| ("class", name)))
            .chain(self.vectors.iter().map(|vector| ("vector", &vector.name)))
            .chain(outputs.map(|output| ("output", &output.name)))
            .chain(operators.map(|operator| ("operator", &operator.name)));
        for (what, name) in names {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(NetworkError::Name {
                    what,
                    bytes: name.len(),
                });
            }
        }
        for (tensor, &shape) in self.tensors.iter().enumerate() {
            let sides = [shape.channels, shape.height, shape.width];
            let fits = sides.iter().all(|side| (1..=DIMENSION_MAX).contains(side));
            if !fits || shape.elements() > TENSOR_ELEMENTS_MAX {
                return Err(NetworkError::TensorSize { tensor, shape });
            }
        }
        Ok(())
    }

    pub(crate) fn validate_weights(&self) -> Result<(), NetworkError> {
        match self.weights.iter().position(|weight| !weight.is_finite()) {
            Some(index) => Err(NetworkError::Weight {
                index,
                value: self.weights[index],
            }),
            None => Ok(()),
        }
    }

    /// Operator by operator: tensors exist, are written once and before they are read; weights and shapes fit.
    fn check_operators(
        &self,
        index: usize,
        stage: &Stage,
        written: &mut [bool],
    ) -> Result<(), NetworkError> {
        let mut readable: BTreeSet<TensorId> = stage.inputs.iter().copied().collect();
        for operator in &stage.operators {
            let wrong = |problem| {
                let operator = operator.name.clone();
                NetworkError::Operator {
                    stage: index,
                    operator,
                    problem,
                }
            };
            for tensor in operator.reads().chain([operator.output]) {
                if tensor.index() >= self.tensors.len() {
                    let tensors = self.tensors.len();
                    return Err(wrong(OperatorError::NoSuchTensor { tensor, tensors }));
                }
            }
            if let Some(tensor) = operator.reads().find(|tensor| !readable.contains(tensor)) {
                return Err(wrong(OperatorError::ReadBeforeWritten(tensor)));
            }
            if std::mem::replace(&mut written[operator.output.index()], true) {
                return Err(wrong(OperatorError::WrittenTwice(operator.output)));
            }
            readable.insert(operator.output);
            self.check_operator(operator).map_err(wrong)?;
        }
        Ok(())
    }

    /// What a stage leaves behind: everything it writes is of use, and its exit can be answered.
    fn check_results(&self, index: usize, stage: &Stage) -> Result<(), NetworkError> {
        let wrong = |problem| NetworkError::Stage {
            stage: index,
            problem,
        };
        let local: BTreeSet<_> = stage
            .operators
            .iter()
            .map(|operator| operator.output)
            .collect();
        let read: BTreeSet<_> = stage.reads().collect();
        if let Some(&tensor) = stage.inputs.iter().find(|tensor| !read.contains(tensor)) {
            return Err(wrong(StageError::UnreadInput(tensor)));
        }
        let later = &self.stages[index + 1..];
        for &tensor in &stage.outputs {
            if !local.contains(&tensor) {
                return Err(wrong(StageError::UnwrittenOutput(tensor)));
            }
            if !later
                .iter()
                .any(|stage| stage.inputs.binary_search(&tensor).is_ok())
            {
                return Err(wrong(StageError::UselessOutput(tensor)));
            }
        }
        match &stage.exit {
            None if index + 1 == self.stages.len() => return Err(wrong(StageError::NoExit)),
            None => {}
            Some(exit) => {
                let readable = |id: &TensorId| local.contains(id) || stage.inputs.contains(id);
                self.check_exit(exit, readable)
                    .map_err(|problem| NetworkError::Exit {
                        stage: index,
                        problem,
                    })?;
            }
        }
        check_use(index, stage)
    }

    /// The quantised tensors exist, are worth something, and none of them is an input, or what an exit answers with.
    fn check_quantised(&self) -> Result<(), NetworkError> {
        let found = self.quantised.weights.len();
        if found > WEIGHTS_MAX {
            return Err(NetworkError::Count {
                what: "quantised weights",
                found,
                limit: WEIGHTS_MAX,
            });
        }
        let exits = self.exits().map(|(_, exit)| exit);
        let of_exits = exits.flat_map(|exit| {
            exit.scores
                .map(|s| s.tensor)
                .into_iter()
                .chain(exit.confidence)
        });
        let floats: Vec<TensorId> = of_exits.chain(self.input_tensors()).collect();
        for (&tensor, &Quantisation { scale, .. }) in &self.quantised.tensors {
            let exists = tensor.index() < self.tensors.len();
            if !exists || floats.contains(&tensor) || !Quantisation::is_step(scale) {
                return Err(NetworkError::Quantisation { tensor, scale });
            }
        }
        Ok(())
    }
}

impl WeightRange {
    /// Whether the range lies in the weights `there`, and is as long as `expected`.
    pub(crate) fn check(
        self,
        what: &'static str,
        there: usize,
        expected: u64,
    ) -> Result<(), OperatorError> {
        let WeightRange { start, len } = self;
        if u64::from(start) + u64::from(len) > there as u64 {
            return Err(OperatorError::WeightRange {
                what,
                start,
                len,
                weights: there,
            });
        }
        if u64::from(len) != expected {
            return Err(OperatorError::WeightCount {
                what,
                found: len,
                expected,
            });
        }
        Ok(())
    }
}

impl WeightRange {
    /// Whether both have an element in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let end = |range: Self| u64::from(range.start) + u64::from(range.len);
        u64::from(self.start) < end(other) && u64::from(other.start) < end(self)
    }
}

/// Everything a stage writes is read, carried over, or its exit's.
fn check_use(index: usize, stage: &Stage) -> Result<(), NetworkError> {
    let read: BTreeSet<_> = stage.reads().collect();
    let used = |id| read.contains(&id) || stage.outputs.contains(&id);
    let mut operators = stage.operators.iter();
    match operators.find(|operator| !used(operator.output)) {
        Some(dead) => Err(NetworkError::Operator {
            stage: index,
            operator: dead.name.clone(),
            problem: OperatorError::DeadResult(dead.output),
        }),
        None => Ok(()),
    }
}

fn check_lists(stage: &Stage, carried: &BTreeSet<TensorId>) -> Result<(), StageError> {
    for (list, tensors) in [("inputs", &stage.inputs), ("outputs", &stage.outputs)] {
        if tensors.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(StageError::Unsorted { list });
        }
    }
    match stage.inputs.iter().find(|tensor| !carried.contains(tensor)) {
        Some(&tensor) => Err(StageError::NotCarried(tensor)),
        None => Ok(()),
    }
}

fn check_normalisation(mean: &[f32], std: &[f32]) -> Result<(), NetworkError> {
    for (channel, (&mean, &std)) in mean.iter().zip(std).enumerate() {
        // A subnormal std is refused too: its reciprocal is infinite.
        if !mean.is_finite() || !std.is_normal() || std < 0.0 {
            return Err(NetworkError::Normalisation { channel, mean, std });
        }
    }
    Ok(())
}
