//! Values moved to another order: what a transpose, a reshape, a slice, a shuffle of pixels or a concatenation leaves
//! to be done. [`Copy`] writes a blocked tensor, [`PlainCopy`] plain memory.

mod plain;
mod plan;

pub use self::plain::PlainCopy;

use punctual_types::Piece;

use self::plan::{Lanes, PICKED_MAX, Plan, Run};
use crate::quantised::{bytes, bytes_mut};
use crate::simd::{LaneMap, Vector, compiled_for};
use crate::spec::{check_equal, check_finite, check_limit};
use crate::{BlockedLayout, Element, INPUTS_MAX, Image, Isa, Kernel, KernelError, Part, Weights};

/// The output's values are those of the pieces, each from its source and in its box.
#[derive(Clone, Debug, PartialEq)]
pub struct CopySpec {
    /// What it reads: source 0, 1, ... At most [`INPUTS_MAX`], all floats or all bytes that stand for the same.
    pub inputs: Vec<BlockedLayout>,
    /// How many constants it has: the source behind the inputs, with this number of channels and one pixel. Only of floats.
    pub table: usize,
    pub output: BlockedLayout,
    pub pieces: Vec<Piece>,
}

/// A copy for one instruction set. Surplus lanes of the output become zero, or what the surplus lanes of a copied
/// block are.
#[derive(Clone, Debug)]
pub struct Copy {
    spec: CopySpec,
    table: Option<BlockedLayout>,
    /// One a piece, in rising order of their first channels: lanes that a piece leaves alone at the beginning of a
    /// block are there already.
    plans: Vec<Plan>,
    kernel: unsafe fn(&Pixels<'_>),
}

impl Copy {
    /// Checks the pieces and plans which lanes go where.
    pub fn new(isa: Isa, spec: &CopySpec) -> Result<Copy, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let table = match spec.table {
            0 => None,
            values => Some(BlockedLayout::vector(isa, values)?),
        };
        spec.check(isa, table)?;
        let sources: Vec<_> = spec.inputs.iter().chain(&table).collect();
        let mut pieces: Vec<&Piece> = spec.pieces.iter().collect();
        pieces.sort_by_key(|piece| piece.at[0]);
        let plan = |piece: &Piece| {
            let source = sources[usize::from(piece.source)];
            Plan::new(piece, source, &spec.output)
        };
        Ok(Copy {
            plans: pieces.into_iter().map(plan).collect(),
            spec: spec.clone(),
            table,
            kernel: compiled_for!(isa, pick_pixels, Pixels<'_>),
        })
    }

    pub fn spec(&self) -> &CopySpec {
        &self.spec
    }

    /// All that must be copied for a part.
    fn each_run(&self, part: Part, mut copy: impl FnMut(&Plan, Step<'_>)) {
        let output = &self.spec.output;
        let start = output.part(part).start;
        let elements = output.lanes() / output.pixel();
        for (block, row) in output.block_rows(part) {
            let to = (output.row_start(block, row) - start) * elements;
            for plan in &self.plans {
                if !plan.blocks.contains(&block) || !plan.rows.contains(&row) {
                    continue;
                }
                for run in &plan.runs {
                    let (lanes, from) = plan.source_of(block, row, run);
                    copy(
                        plan,
                        Step {
                            lanes,
                            run,
                            from,
                            to: to + run.to,
                        },
                    );
                }
            }
        }
    }

    fn copy_floats(&self, plan: &Plan, step: Step<'_>, source: &[f32], output: &mut [f32]) {
        let lanes = self.spec.output.lanes();
        let Step { run, from, to, .. } = step;
        if step.copies_pixels(lanes) {
            let from = from + step.lanes.copied.unwrap_or(0);
            output[to..to + run.count * lanes]
                .copy_from_slice(&source[from..][..run.count * lanes]);
            return;
        }
        let picked = plan.picked(step.lanes);
        if picked.is_empty() {
            scatter(plan, &step, source, output);
            return;
        }
        let mut sources = [core::ptr::null(); PICKED_MAX];
        let mut maps = [&EMPTY; PICKED_MAX];
        for (at, block) in picked.iter().enumerate() {
            let read = (run.count - 1) * run.from_step + lanes;
            sources[at] = source[from + block.offset..][..read].as_ptr();
            maps[at] = &block.lanes;
        }
        let written = (run.count - 1) * run.to_step + lanes;
        let pixels = Pixels {
            sources,
            maps,
            blocks: picked.len(),
            output: output[to..][..written].as_mut_ptr(),
            run,
            keeps: step.lanes.keeps,
        };
        // SAFETY: the constructor saw that the instruction set is available; the slices are as long as the kernel
        // reads and writes, and the output is borrowed for us alone.
        unsafe { (self.kernel)(&pixels) };
    }
}

impl Kernel for Copy {
    fn packed_len(&self) -> usize {
        self.table.map_or(0, |table| table.len())
    }

