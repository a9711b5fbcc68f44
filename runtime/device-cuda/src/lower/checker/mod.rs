//! A checker of lists of launches: that they compute what the network says, no matter what planned them.
//!
//! It executes the launches symbolically. What it knows is the network, the layouts that others rely on (of inputs, of
//! outputs, of weights in pages) and what each launch reads and writes by its arguments; nothing of how the lists were
//! made. Each place gets the name of what is written there. A read is right if the whole of the tensor that the network
//! says is there, complete and in the form that the launch takes it to be in.
//!
//! | what it proves | where |
//! |---|---|
//! | each operand is the last write of the tensor that stands in the operator's same place | `operators` |
//! | parts (channels that lie in other pages, steps of a layer, pieces of a copy) are made once, in order, all of them | `operators`, `moves` |
//! | each member's input and slot go to that member; slots keep what later stages read | `ends` |
//! | each output and the answer are copied from their tensors, complete, before anything lies there | `ends` |
//!
//! Kernels keep the images of a batch apart, so a value has the whole batch, and only where members are brought together
//! are there several. What kernels compute of right operands is for the tests of kernels.

mod ends;
mod moves;
mod operators;
mod violation;

use std::collections::{BTreeMap, BTreeSet};

use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::Kept;
use punctual_device::InputLayout;
use punctual_model::{Contents, Network, Operator, OutputLayout, PlacedExit, Stage, TensorId};

use super::layout::{image_bytes, kept, view_of};
use super::pages::Pages;
use super::place::Place;
use super::program::{LaunchList, Step};
use super::traffic::Span;
pub use violation::{At, Fault, Found, Missing, Value, Violation};

/// Between two stages: what lies in a request's slot.
pub(super) struct Checker<'n> {
    network: &'n Network,
    outputs: Option<&'n OutputLayout>,
    input: InputLayout,
    request_bytes: u64,
    /// By page and first byte: whose weights they are, for the operators' channels from one on.
    weights: BTreeMap<(u32, u32), Vec<(u32, u32)>>,
    slot: Contents<TensorId>,
    /// The next stage, and its first operator.
    next: (usize, u32),
}

/// A list while it is carried out.
struct Run<'c> {
    checker: &'c Checker<'c>,
    stage: &'c Stage,
    list: &'c LaunchList,
    workspace: Contents<Value>,
    slot: Contents<TensorId>,
    /// What it has read of a slot.
    slot_read: Contents<()>,
    /// What launches have read since the last result: of which operator, and a bit for each operand.
    seen: (u32, u32),
    carried: BTreeSet<TensorId>,
    /// The outputs that were written, by their position among the placed ones.
    given: BTreeSet<usize>,
    is_answered: bool,
}

impl<'n> Checker<'n> {
    pub(super) fn new(
        network: &'n Network,
        outputs: Option<&'n OutputLayout>,
        input: InputLayout,
        request_bytes: u64,
        pages: &Pages,
    ) -> Self {
        let mut weights: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for entry in &pages.entries {
            for piece in &entry.pieces {
                let owners = weights.entry((piece.page, piece.weights)).or_default();
                owners.push((entry.operator, piece.first));
            }
        }
        Self {
            network,
            outputs,
            input,
            request_bytes,
            weights,
            slot: Contents::default(),
            next: (0, 0),
        }
    }

    /// Checks the lists of the next stage.
    pub(super) fn check_stage(&mut self, lists: &[LaunchList]) -> Result<(), Violation> {
        let (number, first) = self.next;
        let stage = &self.network.stages[number];
        let mut after: Option<(u8, Contents<TensorId>)> = None;
        for list in lists {
            let slot = self.check(stage, list)?;
            if let Some((other, before)) = &after
                && *before != slot
            {
                let other = *other;
                return Err(self.at_end(list, Fault::Slots { other }));
            }
            after = Some((list.batch, slot));
        }
        if let Some((_, slot)) = after {
            self.slot = slot;
        }
        self.next = (number + 1, first + stage.operators.len() as u32);
        Ok(())
    }

