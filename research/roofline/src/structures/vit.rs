//! ViT-B/16 as torchvision has it, with the zoo's heads: layer norm, class token, linear layer.

use punctual_model::{Network, TensorId};
use punctual_types::Activation;

use super::outline::{Conv, Outline};

const WIDTH: u32 = 768;
const HEADS: u32 = 12;
const BLOCKS: u32 = 12;
const BLOCKS_AN_EXIT: u32 = 3;
const PATCH: u32 = 16;

pub(super) fn base(name: &'static str, side: u32) -> Network {
    let mut outline = Outline::new(name, side);
    let patch = Conv::new(WIDTH, Activation::None)
        .kernel(PATCH)
        .stride(PATCH);
    let patches = outline.conv(Outline::IMAGE, patch.bare());
    let mut x = outline.tokens(patches);
    for block in 1..=BLOCKS {
        x = encoder(&mut outline, x);
        if block % BLOCKS_AN_EXIT == 0 {
            let normal = outline.layer_norm(x);
            let class = outline.first_token(normal);
            outline.classify(class);
        }
    }
    outline.finish()
}

/// Layers of tokens are convolutions of one pixel, as the compiler makes them; sums are theirs.
fn encoder(outline: &mut Outline, x: TensorId) -> TensorId {
    let linear = |channels| Conv::new(channels, Activation::None);
    let normal = outline.layer_norm(x);
    let parts = [(); 3].map(|()| outline.conv(normal, linear(WIDTH)));
    let read = outline.attention(parts, HEADS);
    let x = outline.conv(read, linear(WIDTH).residual(Some(x)));
    let normal = outline.layer_norm(x);
    let hidden = outline.conv(normal, Conv::new(4 * WIDTH, Activation::Gelu));
    outline.conv(hidden, linear(WIDTH).residual(Some(x)))
}
