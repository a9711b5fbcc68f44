//! The preparation of frames: vectors and crop copied in, resized, normalised. Most frames are prepared where they lie, which
//! takes less; but those whose pictures are recorded, and some of imported memory, are copied, and budgets hold for them too.

use std::sync::atomic::{AtomicU32, Ordering};

use punctual_core::Nanos;
use punctual_kernels::preprocess::{
    CropRows, PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor,
};
use punctual_model::{Network, PrepareProfile, Samples};
use punctual_platform::clock;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_types::{PixelFormat, Size};

use super::{Frame, MeasureError, PRIORITY, Request};

/// Frames in memory at a time, as in a channel's slots: a frame is not in the nearest cache when it is prepared.
const SLOTS: usize = 4;

/// Rounds before the first that counts.
const WARM_UP: usize = 5;

/// Measures the frames of a request. Frames that differ only in their stride, which a profile does
/// not tell apart, get one entry: the slowest.
pub(super) fn measure<E>(
    network: &Network,
    request: &Request,
) -> Result<Vec<PrepareProfile>, MeasureError<E>> {
    let benches = request
        .frames
        .iter()
        .map(|frame| Bench::new(*frame, network, request.effort.rounds()))
        .collect::<Result<Vec<_>, _>>()?;
    if benches.is_empty() {
        return Ok(Vec::new());
    }
    let rounds = request.effort.rounds();
    let limit = clock::now_ns() + request.effort.limit().as_nanos();
    let spec = ThreadSpec::new("prepare", request.core, Some(PRIORITY));
    let thread = spawn_realtime(spec, move || measured(benches, rounds, limit))?;
    let benches = thread.join().expect("preparation does not panic");
    Ok(entries(&benches))
}

/// Their figures, those of frames that a profile does not tell apart once.
pub(super) fn entries(benches: &[Bench]) -> Vec<PrepareProfile> {
    let mut entries: Vec<PrepareProfile> = Vec::new();
    for entry in benches.iter().map(Bench::entry) {
        let same = |other: &&mut PrepareProfile| {
            let sides = |e: &PrepareProfile| [e.width, e.height, e.crop_width, e.crop_height];
            other.format == entry.format
                && sides(other) == sides(&entry)
                && other.letterbox == entry.letterbox
        };
        match entries.iter_mut().find(same) {
            Some(other) if other.p99_ns >= entry.p99_ns => {}
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    }
    entries
}

fn measured(mut benches: Vec<Bench>, rounds: usize, limit_ns: u64) -> Vec<Bench> {
    for round in 0..WARM_UP + rounds {
        if round > WARM_UP && clock::now_ns() > limit_ns {
            break;
        }
        let begun = clock::now_ns();
        for bench in &mut benches {
            let took = bench.prepare(round);
            if round >= WARM_UP {
                bench.took.add(took);
            }
        }
        super::rest(&[], begun);
    }
    benches
}

pub(super) struct Bench {
    frame: Frame,
    preprocessor: Preprocessor,
    slots: Vec<Vec<u8>>,
    copy: Vec<u8>,
    /// The vectors as a channel has them, and copied.
    words: Vec<AtomicU32>,
    numbers: Vec<f32>,
    planes: Vec<f32>,
    pub(super) took: Samples,
}

impl Bench {
    pub(super) fn new(
        frame: Frame,
        network: &Network,
        rounds: usize,
    ) -> Result<Self, PreprocessError> {
        let input = network.input;
        let numbers = network.vectors.iter().map(|v| v.length as usize).sum();
        let (mean, std) = input.form.normalisation();
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame: frame.layout,
            crop: frame.crop,
            output: Size {
                width: input.width,
                height: input.height,
            },
            channels: input.channels,
            fit: frame.fit,
            mean,
            std,
        })?;
        let slot = |slot: usize| {
            // Below 64 each, so that four make a number that is finite.
            let pixel = |byte: usize| ((byte * 31 + slot * 7) % 61) as u8;
            (0..frame.layout.len()).map(pixel).collect()
        };
        Ok(Self {
            copy: vec![0; preprocessor.copy_len_max()],
            words: (0..numbers).map(|_| AtomicU32::default()).collect(),
            numbers: vec![0.0; numbers],
            planes: vec![0.0; (input.channels * input.width * input.height) as usize],
            slots: (0..SLOTS).map(slot).collect(),
            preprocessor,
            frame,
            took: Samples::with_capacity(rounds),
        })
    }

    /// Those of a frame's crop, at another position than the last one's.
    pub(super) fn rows(&self, round: usize) -> CropRows {
        let Frame { layout, crop, .. } = self.frame;
        // A tensor is taken whole.
        let crop = match layout.format {
            PixelFormat::Tensor => layout.size(),
            _ => crop,
        };
        let within = |most: u32, step: u32| (round as u32).wrapping_mul(step) % (most + 1);
        // Odd positions need one more row and column of chroma.
        let x = within(layout.width - crop.width, 37);
        let y = within(layout.height - crop.height, 23);
        self.preprocessor
            .crop_rows(x, y)
            .expect("the position leaves room for the crop")
    }

    /// Copies a frame's vectors and rows.
    pub(super) fn copy_in(&mut self, round: usize, rows: &CropRows) {
        for (number, word) in self.numbers.iter_mut().zip(&self.words) {
            *number = f32::from_bits(word.load(Ordering::Relaxed));
        }
        assert!(self.numbers.iter().all(|number| number.is_finite()));
        rows.copy_from(&self.slots[round % SLOTS], &mut self.copy);
    }

    /// The rows that were copied.
    pub(super) fn copy(&self) -> &[u8] {
        &self.copy
    }

    /// Prepares one frame.
    fn prepare(&mut self, round: usize) -> Nanos {
        let rows = self.rows(round);
        let output = self.preprocessor.output();
        let (width, height) = (output.width as usize, output.height as usize);
        let begun = clock::now_ns();
        self.copy_in(round, &rows);
        let planes = PlanarOutput::packed(&mut self.planes, width, height);
        let prepared = self.preprocessor.run(&rows, &self.copy, planes);
        prepared.expect("the values are finite");
        Nanos::new(clock::now_ns() - begun)
    }

    fn entry(&self) -> PrepareProfile {
        let quantiles = self.took.quantiles();
        PrepareProfile {
            format: self.frame.layout.format.name().to_owned(),
            width: self.frame.layout.width,
            height: self.frame.layout.height,
            crop_width: self.frame.crop.width,
            crop_height: self.frame.crop.height,
            letterbox: !self.frame.fit.is_stretch(),
            samples: quantiles.samples,
            p50_ns: quantiles.p50_ns,
            p99_ns: quantiles.p99_ns,
            max_ns: quantiles.max_ns,
        }
    }
}
