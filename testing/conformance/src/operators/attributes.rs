//! Attributes of several kinds of operators: axes, activations, windows.

use punctual_types::{Activation, Axis, Extent, Padding, Random, Window};

use super::{below, pick};

pub(super) fn axis(random: &mut Random) -> Axis {
    let all = [Axis::Channel, Axis::Row, Axis::Column, Axis::Repeat];
    pick(&all, random)
}

pub fn activation(random: &mut Random) -> Activation {
    let (a, b) = (2.0 * random.signed_unit(), 2.0 * random.signed_unit());
    let all = [
        Activation::None,
        Activation::Relu,
        Activation::Clip { low: a, high: b },
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::LeakyRelu { slope: a },
        Activation::Elu {
            above: a,
            below: b,
            rate: 1.0 + a,
        },
        Activation::Mish,
        Activation::Softplus,
        Activation::Softsign,
        Activation::TanhGelu,
    ];
    pick(&all, random)
}

/// Rows and columns that are mostly alike; few are large.
pub(super) fn extent(least: u32, limit: u32, random: &mut Random) -> Extent {
    let side = |random: &mut Random| match random.below(40) {
        0 => pick(&[17, 64, 300, 1024, 1025], random),
        _ => least + below(limit, random),
    };
    let (height, width) = (side(random), side(random));
    let width = if random.one_in(3) { width } else { height };
    Extent { height, width }
}

pub(super) fn window(random: &mut Random) -> Window {
    let kernel = extent(1, 5, random);
    let most = kernel.height.min(kernel.width);
    let padding = match random.below(4) {
        0 => Padding::uniform(0),
        1 => Padding {
            top: below(most, random),
            left: below(most, random),
            bottom: below(most, random),
            right: below(most, random),
        },
        _ => Padding::uniform(most / 2),
    };
    let mut window = Window::new(kernel, extent(1, 3, random), padding);
    if random.one_in(4) {
        window.dilation = extent(1, 3, random);
        window.padding = Padding::uniform(below(most * window.dilation.height, random));
    }
    window
}

/// Changes one side of a window, or all.
pub(super) fn rewindow(window: &mut Window, random: &mut Random) {
    let new = self::window(random);
    match random.below(6) {
        0 => window.kernel = new.kernel,
        1 => window.stride = new.stride,
        2 | 3 => window.padding = new.padding,
        4 => window.dilation = new.dilation,
        _ => *window = new,
    }
}
