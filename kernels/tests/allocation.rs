//! Running a kernel allocates nothing. A program of its own, since it counts for the whole process.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use punctual_kernels::preprocess::{PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_kernels::{
    AlignedBuffer, Attention, AttentionBias, AttentionSpec, BestScore, BestScoreSpec, Binary,
    BinaryOperand, BinarySpec, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Copy, CopySpec,
    Detections, DetectionsSpec, GlobalAveragePool, GridSample, GridSampleSpec, Image, Inputs, Isa,
    Kernel, Linear, LinearSpec, Part, PlainCopy, Pool, PoolSpec, Product, ProductSpec, Recurrent,
    RecurrentSpec, Resize, ResizeSpec, Softmax, SoftmaxSpec, Take, TakeSpec, TopK, TopKSpec, Unary,
    Weights, softmax_top1,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, BoxForm, Coordinates, DETECTION_VALUES, Decoder, Digit,
    Extent, Filter, Fit, FrameLayout, Interpolation, Outside, Padding, Piece, PixelFormat,
    PoolKind, Ranking, Resampling, Rounding, Sampling, Scoring, Size, UnaryFunction, View, Window,
};
use support::noise;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands every call on to the system's allocator; the counter is a plain thread-local cell
// without destructor, so touching it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A kernel's `run`.
/// A kernel with its packed weights.
struct Packed {
    kernel: Box<dyn Kernel>,
    packed: AlignedBuffer,
}

impl Packed {
    fn new(kernel: impl Kernel + 'static, weights: &[&[f32]]) -> Self {
        let packed = kernel.packed(&Weights::floats(weights)).unwrap();
        Self {
            kernel: Box::new(kernel),
            packed,
        }
    }