    /// The table of constants, if there is one.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let table = weights.floats.first().copied().unwrap_or_default();
        assert_eq!(packed.len(), self.packed_len(), "the room for constants");
        check_equal("the table's values", table.len(), self.spec.table)?;
        check_finite("table", table)?;
        let (values, surplus) = packed.split_at_mut(table.len());
        values.copy_from_slice(table);
        surplus.fill(0.0);
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed constants");
        let CopySpec { inputs, output, .. } = &self.spec;
        for image in images {
            image.prepare(inputs.iter().map(BlockedLayout::len), output, part);
            let source = |plan: &Plan| {
                let input = image.inputs.get(plan.source).copied();
                input.unwrap_or(packed)
            };
            match output.element() {
                Element::F32 => self.each_run(part, |plan, step| {
                    self.copy_floats(plan, step, source(plan), image.output);
                }),
                Element::U8(_) => self.each_run(part, |plan, step| {
                    copy_bytes(plan, step, bytes(source(plan)), bytes_mut(image.output));
                }),
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(Vec::new())
    }

    fn runs_in_rows(&self) -> bool {
        true
    }
}

impl CopySpec {
    fn check(&self, isa: Isa, table: Option<BlockedLayout>) -> Result<(), KernelError> {
        let CopySpec { inputs, output, .. } = self;
        check_limit("the inputs of a copy", inputs.len(), INPUTS_MAX)?;
        output.check_blocks("output", isa)?;
        for input in inputs.iter().chain(&table) {
            input.check_blocks("input", isa)?;
            if input.element() != output.element() {
                return Err(KernelError::Element {
                    tensor: "input",
                    expected: "what the output is of",
                });
            }
            // Offsets of values are kept in 32 bits.
            let values = input.len() * (input.lanes() / input.pixel());
            check_limit("values of the input", values, u32::MAX as usize)?;
        }
        let sources = inputs.iter().chain(&table);
        let sources: Vec<_> = sources.map(|source| source.shape().sides()).collect();
        Piece::check(&self.pieces, &sources, output.shape().sides()).map_err(KernelError::from)
    }
}

const EMPTY: LaneMap = [crate::simd::KEPT; 16];

/// Pixels of one block that are evenly spaced in the source and in the output.
#[derive(Clone, Copy)]
struct Step<'a> {
    lanes: &'a Lanes,
    run: &'a Run,
    /// Where the first pixel is read and written, in values.
    from: usize,
    to: usize,
}

impl Step<'_> {
    /// Whether it is one piece of memory.
    fn copies_pixels(&self, lanes: usize) -> bool {
        let Run {
            from_step, to_step, ..
        } = *self.run;
        self.lanes.copied.is_some()
            && (self.run.count == 1 || (from_step, to_step) == (lanes, lanes))
    }
}

/// Bytes are copied pixel by pixel or one by one.
fn copy_bytes(plan: &Plan, step: Step<'_>, source: &[u8], output: &mut [u8]) {
    let (run, lanes) = (step.run, plan.lanes);
    let Some(offset) = step.lanes.copied else {
        scatter(plan, &step, source, output);
        return;
    };
    let from = step.from + offset;
    if step.copies_pixels(lanes) {
        let all = run.count * lanes;
        output[step.to..][..all].copy_from_slice(&source[from..][..all]);
        return;
    }
    for pixel in 0..run.count {
        let source = &source[from + pixel * run.from_step..][..lanes];
        output[step.to + pixel * run.to_step..][..lanes].copy_from_slice(source);
    }
}

/// Value by value.
fn scatter<T: core::marker::Copy + Default>(
    plan: &Plan,
    step: &Step<'_>,
    source: &[T],
    output: &mut [T],
) {
    let (offsets, lanes) = plan.scattered(step.lanes);
    for pixel in 0..step.run.count {
        let source = &source[step.from + pixel * step.run.from_step..];
        let output = &mut output[step.to + pixel * step.run.to_step..][..plan.lanes];
        if !step.lanes.keeps {
            output.fill(T::default());
        }
        for (value, &offset) in output[lanes.clone()].iter_mut().zip(offsets) {
            *value = source[offset as usize];
        }
    }
}

/// A run of pixels, each made of lanes of `blocks` blocks.
struct Pixels<'a> {
    sources: [*const f32; PICKED_MAX],
    maps: [&'a LaneMap; PICKED_MAX],
    blocks: usize,
    output: *mut f32,
    run: &'a Run,
    /// Other lanes stay; otherwise they become zero.
    keeps: bool,
}

/// # Safety
/// The processor has the instruction set; the output and as many sources as there are blocks are valid for the run's
/// pixels, and nothing aliases the output.
#[inline(always)]
unsafe fn pick_pixels<V: Vector>(pixels: &Pixels<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match pixels.blocks {
            1 => pick_from::<V, 1>(pixels),
            2 => pick_from::<V, 2>(pixels),
            3 => pick_from::<V, 3>(pixels),
            _ => pick_from::<V, 4>(pixels),
        }
    }
}

/// # Safety
/// As of [`pick_pixels`]; there are `N` blocks.
#[inline(always)]
unsafe fn pick_from<V: Vector, const N: usize>(pixels: &Pixels<'_>) {
    let Pixels { run, keeps, .. } = *pixels;
    // SAFETY: the caller's promise.
    unsafe {
        let mut lanes = [V::lanes(pixels.maps[0]); N];
        for (lanes, map) in lanes.iter_mut().zip(pixels.maps) {
            *lanes = V::lanes(map);
        }
        for at in 0..run.count {
            let output = pixels.output.add(at * run.to_step);
            let mut pixel = if keeps {
                V::load(output)
            } else {
                V::splat(0.0)
            };
            for (source, &lanes) in pixels.sources.iter().zip(&lanes) {
                pixel = pixel.pick(V::load(source.add(at * run.from_step)), lanes);
            }
            pixel.store(output);
        }
    }
}
