//! Convolutions, pools, and what else changes rows and columns.

use punctual_compile::schema::AttributeProto;
use punctual_compile::schema::attribute::{int, ints, text};

use super::{Drawing, ELEMENTS_MAX, Id, PRODUCTS_MAX};

/// A window along one dimension.
#[derive(Clone, Copy, Default)]
struct Side {
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
}

impl Side {
    /// How many places it has along `size` positions, if any. None where a place would begin behind the positions:
    /// onnxruntime counts it in the shape, and leaves it out of the values.
    fn places(self, size: i64, rounds_up: bool) -> Option<i64> {
        let room = size + self.before + self.after - self.dilation * (self.kernel - 1) - 1;
        if room < 0 {
            return None;
        }
        let up = if rounds_up { self.stride - 1 } else { 0 };
        let places = (room + up) / self.stride + 1;
        let is_within = (places - 1) * self.stride < size + self.before;
        (is_within || !rounds_up).then_some(places)
    }
}

fn attributes(sides: &[Side]) -> Vec<AttributeProto> {
    let each = |of: fn(&Side) -> i64| sides.iter().map(of).collect::<Vec<_>>();
    let before = each(|side| side.before);
    let pads = [before, each(|side| side.after)].concat();
    let mut all = vec![
        ints("kernel_shape", each(|side| side.kernel)),
        ints("strides", each(|side| side.stride)),
        ints("pads", pads),
    ];
    if sides.iter().any(|side| side.dilation > 1) {
        all.push(ints("dilations", each(|side| side.dilation)));
    }
    all
}

impl Drawing {
    fn window(&mut self, kernel_max: i64) -> Side {
        let kernel = self.side(1, kernel_max as u64);
        let dilation = match self.random.below(5) {
            0 => 2,
            _ => 1,
        };
        let reach = dilation * (kernel - 1);
        let same = (reach / 2, reach - reach / 2);
        let (before, after) = match self.random.below(6) {
            0 => (0, 0),
            1 => (self.side(0, reach as u64), self.side(0, reach as u64)),
            _ => same,
        };
        Side {
            kernel,
            stride: self.one_of(&[1, 1, 1, 2, 2, 3]),
            dilation,
            before,
            after,
        }
    }

    /// How many groups channels are convolved in.
    fn groups(&mut self, from: i64, to: i64) -> i64 {
        let common = |groups: &i64| from % groups == 0 && to % groups == 0;
        let all: Vec<i64> = (1..=from).filter(common).collect();
        match self.random.below(5) {
            0 => self.one_of(&all),
            _ => 1,
        }
    }

    pub(super) fn conv(&mut self) -> Option<()> {
        let from = self.field()?;
        self.conv_of(from).map(|_| ())
    }

