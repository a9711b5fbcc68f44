//! MobileNetV2 and ShuffleNetV2, as torchvision has them.

use punctual_model::{Network, TensorId};
use punctual_types::Activation;

use super::outline::{Conv, Outline};

const RELU6: Activation = Activation::Clip {
    low: 0.0,
    high: 6.0,
};

/// Behind which blocks MobileNetV2 has early exits.
const MOBILENET_EXITS: [u32; 10] = [1, 2, 3, 5, 7, 9, 11, 13, 15, 17];

pub(super) fn mobilenet_v2(name: &'static str, side: u32) -> Network {
    /// Factor of the channels inside, channels, blocks, first stride.
    const GROUPS: [(u32, u32, u32, u32); 7] = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    let mut outline = Outline::new(name, side);
    let stem = Conv::new(32, RELU6).kernel(3).stride(2);
    let mut x = outline.conv(Outline::IMAGE, stem);
    let mut block = 0;
    for (factor, channels, count, first_stride) in GROUPS {
        for index in 0..count {
            let stride = if index == 0 { first_stride } else { 1 };
            x = inverted_residual(&mut outline, x, factor, channels, stride);
            block += 1;
            if MOBILENET_EXITS.contains(&block) {
                outline.early_exit(x);
            }
        }
    }
    let last = outline.conv(x, Conv::new(1280, RELU6));
    outline.mean_exit(last);
    outline.finish()
}

fn inverted_residual(
    outline: &mut Outline,
    input: TensorId,
    factor: u32,
    channels: u32,
    stride: u32,
) -> TensorId {
    let own = outline.shape(input).channels;
    let wide = own * factor;
    let expanded = match factor {
        1 => input,
        _ => outline.conv(input, Conv::new(wide, RELU6)),
    };
    let depthwise = Conv::new(wide, RELU6).kernel(3).stride(stride).groups(wide);
    let spread = outline.conv(expanded, depthwise);
    let residual = (stride == 1 && own == channels).then_some(input);
    let project = Conv::new(channels, Activation::None).residual(residual);
    outline.conv(spread, project)
}

pub(super) fn shufflenet_v2(name: &'static str, side: u32) -> Network {
    const GROUPS: [(u32, u32); 3] = [(116, 4), (232, 8), (464, 4)];
    let mut outline = Outline::new(name, side);
    let stem = Conv::new(24, Activation::Relu).kernel(3).stride(2);
    let stem = outline.conv(Outline::IMAGE, stem);
    let mut x = outline.max_pool(stem, 3, 2, 1);
    let all: u32 = GROUPS.iter().map(|group| group.1).sum();
    let mut done = 0;
    for (channels, count) in GROUPS {
        for index in 0..count {
            x = match index {
                0 => narrowing_unit(&mut outline, x, channels),
                _ => shuffling_unit(&mut outline, x, channels),
            };
            done += 1;
            if done % 2 == 0 && done < all {
                outline.early_exit(x);
            }
        }
    }
    let last = outline.conv(x, Conv::new(1024, Activation::Relu));
    outline.mean_exit(last);
    outline.finish()
}

/// Both halves of the result are computed, at half the rows and columns.
fn narrowing_unit(outline: &mut Outline, input: TensorId, channels: u32) -> TensorId {
    let half = channels / 2;
    let own = outline.shape(input).channels;
    let left = outline.conv(input, depthwise(own, 2));
    let left = outline.conv(left, Conv::new(half, Activation::Relu));
    let right = branch(outline, input, half, 2);
    outline.gather(&[left, right], &alternating(half))
}

/// One half of the input is passed on, the other computed with.
fn shuffling_unit(outline: &mut Outline, input: TensorId, channels: u32) -> TensorId {
    let half = channels / 2;
    let upper = outline.gather(&[input], &[(0, half, half)]);
    let right = branch(outline, upper, half, 1);
    outline.gather(&[input, right], &alternating(half))
}

fn branch(outline: &mut Outline, input: TensorId, channels: u32, stride: u32) -> TensorId {
    let relu = Conv::new(channels, Activation::Relu);
    let inner = outline.conv(input, relu);
    let inner = outline.conv(inner, depthwise(channels, stride));
    outline.conv(inner, relu)
}

fn depthwise(channels: u32, stride: u32) -> Conv {
    let conv = Conv::new(channels, Activation::None);
    conv.kernel(3).stride(stride).groups(channels)
}

/// A concatenation of two halves, and a shuffle: channels of one and the other by turns.
fn alternating(half: u32) -> Vec<(u8, u32, u32)> {
    let pairs = (0..half).flat_map(|channel| [(0, channel, 1), (1, channel, 1)]);
    pairs.collect()
}
