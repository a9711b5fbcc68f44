//! Channels picked from tensors.
//!
//! No [`Copy`](super::Copy), though it could be one: devices read picked channels where they lie, or in one launch by a
//! table, and a shuffle of single channels has more runs than a copy has pieces.

use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands, Site};
use crate::limits::GATHER_SOURCES_MAX;
use crate::reference::Operation;
use crate::reference::noise::Rounding;
use crate::{OperatorError, ShapeError, Tensor, TensorId};

/// Channels picked from one or several tensors of equal rows and columns: a concatenation, a slice, a shuffle. Its other
/// operands are sources 1, 2, ...; source 0 is the input. At most [`GATHER_SOURCES_MAX`] in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gather {
    /// The output's channels, run after run.
    pub runs: Vec<ChannelRun>,
}

/// Consecutive channels of one source of a [`Gather`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRun {
    /// 0 is the operator's input, 1 the first of its other tensors, ...
    pub source: u8,
    /// The first channel.
    pub first: u32,
    /// How many; at least one.
    pub count: u32,
}

impl ChannelRun {
    /// The tensor that it is from, of those that its operator reads.
    #[must_use]
    pub fn tensor(&self, mut reads: impl Iterator<Item = TensorId>) -> TensorId {
        let tensor = reads.nth(self.source.into());
        tensor.expect("a valid run is of a source")
    }
}

impl Meaning for Gather {
    fn label(&self, _input: Tensor) -> String {
        "gather channels".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let first = of.input;
        let mut others = of.others.iter();
        if let Some(&other) = others.find(|other| other.extent() != first.extent()) {
            return Err(ShapeError::GatherSizes { first, other });
        }
        let mut channels = 0_u32;
        for &run in &self.runs {
            let source = match run.source {
                0 => Some(&first),
                source => of.others.get(usize::from(source) - 1),
            };
            let available = source.map_or(0, |source| source.channels);
            let end = run.first.checked_add(run.count);
            let wrong = ShapeError::GatherRun {
                run,
                channels: available,
            };
            if run.count == 0 || end.is_none_or(|end| end > available) {
                return Err(wrong);
            }
            channels = channels.checked_add(run.count).ok_or(wrong)?;
        }
        Ok(Tensor { channels, ..first })
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        check_sources(site)?;
        site.has_floats()
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let picked = self.runs.iter().flat_map(|run| {
            let source = of.planar(run.tensor(of.operator.reads()));
            let plane = source.plane();
            source.data[run.first as usize * plane..][..run.count as usize * plane].iter()
        });
        picked.copied().collect()
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::exact()
    }
}

/// Compiling may have more: a tree of gathers takes them.
pub(super) fn check_sources(site: Site<'_>) -> Result<(), OperatorError> {
    match 1 + site.operator.others.len() {
        found if found > GATHER_SOURCES_MAX => Err(ShapeError::GatherSources { found }.into()),
        _ => Ok(()),
    }
}
