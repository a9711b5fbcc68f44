//! Squishy bin packing (section 6.1, Algorithm 1), on a fleet of boards with partitions.

use std::collections::{BTreeSet, VecDeque};

use super::cycle::{Cycle, Load, On, Session};
use super::rate::Rate;

/// The partitions to pack into, and what their boards hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shelf {
    /// All partitions, in the order in which they are taken.
    pub bins: Vec<Bin>,
    /// Bytes for weights on each board.
    pub memory: Vec<u64>,
    /// Bytes of each block of weights. A board holds a block once, however many sessions use it.
    pub weights: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Its kind: a position in [`Session::times`].
    pub kind: usize,
    /// Its board: a position in [`Shelf::memory`].
    pub board: usize,
}

/// Which duty cycles are tried when a load joins a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// The shorter of the two, as published.
    ShorterCycle,
    /// If that fails, any.
    AnyCycle,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub bin: usize,
    pub cycle: Cycle,
}

/// The partitions in use, and what found no place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// By position of the bin.
    pub nodes: Vec<Node>,
    /// How many of them serve one session only, which fills them.
    pub whole: usize,
    /// What then remained of each session, to be placed with others.
    pub residual: Vec<Load>,
    /// What no partition could serve that was still free.
    pub unplaced: Vec<Load>,
}

/// Packs the sessions: each takes whole nodes as long as it can fill them; what remains of them is
/// put, largest first, onto the node that gets fullest by it, or onto the first free one.
///
/// With bins of one kind this is the published algorithm. With several, bins are taken in their order;
/// and what is too much for each free bin fills the first, and what then remains is placed in turn.
#[must_use]
pub fn pack(sessions: &[Session], shelf: &Shelf, merging: Merging) -> Packing {
    let mut packer = Packer {
        sessions,
        shelf,
        merging,
        nodes: Vec::new(),
        free: (0..shelf.bins.len()).collect(),
        resident: vec![BTreeSet::new(); shelf.memory.len()],
    };
    let residual = packer.saturate();
    let whole = packer.nodes.len();
    let unplaced = packer.place_all(residual.clone());
    let mut nodes = packer.nodes;
    nodes.sort_by_key(|node| node.bin);
    Packing {
        nodes,
        whole,
        residual,
        unplaced,
    }
}

struct Packer<'s> {
    sessions: &'s [Session],
    shelf: &'s Shelf,
    merging: Merging,
    nodes: Vec<Node>,
    free: BTreeSet<usize>,
    /// The blocks of weights on each board.
    resident: Vec<BTreeSet<usize>>,
}

