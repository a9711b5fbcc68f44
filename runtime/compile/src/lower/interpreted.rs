//! Operators of constants that folding has no rule for: each is lowered as for one image of a batch, and the reference
//! interpreter says what it computes.

use std::rc::Rc;

use punctual_model::reference::run_all;
use punctual_model::{AnswerKind, Exit, InputForm, InputSpec, Network, Origin, Output, Quantised};
use punctual_types::{Element, View as Plain};

use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::vocabulary::{LoweringRule, OnnxOperator};
use crate::graph::{Constant, Data, Node, ValueId};
use crate::input::Input;
use crate::integer::Dim;
use crate::problem::Problem;
use crate::stage;

/// Those that hand constants on as they are.
const HANDED_ON: &[&str] = &[
    "Constant",
    "DequantizeLinear",
    "Dropout",
    "Identity",
    "QuantizeLinear",
];

/// Multiplications that count as one word of what folding may make, so that the interpreter takes seconds for a file at most.
const MULTIPLICATIONS_A_WORD: u64 = 16;

impl Lowering<'_> {
    /// The results of a node whose operands are constants, the first one of floats; `None` for any other.
    pub(super) fn interpreted(
        &mut self,
        node: &Node,
        operator: &OnnxOperator,
    ) -> Result<Option<Vec<Constant>>, Problem> {
        let constants = node.inputs.iter().flatten();
        let all = constants
            .clone()
            .all(|id| matches!(self.value(*id), Value::Constant(_)));
        let Some(Value::Constant(data)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let data = Rc::clone(data);
        let is_tensor = matches!(data.data, Data::Floats(_)) && !data.dims.is_empty();
        if !all || !is_tensor || data.elements() == 0 || HANDED_ON.contains(&operator.name) {
            return Ok(None);
        }
        let Some(lower) = operator.lower else {
            return Ok(None);
        };
        // Which dimension the images are, if any, the file does not say. Not one along which the operator goes.
        let places = match data.batch {
            Some(batch) => batch..batch + 1,
            None => 0..data.dims.len(),
        };
        // What is in the way is said by the lowering of the node in its place.
        for batch in places {
            let results = self.interpreted_at(node, operator, lower, &data, batch);
            if let Ok(results) = results {
                return Ok(Some(results));
            }
        }
        Ok(None)
    }

    /// The results where this dimension of the first operand is taken for the batch.
    fn interpreted_at(
        &mut self,
        node: &Node,
        operator: &OnnxOperator,
        lower: LoweringRule,
        data: &Constant,
        batch: usize,
    ) -> Result<Vec<Constant>, Problem> {
        let mut alone = Lowering::new(self.graph, &alone());
        alone.fixed = Some(1);
        alone.values.resize(self.values.len(), Value::Nothing);
        alone.numbers.resize(self.numbers.len(), Numbers::Floats);
        for id in node.inputs.iter().flatten() {
            alone.values[id.0] = self.value(*id).clone();
            alone.numbers[id.0] = self.numbers[id.0];
        }
        alone.note_numbers(node, operator.makes);
        // What it takes is taken of what all folding may.
        std::mem::swap(&mut alone.room, &mut self.room);
        let results = alone.results(node, lower, data, batch);
        std::mem::swap(&mut alone.room, &mut self.room);
        results
    }

    /// Lowers the node, and says what it comes to.
    fn results(
        &mut self,
        node: &Node,
        lower: LoweringRule,
        data: &Constant,
        batch: usize,
    ) -> Result<Vec<Constant>, Problem> {
        let seen = self.of_images(node, data, batch)?;
        self.replace(node, 0, &seen);
        lower(self, node)?;
        let mut results = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let result = match output {
                Some(output) => self.result_of(node, *output, data.batch.is_some())?,
                None => Constant::new(vec![], Data::Floats(vec![0.0])),
            };
            self.room.take(result.elements())?;
            results.push(result);
        }
        Ok(results)
    }

    /// What a value comes to.
    fn result_of(
        &mut self,
        node: &Node,
        id: ValueId,
        of_images: bool,
    ) -> Result<Constant, Problem> {
        self.compute_output(&node.name, id)?;
        let Value::View(view) = self.value(id).clone() else {
            return Ok(Constant::new(vec![0], Data::Floats(Vec::new())));
        };
        let unfit = || Problem::Dimension { value: usize::MAX };
        let output = Output {
            name: String::new(),
            tensor: view.tensor,
            shape: Vec::new(),
            view: Plain {
                start: view.first().ok_or_else(unfit)?,
                digits: view.digits(0..view.dims.len()).ok_or_else(unfit)?,
            },
            element: Element::F32,
        };
        let values = self.run(output)?;
        let sizes = view.sizes();
        let batch = sizes
            .iter()
            .position(|size| matches!(size, Dim::Batches(_)));
        let size = |size: &Dim| match *size {
            Dim::Known(size) | Dim::Batches(size) => size as usize,
        };
        let data = match self.numbers[id.0] {
            Numbers::Floats => Data::Floats(values),
            Numbers::Integers | Numbers::Truths => {
                Data::Ints(values.into_iter().map(|value| value as i64).collect())
            }
        };
        Ok(Constant {
            dims: sizes.iter().map(size).collect(),
            batch: batch.filter(|_| of_images),
            data,
        })
    }

    /// The values of an output of what has been lowered.
    fn run(&mut self, output: Output) -> Result<Vec<f32>, Problem> {
        let mut draft = self.draft.clone();
        draft.remove_dead(&[output.tensor]);
        let shell = Network {
            name: String::new(),
            input: alone().spec,
            vectors: Vec::new(),
            answer: AnswerKind::None,
            classes: Vec::new(),
            tensors: Vec::new(),
            stages: Vec::new(),
            weights: Vec::new().into(),
            quantised: Quantised::default(),
        };
        let exit = Exit {
            outputs: vec![output],
            scores: None,
            confidence: None,
        };
        let network = stage::cut(draft, vec![exit], shell);
        let network = network.unwrap_or_else(|stage::Empty(_)| unreachable!("a table is copied"));
        let stages = network.stages.iter();
        let multiplications = stages
            .map(|stage| network.multiplications(stage))
            .sum::<u64>();
        let words = multiplications / MULTIPLICATIONS_A_WORD;
        self.room
            .take(usize::try_from(words).unwrap_or(usize::MAX))?;
        let exits = run_all(&network, &[&[0.0]]);
        let exited = exits.into_iter().flatten().next().unwrap_or_default();
        Ok(exited.outputs.into_iter().next().unwrap_or_default())
    }
}

/// An input that nothing reads.
fn alone() -> Input {
    Input {
        spec: InputSpec {
            channels: 1,
            height: 1,
            width: 1,
            form: InputForm::Prepared,
        },
        origin: Origin::default(),
        taken: String::new(),
    }
}
