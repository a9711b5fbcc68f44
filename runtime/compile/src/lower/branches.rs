//! `If`, whose condition must be known when compiling: a stage has no branches. Exporters write it where a dimension may
//! be one or not (`squeeze`).

use super::lowering::Lowering;
use super::value::Value;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attributes, Data, Node, ValueId};
use crate::problem::Problem;
use crate::unsupported::NodeProblem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "If" => compose choose_branch(),
};

impl Lowering<'_> {
    /// Lowers the nodes in their order. What is in the way of one is noted, so that those behind it are judged, too.
    pub fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Err(problem) = self.node(node) {
                self.problems.push(NodeProblem {
                    node: node.name.clone(),
                    operator: node.operator.clone(),
                    problem,
                });
                self.stand_in(node);
            }
        }
    }

    /// Lowers the branch that is chosen in the place of the node. What the other one could not do is no problem.
    pub(super) fn choose_branch(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let yes = attributes.branch("then_branch")?;
        let no = attributes.branch("else_branch")?;
        attributes.finish()?;
        let chosen = if self.condition(node)? { yes } else { no };
        if chosen.outputs.len() != node.outputs.len() {
            return Err(Problem::BranchOutputs {
                found: chosen.outputs.len(),
                expected: node.outputs.len(),
            });
        }
        self.nodes(&chosen.nodes);
        for (&from, to) in chosen.outputs.iter().zip(&node.outputs) {
            if let Some(to) = to {
                self.hand_on(from, *to);
            }
        }
        Ok(())
    }

    fn condition(&self, node: &Node) -> Result<bool, Problem> {
        match self.required(node, 0, "condition")? {
            Value::Constant(constant) => match constant.data {
                Data::Ints(ref truths) if truths.len() == 1 => Ok(truths[0] != 0),
                _ => Err(Problem::Condition),
            },
            _ => Err(Problem::Condition),
        }
    }

    /// Makes a value known as another one, too.
    pub(super) fn hand_on(&mut self, from: ValueId, to: ValueId) {
        self.values[to.0] = self.values[from.0].clone();
        self.numbers[to.0] = self.numbers[from.0];
        if let Some(steps) = self.steps.get(&from).cloned() {
            self.steps.insert(to, steps);
        }
    }
}
