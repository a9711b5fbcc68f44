//! The plan of a fleet, and how it is made.

use std::path::PathBuf;

use punctual_core::Nanos;
use serde::Serialize;

use crate::packing::{Bin, Load, Merging, Packing, Rate, Session, Shelf, fewest_nodes, pack};
use punctual_diagnostics::{Diagnostics, Problems, RenamedKey};

use crate::file::File;
use crate::groups::{self, Grouped, SessionPlan};
use crate::inputs::FleetInputs;
use crate::models::{self, Models};
use crate::queries::{self, QueryPlan};

#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetPlan {
    /// The file it was made from.
    pub file: PathBuf,
    /// Which sessions are batched together, and their members.
    pub sessions: Vec<SessionPlan>,
    /// How the deadlines of queries were divided.
    pub queries: Vec<QueryPlan>,
    pub nodes: Vec<NodePlan>,
    /// The boards, kind by kind.
    pub boards: Vec<BoardUse>,
    pub unplaced: Vec<Excess>,
    /// The fewest partitions that could do it with each remainder whole on one partition, memory
    /// not considered. Not known with several kinds of partitions, with more than
    /// [`LOADS_MAX`](crate::packing::LOADS_MAX) remainders, or if something found no place.
    pub fewest_nodes: Option<usize>,
    /// Keys that the file has under their former names. Spelling is no part of the content.
    #[serde(skip)]
    pub renamed_keys: Vec<RenamedKey>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodePlan {
    /// The `[[board]]`.
    pub board: String,
    /// Which of them, from 0.
    pub board_number: usize,
    /// Which of its partitions, from 0.
    pub partition: usize,
    pub units: u16,
    /// From one batch of a session to its next.
    pub duty_cycle: Nanos,
    /// The part of the time that it is busy.
    pub occupancy: f64,
    pub runs: Vec<RunPlan>,
}

/// A session's turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunPlan {
    /// Position among the plan's sessions.
    pub session: usize,
    /// The part of its requests that comes here.
    pub rate_hz: Rate,
    /// The largest batch that a cycle brings.
    pub batch: u32,
    pub time: Nanos,
    /// From a request to its answer, at most: the cycle and the batch.
    pub latency: Nanos,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoardUse {
    pub name: String,
    pub count: usize,
    /// How many have a partition in use.
    pub used: usize,
}

/// Requests without a place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Excess {
    /// Position among the plan's sessions.
    pub session: usize,
    pub rate_hz: Rate,
}

impl FleetPlan {
    /// Makes the plan. That the fleet is too small is no error: see [`unplaced`](Self::unplaced).
    pub fn build(inputs: &FleetInputs) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(&inputs.path, &inputs.text, "plan");
        let Some(file) = File::read(&mut problems) else {
            return Err(problems.into_errors());
        };
        let models = models::resolve(&file, inputs, &mut problems);
        let queries = queries::divide(&file, &models, &mut problems);
        let asked = queries::asked(&file, &models, &queries, &mut problems);
        let renamed_keys = problems.renamed().to_vec();
        problems.into_result()?;
        let sessions = groups::group(asked, &models, file.prefix_batching);
        Ok(Self {
            renamed_keys,
            ..Self::pack(inputs, &file, &models, queries, sessions)
        })
    }

    fn pack(
        inputs: &FleetInputs,
        file: &File,
        models: &Models,
        queries: Vec<QueryPlan>,
        grouped: Vec<Grouped>,
    ) -> Self {
        let places = places(file, models);
        let shelf = Shelf {
            bins: places.iter().map(|place| place.bin).collect(),
            memory: memory(file),
            weights: models.blocks.clone(),
        };
        let (sessions, shown): (Vec<Session>, Vec<SessionPlan>) = grouped
            .into_iter()
            .enumerate()
            .map(|(number, grouped)| grouped.into_session(number))
            .unzip();
        let packing = pack(&sessions, &shelf, Merging::AnyCycle);
        let nodes: Vec<NodePlan> = packing
            .nodes
            .iter()
            .map(|node| places[node.bin].node(file, node))
            .collect();
        let excess = |load: &Load| Excess {
            session: load.session,
            rate_hz: load.rate,
        };
        Self {
            file: inputs.path.clone(),
            queries,
            boards: board_use(file, &nodes),
            nodes,
            fewest_nodes: fewest(&packing, &sessions, models.kinds.len()),
            renamed_keys: Vec::new(),
            unplaced: packing.unplaced.iter().map(excess).collect(),
            sessions: shown,
        }
    }

    /// The plan as JSON. Same inputs, same text.
    ///
    /// # Panics
    /// Never: all of it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("plain data always serialises");
        json.push('\n');
        json
    }
}

struct Place {
    bin: Bin,
    /// Position of the `[[board]]`, which of them, which of its partitions, its units.
    board: usize,
    number: usize,
    partition: usize,
    units: u16,
}

impl Place {
    fn node(&self, file: &File, node: &crate::packing::Node) -> NodePlan {
        let cycle = &node.cycle;
        NodePlan {
            board: file.boards[self.board].name.value.clone(),
            board_number: self.number,
            partition: self.partition,
            units: self.units,
            duty_cycle: cycle.length,
            occupancy: cycle.occupancy(),
            runs: cycle
                .runs
                .iter()
                .map(|run| RunPlan {
                    session: run.session,
                    rate_hz: run.rate,
                    batch: run.batch,
                    time: run.time,
                    latency: cycle.length + run.time,
                })
                .collect(),
        }
    }
}

/// All partitions of all boards, in the order of the file.
fn places(file: &File, models: &Models) -> Vec<Place> {
    let mut places = Vec::new();
    let mut board_id = 0;
    for (board, raw) in file.boards.iter().enumerate() {
        for number in 0..raw.count as usize {
            for (partition, &units) in raw.partitions.iter().enumerate() {
                let kind = models::Kind { board, units };
                let kind = models.kinds.iter().position(|known| *known == kind);
                let bin = Bin {
                    kind: kind.expect("all partitions have a kind"),
                    board: board_id,
                };
                places.push(Place {
                    bin,
                    board,
                    number,
                    partition,
                    units,
                });
            }
            board_id += 1;
        }
    }
    places
}

fn memory(file: &File) -> Vec<u64> {
    let each = file.boards.iter();
    each.flat_map(|raw| std::iter::repeat_n(raw.memory_bytes, raw.count as usize))
        .collect()
}

fn board_use(file: &File, nodes: &[NodePlan]) -> Vec<BoardUse> {
    let in_use = |raw: &super::file::RawBoard| {
        let of_kind = nodes.iter().filter(|node| node.board == raw.name.value);
        let numbers: std::collections::BTreeSet<usize> =
            of_kind.map(|node| node.board_number).collect();
        BoardUse {
            name: raw.name.value.clone(),
            count: raw.count as usize,
            used: numbers.len(),
        }
    };
    file.boards.iter().map(in_use).collect()
}

fn fewest(packing: &Packing, sessions: &[Session], kinds: usize) -> Option<usize> {
    if kinds != 1 || !packing.unplaced.is_empty() {
        return None;
    }
    Some(packing.whole + fewest_nodes(&packing.residual, sessions, 0)?)
}
