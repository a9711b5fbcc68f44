//! Arguments of a launch: the parameters of whichever kernel it is of.

use core::ffi::c_void;

use super::params::{
    AddBytes, Answers, Attention, BestScore, Conv, ConvBytes, Convert, Copy as Copying, Detections,
    Elementwise, Embedding, Gather, GlobalPool, GridSample, Hold, InputPlanar, LayerNorm, Linear,
    Members, Output, Pool, PoolBytes, Preprocess, Product, Recurrent, ReportEvicted, Resize,
    Softmax, Take, TensorView, Tokens, TopK, Whereabouts,
};

/// What a kernel takes behind its [`Guard`](super::params::Guard).
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "copied whole into a launch, never moved about"
)]
pub enum Arguments {
    Conv(Conv),
    Pool(Pool),
    GlobalPool(GlobalPool),
    Linear(Linear),
    Elementwise(Elementwise),
    Gather(Gather),
    Copy(Copying),
    Output(Output),
    Softmax(Softmax),
    Resize(Resize),
    LayerNorm(LayerNorm),
    Embedding(Embedding),
    Tokens(Tokens),
    Attention(Attention),
    GridSample(GridSample),
    Take(Take),
    TopK(TopK),
    BestScore(BestScore),
    Detections(Detections),
    Product(Product),
    Recurrent(Recurrent),
    ConvBytes(ConvBytes),
    PoolBytes(PoolBytes),
    AddBytes(AddBytes),
    Convert(Convert),
    Members(Members),
    InputPlanar(InputPlanar),
    Answers(Answers),
    Preprocess(Preprocess),
    ReportEvicted(ReportEvicted),
    Whereabouts(Whereabouts),
    Hold(Hold),
}

/// Evaluates an expression with `$inner` being whichever structure it is.
macro_rules! whichever {
    ($arguments:expr, $inner:ident => $body:expr) => {
        match $arguments {
            Arguments::Conv($inner) => $body,
            Arguments::Pool($inner) => $body,
            Arguments::GlobalPool($inner) => $body,
            Arguments::Linear($inner) => $body,
            Arguments::Elementwise($inner) => $body,
            Arguments::Gather($inner) => $body,
            Arguments::Copy($inner) => $body,
            Arguments::Output($inner) => $body,
            Arguments::Softmax($inner) => $body,
            Arguments::Resize($inner) => $body,
            Arguments::LayerNorm($inner) => $body,
            Arguments::Embedding($inner) => $body,
            Arguments::Tokens($inner) => $body,
            Arguments::Attention($inner) => $body,
            Arguments::GridSample($inner) => $body,
            Arguments::Take($inner) => $body,
            Arguments::TopK($inner) => $body,
            Arguments::BestScore($inner) => $body,
            Arguments::Detections($inner) => $body,
            Arguments::Product($inner) => $body,
            Arguments::Recurrent($inner) => $body,
            Arguments::ConvBytes($inner) => $body,
            Arguments::PoolBytes($inner) => $body,
            Arguments::AddBytes($inner) => $body,
            Arguments::Convert($inner) => $body,
            Arguments::Members($inner) => $body,
            Arguments::InputPlanar($inner) => $body,
            Arguments::Answers($inner) => $body,
            Arguments::Preprocess($inner) => $body,
            Arguments::ReportEvicted($inner) => $body,
            Arguments::Whereabouts($inner) => $body,
            Arguments::Hold($inner) => $body,
        }
    };
}

impl Arguments {
    /// Where the structure lies, as a launch wants it.
    #[must_use]
    pub fn as_ptr(&self) -> *const c_void {
        whichever!(self, inner => core::ptr::from_ref(inner).cast())
    }

    /// Bytes of the structure.
    #[must_use]
    pub fn bytes(&self) -> usize {
        whichever!(self, inner => size_of_val(inner))
    }