    fn run(&self, part: Part, images: &mut [Image<'_>]) {
        self.kernel.run(&self.packed, part, images);
    }
}

#[test]
fn running_a_kernel_allocates_nothing() {
    for isa in Isa::available() {
        let layout = BlockedLayout::new(isa, 40, 9, 9, 1).unwrap();
        let vector = BlockedLayout::vector(isa, 40).unwrap();
        for (kernel, output, addend) in kernels(isa, layout, vector) {
            let input = vec![0.5; layout.len()];
            let mut outputs = vec![vec![0.0; output.len()]; 3];
            let addend = addend.then_some(&input[..]);
            let (first, second) = (Part::new(0, 2), Part::new(1, 2));
            for part in [Part::WHOLE, first, second] {
                let range = output.part(part);
                let mut images: Vec<_> = outputs
                    .iter_mut()
                    .map(|output| Image {
                        inputs: Inputs::new([Some(&input[..]), addend].into_iter().flatten()),
                        output: &mut output[range.clone()],
                    })
                    .collect();
                let before = ALLOCATIONS.get();
                kernel.run(part, &mut images);
                assert_eq!(ALLOCATIONS.get(), before, "{isa}");
            }
            let view = View::plain(shape(output));
            let plain = PlainCopy::new(isa, output, &view, punctual_types::Element::I32).unwrap();
            let mut values = vec![0; plain.bytes()];
            let before = ALLOCATIONS.get();
            plain.run(&outputs[0], &mut values);
            softmax_top1(&outputs[0][..40]);
            assert_eq!(ALLOCATIONS.get(), before);
        }
    }
}

fn shape(layout: BlockedLayout) -> [u32; 3] {
    [layout.channels(), layout.height(), layout.width()].map(|size| size as u32)
}

/// One of each kind, its output, and whether it takes an addend of the input's layout.
fn kernels(
    isa: Isa,
    layout: BlockedLayout,
    vector: BlockedLayout,
) -> Vec<(Packed, BlockedLayout, bool)> {
    let window = Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1));
    let conv = |groups: usize| {
        let spec = Conv2dSpec {
            input: ConvInput::Blocked(layout),
            output: layout,
            residual: Some(layout),
            window,
            groups,
            activation: Activation::Relu,
        };
        let weights = noise(1, 40 * 40 / groups * 9);
        let conv = Conv2d::new(isa, &spec).unwrap();
        Packed::new(conv, &[&weights, &noise(2, 40)])
    };
    let (dense, depthwise) = (conv(1), conv(40));
    let linear = LinearSpec {
        input: layout,
        output: vector,
        activation: Activation::None,
    };
    let linear = Linear::new(isa, &linear).unwrap();
    let linear = Packed::new(linear, &[&noise(3, 40 * 40 * 81), &noise(4, 40)]);
    let pool = PoolSpec {
        input: layout,
        output: layout,
        window,
        kind: PoolKind::Max,
    };
    let pool = Pool::new(isa, &pool).unwrap();
    let mean = GlobalAveragePool::new(isa, layout, vector).unwrap();
    let add = BinarySpec {
        function: BinaryFunction::Add,
        operands: [BinaryOperand::Tensor(layout); 2],
        swapped: false,
        output: layout,
        activation: Activation::None,
    };
    let mut swapped = View::plain(shape(layout));
    swapped.digits.swap(1, 2);
    let copy = CopySpec {
        inputs: vec![layout],
        table: 0,
        output: layout,
        pieces: vec![Piece::whole(swapped, shape(layout))],
    };
    let copy = Copy::new(isa, &copy).unwrap();
    let add = Binary::new(isa, &add).unwrap();
    let root = Unary::new(isa, UnaryFunction::SquareRoot, layout, layout).unwrap();
    let softmax = |axis| {
        let digit = Digit {
            axis,
            step: 1,
            extent: if axis == Axis::Channel { 20 } else { 9 },
        };
        let spec = SoftmaxSpec {
            input: layout,
            output: layout,
            digit,
            logarithm: true,
        };
        Softmax::new(isa, &spec).unwrap()
    };
    let (channels, rows) = (softmax(Axis::Channel), softmax(Axis::Row));
    let resize = |filter| {
        let resampling = Resampling {
            size: Extent::square(9),
            scale: [0.9; 2],
            coordinates: Coordinates::HalfPixel,
            filter,
        };
        let spec = ResizeSpec {
            input: layout,
            output: layout,
            resampling,
        };
        let kernel = Resize::new(isa, &spec).unwrap();
        (Packed::new(kernel, &[]), layout, false)
    };
    vec![
        grid_sample(isa, layout),
        best(isa, layout, Axis::Channel),
        best(isa, layout, Axis::Column),
        best_score(isa, layout),
        take(isa, layout),
        resize(Filter::Linear),
        resize(Filter::Nearest(Rounding::Floor)),
        (Packed::new(copy, &[]), layout, false),
        (dense, layout, true),
        (depthwise, layout, true),
        (linear, vector, false),
        (Packed::new(pool, &[]), layout, false),
        (Packed::new(mean, &[]), vector, false),
        (Packed::new(add, &[]), layout, true),
        (Packed::new(root, &[]), layout, false),
        (Packed::new(channels, &[]), layout, false),
        (Packed::new(rows, &[]), layout, false),
    ]
}

