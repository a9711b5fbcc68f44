//! Models: each stage's weights and its times on each kind of partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Nanos;
use punctual_model::{Package, Profile};

use crate::packing::BatchTimes;
use punctual_diagnostics::Problems;
use punctual_plan::ModelRule;

use crate::file::{File, RawModel, RawStage};
use crate::inputs::FleetInputs;
use crate::rule::FleetRule;

/// Partitions of one size on one kind of board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Position of the `[[board]]`.
    pub(crate) board: usize,
    pub(crate) units: u16,
}

pub(crate) struct Stage {
    /// Its weights, after those of the stages before it: position in [`Models::blocks`].
    pub(crate) block: usize,
    /// On each kind of partition, if it was measured there.
    pub(crate) times: Vec<Option<BatchTimes>>,
}

#[derive(Default)]
pub(crate) struct Models {
    pub(crate) kinds: Vec<Kind>,
    /// By the names in the file; those without a problem.
    pub(crate) stages: BTreeMap<String, Vec<Stage>>,
    /// Bytes of each block of weights. Equal stages behind equal stages are one block.
    pub(crate) blocks: Vec<u64>,
}

impl Models {
    /// L(b) of some of a model's stages on a kind of partition, one after the other.
    pub(crate) fn times(&self, stages: &[Stage], kind: usize) -> Option<BatchTimes> {
        let mut each = stages.iter().map(|stage| stage.times[kind].as_ref());
        let first = each.next()??.clone();
        each.try_fold(first, |sum, next| sum.followed_by(next?))
    }
}