    /// Images that the launch computes; 1 where it has nothing to do with a batch.
    #[must_use]
    pub fn images(&self) -> u32 {
        match self {
            Self::Conv(params) => params.images,
            Self::Pool(params) => params.images,
            Self::GlobalPool(params) => params.images,
            Self::Linear(params) => params.images,
            Self::Elementwise(params) => params.images,
            Self::Gather(params) => params.images,
            Self::Copy(params) => params.images,
            Self::Output(params) => params.images,
            Self::Softmax(params) => params.images,
            Self::Resize(params) => params.images,
            Self::LayerNorm(params) => params.images,
            Self::Embedding(params) => params.images,
            Self::Tokens(params) => params.images,
            Self::Attention(params) => params.images,
            Self::GridSample(params) => params.images,
            Self::Take(params) => params.images,
            Self::TopK(params) => params.images,
            Self::BestScore(params) => params.images,
            Self::Detections(params) => params.images,
            Self::Product(params) => params.images,
            Self::Recurrent(params) => params.images,
            Self::ConvBytes(params) => params.images,
            Self::PoolBytes(params) => params.images,
            Self::AddBytes(params) => params.images,
            Self::Convert(params) => params.images,
            Self::Members(params) => params.images,
            Self::InputPlanar(params) => params.images,
            Self::Answers(params) => params.images,
            Self::Preprocess(_) | Self::ReportEvicted(_) | Self::Whereabouts(_) | Self::Hold(_) => {
                1
            }
        }
    }

    /// Lets the launch compute so many images.
    pub fn set_images(&mut self, images: u32) {
        match self {
            Self::Conv(params) => params.images = images,
            Self::Pool(params) => params.images = images,
            Self::GlobalPool(params) => params.images = images,
            Self::Linear(params) => params.images = images,
            Self::Elementwise(params) => params.images = images,
            Self::Gather(params) => params.images = images,
            Self::Copy(params) => params.images = images,
            Self::Output(params) => params.images = images,
            Self::Softmax(params) => params.images = images,
            Self::Resize(params) => params.images = images,
            Self::LayerNorm(params) => params.images = images,
            Self::Embedding(params) => params.images = images,
            Self::Tokens(params) => params.images = images,
            Self::Attention(params) => params.images = images,
            Self::GridSample(params) => params.images = images,
            Self::Take(params) => params.images = images,
            Self::TopK(params) => params.images = images,
            Self::BestScore(params) => params.images = images,
            Self::Detections(params) => params.images = images,
            Self::Product(params) => params.images = images,
            Self::Recurrent(params) => params.images = images,
            Self::ConvBytes(params) => params.images = images,
            Self::PoolBytes(params) => params.images = images,
            Self::AddBytes(params) => params.images = images,
            Self::Convert(params) => params.images = images,
            Self::Members(params) => params.images = images,
            Self::InputPlanar(params) => params.images = images,
            Self::Answers(params) => params.images = images,
            Self::Preprocess(_) | Self::ReportEvicted(_) | Self::Whereabouts(_) | Self::Hold(_) => {
            }
        }
    }