#[test]
fn multiplying_and_attending_allocate_nothing() {
    for isa in Isa::available() {
        let layout = BlockedLayout::new(isa, 40, 3, 40, 0).unwrap();
        let spec = ProductSpec {
            first: layout,
            second: layout,
            output: layout,
        };
        let product = Product::new(isa, &spec).unwrap();
        let spec = AttentionSpec {
            query: layout,
            key: layout,
            value: layout,
            mask: None,
            output: layout,
            heads: 2,
            scale: 0.5,
            by_row: true,
            bias: Some(AttentionBias {
                by_row: false,
                by_head: true,
            }),
        };
        let attention = Attention::new(isa, &spec).unwrap();
        let bias = vec![0.5; attention.packed_len()];
        let input = vec![0.5; layout.len()];
        let mut output = vec![0.0; layout.len()];
        let mut run = |count: usize, run: &dyn Fn(&mut [Image<'_>])| {
            let mut images = [Image {
                inputs: Inputs::new(std::iter::repeat_n(&input[..], count)),
                output: &mut output,
            }];
            let before = ALLOCATIONS.get();
            run(&mut images);
            assert_eq!(ALLOCATIONS.get(), before, "{isa}");
        };
        run(2, &|images| product.run(&[], Part::WHOLE, images));
        run(3, &|images| attention.run(&bias, Part::WHOLE, images));
    }
}

/// Groups of two channels, at the addend's positions.
fn grid_sample(isa: Isa, layout: BlockedLayout) -> (Packed, BlockedLayout, bool) {
    let spec = GridSampleSpec {
        input: layout,
        grid: layout,
        output: layout,
        groups: 20,
        sampling: Sampling {
            interpolation: Interpolation::Linear,
            outside: Outside::Reflection,
            align_corners: false,
        },
    };
    let kernel = GridSample::new(isa, &spec).unwrap();
    (Packed::new(kernel, &[]), layout, true)
}

fn best(isa: Isa, input: BlockedLayout, axis: Axis) -> (Packed, BlockedLayout, bool) {
    let output = match axis {
        Axis::Channel => BlockedLayout::new(isa, 1, 9, 9, 1).unwrap(),
        _ => input,
    };
    let ranking = Ranking {
        largest: true,
        last: false,
    };
    let spec = TopKSpec {
        input,
        output,
        axis,
        ranking,
    };
    let kernel = TopK::new(isa, &spec).unwrap();
    (Packed::new(kernel, &[]), output, false)
}

/// Of the classes of each pixel.
fn best_score(isa: Isa, scores: BlockedLayout) -> (Packed, BlockedLayout, bool) {
    let places = scores.height() * scores.width();
    let spec = BestScoreSpec {
        scores,
        objectness: None,
        output: BlockedLayout::new(isa, places, 1, 1, 0).unwrap(),
        scoring: Scoring {
            first: 1,
            classes: 2,
            logits: true,
        },
    };
    let kernel = BestScore::new(isa, &spec).unwrap();
    (Packed::new(kernel, &[]), spec.output, false)
}

/// Columns at the addend's positions.
fn take(isa: Isa, layout: BlockedLayout) -> (Packed, BlockedLayout, bool) {
    let spec = TakeSpec {
        input: layout,
        indices: layout,
        output: layout,
        axis: Axis::Column,
    };
    let kernel = Take::new(isa, &spec).unwrap();
    (Packed::new(kernel, &[]), layout, true)
}

#[test]
fn a_recurrent_layer_allocates_nothing() {
    for isa in Isa::available() {
        let layout = |channels| BlockedLayout::new(isa, channels, 1, 9, 0).unwrap();
        let spec = RecurrentSpec {
            cell: punctual_types::Cell::Lstm,
            gates: layout(40),
            initial: None,
            output: layout(20),
            backwards: false,
        };
        let layer = Recurrent::new(isa, &spec).unwrap();
        let (packed, gates) = (vec![0.1; layer.packed_len()], vec![0.5; spec.gates.len()]);
        let mut output = vec![0.0; spec.output.len()];
        let mut images = [Image {
            inputs: Inputs::one(&gates),
            output: &mut output,
        }];
        let before = ALLOCATIONS.get();
        layer.run(&packed, Part::WHOLE, &mut images);
        assert_eq!(ALLOCATIONS.get(), before, "{isa}");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}

#[test]
fn preparing_a_frame_allocates_nothing() {
    let crop = Size {
        width: 40,
        height: 30,
    };
    let output = Size {
        width: 16,
        height: 16,
    };
    let fit = Fit::Letterbox { fill: Fit::FILL };
    let pictures = PixelFormat::ALL.into_iter().flat_map(|format| {
        let channels = [1, 3, 4].into_iter();
        channels.filter_map(move |channels| format.gives(channels).then_some((format, channels)))
    });
    for (format, channels) in pictures.chain([(PixelFormat::Tensor, 2)]) {
        let (frame, crop, fit) = match format {
            PixelFormat::Tensor => (FrameLayout::tensor(channels, output), output, Fit::Stretch),
            _ => (FrameLayout::packed(format, 64, 48), crop, fit),
        };
        let mut preprocessor = Preprocessor::new(&PreprocessSpec {
            frame,
            crop,
            output,
            channels,
            fit,
            mean: [0.5; 4],
            std: [0.25; 4],
        })
        .unwrap();
        let rows = preprocessor.crop_rows(0, 0).unwrap();
        let copy = vec![1; preprocessor.copy_len_max()];
        let mut planes = vec![0.0; 4 * 16 * 16];
        let before = ALLOCATIONS.with(Cell::get);
        let planes = PlanarOutput::packed(&mut planes, 16, 16);
        let prepared = preprocessor.run(&rows, &copy, planes);
        let allocations = ALLOCATIONS.with(Cell::get) - before;
        assert_eq!(
            (prepared, allocations),
            (Ok(()), 0),
            "{format:?} {channels}"
        );
    }
}

#[test]
fn crops_of_another_size_allocate_nothing() {
    let size = |width, height| Size { width, height };
    let (largest, sides) = (size(160, 160), [1, 160, 2, 90, 3, 159, 7, 89, 16, 31]);
    // The input of 6x64 makes one row of as many rows of 160x90 as a letterbox can.
    let outputs = [(1, 1), (6, 64), (64, 5), (33, 33), (200, 200)];
    for format in [PixelFormat::Nv12, PixelFormat::Rgba8] {
        for output in outputs.map(|(width, height)| size(width, height)) {
            for fit in [Fit::Stretch, Fit::Letterbox { fill: Fit::FILL }] {
                let mut preprocessor = Preprocessor::new(&PreprocessSpec {
                    frame: FrameLayout::packed(format, largest.width, largest.height),
                    crop: largest,
                    output,
                    channels: 3,
                    fit,
                    mean: [0.5; 4],
                    std: [0.25; 4],
                })
                .unwrap();
                let before = ALLOCATIONS.get();
                for width in sides {
                    for height in sides {
                        preprocessor.cut(size(width, height)).unwrap();
                    }
                }
                assert_eq!(ALLOCATIONS.get(), before, "{format:?} {output} {fit:?}");
            }
        }
    }
}

#[test]
fn making_a_list_of_detections_allocates_nothing() {
    for isa in Isa::available() {
        let layout = |sizes: [usize; 3]| {
            let [channels, height, width] = sizes;
            BlockedLayout::new(isa, channels, height, width, 0).unwrap()
        };
        let spec = DetectionsSpec {
            best: layout([300, 1, 1]),
            boxes: layout([4, 3, 100]),
            scores: layout([9, 3, 100]),
            output: layout([DETECTION_VALUES as usize, 1, 21]),
            scoring: Scoring {
                first: 0,
                classes: 9,
                logits: true,
            },
            decoder: Decoder {
                form: BoxForm::CentreAndSize,
                unit: [640.0, 480.0],
                size: [640, 480],
                threshold: 0.1,
                rows: 20,
                candidates: 80,
                overlap: Some(0.5),
                by_class: true,
                averaged: 3,
            },
        };
        let kernel = Detections::new(isa, &spec).unwrap();
        let inputs = [spec.best, spec.boxes, spec.scores].map(|layout| noise(5, layout.len()));
        let mut output = vec![0.0; spec.output.len()];
        let mut images = [Image {
            inputs: Inputs::new(inputs.iter().map(Vec::as_slice)),
            output: &mut output,
        }];
        let before = ALLOCATIONS.get();
        kernel.run(&[], Part::WHOLE, &mut images);
        assert_eq!(ALLOCATIONS.get(), before, "{isa}");
    }
}