    /// A convolution of any kind.
    pub(super) fn conv_of(&mut self, from: Id) -> Option<Id> {
        let dims = self.dims(from);
        let (channels, places) = dims.split_first()?;
        let sides: Vec<Side> = places.iter().map(|_| self.window(5)).collect();
        let to: Option<Vec<i64>> = std::iter::zip(&sides, places)
            .map(|(side, size)| side.places(*size, false))
            .collect();
        let to = to?;
        let (results, groups) = match self.random.below(4) {
            0 => (channels * self.one_of(&[1, 1, 2]), *channels),
            _ => {
                let results = self.channels();
                (results, self.groups(*channels, results))
            }
        };
        let window: i64 = sides.iter().map(|side| side.kernel).product();
        let terms = channels / groups * window;
        let elements = results * to.iter().product::<i64>();
        if elements > ELEMENTS_MAX || elements * terms > PRODUCTS_MAX {
            return None;
        }
        let shape: Vec<i64> = [results, channels / groups]
            .into_iter()
            .chain(sides.iter().map(|side| side.kernel))
            .collect();
        let mut attributes = attributes(&sides);
        attributes.push(int("group", groups));
        Some(self.convolved("Conv", from, &shape, terms, attributes, results, to))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "each is one property of the node"
    )]
    fn convolved(
        &mut self,
        operator: &str,
        from: Id,
        shape: &[i64],
        terms: i64,
        attributes: Vec<AttributeProto>,
        results: i64,
        to: Vec<i64>,
    ) -> Id {
        let name = self.read(from);
        let weights = self.kernel(shape, terms);
        let bias = if self.random.one_in(3) {
            None
        } else {
            Some(self.weights(&[results], 0.5))
        };
        let inputs: Vec<&str> = [Some(name.as_str()), Some(&weights), bias.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        let dims = [vec![results], to].concat();
        self.apply(operator, &inputs, attributes, dims)
    }

    pub(super) fn pointwise_conv(&mut self) -> Option<()> {
        let from = self.field()?;
        let channels = self.channels();
        self.pointwise(from, channels).map(|_| ())
    }

    /// A convolution of single pixels.
    pub(super) fn pointwise(&mut self, from: Id, results: i64) -> Option<Id> {
        let dims = self.dims(from);
        let (channels, places) = dims.split_first()?;
        let elements = results * places.iter().product::<i64>();
        if places.is_empty() || elements > ELEMENTS_MAX || elements * channels > PRODUCTS_MAX {
            return None;
        }
        let shape = [vec![results, *channels], vec![1; places.len()]].concat();
        Some(self.convolved(
            "Conv",
            from,
            &shape,
            *channels,
            vec![],
            results,
            places.to_vec(),
        ))
    }

    /// Several convolutions of one value that are concatenated, as detectors' heads are.
    pub(super) fn heads(&mut self) -> Option<()> {
        let from = self.field()?;
        let parts = self.side(2, 3);
        let channels = self.channels();
        let mut heads = Vec::new();
        for _ in 0..parts {
            let channels = if self.random.one_in(3) {
                self.channels()
            } else {
                channels
            };
            let mut head = self.pointwise(from, channels)?;
            if self.random.one_in(4) {
                head = self.unary_of(head);
            }
            heads.push(head);
        }
        self.concat_of(&heads, 0).map(|_| ())
    }

    pub(super) fn transposed_conv(&mut self) -> Option<()> {
        let from = self.image()?;
        self.transposed_conv_of(from).map(|_| ())
    }

    pub(super) fn transposed_conv_of(&mut self, from: Id) -> Option<Id> {
        let dims = self.dims(from);
        let (channels, places) = dims.split_first()?;
        let sides: Vec<Side> = places.iter().map(|_| self.transposed_side()).collect();
        let extra: Vec<i64> = sides
            .iter()
            .map(|side| match side.stride {
                2.. if self.random.one_in(3) => 1,
                _ => 0,
            })
            .collect();
        let to: Vec<i64> = std::iter::zip(places, std::iter::zip(&sides, &extra))
            .map(|(size, (side, extra))| {
                (size - 1) * side.stride + side.kernel - side.before - side.after + extra
            })
            .collect();
        let wanted = self.channels();
        let groups = self.groups(*channels, wanted);
        let window: i64 = sides.iter().map(|side| side.kernel).product();
        let terms = channels / groups * window;
        let elements = wanted * to.iter().product::<i64>();
        let too_large = elements > ELEMENTS_MAX || elements * terms > PRODUCTS_MAX;
        if too_large || to.iter().any(|side| *side < 1) {
            return None;
        }
        let shape: Vec<i64> = [*channels, wanted / groups]
            .into_iter()
            .chain(sides.iter().map(|side| side.kernel))
            .collect();
        let mut attributes = attributes(&sides);
        attributes.push(int("group", groups));
        attributes.push(ints("output_padding", extra));
        Some(self.convolved("ConvTranspose", from, &shape, terms, attributes, wanted, to))
    }

    fn transposed_side(&mut self) -> Side {
        let kernel = self.side(1, 4);
        let pads = (kernel - 1) as u64;
        let (before, after) = match self.random.below(3) {
            0 => (self.side(0, pads), self.side(0, pads)),
            _ => (0, 0),
        };
        Side {
            kernel,
            stride: self.one_of(&[1, 1, 2, 2, 3]),
            dilation: 1,
            before,
            after,
        }
    }

    pub(super) fn pool(&mut self) -> Option<()> {
        let from = self.field()?;
        let dims = self.dims(from);
        let (channels, places) = dims.split_first()?;
        let rounds_up = self.random.one_in(4);
        let mut sides = Vec::new();
        for _ in places {
            let mut side = self.window(3);
            side.dilation = 1;
            // A window must see something, everywhere.
            side.before = side.before.min(side.kernel - 1).min(side.kernel / 2);
            side.after = side.after.min(side.kernel / 2);
            sides.push(side);
        }
        let to: Option<Vec<i64>> = std::iter::zip(&sides, places)
            .map(|(side, size)| side.places(*size, rounds_up))
            .collect();
        let mut attributes = attributes(&sides);
        attributes.push(int("ceil_mode", i64::from(rounds_up)));
        let operator = self.one_of(&["MaxPool", "AveragePool"]);
        if operator == "AveragePool" && !rounds_up {
            attributes.push(int("count_include_pad", self.side(0, 1)));
        }
        let to = [vec![*channels], to?].concat();
        let name = self.read(from);
        self.apply(operator, &[&name], attributes, to);
        Some(())
    }

    pub(super) fn global_pool(&mut self) -> Option<()> {
        let from = self.field()?;
        let dims = self.dims(from);
        let operator = self.one_of(&["GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"]);
        let to = [vec![dims[0]], vec![1; dims.len() - 1]].concat();
        let name = self.read(from);
        self.apply(operator, &[&name], vec![], to);
        Some(())
    }

    pub(super) fn resize(&mut self) -> Option<()> {
        let from = self.image()?;
        let dims = self.dims(from);
        let factors = match self.random.below(3) {
            0 => [self.side(1, 3), self.side(1, 3)],
            _ => [2, 2],
        };
        let to = [dims[0], dims[1] * factors[0], dims[2] * factors[1]];
        if to.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        let attributes = match self.random.below(4) {
            0 => vec![
                text("mode", "linear"),
                text("coordinate_transformation_mode", "half_pixel"),
            ],
            1 => vec![
                text("mode", "linear"),
                text("coordinate_transformation_mode", "align_corners"),
            ],
            _ => vec![
                text("mode", "nearest"),
                text("coordinate_transformation_mode", "asymmetric"),
                text("nearest_mode", "floor"),
            ],
        };
        let scales = self.floats(&[4], &[1.0, 1.0, factors[0] as f32, factors[1] as f32]);
        let name = self.read(from);
        self.apply("Resize", &[&name, "", &scales], attributes, to.to_vec());
        Some(())
    }

    pub(super) fn pad(&mut self) -> Option<()> {
        let from = self.image()?;
        let mut dims = self.dims(from);
        let pads: Vec<i64> = (0..4).map(|_| self.side(0, 2)).collect();
        let mode = self.one_of(&["constant", "constant", "reflect", "edge"]);
        let too_small = |(side, pads): (&i64, [i64; 2])| pads.iter().any(|pad| pad >= side);
        let along = [[pads[0], pads[2]], [pads[1], pads[3]]];
        if mode == "reflect" && std::iter::zip(&dims[1..], along).any(too_small) {
            return None;
        }
        dims[1] += pads[0] + pads[2];
        dims[2] += pads[1] + pads[3];
        if dims.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        let all = [0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]];
        let all = self.ints(&all);
        let name = self.read(from);
        self.apply("Pad", &[&name, &all], vec![text("mode", mode)], dims);
        Some(())
    }

    /// A grid that is computed, moved to the back, and samples an image.
    pub(super) fn grid_sample(&mut self) -> Option<()> {
        if self.opset < 16 {
            return None;
        }
        let from = self.image()?;
        let grid_from = self.image()?;
        let grid = self.pointwise(grid_from, 2)?;
        let (image, sides) = (self.dims(from), self.dims(grid));
        let to = vec![image[0], sides[1], sides[2]];
        if to.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        let grid = self.read(grid);
        let bounded = self.node("Tanh", &[&grid], 1, vec![]).remove(0);
        let perm = vec![ints("perm", [0, 2, 3, 1])];
        let moved = self.node("Transpose", &[&bounded], 1, perm).remove(0);
        let linear = if self.opset < 20 {
            "bilinear"
        } else {
            "linear"
        };
        let attributes = vec![
            text("mode", linear),
            text("padding_mode", self.one_of(&["zeros", "border"])),
            int("align_corners", self.side(0, 1)),
        ];
        let name = self.read(from);
        self.apply("GridSample", &[&name, &moved], attributes, to);
        Some(())
    }

    /// Depth to space, or back.
    pub(super) fn pixels_to_channels(&mut self) -> Option<()> {
        let from = self.image()?;
        let dims = self.dims(from);
        let [channels, height, width] = dims[..] else {
            return None;
        };
        let block = self.side(2, 3);
        let (operator, to) = if channels % (block * block) == 0 {
            let to = [channels / (block * block), height * block, width * block];
            ("DepthToSpace", to)
        } else if height % block == 0 && width % block == 0 {
            let to = [channels * block * block, height / block, width / block];
            ("SpaceToDepth", to)
        } else {
            return None;
        };
        let mut attributes = vec![int("blocksize", block)];
        if operator == "DepthToSpace" {
            attributes.push(text("mode", self.one_of(&["DCR", "CRD"])));
        }
        let name = self.read(from);
        self.apply(operator, &[&name], attributes, to.to_vec());
        Some(())
    }
}