    /// Calls `change` with every address that the launch may use, those of members beyond its images not included.
    pub fn for_each_address(&mut self, change: &mut dyn FnMut(&mut u64)) {
        let mut all = |addresses: &mut [&mut u64]| {
            for address in addresses {
                change(address);
            }
        };
        fn of(view: &mut TensorView) -> &mut u64 {
            &mut view.address
        }
        match self {
            Self::Conv(p) => all(&mut [
                of(&mut p.input),
                of(&mut p.output),
                &mut p.residual,
                &mut p.weights,
                &mut p.bias,
                &mut p.partial,
            ]),
            Self::Pool(p) => all(&mut [of(&mut p.input), of(&mut p.output)]),
            Self::GlobalPool(p) => all(&mut [of(&mut p.input), of(&mut p.output)]),
            Self::Linear(p) => all(&mut [
                &mut p.input,
                &mut p.output,
                &mut p.scores,
                &mut p.weights,
                &mut p.bias,
                &mut p.partial,
            ]),
            Self::Elementwise(p) => all(&mut [
                of(&mut p.output),
                &mut p.first.address,
                &mut p.second.address,
            ]),
            Self::Copy(p) => all(&mut [of(&mut p.output), &mut p.source]),
            Self::Output(p) => all(&mut [&mut p.source, &mut p.target, &mut p.counts]),
            Self::ConvBytes(p) => all(&mut [
                of(&mut p.input),
                of(&mut p.output),
                &mut p.weights,
                &mut p.bias,
                &mut p.factors,
            ]),
            Self::PoolBytes(p) => all(&mut [of(&mut p.input), of(&mut p.output)]),
            Self::AddBytes(p) => all(&mut [of(&mut p.output), &mut p.first, &mut p.second]),
            Self::Convert(p) => all(&mut [of(&mut p.input), of(&mut p.output)]),
            Self::Softmax(p) => all(&mut [&mut p.input, &mut p.output]),
            Self::Resize(p) => all(&mut [of(&mut p.input), of(&mut p.output), &mut p.table]),
            Self::LayerNorm(p) => {
                all(&mut [of(&mut p.input), &mut p.output, &mut p.scale, &mut p.bias])
            }
            Self::Embedding(p) => all(&mut [of(&mut p.output), &mut p.input, &mut p.table]),
            Self::Tokens(p) => all(&mut [of(&mut p.output), &mut p.input, &mut p.table]),
            Self::Attention(p) => all(&mut [
                of(&mut p.query),
                of(&mut p.key),
                of(&mut p.value),
                &mut p.mask,
                &mut p.bias,
                &mut p.output,
            ]),
            Self::GridSample(p) => all(&mut [of(&mut p.input), of(&mut p.grid), &mut p.output]),
            Self::Take(p) => all(&mut [of(&mut p.input), of(&mut p.indices), of(&mut p.output)]),
            Self::TopK(p) => all(&mut [of(&mut p.input), &mut p.output]),
            Self::BestScore(p) => {
                all(&mut [of(&mut p.scores), of(&mut p.output), &mut p.objectness])
            }
            Self::Detections(p) => all(&mut [
                of(&mut p.best),
                of(&mut p.boxes),
                of(&mut p.scores),
                &mut p.output,
            ]),
            Self::Product(p) => all(&mut [of(&mut p.first), of(&mut p.second), &mut p.output]),
            Self::Recurrent(p) => all(&mut [
                of(&mut p.gates),
                of(&mut p.output),
                &mut p.weights,
                &mut p.bias,
                &mut p.state,
                &mut p.carried,
            ]),
            Self::Gather(p) => {
                all(&mut [of(&mut p.output), &mut p.table]);
                p.sources.iter_mut().for_each(change);
            }
            Self::Members(p) => {
                all(&mut [&mut p.batch]);
                p.members
                    .iter_mut()
                    .take(p.images as usize)
                    .for_each(change);
            }
            Self::InputPlanar(p) => {
                all(&mut [of(&mut p.output)]);
                p.members
                    .iter_mut()
                    .take(p.images as usize)
                    .for_each(change);
            }
            Self::Answers(p) => all(&mut [
                &mut p.scores,
                &mut p.confidence,
                &mut p.counts,
                &mut p.answers,
                &mut p.done,
            ]),
            Self::Preprocess(p) => all(&mut [&mut p.frame, &mut p.chroma, of(&mut p.output)]),
            Self::ReportEvicted(p) => all(&mut [&mut p.first_evicted, &mut p.report]),
            Self::Whereabouts(p) => all(&mut [&mut p.multiprocessors]),
            Self::Hold(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_given_the_structure_and_no_tag() {
        let arguments = Arguments::Hold(Hold {
            stay_ns: 7,
            check_ns: 1,
        });
        let Arguments::Hold(inner) = &arguments else {
            unreachable!()
        };
        assert_eq!(arguments.as_ptr(), core::ptr::from_ref(inner).cast());
        assert_eq!(arguments.bytes(), 8);
    }

    #[test]
    fn every_address_is_changed_but_those_of_members_that_are_not_there() {
        let mut arguments = Arguments::Members(Members {
            batch: 1,
            bytes: 16,
            members: [1; super::super::IMAGES_MAX],
            images: 3,
            gap: 0,
        });
        arguments.for_each_address(&mut |address| *address += 1);
        let Arguments::Members(members) = arguments else {
            unreachable!()
        };
        assert_eq!(members.batch, 2);
        assert_eq!(members.members[..4], [2, 2, 2, 1]);
    }

    #[test]
    fn images_are_those_of_the_structure() {
        let mut arguments = Arguments::Pool(Pool::default());
        arguments.set_images(5);
        assert_eq!(arguments.images(), 5);
        let Arguments::Pool(pool) = arguments else {
            unreachable!()
        };
        assert_eq!(pool.images, 5);
    }
}
