//! Convolutions and pools with three dimensions, (N, channels, depth, rows, columns), as nodes on slices of one depth.
//!
//! A slice of a convolution's result is a convolution of the slices that its kernel covers, their channels side by side; one
//! of a pool is the maximum or the mean of theirs. Slices of equal weights share them.

use std::rc::Rc;

use super::joined::Part;
use super::lowering::Lowering;
use super::pooling::ceiling;
use super::value::Value;
use super::view_algebra::View;
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

/// Most slices of a result.
const DEPTH_MAX: i64 = 512;
const DEPTH: usize = 2;

/// What a window is along the depth.
struct Depth {
    input: i64,
    output: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    /// With the padding that the file has, but for what rounding up adds.
    padded: i64,
}

/// A slice of the operand that a slice of the result reads, by the kernel's position along the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tap {
    kernel: usize,
    slice: i64,
}

impl Depth {
    /// What a slice of a convolution or a pool reads.
    fn taps(&self, output: i64) -> Vec<Tap> {
        let at = |kernel: i64| output * self.stride - self.before + kernel * self.dilation;
        self.inside(|kernel| Some(at(kernel)))
    }

    /// What a slice of a transposed convolution reads.
    fn transposed_taps(&self, output: i64) -> Vec<Tap> {
        let at = |kernel: i64| output + self.before - kernel * self.dilation;
        self.inside(|kernel| (at(kernel) % self.stride == 0).then(|| at(kernel) / self.stride))
    }

    /// The kernel's positions that a mean counts where padding counts.
    fn counted(&self, output: i64) -> usize {
        let at = |kernel: &i64| output * self.stride + kernel * self.dilation;
        (0..self.kernel)
            .filter(|kernel| at(kernel) < self.padded)
            .count()
    }

    fn inside(&self, slice: impl Fn(i64) -> Option<i64>) -> Vec<Tap> {
        let taps = (0..self.kernel).filter_map(|kernel| {
            let slice = slice(kernel).filter(|slice| (0..self.input).contains(slice))?;
            let kernel = kernel as usize;
            Some(Tap { kernel, slice })
        });
        taps.collect()
    }
}

