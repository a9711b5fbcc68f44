//! How much work is due by each deadline: a segment tree over all pieces by rising deadline.
//!
//! With only pieces released at or after a that have work, the interval from a to the deadline z of
//! piece i is full when slack(i) = z − (work of the pieces up to i) equals a.

/// What a run of consecutive pieces amounts to.
#[derive(Clone, Copy, Debug)]
struct Node {
    work: u64,
    /// The least deadline less the run's work up to it.
    slack: u64,
    /// The least worth of those that have work; infinite if none has.
    worth: f64,
    cheapest: u32,
}

const NOTHING: Node = Node {
    work: 0,
    slack: u64::MAX,
    worth: f64::INFINITY,
    cheapest: u32::MAX,
};

impl Node {
    fn then(self, next: Self) -> Self {
        let cheaper = if next.worth < self.worth { next } else { self };
        Self {
            work: self.work + next.work,
            slack: self.slack.min(next.slack.saturating_sub(self.work)),
            worth: cheaper.worth,
            cheapest: cheaper.cheapest,
        }
    }
}

/// Pieces by rising deadline, each with the work it has.
pub(super) struct Demand {
    /// A complete binary tree: node i has the children 2i and 2i + 1, the leaves come last.
    nodes: Vec<Node>,
    /// Of each piece: its deadline and worth.
    pieces: Vec<(u64, f64)>,
}

impl Demand {
    /// Pieces without work, given by deadline and worth.
    pub(super) fn new(pieces: impl Iterator<Item = (u64, f64)>) -> Self {
        let pieces: Vec<(u64, f64)> = pieces.collect();
        let leaves = pieces.len().next_power_of_two();
        let mut nodes = vec![NOTHING; 2 * leaves];
        for (node, &(deadline, _)) in nodes[leaves..].iter_mut().zip(&pieces) {
            node.slack = deadline;
        }
        for index in (1..leaves).rev() {
            nodes[index] = nodes[2 * index].then(nodes[2 * index + 1]);
        }
        Self { nodes, pieces }
    }

    pub(super) fn work(&self, piece: usize) -> u64 {
        self.nodes[self.leaves() + piece].work
    }

    pub(super) fn worth(&self, piece: usize) -> f64 {
        self.pieces[piece].1
    }

    /// Gives a piece that much more.
    pub(super) fn add(&mut self, piece: usize, work: u64) {
        self.set(piece, self.work(piece) + work);
    }

    /// Takes that much from a piece.
    pub(super) fn remove(&mut self, piece: usize, work: u64) {
        self.set(piece, self.work(piece) - work);
    }

    /// The least slack of the pieces from `first` to before `end`, or to the last.
    pub(super) fn least_slack(&self, first: usize, end: Option<usize>) -> u64 {
        let before = self.run(0, first).work;
        let end = end.unwrap_or(self.pieces.len());
        self.run(first, end).slack.saturating_sub(before)
    }

    /// The first piece from `first` on whose slack is down to `level`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn first_full(&self, first: usize, level: u64) -> usize {
        self.descend(1, (0, self.leaves()), first, 0, level)
            .expect("only asked when an interval is full")
    }

    /// Of the pieces up to and including `last` that have work, the one of least worth.
    pub(super) fn cheapest(&self, last: usize) -> usize {
        self.run(0, last + 1).cheapest as usize
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    fn set(&mut self, piece: usize, work: u64) {
        let (deadline, worth) = self.pieces[piece];
        let mut index = self.leaves() + piece;
        self.nodes[index] = Node {
            work,
            slack: deadline.saturating_sub(work),
            worth: if work > 0 { worth } else { f64::INFINITY },
            cheapest: piece as u32,
        };
        while index > 1 {
            index /= 2;
            self.nodes[index] = self.nodes[2 * index].then(self.nodes[2 * index + 1]);
        }
    }

    /// The pieces from `first` to before `end`, as one.
    fn run(&self, first: usize, end: usize) -> Node {
        let (mut low, mut high) = (self.leaves() + first, self.leaves() + end);
        let (mut left, mut right) = (NOTHING, NOTHING);
        while low < high {
            if low % 2 == 1 {
                left = left.then(self.nodes[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                right = self.nodes[high].then(right);
            }
            low /= 2;
            high /= 2;
        }
        left.then(right)
    }

    /// [`first_full`](Self::first_full) below a node that covers `span`, with the work `before` it.
    fn descend(
        &self,
        node: usize,
        span: (usize, usize),
        first: usize,
        before: u64,
        level: u64,
    ) -> Option<usize> {
        let (low, high) = span;
        if high <= first || self.nodes[node].slack.saturating_sub(before) > level {
            return None;
        }
        if high - low == 1 {
            return Some(low);
        }
        let middle = low.midpoint(high);
        let right_before = before + self.nodes[2 * node].work;
        self.descend(2 * node, (low, middle), first, before, level)
            .or_else(|| self.descend(2 * node + 1, (middle, high), first, right_before, level))
    }
}
