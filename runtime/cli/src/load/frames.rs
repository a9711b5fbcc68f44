//! What the clients of a task show: noise, or the pictures and arrays of files in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_client::{Client, Crop, PixelFormat};
use punctual_types::Random;

use crate::ask::frame::{Fit, FrameError, Framing, Given};

/// Frames are laid out before the load begins, so that it is steady; beyond this they would take the machine's memory.
const BYTES_MAX: usize = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    #[error("{path}: {source}", path = path.display())]
    Frame { path: PathBuf, source: FrameError },
    #[error(
        "{count} frames of {bytes} bytes are over {} MiB in all: show fewer pictures",
        BYTES_MAX >> 20
    )]
    TooMany { count: usize, bytes: usize },
}

/// Frames as a task takes them; clients share them.
#[derive(Clone)]
pub struct Frames {
    frames: Arc<[Vec<u8>]>,
    crop: Crop,
}

impl Frames {
    /// One frame of noise, by its seed.
    pub fn noise(client: &Client, seed: u64) -> Self {
        let spec = client.frame();
        let bytes = spec.bytes() as usize;
        let mut random = Random::new(seed);
        let frame = match spec.format {
            // Numbers from 0 to 1, as most networks take them.
            PixelFormat::Tensor => (0..bytes / 4)
                .flat_map(|_| (random.below(1 << 24) as f32 / (1 << 24) as f32).to_le_bytes())
                .collect(),
            _ => random.bytes(bytes),
        };
        Self {
            frames: Arc::new([frame]),
            crop: Crop { x: 0, y: 0 },
        }
    }

    /// Those of these files, as `punctual ask` makes frames of them.
    pub fn of_files(client: &Client, files: &[PathBuf]) -> Result<Self, FramesError> {
        let bytes = client.frame().bytes() as usize;
        let count = files.len();
        if bytes.saturating_mul(count) > BYTES_MAX {
            return Err(FramesError::TooMany { count, bytes });
        }
        let framing = Framing::new(client.terms(), None, Fit::default());
        let frame = |path: &PathBuf| frame(path, &framing, bytes);
        Ok(Self {
            frames: files.iter().map(frame).collect::<Result<_, _>>()?,
            crop: framing.crop(),
        })
    }

    /// The frame of this number; after the last comes the first again.
    pub fn at(&self, number: usize) -> &[u8] {
        &self.frames[number % self.frames.len()]
    }

    pub fn crop(&self) -> Crop {
        self.crop
    }
}

fn frame(path: &Path, framing: &Framing, bytes: usize) -> Result<Vec<u8>, FramesError> {
    let mut frame = vec![0; bytes];
    let given = Given::read(path);
    let filled = given.and_then(|given| framing.fill(given, &mut frame));
    match filled {
        Ok(_) => Ok(frame),
        Err(source) => Err(FramesError::Frame {
            path: path.to_owned(),
            source,
        }),
    }
}
