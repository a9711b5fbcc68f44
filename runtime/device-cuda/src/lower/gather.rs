//! Channels picked from tensors.

use punctual_cuda_kernels::params::{Gather, SOURCES_MAX};
use punctual_model::{self as model, ChannelRun, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

impl Pack for model::Gather {
    fn content(&self, _of: &Packed<'_>) -> Option<Content> {
        let channels = self.runs.iter().flat_map(|run: &ChannelRun| {
            let channels = run.first..run.first + run.count;
            channels.map(|channel| u32::from(run.source) << 24 | channel)
        });
        Some(Content::Table(channels.collect()))
    }
}

impl Lower for model::Gather {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let mut gather = Gather {
            images: u32::from(launches.batch),
            ..Gather::default()
        };
        const _: () = assert!(SOURCES_MAX >= punctual_model::GATHER_SOURCES_MAX);
        for (at, source) in operator.reads().enumerate() {
            let view = launches.read(source);
            (gather.sources[at], gather.pitches[at]) = (view.address, view.pitch);
        }
        gather.output = launches.write(operator.output);
        let pieces = launches.lowering.pieces(of.operator);
        for piece in pieces {
            gather.table = piece.weights().encode();
            launches.push(of, "gather", gather);
        }
        Ok(())
    }
}

impl Launch for Gather {
    fn traffic(&self) -> Traffic {
        let pixels = u64::from(self.output.height) * u64::from(self.output.width);
        let pixels = pixels * u64::from(self.images);
        let mut traffic = Traffic::new(
            [Span::weights(self.table)],
            [Span::tensor(Made, &self.output, self.images)],
        );
        let sources = (0..).zip(self.sources).zip(self.pitches);
        let sources = sources.map(|((at, source), pitch)| {
            Span::at(Read(at), source, pixels * u64::from(pitch) * HALF)
        });
        let there = |span: &Span| !span.place.is_nothing();
        traffic.reads.extend(sources.filter(there));
        traffic
    }

    fn weight_bytes(&self) -> u64 {
        4 * u64::from(self.output.pitch)
    }
}
