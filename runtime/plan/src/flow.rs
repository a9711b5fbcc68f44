//! The shape of a query: which of its stages follow each other and which run side by side.

/// A fork-join graph of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    Stage(usize),
    /// One part after the other.
    Series(Vec<Flow>),
    /// Parts side by side.
    Parallel(Vec<Flow>),
}

/// A part of the graph that was reduced to one vertex.
struct Vertex {
    flow: Flow,
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Flow {
    /// The flow of a graph, given the stages that each stage comes after. `None` if it has no
    /// stages, has a cycle, or is no fork-join graph: forks and joins nest, as in a tree, in
    /// chains, and in any combination of them.
    ///
    /// Repeats two reductions until one vertex is left: two that follow only each other become a
    /// series, and two with the same neighbours become parallel (Valdes, Tarjan and Lawler, 1982).
    ///
    /// # Panics
    /// If a stage comes after one that is not there.
    #[must_use]
    pub fn of(after: &[Vec<usize>]) -> Option<Self> {
        let mut vertices: Vec<Option<Vertex>> = after
            .iter()
            .enumerate()
            .map(|(stage, before)| {
                let mut before = before.clone();
                before.sort_unstable();
                before.dedup();
                let follows = |other: &usize| after[*other].contains(&stage);
                Some(Vertex {
                    flow: Self::Stage(stage),
                    before,
                    after: (0..after.len()).filter(follows).collect(),
                })
            })
            .collect();
        while merge_series(&mut vertices) || merge_parallel(&mut vertices) {}
        let mut left = vertices.into_iter().flatten();
        match (left.next(), left.next()) {
            (Some(last), None) if last.before.is_empty() => Some(last.flow),
            _ => None,
        }
    }

    /// The number of stages on the longest way through it.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Stage(_) => 1,
            Self::Series(parts) => parts.iter().map(Self::length).sum(),
            Self::Parallel(parts) => parts.iter().map(Self::length).max().unwrap_or(0),
        }
    }

    /// One more than its highest stage.
    pub(crate) fn stages(&self) -> usize {
        match self {
            Self::Stage(stage) => stage + 1,
            Self::Series(parts) | Self::Parallel(parts) => {
                parts.iter().map(Self::stages).max().unwrap_or(0)
            }
        }
    }

    fn then(self, next: Self) -> Self {
        let parts = |flow| match flow {
            Self::Series(parts) => parts,
            other => vec![other],
        };
        let mut all = parts(self);
        all.extend(parts(next));
        Self::Series(all)
    }

    fn beside(self, other: Self) -> Self {
        let parts = |flow| match flow {
            Self::Parallel(parts) => parts,
            other => vec![other],
        };
        let mut all = parts(self);
        all.extend(parts(other));
        Self::Parallel(all)
    }
}

/// Joins a vertex with the only one that follows it, if that follows no other; whether it could.
fn merge_series(vertices: &mut [Option<Vertex>]) -> bool {
    let found = (0..vertices.len()).find_map(|first| match &vertices[first].as_ref()?.after[..] {
        [next] if *next != first => {
            let follower = vertices[*next].as_ref()?;
            (follower.before == [first]).then_some((first, *next))
        }
        _ => None,
    });
    let Some((first, next)) = found else {
        return false;
    };
    let (Some(head), Some(tail)) = (vertices[first].take(), vertices[next].take()) else {
        return false;
    };
    for follower in &tail.after {
        // Only a graph with a cycle leads back into what was just taken.
        if let Some(follower) = &mut vertices[*follower] {
            rename(&mut follower.before, next, first);
        }
    }
    vertices[first] = Some(Vertex {
        flow: head.flow.then(tail.flow),
        before: head.before,
        after: tail.after,
    });
    true
}

/// Joins two vertices with the same neighbours; whether there were any.
fn merge_parallel(vertices: &mut [Option<Vertex>]) -> bool {
    let same = |one: &Vertex, two: &Vertex| one.before == two.before && one.after == two.after;
    let found = (0..vertices.len()).find_map(|first| {
        let one = vertices[first].as_ref()?;
        let others = first + 1..vertices.len();
        let mut twins = others.filter(|two| vertices[*two].as_ref().is_some_and(|t| same(one, t)));
        twins.next().map(|second| (first, second))
    });
    let Some((first, second)) = found else {
        return false;
    };
    let (Some(one), Some(two)) = (vertices[first].take(), vertices[second].take()) else {
        return false;
    };
    for neighbour in one.before.iter().chain(&one.after) {
        if let Some(neighbour) = &mut vertices[*neighbour] {
            neighbour.before.retain(|vertex| *vertex != second);
            neighbour.after.retain(|vertex| *vertex != second);
        }
    }
    vertices[first] = Some(Vertex {
        flow: one.flow.beside(two.flow),
        before: one.before,
        after: one.after,
    });
    true
}

fn rename(vertices: &mut [usize], from: usize, to: usize) {
    for vertex in vertices.iter_mut().filter(|vertex| **vertex == from) {
        *vertex = to;
    }
    vertices.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::Flow::{Parallel, Series, Stage};
    use super::*;

    #[test]
    fn a_stage_a_chain_and_a_tree_are_fork_join() {
        assert_eq!(Flow::of(&[vec![]]), Some(Stage(0)));
        let chain = Flow::of(&[vec![1], vec![], vec![0]]);
        assert_eq!(chain, Some(Series(vec![Stage(1), Stage(0), Stage(2)])));
        // 0 forks into 1 and 2; 3 follows 1.
        let tree = Flow::of(&[vec![], vec![0], vec![0], vec![1]]).expect("a tree");
        let branches = Parallel(vec![Series(vec![Stage(1), Stage(3)]), Stage(2)]);
        assert_eq!(tree, Series(vec![Stage(0), branches]));
        assert_eq!(tree.length(), 3);
    }

    #[test]
    fn a_fork_that_is_joined_is_fork_join() {
        let diamond = Flow::of(&[vec![], vec![0], vec![0], vec![1, 2]]);
        let middle = Parallel(vec![Stage(1), Stage(2)]);
        assert_eq!(diamond, Some(Series(vec![Stage(0), middle, Stage(3)])));
        // Every stage of one rank before every stage of the next.
        let ranks = Flow::of(&[vec![], vec![], vec![0, 1], vec![0, 1]]);
        let rank = |one, two| Parallel(vec![Stage(one), Stage(two)]);
        assert_eq!(ranks, Some(Series(vec![rank(0, 1), rank(2, 3)])));
    }

    #[test]
    fn a_graph_that_is_none_is_refused() {
        assert_eq!(Flow::of(&[]), None);
        assert_eq!(Flow::of(&[vec![0]]), None);
        assert_eq!(Flow::of(&[vec![1], vec![0]]), None);
        assert_eq!(Flow::of(&[vec![], vec![0, 2], vec![1]]), None);
        // N: 2 after 0; 3 after 0 and 1.
        assert_eq!(Flow::of(&[vec![], vec![], vec![0], vec![0, 1]]), None);
        // A shortcut from 0 to 2 in addition to 0, 1, 2.
        assert_eq!(Flow::of(&[vec![], vec![0], vec![0, 1]]), None);
    }
}
