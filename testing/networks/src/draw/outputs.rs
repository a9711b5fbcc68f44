//! Which values are outputs, and of which exit. What no output needs is left out.

use std::collections::BTreeSet;
use std::ops::Range;

use punctual_compile::schema::attribute::int;
use punctual_compile::schema::{ValueInfoProto, data_type};

use super::{Drawing, Id, Numbers};
use crate::graph::{keep_needed, needed};

/// Operators between one exit and the next, at least.
const APART: usize = 3;

/// Dimensions behind the batch and type of an output: equal at all exits.
type Signature = (usize, i32);

impl Drawing {
    /// Whether the answer is one of several classes.
    pub(super) fn draw_outputs(&mut self) -> bool {
        let has_classes = self.random.one_in(8);
        let exits = match self.random.below(16) {
            0..=7 => 1,
            8..=12 => 2,
            13 | 14 => 3,
            // What is carried makes room for what is carried later.
            _ => 5,
        };
        self.add_weights();
        let ends = self.ends(exits);
        let mut chosen: Vec<Vec<Id>> = Vec::new();
        let mut begin = self.inputs.len();
        for end in ends {
            let of_exit = match chosen.first() {
                None => self.of_first_exit(begin..end),
                Some(first) => {
                    let signatures: Vec<Signature> =
                        first.iter().map(|id| self.signature(*id)).collect();
                    self.of_later_exit(begin..end, &signatures)
                }
            };
            chosen.push(of_exit);
            begin = end;
        }
        self.reach_inputs(&mut chosen);
        let is_named = has_classes || chosen.len() > 1 || self.random.one_in(2);
        let classes = self.side(2, 20);
        let mut taken = BTreeSet::new();
        for (exit, ids) in chosen.iter().enumerate() {
            for (at, id) in ids.iter().copied().enumerate() {
                let name = if is_named {
                    format!("exit_{exit}/o{at}")
                } else {
                    format!("o{at}")
                };
                self.output(id, name, !taken.insert(id));
            }
        }
        if has_classes {
            let is_sure = self.random.one_in(2);
            for (exit, ids) in chosen.iter().enumerate() {
                self.scores_of(ids[0], exit, classes, is_sure);
            }
        }
        keep_needed(&mut self.graph);
        has_classes
    }

    fn signature(&self, id: Id) -> Signature {
        (self.values[id].dims.len(), self.values[id].element)
    }

    /// A network has weights, at the last in its last operator.
    fn add_weights(&mut self) {
        let has_weights = self
            .graph
            .initializer
            .iter()
            .any(|constant| constant.data_type == Some(data_type::FLOAT));
        if has_weights && self.values.len() > self.inputs.len() && self.random.one_in(2) {
            return;
        }
        let from = self.any().unwrap_or(0);
        let columns = self.values[from].dims.last().copied().unwrap_or(1);
        if self.dense_of(from, columns.min(8)).is_none() {
            self.unary_of(from);
        }
    }

    /// Inputs that no output depends on are added to the last one.
    fn reach_inputs(&mut self, chosen: &mut [Vec<Id>]) {
        let outputs = chosen.iter().flatten();
        let needed = needed(
            &self.graph,
            outputs.map(|id| self.values[*id].name.clone()).collect(),
        );
        let last = chosen.last_mut().and_then(|exit| exit.first_mut());
        let Some(last) = last else { return };
        for input in self.inputs.clone() {
            if needed.contains(&input.name) || self.values[*last].element != data_type::FLOAT {
                continue;
            }
            let elements = input.elements() as i64;
            let name = match input.numbers {
                // As the network has normalised it, in floats.
                Numbers::Picture(_) => self.values[0].name.clone(),
                _ => input.name,
            };
            let flat = self
                .node("Flatten", &[&name], 1, vec![int("axis", 1)])
                .remove(0);
            let weights = self.kernel(&[elements, 1], elements);
            let sum = self.apply("MatMul", &[&flat, &weights], vec![], vec![1]);
            let dims = self.dims(*last);
            let ones = self.reshaped(sum, vec![1; dims.len()]);
            let names = [self.read(*last), self.read(ones)];
            *last = self.apply("Add", &[&names[0], &names[1]], vec![], dims);
        }
    }

    /// Up to `exits` positions in the values, each the end of an exit's own.
    fn ends(&mut self, exits: usize) -> Vec<Id> {
        let all = self.values.len();
        let first = self.inputs.len();
        let mut ends: Vec<Id> = (1..exits)
            .map(|_| self.random.within(first as u64, all as u64) as usize)
            .chain([all])
            .collect();
        ends.sort_unstable();
        let mut last = first;
        ends.retain(|end| {
            let is_apart = *end >= last + APART || *end == all;
            if is_apart {
                last = *end;
            }
            is_apart
        });
        ends.dedup();
        ends
    }