    /// What a request's slot holds after the list.
    fn check(&self, stage: &Stage, list: &LaunchList) -> Result<Contents<TensorId>, Violation> {
        let mut run = Run {
            checker: self,
            stage,
            list,
            workspace: Contents::default(),
            slot: self.slot.clone(),
            slot_read: Contents::default(),
            seen: (u32::MAX, 0),
            carried: BTreeSet::new(),
            given: BTreeSet::new(),
            is_answered: false,
        };
        for (launch, step) in list.steps.iter().enumerate() {
            run.step(step).map_err(|fault| Violation {
                stage: self.next.0 as u32,
                batch: list.batch,
                launch,
                name: step.name.clone(),
                fault,
            })?;
        }
        run.end().map_err(|fault| self.at_end(list, fault))?;
        Ok(run.slot)
    }

    fn at_end(&self, list: &LaunchList, fault: Fault) -> Violation {
        Violation {
            stage: self.next.0 as u32,
            batch: list.batch,
            launch: list.steps.len(),
            name: "the end".to_owned(),
            fault,
        }
    }
}

impl<'c> Run<'c> {
    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        let traffic = step.traffic();
        let found = step.arguments().images();
        if self.is_answered {
            return Err(Fault::AfterAnswers);
        }
        if found != u32::from(self.list.batch) {
            return Err(Fault::Images { found });
        }
        if traffic.overlaps() {
            return Err(Fault::Overlap);
        }
        for span in traffic.reads.iter().chain(&traffic.writes) {
            self.check_bounds(span)?;
        }
        match step.arguments() {
            Arguments::Members(members) if step.kernel.name == "members_out" => {
                self.carry_out(members, &traffic)
            }
            Arguments::Members(members) => self.carry_in(members, &traffic),
            Arguments::InputPlanar(input) => self.input(input, &traffic),
            Arguments::Output(output) => self.output(output, &traffic),
            Arguments::Answers(answers) => self.answers(answers, &traffic),
            Arguments::Copy(copy) => self.copy(step.operator, copy, &traffic),
            _ => self.operator(step, &traffic),
        }
    }

    /// That a span ends within its memory.
    fn check_bounds(&self, span: &Span) -> Result<(), Fault> {
        let at = at(span);
        let end = match span.place {
            Place::Workspace { .. } => self.list.workspace_bytes,
            Place::Request { .. } => self.checker.request_bytes,
            Place::Outputs { .. } => self.placed().map_or(0, PlacedExit::pitch) * self.batch(),
            _ => return Ok(()),
        };
        // A span of outputs has those of all members, from the first one's place to where the next one's would be.
        let bytes = match span.place {
            Place::Outputs { .. } => 0,
            _ => at.bytes,
        };
        if at.start.saturating_add(bytes) <= end {
            Ok(())
        } else {
            Err(Fault::Bounds { at, end })
        }
    }

    fn batch(&self) -> u64 {
        self.list.batch.into()
    }

    /// An operator of the stage, by its position in the network.
    fn operator_at(&self, position: Option<u32>) -> Option<(u32, &'c Operator)> {
        let position = position?;
        let own = position.checked_sub(self.checker.next.1)?;
        Some((position, self.stage.operators.get(own as usize)?))
    }

    /// The requested outputs of the stage's exit.
    fn placed(&self) -> Option<&'c PlacedExit> {
        self.checker.outputs?.stage(self.checker.next.0)
    }

    /// What lies in the workspace where a span is.
    fn found(&self, span: &Span) -> Found {
        let Some(range) = range(span) else {
            return Found::Nothing;
        };
        let whole = self.workspace.whole(&range).copied();
        let part = || self.workspace.in_range(&range).next();
        match (whole, part()) {
            (Some(value), _) => Found::Whole(value),
            (None, Some((_, &value))) => Found::Partly(value),
            (None, None) => Found::Nothing,
        }
    }

    /// That a certain value lies where a span is.
    fn expect(&self, span: &Span, expected: Value) -> Result<(), Fault> {
        let found = self.found(span);
        if found == Found::Whole(expected) {
            return Ok(());
        }
        let at = at(span);
        Err(Fault::Read {
            at,
            expected,
            found,
        })
    }

    /// That a tensor lies where a span is, in the form that fits its bytes.
    fn expect_tensor(&self, span: &Span, tensor: TensorId) -> Result<Kept, Fault> {
        let form = self.form(span.bytes, tensor);
        let kept = form.unwrap_or(kept(self.checker.network, tensor));
        self.expect(span, Value::Tensor { tensor, kept })?;
        self.check_shape(span, tensor, kept)?;
        Ok(kept)
    }

    /// The complete tensor where a span is.
    fn tensor_at(&self, span: &Span) -> Result<(TensorId, Kept), Fault> {
        match self.found(span) {
            Found::Whole(Value::Tensor { tensor, kept }) => Ok((tensor, kept)),
            found => Err(Fault::NoTensor {
                at: at(span),
                found,
            }),
        }
    }

    /// The form in which a batch of the tensor has `bytes` bytes.
    fn form(&self, bytes: u64, tensor: TensorId) -> Option<Kept> {
        let network = self.checker.network;
        let fits = |form: &Kept| {
            let possible = *form == Kept::Floats || *form == kept(network, tensor);
            let image = image_bytes(&view_of(network, tensor, *form), *form);
            possible && image * self.batch() == bytes
        };
        let mut forms = [Kept::Halves, Kept::Floats, Kept::Bytes].into_iter();
        forms.find(fits)
    }

    fn check_shape(&self, span: &Span, tensor: TensorId, kept: Kept) -> Result<(), Fault> {
        let view = view_of(self.checker.network, tensor, kept);
        let expected = [view.height, view.width, view.channels, view.pitch];
        match span.shape {
            Some(found) if found != expected => Err(Fault::Shape {
                tensor,
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// Writes the parts `made.start..made.end` of `all` of a tensor. Parts are made in order.
    fn make(
        &mut self,
        span: &Span,
        tensor: TensorId,
        made: std::ops::Range<u32>,
        all: u32,
    ) -> Result<(), Fault> {
        let at = at(span);
        let form = self.form(span.bytes, tensor);
        let (Some(kept), Some(range)) = (form, range(span)) else {
            return Err(Fault::Size { at, tensor });
        };
        let before = match self.workspace.whole(&range) {
            Some(&Value::Part {
                tensor: there,
                kept: in_form,
                made,
            }) if (there, in_form) == (tensor, kept) => made,
            _ => 0,
        };
        // The first part may be of a tensor that lies where an unfinished one did.
        if made.start != before || made.end > all {
            return Err(Fault::Part {
                tensor,
                made: before,
                found: made.start,
            });
        }
        let value = if made.end == all {
            Value::Tensor { tensor, kept }
        } else {
            let made = made.end;
            Value::Part { tensor, kept, made }
        };
        self.workspace.write(range, value);
        Ok(())
    }

    /// Writes what no operator names.
    fn put(&mut self, span: &Span, value: Value) {
        if let Some(range) = range(span) {
            self.workspace.write(range, value);
        }
    }
}

/// Where a span is.
fn at(span: &Span) -> At {
    let (memory, start) = match span.place {
        Place::Workspace { offset } => ("workspace", offset),
        Place::Request { offset, .. } => ("request's slot", offset),
        Place::Input { offset, .. } => ("prepared input", offset),
        Place::Outputs { offset } => ("outputs", offset),
        Place::Weights { offset, .. } => ("weights", offset.into()),
        Place::Nothing => ("nothing", 0),
        Place::Answers | Place::Done => ("answers", 0),
    };
    let bytes = span.bytes;
    At {
        memory,
        start,
        bytes,
    }
}

/// The bytes of the workspace that a span is; none if it is elsewhere.
fn range(span: &Span) -> Option<std::ops::Range<usize>> {
    match span.place {
        Place::Workspace { offset } => Some(offset as usize..(offset + span.bytes) as usize),
        _ => None,
    }
}
