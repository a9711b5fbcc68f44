//! Convolutions to try, with their tensors and what must come out.

use proptest::prelude::*;
use punctual_conformance::Alone;
use punctual_kernels::{BlockedLayout, Conv2dSpec, ConvInput, Isa, PlanarLayout, Shape};
use punctual_model::Conv2d;
use punctual_types::{Activation, Extent, Padding, Window};

use super::{blocked, fits, isa, noise, shape, tolerance};

#[derive(Clone, Debug)]
pub struct Case {
    pub isa: Isa,
    pub planar: bool,
    pub inputs: usize,
    pub outputs: usize,
    pub groups: usize,
    pub height: usize,
    pub width: usize,
    pub window: Window,
    pub extra_halo: usize,
    /// Whether a dilated window's padding is left out of the halo.
    pub narrow: bool,
    pub output_halo: usize,
    pub residual_halo: Option<usize>,
    pub activation: Activation,
    pub batch: usize,
    pub parts: usize,
    pub seed: u64,
}

fn window() -> impl Strategy<Value = Window> {
    let kernel = (1..=5u32, 1..=5u32);
    (
        kernel,
        (1..=3u32, 1..=3u32),
        (0..=2u32, 0..=2u32, 0..=2u32, 0..=2u32),
    )
        .prop_map(|(kernel, stride, (top, left, bottom, right))| {
            Window::new(
                Extent {
                    height: kernel.0,
                    width: kernel.1,
                },
                Extent {
                    height: stride.0,
                    width: stride.1,
                },
                Padding {
                    top,
                    left,
                    bottom,
                    right,
                },
            )
        })
}

/// As any, its elements apart, with a padding that may be as wide as they reach.
fn dilated_window() -> impl Strategy<Value = Window> {
    let wide = (0..=7u32, 0..=7u32, 0..=7u32, 0..=7u32);
    (window(), (1..=7u32, 1..=7u32), wide).prop_map(|(window, (height, width), wide)| {
        let dilation = Extent { height, width };
        let (top, left, bottom, right) = wide;
        let padding = Padding {
            top,
            left,
            bottom,
            right,
        };
        Window {
            dilation,
            padding,
            ..window
        }
    })
}

fn usual_window() -> impl Strategy<Value = Window> {
    (prop::sample::select(vec![1u32, 3]), 1..=2u32).prop_map(|(kernel, stride)| {
        Window::new(
            Extent::square(kernel),
            Extent::square(stride),
            Padding::uniform(kernel / 2),
        )
    })
}

/// Groups, and channels in and out of each: dense, depthwise, anything.
fn channels() -> impl Strategy<Value = (usize, usize, usize)> {
    prop_oneof![
        3 => (Just(1usize), 1..=40usize, 1..=70usize),
        1 => (1..=40usize, Just(1usize), Just(1usize)),
        1 => (2..=6usize, 1..=9usize, 1..=9usize),
    ]
}

pub fn case() -> impl Strategy<Value = Case> {
    let halos = (
        0..=1usize,
        0..=2usize,
        prop::option::of(0..=2usize),
        any::<bool>(),
    );
    let image = (channels(), 1..=19usize, 1..=19usize);
    let rest = (super::activation(), 1..=3usize, 1..=4usize, any::<u64>());
    (
        isa(),
        any::<bool>(),
        image,
        prop_oneof![window(), usual_window(), dilated_window()],
        halos,
        rest,
    )
        .prop_filter_map(
            "the window fits",
            |(isa, planar, image, window, halos, rest)| {
                let ((groups, inputs, outputs), height, width) = image;
                fits(&window, height, width).then_some(())?;
                Some(Case {
                    isa,
                    planar,
                    inputs: inputs * groups,
                    outputs: outputs * groups,
                    groups,
                    height,
                    width,
                    window,
                    extra_halo: halos.0,
                    output_halo: halos.1,
                    residual_halo: halos.2,
                    narrow: halos.3,
                    activation: rest.0,
                    batch: rest.1,
                    parts: rest.2,
                    seed: rest.3,
                })
            },
        )
}