    /// Values of the first exit: one of its own at least, those that nothing reads first.
    fn of_first_exit(&mut self, own: Range<Id>) -> Vec<Id> {
        let count = self.random.within(1, 4) as usize;
        let unread = own.clone().rev().filter(|id| self.values[*id].reads == 0);
        let mut chosen: Vec<Id> = unread.take(count).collect();
        if chosen.is_empty() {
            chosen.push(own.end - 1);
        }
        // One in the middle, even an input.
        if self.random.one_in(2) {
            let first = if self.random.one_in(4) { 0 } else { own.start };
            let middle = self.random.within(first as u64, own.end as u64 - 1) as usize;
            if !chosen.contains(&middle) {
                chosen.push(middle);
            }
        }
        if self.random.one_in(2) {
            chosen.reverse();
        }
        chosen
    }

    /// Values of a further exit, like those of the first: its own, those that nothing reads first.
    fn of_later_exit(&mut self, own: Range<Id>, signatures: &[Signature]) -> Vec<Id> {
        let mut chosen: Vec<Id> = Vec::new();
        for signature in signatures {
            let fits = |id: &Id| self.signature(*id) == *signature && !chosen.contains(id);
            let fitting: Vec<Id> = own.clone().filter(fits).collect();
            let unread: Vec<Id> = fitting
                .iter()
                .copied()
                .filter(|id| self.values[*id].reads == 0)
                .collect();
            let id = match (unread.last(), fitting.is_empty()) {
                (Some(unread), _) if self.random.below(4) > 0 => *unread,
                (_, false) => self.one_of(&fitting),
                (_, true) => self.made_like(own.end - 1, *signature),
            };
            chosen.push(id);
        }
        chosen
    }

    /// A value made of another one.
    fn made_like(&mut self, from: Id, (rank, element): Signature) -> Id {
        let value = self.values[from].clone();
        let mut dims = value.dims;
        while dims.len() > rank {
            let last = dims.pop().unwrap_or(1);
            if let Some(before) = dims.last_mut() {
                *before *= last;
            }
        }
        dims.resize(rank, 1);
        let shaped = self.reshaped(from, dims.clone());
        self.values[shaped].element = value.element;
        if element == value.element {
            return shaped;
        }
        let name = self.read(shaped);
        let to = vec![int("to", i64::from(element))];
        let id = self.apply("Cast", &[&name], to, dims);
        self.values[id].element = element;
        id
    }

    /// Makes a value an output: under its new name, or as a copy.
    fn output(&mut self, id: Id, name: String, is_taken: bool) {
        let value = self.values[id].clone();
        let dims = [self.batch]
            .into_iter()
            .chain(value.dims.iter().copied().map(Some));
        let declared = ValueInfoProto::tensor(&name, value.element, dims);
        self.graph.output.push(declared);
        if is_taken || value.input.is_some() || self.random.one_in(8) {
            let node = self.node("Identity", &[&value.name], 1, vec![]).remove(0);
            self.rename(&node, &name);
        } else {
            self.rename(&value.name, &name);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        for node in &mut self.graph.node {
            let names = node.input.iter_mut().chain(&mut node.output);
            names
                .filter(|name| *name == from)
                .for_each(|name| *name = to.to_owned());
        }
        let values = self.values.iter_mut();
        values
            .filter(|value| value.name == from)
            .for_each(|value| value.name = to.to_owned());
    }

    /// Scores of classes, perhaps with the network's own confidence.
    fn scores_of(&mut self, from: Id, exit: usize, classes: i64, is_sure: bool) {
        let value = self.values[from].clone();
        let name = if value.element == data_type::FLOAT {
            value.name.clone()
        } else {
            let to = vec![int("to", i64::from(data_type::FLOAT))];
            self.node("Cast", &[&value.name], 1, to).remove(0)
        };
        let elements = value.elements();
        let flat = self
            .node("Flatten", &[&name], 1, vec![int("axis", 1)])
            .remove(0);
        let weights = self.kernel(&[elements, classes], elements);
        let bias = self.weights(&[classes], 0.5);
        let mut scores = self
            .node("Gemm", &[&flat, &weights, &bias], 1, vec![])
            .remove(0);
        if self.random.one_in(3) {
            scores = self
                .node("Softmax", &[&scores], 1, vec![int("axis", 1)])
                .remove(0);
        }
        let output = self.value(scores, vec![classes]);
        self.output(output, format!("exit_{exit}/scores"), false);
        if is_sure {
            let weights = self.kernel(&[elements, 1], elements);
            let sum = self.node("MatMul", &[&flat, &weights], 1, vec![]).remove(0);
            let sure = self.apply("Sigmoid", &[&sum], vec![], vec![1]);
            self.output(sure, format!("exit_{exit}/confidence"), false);
        }
    }
}
