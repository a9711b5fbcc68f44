//! Where a list begins and ends: inputs, slots, outputs, answers.

use punctual_cuda_kernels::params::{
    Answers, Form, InputPlanar, Kept, Members, Output as OutputParams, Type,
};
use punctual_model::{ScoreForm, TensorId};

use super::super::digits::start_of;
use super::super::layout::{kept, view_of};
use super::super::place::Place;
use super::super::traffic::{Role, Span, Traffic};
use super::moves::is_order;
use super::{Fault, Found, Missing, Run, Value, at};

impl Run<'_> {
    /// A tensor from the members' slots.
    pub(super) fn carry_in(&mut self, members: &Members, traffic: &Traffic) -> Result<(), Fault> {
        let (from, to) = (&traffic.reads, &traffic.writes[0]);
        let start = self.each_member(from, |place| match place {
            Place::Request { member, offset } => Some((member, offset)),
            _ => None,
        })?;
        let range = start as usize..(start + members.bytes) as usize;
        let found = self.slot.whole(&range).copied();
        let tensor = found.ok_or_else(|| {
            let part = self.slot.in_range(&range).next();
            let found = part.map(|(_, &tensor)| Found::Partly(self.carried_as(tensor)));
            Fault::NoTensor {
                at: at(&from[0]),
                found: found.unwrap_or(Found::Nothing),
            }
        })?;
        let what = self.carried_as(tensor);
        if !self.stage.inputs.contains(&tensor) {
            return Err(Fault::NotOfStage { what });
        }
        self.slot_read.write(range, ());
        self.make(to, tensor, 0..1, 1)?;
        self.expect(to, what)
    }

    /// A tensor to the members' slots.
    pub(super) fn carry_out(&mut self, members: &Members, traffic: &Traffic) -> Result<(), Fault> {
        let (from, to) = (&traffic.reads[0], &traffic.writes);
        let start = self.each_member(to, |place| match place {
            Place::Request { member, offset } => Some((member, offset)),
            _ => None,
        })?;
        let (tensor, _) = self.tensor_at(from)?;
        let what = self.carried_as(tensor);
        self.expect(from, what)?;
        if !self.stage.outputs.contains(&tensor) {
            return Err(Fault::NotOfStage { what });
        }
        let range = start as usize..(start + members.bytes) as usize;
        if self.slot_read.in_range(&range).next().is_some() {
            return Err(Fault::SlotRead { at: at(&to[0]) });
        }
        for (_, &there) in self.slot.in_range(&range) {
            if let Some(reader) = self.later_reader(there) {
                return Err(Fault::SlotInUse {
                    at: at(&to[0]),
                    tensor: there,
                    reader,
                });
            }
        }
        self.slot.write(range, tensor);
        self.carried.insert(tensor);
        Ok(())
    }

    /// A later stage that reads the tensor.
    fn later_reader(&self, tensor: TensorId) -> Option<usize> {
        let mut stages = (0..).zip(&self.checker.network.stages);
        let later = stages.find(|(number, stage)| {
            *number > self.checker.next.0 && stage.inputs.contains(&tensor)
        });
        later.map(|(number, _)| number)
    }

    /// How slots keep a tensor: as operators do.
    fn carried_as(&self, tensor: TensorId) -> Value {
        let kept = kept(self.checker.network, tensor);
        Value::Tensor { tensor, kept }
    }

    /// The offset that each member has, at its own place in the batch.
    fn each_member(
        &self,
        spans: &[Span],
        place: impl Fn(Place) -> Option<(u8, u64)>,
    ) -> Result<u64, Fault> {
        let mut first = None;
        for (expected, span) in (0..).zip(spans) {
            match place(span.place) {
                Some((found, offset))
                    if found == expected && *first.get_or_insert(offset) == offset => {}
                found => {
                    let found = found.map_or(u8::MAX, |(found, _)| found);
                    return Err(Fault::Member { expected, found });
                }
            }
        }
        let (expected, found) = (self.list.batch, spans.len() as u8);
        match first {
            Some(offset) if expected == found => Ok(offset),
            _ => Err(Fault::Member { expected, found }),
        }
    }

    /// An input of the network, or a vector, from the members' request buffers.
    pub(super) fn input(&mut self, input: &InputPlanar, traffic: &Traffic) -> Result<(), Fault> {
        let to = &traffic.writes[0];
        let offset = self.each_member(&traffic.reads, |place| match place {
            Place::Input { member, offset } => Some((member, offset)),
            _ => None,
        })?;
        let layout = &self.checker.input;
        let is_there = |floats: usize| offset == floats as u64 * u64::from(Kept::Floats.bytes());
        let strides = (input.row_stride as usize, input.plane_stride as usize);
        let vector = layout
            .vectors
            .iter()
            .position(|v| v.length > 0 && is_there(v.offset));
        let tensor = match vector {
            // A vector has planes of one value.
            Some(at) if strides.1 == 1 => TensorId(at as u32 + 1),
            None if is_there(layout.offset)
                && strides == (layout.row_stride, layout.plane_stride) =>
            {
                self.checker.network.input_tensor()
            }
            _ => return Err(Fault::Input { offset }),
        };
        self.make(to, tensor, 0..1, 1)?;
        self.expect_tensor(to, tensor)?;
        Ok(())
    }

    /// An output of the exit, to the memory for them.
    pub(super) fn output(&mut self, output: &OutputParams, traffic: &Traffic) -> Result<(), Fault> {
        let Place::Outputs { offset } = Place::decode(output.target) else {
            return Err(Fault::Target { offset: 0 });
        };
        let (Some(placed), Some(exit)) = (self.placed(), &self.stage.exit) else {
            return Err(Fault::Target { offset });
        };
        let first = placed.range().start;
        let mut outputs = placed.outputs.iter();
        let found = outputs.position(|output| output.offset - first == offset);
        let at = found.filter(|at| self.given.insert(*at));
        let at = at.ok_or(Fault::Target { offset })?;
        let wanted = &exit.outputs[placed.outputs[at].output];
        let source = traffic.reads.first().ok_or(Fault::NotRead {
            what: self.carried_as(wanted.tensor),
        })?;
        let kept = self.expect_tensor(source, wanted.tensor)?;
        let view = view_of(self.checker.network, wanted.tensor, kept);
        let wrong = |what| {
            let output = wanted.name.clone();
            Err(Fault::Output { output, what })
        };
        if output.start != start_of(&view, &wanted.view)
            || !is_order(&output.digits, &view, &wanted.view.digits)
        {
            return wrong("order of values");
        }
        if u64::from(output.elements) != wanted.elements() || output.target_image != placed.pitch()
        {
            return wrong("size");
        }
        if output.to != Type::from(wanted.element) as u32 {
            return wrong("type");
        }
        self.count(output, traffic, &wanted.name)
    }

    /// That a launch's counts come behind those of the launches before it.
    fn count(&mut self, output: &OutputParams, traffic: &Traffic, name: &str) -> Result<(), Fault> {
        let mut writes = traffic.writes.iter();
        let counts = writes.find(|span| span.role == Role::Between);
        let blocks = OutputParams::blocks(output.elements);
        let wrong = || Fault::Output {
            output: name.to_owned(),
            what: "counts of values that are not finite",
        };
        let counts = counts.ok_or_else(wrong)?;
        let made = match self.found(counts) {
            Found::Whole(Value::Counts { made }) => made,
            _ => 0,
        };
        if output.first_count != made || output.all_counts != self.all_counts() {
            return Err(wrong());
        }
        let made = made + blocks;
        self.put(counts, Value::Counts { made });
        Ok(())
    }

    /// The counts of an image, of all outputs.
    fn all_counts(&self) -> u32 {
        let (Some(placed), Some(exit)) = (self.placed(), &self.stage.exit) else {
            return 0;
        };
        let outputs = placed.outputs.iter();
        let elements = outputs.map(|output| exit.outputs[output.output].elements() as u32);
        elements.map(OutputParams::blocks).sum()
    }

    pub(super) fn answers(&mut self, answers: &Answers, traffic: &Traffic) -> Result<(), Fault> {
        let exit = self.stage.exit.as_ref();
        let scores = exit.and_then(|exit| exit.scores);
        let confidence = exit.and_then(|exit| exit.confidence);
        let floats = |tensor| Value::Tensor {
            tensor,
            kept: Kept::Floats,
        };
        let counts = self.all_counts();
        let wanted = [
            (Role::Operand(0), scores.map(|scores| floats(scores.tensor))),
            (Role::Operand(1), confidence.map(floats)),
            (
                Role::Between,
                (counts > 0).then_some(Value::Counts { made: counts }),
            ),
        ];
        for (role, expected) in wanted {
            let mut reads = traffic.reads.iter();
            let span = reads.find(|span| span.role == role);
            match (span, expected) {
                (Some(span), Some(expected)) => self.expect(span, expected)?,
                (None, Some(what)) => return Err(Fault::NotRead { what }),
                (Some(_), None) => {
                    let what = "operand";
                    return Err(Fault::Answers { what });
                }
                (None, None) => {}
            }
        }
        if let Some(scores) = scores {
            let view = view_of(self.checker.network, scores.tensor, Kept::Floats);
            if (answers.classes, answers.pitch) != (view.channels, view.pitch) {
                return Err(Fault::Answers { what: "layout" });
            }
            let form = match scores.form {
                ScoreForm::Softmax => Form::Softmax,
                ScoreForm::Sigmoid => Form::Sigmoid,
                ScoreForm::Probability => Form::Probability,
            };
            if answers.form != form as u32 {
                return Err(Fault::Answers { what: "form" });
            }
        }
        if answers.all_counts != counts {
            let what = "number of counts";
            return Err(Fault::Answers { what });
        }
        let is_said = matches!(Place::decode(answers.done), Place::Done);
        self.is_answered = is_said;
        Ok(())
    }

    /// What the list must have done by its end.
    pub(super) fn end(&self) -> Result<(), Fault> {
        let mut outputs = self.stage.outputs.iter();
        if let Some(&tensor) = outputs.find(|tensor| !self.carried.contains(tensor)) {
            return Err(Fault::Missing(Missing::Carried(tensor)));
        }
        if let (Some(placed), Some(exit)) = (self.placed(), &self.stage.exit) {
            let mut outputs = placed.outputs.iter().enumerate();
            if let Some((_, missing)) = outputs.find(|(at, _)| !self.given.contains(at)) {
                let name = exit.outputs[missing.output].name.clone();
                return Err(Fault::Missing(Missing::Output(name)));
            }
        }
        if self.is_answered {
            Ok(())
        } else {
            Err(Fault::Missing(Missing::Answers))
        }
    }
}