impl Case {
    fn image(&self) -> Shape {
        shape(self.inputs, self.height, self.width)
    }

    /// What the kernel is made from.
    pub fn spec(&self) -> Conv2dSpec {
        let Case {
            isa,
            inputs,
            height,
            width,
            ..
        } = *self;
        let padding = if self.narrow && self.window.is_dilated() {
            0
        } else {
            self.window.padding.largest()
        };
        let halo = padding + self.extra_halo;
        let input = if self.planar {
            PlanarLayout::new(inputs, height, width, halo).map(ConvInput::Planar)
        } else {
            BlockedLayout::new(isa, inputs, height, width, halo).map(ConvInput::Blocked)
        };
        let result = self.image().windowed(&self.window, self.outputs).unwrap();
        let output = |halo| {
            BlockedLayout::new(isa, self.outputs, result.height, result.width, halo).unwrap()
        };
        Conv2dSpec {
            input: input.unwrap(),
            output: output(self.output_halo),
            residual: self.residual_halo.map(output),
            window: self.window,
            groups: self.groups,
            activation: self.activation,
        }
    }

    /// `[output][input of the group][row][column]`.
    pub fn weights(&self) -> Vec<f32> {
        noise(
            self.seed ^ 1,
            self.outputs * self.inputs / self.groups * self.window.kernel.area(),
        )
    }

    pub fn bias(&self) -> Vec<f32> {
        noise(self.seed ^ 2, self.outputs)
    }

    fn input_image(&self, member: usize) -> Vec<f32> {
        noise(self.seed ^ (100 + member as u64), self.image().elements())
    }

    fn residual_image(&self, member: usize) -> Option<Vec<f32>> {
        let elements = self.spec().output.shape().elements();
        self.residual_halo
            .map(|_| noise(self.seed ^ (200 + member as u64), elements))
    }

    /// The batch in memory. Surplus lanes hold values that must not count.
    pub fn memory(&self) -> Vec<(Vec<f32>, Option<Vec<f32>>)> {
        let spec = self.spec();
        (0..self.batch)
            .map(|member| {
                let image = self.input_image(member);
                let input = match &spec.input {
                    ConvInput::Blocked(layout) => blocked(layout, &image, 7.0, 0.0),
                    ConvInput::Planar(layout) => planar(layout, &image),
                };
                let residual = self
                    .residual_image(member)
                    .map(|image| blocked(&spec.residual.unwrap(), &image, 7.0, f32::NAN));
                (input, residual)
            })
            .collect()
    }

    /// What a member's output image must be.
    pub fn reference(&self, member: usize) -> Vec<f32> {
        let meant = Conv2d {
            window: self.window,
            groups: self.groups as u32,
            activation: self.activation,
        };
        let output = self.spec().output.shape().sides();
        let alone = Alone::new(meant).reads(self.image().sides(), &self.input_image(member));
        let alone = alone.weights(&self.weights()).weights(&self.bias());
        // Said, since some windows lie wholly in the padding.
        let alone = alone.writes(output);
        match self.residual_image(member) {
            Some(residual) => alone.reads(output, &residual).run(),
            None => alone.run(),
        }
    }

    /// How far from it the output may be.
    pub fn tolerance(&self) -> f32 {
        tolerance(self.inputs / self.groups * self.window.kernel.area())
    }
}

fn planar(layout: &PlanarLayout, image: &[f32]) -> Vec<f32> {
    let mut memory = vec![0.0; layout.len()];
    for (i, &value) in image.iter().enumerate() {
        let (row, column) = (i / layout.width() % layout.height(), i % layout.width());
        memory[layout.index(i / layout.width() / layout.height(), row, column)] = value;
    }
    memory
}