impl Lowering<'_> {
    /// Handles a convolution or a pool of three dimensions; whether the node is one.
    pub(super) fn on_volume(&mut self, node: &Node) -> Result<bool, Problem> {
        let Some(Value::View(view)) = self.operand(node, 0) else {
            return Ok(false);
        };
        if view.dims.len() != 5 {
            return Ok(false);
        }
        let view = view.clone();
        let slices = match node.operator.as_str() {
            "Conv" => self.convolved_slices(node, &view, false)?,
            "ConvTranspose" => self.convolved_slices(node, &view, true)?,
            "MaxPool" | "AveragePool" => self.pooled_slices(node, &view)?,
            "GlobalAveragePool" => {
                let axes = Attribute::Ints(vec![2, 3, 4]);
                let mut mean = node.standing_in("ReduceMean");
                mean.attributes.insert("axes".to_owned(), axes);
                self.limit(node, 1, 1)?;
                Attributes::of(node).finish()?;
                self.computed(&mean)?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let result = self.volume_of(node, slices)?;
        self.set(node, Value::View(result))?;
        Ok(true)
    }

    /// Slices of a convolution, or of a transposed one.
    fn convolved_slices(
        &mut self,
        node: &Node,
        view: &View,
        transposed: bool,
    ) -> Result<Vec<ValueId>, Problem> {
        self.limit(node, 3, 1)?;
        let weights = self.floats(node, 1, "weights")?;
        let &[_, _, kernel, _, _] = &weights.dims[..] else {
            let found = self.required(node, 1, "weights")?;
            let expected = "of the operand's number of dimensions, 5";
            return Err(self.wrong(1, "weights", found, expected));
        };
        let groups = usize::try_from(Attributes::of(node).int("group", 1)?).unwrap_or(0);
        let of_groups = if transposed { 1 } else { groups };
        let inputs = weights.dims[usize::from(!transposed)].saturating_mul(of_groups);
        let channels = view.sizes()[1];
        if groups == 0 || channels != Dim::Known(inputs as i64) || !inputs.is_multiple_of(groups) {
            let found = self.required(node, 1, "weights")?;
            let expected = "of as many channels as the operand has";
            return Err(self.wrong(1, "weights", found, expected));
        }
        let depth = self.depth(node, view, kernel as i64, transposed)?;
        let flat = Self::flat_window(node)?;
        let mut slices = Vec::with_capacity(depth.output as usize);
        for output in 0..depth.output {
            let mut taps = if transposed {
                depth.transposed_taps(output)
            } else {
                depth.taps(output)
            };
            // Nothing but padding: what is left is the bias.
            let empty = taps.is_empty();
            if empty {
                taps.push(Tap {
                    kernel: 0,
                    slice: 0,
                });
            }
            let data = self.side_by_side(node, view, &taps, groups)?;
            let kernels: Vec<usize> = taps.iter().map(|tap| tap.kernel).collect();
            let mut flat_weights = if transposed {
                of_transposed_taps(&weights, &kernels, groups)
            } else {
                of_taps(&weights, &kernels)
            };
            if empty {
                flat_weights.data.fill(0.0);
            }
            let constant = Constant::new(flat_weights.dims, Data::Floats(flat_weights.data));
            let mut inputs = vec![
                Some(self.temporary(Value::View(data))),
                Some(self.temporary(Value::Constant(Rc::new(constant)))),
            ];
            inputs.extend(node.inputs.get(2).copied());
            slices.push(self.nodes_of(node).of_node(flat.clone(), inputs)?);
        }
        Ok(slices)
    }

    /// Slices of a pool.
    fn pooled_slices(&mut self, node: &Node, view: &View) -> Result<Vec<ValueId>, Problem> {
        self.limit(node, 1, 1)?;
        let kernel = Attributes::of(node).ints("kernel_shape")?;
        let kernel = kernel
            .and_then(|kernel| kernel.first().copied())
            .unwrap_or(0);
        let depth = self.depth(node, view, kernel, false)?;
        let flat_pool = Self::flat_window(node)?;
        let mut planes = Vec::with_capacity(depth.input as usize);
        for slice in 0..depth.input {
            let plane = self.plane(node, view, slice)?;
            let input = vec![Some(self.temporary(Value::View(plane)))];
            planes.push(self.nodes_of(node).of_node(flat_pool.clone(), input)?);
        }
        let is_mean = node.operator == "AveragePool";
        let counts_padding = Attributes::of(node).int("count_include_pad", 0)? != 0;
        let both = node.standing_in(if is_mean { "Mean" } else { "Max" });
        let mut slices = Vec::with_capacity(depth.output as usize);
        for output in 0..depth.output {
            let taps = depth.taps(output);
            let read = taps
                .iter()
                .map(|tap| Some(planes[tap.slice as usize]))
                .collect::<Vec<_>>();
            let mut slice = match read[..] {
                [Some(only)] => only,
                [] => {
                    return Err(Problem::attribute(
                        "pads",
                        &Attribute::Int(depth.before),
                        "less than the kernel",
                    ));
                }
                _ => self.nodes_of(node).of_node(both.clone(), read)?,
            };
            let part = taps.len() as f32 / depth.counted(output) as f32;
            if is_mean && counts_padding && part < 1.0 {
                let factor = self.nodes_of(node).number(part);
                slice = self.nodes_of(node).of("Mul", &[slice, factor])?;
            }
            slices.push(slice);
        }
        Ok(slices)
    }

    /// The window along the depth.
    fn depth(
        &self,
        node: &Node,
        view: &View,
        kernel: i64,
        transposed: bool,
    ) -> Result<Depth, Problem> {
        let mut attributes = Attributes::of(node);
        const THREE: &str = "three numbers: depth, rows, columns";
        let padding = attributes.text("auto_pad", "NOTSET")?;
        if !matches!(padding, "NOTSET" | "VALID") {
            let found = Attribute::Text(padding.to_owned());
            return Err(Problem::attribute(
                "auto_pad",
                &found,
                "NOTSET or VALID, of three dimensions",
            ));
        }
        let [declared, ..] = attributes.int_array("kernel_shape", [kernel, 0, 0], THREE)?;
        let [stride, ..] = attributes.int_array("strides", [1; 3], THREE)?;
        let [dilation, ..] = attributes.int_array("dilations", [1; 3], THREE)?;
        let [more, ..] = attributes.int_array("output_padding", [0; 3], THREE)?;
        let [before, _, _, mut after, ..] = attributes.int_array("pads", [0; 6], "six numbers")?;
        let Dim::Known(input) = view.sizes()[DEPTH] else {
            return Err(self.no_slice(node));
        };
        let figures = [declared, stride, dilation, before, after, more];
        let padded = input.saturating_add(before).saturating_add(after);
        let sides = 1..=i64::from(u16::MAX);
        let fits = declared == kernel
            && [kernel, stride, dilation]
                .iter()
                .all(|side| sides.contains(side))
            && [before, after, more]
                .iter()
                .all(|pad| (0..*sides.end()).contains(pad));
        let span = dilation.saturating_mul(kernel - 1).saturating_add(1);
        if attributes.int("ceil_mode", 0)? != 0 && fits {
            let [input, before, back, span, stride] = [input, before, after, span, stride]
                .map(|side| u32::try_from(side).unwrap_or(u32::MAX));
            after = ceiling(input, before, back, span, stride).into();
        }
        let size = || {
            if transposed {
                (input - 1) * stride + span - before - after + more
            } else {
                (input + before + after - span).div_euclid(stride) + 1
            }
        };
        let output = if fits { size() } else { 0 };
        if !(1..=DEPTH_MAX).contains(&output) {
            let found = Attribute::Ints(figures.to_vec());
            let supported =
                "kernel, stride, dilation and pads that make 1 to 512 slices along the depth";
            return Err(Problem::attribute("kernel_shape", &found, supported));
        }
        Ok(Depth {
            input,
            output,
            kernel,
            stride,
            dilation,
            before,
            padded,
        })
    }

    /// The node with the attributes of rows and columns alone.
    fn flat_window(node: &Node) -> Result<Node, Problem> {
        let mut flat = node.clone();
        for (name, value) in &mut flat.attributes {
            let Attribute::Ints(all) = value else {
                continue;
            };
            match (name.as_str(), &all[..]) {
                ("pads", &[_, top, left, _, bottom, right]) => {
                    *all = vec![top, left, bottom, right]
                }
                ("pads", _) => return Err(Problem::attribute("pads", value, "six numbers")),
                (_, [_, rest @ ..]) => *all = rest.to_vec(),
                _ => {}
            }
        }
        Ok(flat)
    }

    /// A slice of one depth, (N, channels, rows, columns).
    fn plane(&mut self, node: &Node, view: &View, at: i64) -> Result<View, Problem> {
        let one = self.sliced(node, view, DEPTH, [at, at + 1, 1])?;
        one.squeeze(DEPTH).ok_or_else(|| self.no_slice(node))
    }

    /// The channels of several slices, group by group.
    fn side_by_side(
        &mut self,
        node: &Node,
        view: &View,
        taps: &[Tap],
        groups: usize,
    ) -> Result<View, Problem> {
        let mut planes = Vec::with_capacity(taps.len());
        for tap in taps {
            planes.push(self.plane(node, view, tap.slice)?);
        }
        if groups == 1 || planes.len() == 1 {
            let parts: Vec<Part> = planes.into_iter().map(Part::View).collect();
            return self.join_parts(node, 1, &parts);
        }
        let Dim::Known(channels) = view.sizes()[1] else {
            return Err(self.no_slice(node));
        };
        let each = channels / groups as i64;
        let mut parts = Vec::with_capacity(groups * planes.len());
        for group in 0..groups as i64 {
            for plane in &planes {
                let range = [group * each, (group + 1) * each, 1];
                parts.push(Part::View(self.sliced(node, plane, 1, range)?));
            }
        }
        self.join_parts(node, 1, &parts)
    }

    /// Slices as one tensor, (N, channels, depth, rows, columns).
    fn volume_of(&mut self, node: &Node, slices: Vec<ValueId>) -> Result<View, Problem> {
        let mut parts = Vec::with_capacity(slices.len());
        for &slice in &slices {
            let value = self.value(slice).clone();
            parts.push(Part::View(self.tensor_of(node, &value)?));
        }
        let mut sizes = parts[0].sizes();
        let joined = self.join_parts(node, 1, &parts)?;
        sizes.insert(1, Dim::Known(slices.len() as i64));
        let view = self.reshaped(node, &joined, &sizes)?;
        Ok(view.permute(&[0, 2, 1, 3, 4]))
    }
}

/// Weights (outputs, channels, depth, rows, columns) of some positions along the depth, as (outputs, positions x channels, rows, columns).
fn of_taps(weights: &Floats, kernels: &[usize]) -> Floats {
    let [outputs, channels, depth, rows, columns] = [0, 1, 2, 3, 4].map(|at| weights.dims[at]);
    let plane = rows * columns;
    let mut data = Vec::with_capacity(outputs * channels * kernels.len() * plane);
    for output in 0..outputs {
        for kernel in kernels {
            for channel in 0..channels {
                let at = ((output * channels + channel) * depth + kernel) * plane;
                data.extend_from_slice(&weights.data[at..][..plane]);
            }
        }
    }
    Floats {
        dims: vec![outputs, kernels.len() * channels, rows, columns],
        data,
    }
}

/// Weights (channels, outputs, depth, rows, columns) of some positions along the depth, group by group.
fn of_transposed_taps(weights: &Floats, kernels: &[usize], groups: usize) -> Floats {
    let [channels, outputs, depth, rows, columns] = [0, 1, 2, 3, 4].map(|at| weights.dims[at]);
    let (plane, each) = (rows * columns, channels / groups);
    let mut data = Vec::with_capacity(outputs * channels * kernels.len() * plane);
    for group in 0..groups {
        for kernel in kernels {
            for channel in group * each..(group + 1) * each {
                for output in 0..outputs {
                    let at = ((channel * outputs + output) * depth + kernel) * plane;
                    data.extend_from_slice(&weights.data[at..][..plane]);
                }
            }
        }
    }
    Floats {
        dims: vec![channels * kernels.len(), outputs, rows, columns],
        data,
    }
}
