//! Channels picked from one or several tensors: concatenation, slice, shuffle.

use core::ops::Range;

use crate::simd::{KEPT, LaneMap, Vector, compiled_for};
use crate::spec::check_equal;
use crate::{BlockedLayout, INPUTS_MAX, Image, Isa, Kernel, KernelError, Part};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelRun {
    pub source: usize,
    pub first: usize,
    /// How many; at least one.
    pub count: usize,
}

/// The output's channels are those of the runs, one run after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherSpec {
    /// What it reads: rows and columns as the output, each tensor its own halo. At most
    /// [`INPUTS_MAX`].
    pub inputs: Vec<BlockedLayout>,
    /// What it writes: as many channels as the runs have.
    pub output: BlockedLayout,
    pub runs: Vec<ChannelRun>,
}

/// A gather for one instruction set.
///
/// Surplus lanes of the output become zero, or what the surplus lanes of a copied block are.
#[derive(Clone, Debug)]
pub struct Gather {
    spec: GatherSpec,
    /// What the output blocks are made of, block after block.
    pieces: Vec<Piece>,
    /// Which of the pieces, for each output block.
    blocks: Vec<Block>,
    kernel: unsafe fn(&Row),
}

/// Lanes of an input's block that go into one output block.
#[derive(Clone, Debug)]
struct Piece {
    input: usize,
    block: usize,
    lanes: LaneMap,
}

#[derive(Clone, Debug)]
struct Block {
    pieces: Range<usize>,
    /// Its only piece stays as it is.
    copied: bool,
}

/// The most pieces of a block: each lane from elsewhere.
const PIECES_MAX: usize = 16;

impl Gather {
    /// Checks the shapes and plans which lanes go where.
    pub fn new(isa: Isa, spec: &GatherSpec) -> Result<Gather, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        spec.check(isa)?;
        let channels: Vec<(usize, usize)> = spec
            .runs
            .iter()
            .flat_map(|run| (run.first..run.first + run.count).map(|at| (run.source, at)))
            .collect();
        let mut pieces = Vec::new();
        let mut blocks = Vec::new();
        for block in channels.chunks(isa.lanes()) {
            let first = pieces.len();
            push_pieces(isa.lanes(), block, &mut pieces);
            let copied = match &pieces[first..] {
                [piece] => is_copy(spec, piece, block.len()),
                _ => false,
            };
            blocks.push(Block {
                pieces: first..pieces.len(),
                copied,
            });
        }
        Ok(Gather {
            spec: spec.clone(),
            pieces,
            blocks,
            kernel: compiled_for!(isa, gather_row, Row),
        })
    }

    pub fn spec(&self) -> &GatherSpec {
        &self.spec
    }
}

impl Kernel for Gather {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        let GatherSpec { inputs, output, .. } = &self.spec;
        let (range, elements) = (output.part(part), output.width() * output.lanes());
        for image in images {
            image.prepare(inputs.iter().map(BlockedLayout::len), output, part);
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) - range.start;
                let to = to..to + elements;
                let Block { pieces, copied } = &self.blocks[block];
                let pieces = &self.pieces[pieces.clone()];
                let source = |piece: &Piece| {
                    let start = inputs[piece.input].row_start(piece.block, row);
                    &image.inputs[piece.input][start..start + elements]
                };
                if *copied {
                    image.output[to].copy_from_slice(source(&pieces[0]));
                    continue;
                }
                let mut sources = [core::ptr::null(); PIECES_MAX];
                for (at, piece) in sources.iter_mut().zip(pieces) {
                    *at = source(piece).as_ptr();
                }
                let row = Row {
                    sources,
                    pieces,
                    output: image.output[to].as_mut_ptr(),
                    elements,
                };
                // SAFETY: the constructor saw that the instruction set is available; the sources
                // and the output are `elements` long, and the output is borrowed for us alone.
                unsafe { (self.kernel)(&row) };
            }
        }
    }

    fn runs_in_rows(&self) -> bool {
        true
    }

    fn gather(&self) -> Option<&Gather> {
        Some(self)
    }
}