impl Packer<'_> {
    fn on(&self, bin: usize) -> On<'_> {
        On {
            sessions: self.sessions,
            kind: self.shelf.bins[bin].kind,
        }
    }

    /// Gives each session as many whole nodes as it can fill; returns what remains.
    fn saturate(&mut self) -> Vec<Load> {
        let mut residual = Vec::new();
        for session in 0..self.sessions.len() {
            let mut load = Load {
                session,
                rate: self.sessions[session].rate,
            };
            while let Some((bin, cycle)) = self.first_to_fill(session)
                && cycle.runs[0].rate <= load.rate
            {
                load.rate = load.rate - cycle.runs[0].rate;
                self.open(bin, cycle);
            }
            if load.rate > Rate::ZERO {
                residual.push(load);
            }
        }
        residual
    }

    /// The first free bin that the session can use, and the cycle in which it does nothing else: the
    /// most efficient batch of which two fit into the deadline.
    fn first_to_fill(&self, session: usize) -> Option<(usize, Cycle)> {
        self.free.iter().find_map(|&bin| {
            let on = self.on(bin);
            let half = self.sessions[session].half();
            let (batch, time) = on.times(session)?.most_efficient(half)?;
            let rate = Rate::of(batch, time);
            if rate == Rate::ZERO {
                return None;
            }
            let cycle = on.cycle(time, std::iter::once(Load { session, rate }))?;
            self.holds(bin, session).then_some((bin, cycle))
        })
    }

    fn place_all(&mut self, loads: Vec<Load>) -> Vec<Load> {
        let mut unplaced = Vec::new();
        let mut waiting: VecDeque<Load> = self.by_falling_occupancy(loads).into();
        while let Some(mut load) = waiting.pop_front() {
            if self.merge(load) {
                continue;
            }
            if let Some((bin, cycle)) = self.first_for(load) {
                self.open(bin, cycle);
            } else if let Some((bin, cycle)) = self.first_to_fill(load.session)
                && cycle.runs[0].rate < load.rate
            {
                load.rate = load.rate - cycle.runs[0].rate;
                self.open(bin, cycle);
                waiting.push_back(load);
            } else {
                unplaced.push(load);
            }
        }
        unplaced
    }

    /// Loads that no bin can serve whole come first.
    fn by_falling_occupancy(&self, loads: Vec<Load>) -> Vec<Load> {
        let occupancy = |load: &Load| {
            let alone = self.first_for(*load);
            alone.map_or(f64::INFINITY, |(_, cycle)| cycle.occupancy())
        };
        let mut keyed: Vec<(f64, Load)> = loads.into_iter().map(|l| (occupancy(&l), l)).collect();
        // Stable: of equals the first stays first.
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0));
        keyed.into_iter().map(|(_, load)| load).collect()
    }

    /// The first free bin that can serve the load alone, and how.
    fn first_for(&self, load: Load) -> Option<(usize, Cycle)> {
        self.free.iter().find_map(|&bin| {
            let cycle = self.on(bin).alone(load)?;
            self.holds(bin, load.session).then_some((bin, cycle))
        })
    }

    /// Puts the load onto the node that gets fullest by it; whether there is one.
    fn merge(&mut self, load: Load) -> bool {
        let merged = |(position, node): (usize, &Node)| {
            if !self.holds(node.bin, load.session) {
                return None;
            }
            Some((position, self.merged(node, load)?))
        };
        let all = self.nodes.iter().enumerate().filter_map(merged);
        // Of equally full ones the first.
        let best = all.reduce(|best, next| {
            if next.1.occupancy() > best.1.occupancy() {
                next
            } else {
                best
            }
        });
        let Some((position, cycle)) = best else {
            return false;
        };
        self.nodes[position].cycle = cycle;
        self.keep_weights(self.nodes[position].bin, load.session);
        true
    }

    fn merged(&self, node: &Node, load: Load) -> Option<Cycle> {
        let on = self.on(node.bin);
        let together = || node.cycle.loads().chain(std::iter::once(load));
        let shorter = || {
            let length = node.cycle.length.min(on.alone(load)?.length);
            on.cycle(length, together())
        };
        match self.merging {
            Merging::ShorterCycle => shorter(),
            Merging::AnyCycle => shorter().or_else(|| on.any(&together().collect::<Vec<_>>())),
        }
    }

    fn open(&mut self, bin: usize, cycle: Cycle) {
        self.free.remove(&bin);
        for run in &cycle.runs {
            self.keep_weights(bin, run.session);
        }
        self.nodes.push(Node { bin, cycle });
    }

    /// Whether the bin's board has the memory for the session's weights.
    fn holds(&self, bin: usize, session: usize) -> bool {
        let board = self.shelf.bins[bin].board;
        let resident = &self.resident[board];
        let weights: BTreeSet<usize> = self.sessions[session].weights.iter().copied().collect();
        let bytes = |block: &usize| self.shelf.weights[*block];
        let total: u64 = resident.union(&weights).map(bytes).sum();
        total <= self.shelf.memory[board]
    }

    fn keep_weights(&mut self, bin: usize, session: usize) {
        let board = self.shelf.bins[bin].board;
        self.resident[board].extend(&self.sessions[session].weights);
    }
}
