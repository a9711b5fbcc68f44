//! Vision transformers as torchvision has them, with the zoo's heads: layer norm, class token, linear layer.

use punctual_model::{Network, TensorId};
use punctual_types::Activation;

use super::outline::{Conv, Outline};

/// What differs between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    width: u32,
    heads: u32,
    blocks_an_exit: u32,
}

pub(super) const BASE: Size = Size {
    width: 768,
    heads: 12,
    blocks_an_exit: 3,
};

pub(super) const TINY: Size = Size {
    width: 192,
    heads: 3,
    blocks_an_exit: BLOCKS,
};

const BLOCKS: u32 = 12;
const PATCH: u32 = 16;

pub(super) fn vit(name: &'static str, side: u32, size: Size) -> Network {
    let mut outline = Outline::new(name, side);
    let patch = Conv::new(size.width, Activation::None)
        .kernel(PATCH)
        .stride(PATCH);
    let patches = outline.conv(Outline::IMAGE, patch.bare());
    let mut x = outline.tokens(patches);
    for block in 1..=BLOCKS {
        x = encoder(&mut outline, x, size);
        if block % size.blocks_an_exit == 0 {
            let normal = outline.layer_norm(x);
            let class = outline.first_token(normal);
            outline.classify(class);
        }
    }
    outline.finish()
}

/// Layers of tokens are convolutions of one pixel, as the compiler makes them; sums are theirs.
fn encoder(outline: &mut Outline, x: TensorId, Size { width, heads, .. }: Size) -> TensorId {
    let linear = |channels| Conv::new(channels, Activation::None);
    let normal = outline.layer_norm(x);
    let parts = [(); 3].map(|()| outline.conv(normal, linear(width)));
    let read = outline.attention(parts, heads);
    let x = outline.conv(read, linear(width).residual(Some(x)));
    let normal = outline.layer_norm(x);
    let hidden = outline.conv(normal, Conv::new(4 * width, Activation::Gelu));
    outline.conv(hidden, linear(width).residual(Some(x)))
}