/// The kinds of partitions, in the order of the file.
pub(crate) fn kinds(file: &File) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (board, raw) in file.boards.iter().enumerate() {
        for &units in &raw.partitions {
            let kind = Kind { board, units };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// All models that have what they need.
pub(crate) fn resolve(file: &File, inputs: &FleetInputs, problems: &mut Problems<'_>) -> Models {
    let mut resolver = Resolver {
        file,
        inputs,
        blocks: BTreeMap::new(),
        found: Models {
            kinds: kinds(file),
            ..Models::default()
        },
    };
    for input in &inputs.profiles {
        if let Err(error) = &input.profile {
            let (path, error) = (input.path.clone(), Arc::clone(error));
            problems.add(
                &Default::default(),
                ModelRule::ProfileInvalid { path, error },
            );
        }
    }
    for raw in file.models.iter().filter(|raw| raw.sound) {
        let before = problems.count();
        let stages = match &raw.package {
            Some(_) => resolver.measured(raw, problems),
            None => resolver.written(raw, problems),
        };
        if let Some(stages) = stages
            && problems.count() == before
        {
            resolver.keep(raw, stages, problems);
        }
    }
    resolver.found
}

struct Resolver<'f> {
    file: &'f File,
    inputs: &'f FleetInputs,
    /// Position of each block of weights by what names it.
    blocks: BTreeMap<String, usize>,
    found: Models,
}

impl Resolver<'_> {
    /// Notes a model that could run nowhere; keeps all others.
    fn keep(&mut self, raw: &RawModel, stages: Vec<Stage>, problems: &mut Problems<'_>) {
        let mut kinds = 0..self.found.kinds.len();
        let model = raw.name.value.clone();
        if !kinds.any(|kind| self.found.times(&stages, kind).is_some()) {
            let cause = FleetRule::RunsNowhere { model };
            problems.add(&raw.name.place, cause);
            return;
        }
        let bytes = stages
            .iter()
            .map(|stage| self.found.blocks[stage.block])
            .sum();
        let most = self
            .file
            .boards
            .iter()
            .map(|board| board.memory_bytes)
            .max();
        if let Some(most) = most.filter(|most| bytes > *most) {
            let cause = FleetRule::TooLarge { model, bytes, most };
            problems.add(&raw.name.place, cause);
            return;
        }
        self.found.stages.insert(model, stages);
    }

    fn block(&mut self, name: String, bytes: u64) -> usize {
        let blocks = &mut self.found.blocks;
        *self.blocks.entry(name).or_insert_with(|| {
            blocks.push(bytes);
            blocks.len() - 1
        })
    }

    /// A model whose times stand in the file.
    fn written(&mut self, raw: &RawModel, problems: &mut Problems<'_>) -> Option<Vec<Stage>> {
        let mut stages = Vec::new();
        // A block is named by all stages up to it: only equal beginnings are shared.
        let mut path = String::new();
        for (position, stage) in raw.stages.iter().enumerate() {
            self.check_boards(stage, problems);
            let own = || format!("{}[{position}]", raw.name.value);
            let weights = stage
                .weights
                .clone()
                .map_or_else(own, |name| format!("={name}"));
            path = format!("{path}/{weights}");
            stages.push(Stage {
                block: self.block(path.clone(), stage.memory_bytes),
                times: self
                    .found
                    .kinds
                    .iter()
                    .map(|kind| self.written_times(stage, *kind))
                    .collect(),
            });
        }
        (!stages.is_empty()).then_some(stages)
    }

    fn check_boards(&self, stage: &RawStage, problems: &mut Problems<'_>) {
        for board in stage.times.iter().filter_map(|times| times.board.as_ref()) {
            let known = self.file.boards.iter().map(|raw| &raw.name.value);
            board.resolve("board", known, problems);
        }
    }

    /// The times for the most units that the partition has; of these, those for its very board.
    fn written_times(&self, stage: &RawStage, kind: Kind) -> Option<BatchTimes> {
        let board = &self.file.boards[kind.board].name.value;
        let here = stage.times.iter().filter(|times| {
            let of_board = times.board.as_ref().is_none_or(|name| name.value == *board);
            of_board && times.units <= kind.units
        });
        let nearest = here.max_by_key(|times| (times.units, times.board.is_some()))?;
        Some(nearest.times.clone())
    }

    /// A model with a package and profiles of it.
    fn measured(&mut self, raw: &RawModel, problems: &mut Problems<'_>) -> Option<Vec<Stage>> {
        let path = raw.package.as_ref()?;
        let Some(input) = self.inputs.packages.iter().find(|p| p.path == path.value) else {
            let missing = path.value.clone();
            problems.add(&path.place, ModelRule::PackageMissing { path: missing });
            return None;
        };
        let package: &Package = match &input.package {
            Ok(package) => package,
            Err(error) => {
                let error = Arc::clone(error);
                problems.add(&path.place, ModelRule::PackageInvalid { error });
                return None;
            }
        };
        let found = input.candidates(package, &self.inputs.profiles);
        let profiles: Vec<&Profile> = found.into_iter().map(|it| it.profile).collect();
        if profiles.is_empty() {
            let missing =
                ModelRule::no_profile(&raw.name.value, input, package, &self.inputs.profiles);
            problems.add(&raw.name.place, missing);
            return None;
        }
        let prefixes = package.stage_prefixes().iter().enumerate();
        let stages = prefixes.map(|(position, prefix)| Stage {
            block: self.block(prefix.hash.to_string(), prefix.weight_bytes),
            times: self
                .found
                .kinds
                .iter()
                .map(|kind| self.measured_times(&profiles, position as u8, *kind))
                .collect(),
        });
        Some(stages.collect())
    }

    fn measured_times(&self, profiles: &[&Profile], stage: u8, kind: Kind) -> Option<BatchTimes> {
        let board = &self.file.boards[kind.board].name.value;
        let profile = profiles
            .iter()
            .find(|profile| profile.key.board == *board)?;
        let units = u8::try_from(kind.units).unwrap_or(u8::MAX);
        let measured_as = profile.measured_as(stage);
        let of_stage = profile
            .stages
            .iter()
            .filter(|entry| entry.stage == measured_as);
        let mut sizes: Vec<u8> = of_stage.map(|entry| entry.batch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let points = sizes.into_iter().filter_map(|size| {
            let p99 = profile.stage(stage, size, units)?.p99_ns as f64;
            Some((
                u32::from(size),
                Nanos::new((p99 * self.file.budget_factor) as u64),
            ))
        });
        BatchTimes::new(points.collect()).ok()
    }
}