impl GatherSpec {
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        let GatherSpec {
            inputs,
            output,
            runs,
        } = self;
        crate::spec::check_limit("the inputs of a gather", inputs.len(), INPUTS_MAX)?;
        output.check_lanes("output", isa)?;
        for input in inputs {
            input.check_lanes("input", isa)?;
            check_equal("the input's height", input.height(), output.height())?;
            check_equal("the input's width", input.width(), output.width())?;
        }
        let mut channels = 0_usize;
        for run in runs {
            if run.count == 0 {
                return Err(KernelError::Zero {
                    what: "channels of a run",
                });
            }
            let there = inputs.get(run.source).map_or(0, BlockedLayout::channels);
            let end = run.first.saturating_add(run.count);
            crate::spec::check_limit("the end of a run of channels", end, there)?;
            channels = channels.saturating_add(run.count);
        }
        check_equal("the output's channels", output.channels(), channels)
    }
}

/// Adds the pieces of an output block with these channels `(input, channel)`.
fn push_pieces(lanes: usize, channels: &[(usize, usize)], pieces: &mut Vec<Piece>) {
    let first = pieces.len();
    for (lane, &(input, channel)) in channels.iter().enumerate() {
        let block = channel / lanes;
        let known = pieces[first..]
            .iter()
            .position(|piece| (piece.input, piece.block) == (input, block));
        let at = known.map_or(pieces.len(), |known| first + known);
        if at == pieces.len() {
            pieces.push(Piece {
                input,
                block,
                lanes: [KEPT; 16],
            });
        }
        pieces[at].lanes[lane] = (channel % lanes) as i32;
    }
}

/// Whether the piece alone is the output block of that many channels: each lane stays in place, and
/// what is a surplus lane there is one here.
fn is_copy(spec: &GatherSpec, piece: &Piece, channels: usize) -> bool {
    let input = &spec.inputs[piece.input];
    let there = (input.channels() - piece.block * input.lanes()).min(input.lanes());
    let stays = |lane: usize| piece.lanes[lane] == lane as i32;
    there == channels && (0..channels).all(stays)
}

/// A row of one output block.
struct Row<'a> {
    /// The pieces' rows.
    sources: [*const f32; PIECES_MAX],
    pieces: &'a [Piece],
    output: *mut f32,
    elements: usize,
}

/// # Safety
/// The processor has the instruction set; the output and as many sources as there are pieces are
/// valid for `elements`, a multiple of the lanes, and nothing aliases the output.
#[inline(always)]
unsafe fn gather_row<V: Vector>(row: &Row<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match row.pieces.len() {
            1 => gather_pieces::<V, 1>(row),
            2 => gather_pieces::<V, 2>(row),
            3 => gather_pieces::<V, 3>(row),
            4 => gather_pieces::<V, 4>(row),
            _ => gather_any::<V>(row),
        }
    }
}

/// # Safety
/// As of [`gather_row`]; there are `N` pieces.
#[inline(always)]
unsafe fn gather_pieces<V: Vector, const N: usize>(row: &Row<'_>) {
    // SAFETY: the caller's promise; `at + LANES <= elements`.
    unsafe {
        let mut lanes = [V::lanes(&row.pieces[0].lanes); N];
        for (lanes, piece) in lanes.iter_mut().zip(row.pieces) {
            *lanes = V::lanes(&piece.lanes);
        }
        let mut at = 0;
        while at < row.elements {
            let mut pixel = V::splat(0.0);
            for (source, &lanes) in row.sources.iter().zip(&lanes) {
                pixel = pixel.pick(V::load(source.add(at)), lanes);
            }
            pixel.store(row.output.add(at));
            at += V::LANES;
        }
    }
}

/// # Safety
/// As of [`gather_row`].
#[inline(always)]
unsafe fn gather_any<V: Vector>(row: &Row<'_>) {
    let mut at = 0;
    while at < row.elements {
        // SAFETY: the caller's promise; `at + LANES <= elements`.
        unsafe {
            let mut pixel = V::splat(0.0);
            for (source, piece) in row.sources.iter().zip(row.pieces) {
                pixel = pixel.pick(V::load(source.add(at)), V::lanes(&piece.lanes));
            }
            pixel.store(row.output.add(at));
        }
        at += V::LANES;
    }
}
