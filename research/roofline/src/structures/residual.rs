//! ResNets, as torchvision has them (stride in the 3x3 convolution of a bottleneck).

use punctual_model::{Network, TensorId};
use punctual_types::Activation;

use super::outline::{Conv, Outline};

/// Channels of the 3x3 convolutions of the four groups of blocks.
const WIDTHS: [u32; 4] = [64, 128, 256, 512];

/// Of two 3x3 convolutions a block: ResNet-34.
pub(super) fn basic(name: &'static str, side: u32) -> Network {
    blocks(
        name,
        side,
        [3, 4, 6, 3],
        true,
        |outline, input, width, stride| {
            let relu = Conv::new(width, Activation::Relu).kernel(3);
            let shortcut = shortcut(outline, input, width, stride);
            let inner = outline.conv(input, relu.stride(stride));
            outline.conv(inner, relu.residual(Some(shortcut)))
        },
    )
}

/// Of a 1x1, a 3x3 and a 1x1 convolution a block.
pub(super) fn bottleneck(name: &'static str, side: u32, counts: [u32; 4], exits: bool) -> Network {
    blocks(
        name,
        side,
        counts,
        exits,
        |outline, input, width, stride| {
            let relu = |channels| Conv::new(channels, Activation::Relu);
            let shortcut = shortcut(outline, input, 4 * width, stride);
            let inner = outline.conv(input, relu(width));
            let inner = outline.conv(inner, relu(width).kernel(3).stride(stride));
            outline.conv(inner, relu(4 * width).residual(Some(shortcut)))
        },
    )
}

/// What a block's result is added to: its input, converted to the result's shape.
fn shortcut(outline: &mut Outline, input: TensorId, channels: u32, stride: u32) -> TensorId {
    if stride == 1 && outline.shape(input).channels == channels {
        return input;
    }
    let conv = Conv::new(channels, Activation::None).stride(stride);
    outline.conv(input, conv)
}

fn blocks(
    name: &'static str,
    side: u32,
    counts: [u32; 4],
    exits: bool,
    block: impl Fn(&mut Outline, TensorId, u32, u32) -> TensorId,
) -> Network {
    let mut outline = Outline::new(name, side);
    let stem = Conv::new(64, Activation::Relu).kernel(7).stride(2);
    let stem = outline.conv(Outline::IMAGE, stem);
    let mut x = outline.max_pool(stem, 3, 2, 1);
    let all: u32 = counts.iter().sum();
    let mut done = 0;
    for (group, (width, count)) in WIDTHS.into_iter().zip(counts).enumerate() {
        for index in 0..count {
            let stride = if index == 0 && group > 0 { 2 } else { 1 };
            x = block(&mut outline, x, width, stride);
            done += 1;
            // Behind every second block; the last exit is the network's own.
            if exits && done % 2 == 0 && done < all {
                outline.early_exit(x);
            }
        }
    }
    outline.mean_exit(x);
    outline.finish()
}
