//! VGG-19, as torchvision has it.

use punctual_model::Network;
use punctual_types::Activation;

use super::outline::{Conv, Outline};

pub(super) fn vgg19(name: &'static str, side: u32) -> Network {
    /// Channels and convolutions between two pools.
    const GROUPS: [(u32, u32); 5] = [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)];
    let mut outline = Outline::new(name, side);
    let mut x = Outline::IMAGE;
    for (channels, count) in GROUPS {
        for _ in 0..count {
            x = outline.conv(x, Conv::new(channels, Activation::Relu).kernel(3));
        }
        x = outline.max_pool(x, 2, 2, 0);
    }
    for _ in 0..2 {
        x = outline.linear(x, 4096, Activation::Relu);
    }
    outline.classify(x);
    outline.finish()
}
