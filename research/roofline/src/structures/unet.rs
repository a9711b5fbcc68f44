//! A U-Net that doubles rows and columns by repeating pixels: `maps.py` of the zoo.

use punctual_model::{Network, TensorId};
use punctual_types::Activation;

use super::outline::{Conv, Outline};

/// Channels of the first level; each further one has twice as many.
const WIDTH: u32 = 32;
const DEPTH: u32 = 4;
const MASKS: u32 = 5;

pub(super) fn nearest(name: &'static str, side: u32) -> Network {
    let mut outline = Outline::new(name, side);
    let mut x = pair(&mut outline, Outline::IMAGE, WIDTH);
    let mut kept = Vec::new();
    for level in 1..=DEPTH {
        kept.push(x);
        let smaller = outline.max_pool(x, 2, 2, 0);
        x = pair(&mut outline, smaller, WIDTH << level);
    }
    for level in (0..DEPTH).rev() {
        let channels = WIDTH << level;
        let larger = outline.double(x);
        let larger = outline.conv(larger, Conv::new(channels, Activation::None));
        let beside = kept.pop().expect("one a level");
        let both = outline.gather(&[beside, larger], &[(0, 0, channels), (1, 0, channels)]);
        x = pair(&mut outline, both, channels);
    }
    let masks = outline.conv(x, Conv::new(MASKS, Activation::None));
    outline.answer_with("mask", masks);
    outline.finish()
}

fn pair(outline: &mut Outline, input: TensorId, channels: u32) -> TensorId {
    let relu = Conv::new(channels, Activation::Relu).kernel(3);
    let inner = outline.conv(input, relu);
    outline.conv(inner, relu)
}
