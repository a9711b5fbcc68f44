//! The nodes that keep a network from being compiled: all of them, not only the first.
//!
//! After a node that cannot be lowered, lowering goes on with the shape that the file declares for its results; where
//! it declares none, the nodes that read them cannot be judged.

use std::collections::BTreeMap;
use std::fmt;

use punctual_report::{Column, Table, WIDTH};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::Problem;

/// A node that cannot be lowered.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeProblem {
    pub node: String,
    pub operator: String,
    pub problem: Problem,
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            operator,
            problem,
        } = self;
        write!(f, "node {node:?} ({operator}): {problem}")
    }
}

impl Serialize for NodeProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("NodeProblem", 3)?;
        fields.serialize_field("operator", &self.operator)?;
        fields.serialize_field("node", &self.node)?;
        fields.serialize_field("reason", &self.problem.reason())?;
        fields.end()
    }
}

/// All nodes that cannot be lowered. As an error it names the first, or the one that explains the others; [`explanation`](Self::explanation) tells all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsupported {
    /// In the graph's order; at least one.
    pub nodes: Vec<NodeProblem>,
    /// Nodes that were not judged, since they read what one of those would compute.
    pub unchecked: usize,
}

impl std::error::Error for Unsupported {}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a detector with its post-processing that is the cause of all: without it the other nodes are gone, too.
        let is_cause = |node: &&NodeProblem| node.problem == Problem::Suppression;
        let cause = self.nodes.iter().find(is_cause);
        let Some(told) = cause.or(self.nodes.first()) else {
            return Ok(());
        };
        write!(f, "{told}")?;
        let others = self.nodes.len() - 1;
        if others == 0 {
            return Ok(());
        }
        let nodes = if others == 1 { "node" } else { "nodes" };
        write!(
            f,
            "\n{} more {nodes} cannot be compiled: `punctual compile --explain` lists all",
            others
        )
    }
}

impl Unsupported {
    /// The problems by operator, the most frequent first.
    #[must_use]
    pub fn by_operator(&self) -> Vec<(&str, Vec<&NodeProblem>)> {
        let mut found: BTreeMap<&str, Vec<&NodeProblem>> = BTreeMap::new();
        for node in &self.nodes {
            found.entry(&node.operator).or_default().push(node);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        found
    }

    /// For people: operators with counts, then each node with its reason.
    #[must_use]
    pub fn explanation(&self) -> impl fmt::Display {
        Explanation(self)
    }
}

struct Explanation<'a>(&'a Unsupported);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsupported { nodes, unchecked } = self.0;
        let width = f.width().unwrap_or(WIDTH);
        let operators = self.0.by_operator();
        let mut table = Table::of([Column::words("operator"), Column::number("nodes")]);
        for (operator, nodes) in &operators {
            table.row([(*operator).to_owned(), nodes.len().to_string()]);
        }
        writeln!(
            f,
            "{} nodes cannot be compiled\n\n{table:width$}",
            nodes.len()
        )?;
        for (operator, nodes) in operators {
            writeln!(f, "{operator}")?;
            for node in nodes {
                writeln!(f, "  {:?}: {}", node.node, node.problem.reason())?;
            }
        }
        if *unchecked > 0 {
            writeln!(
                f,
                "\n{unchecked} more nodes read what these would compute, and were not judged"
            )?;
        }
        Ok(())
    }
}
