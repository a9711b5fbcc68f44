//! The least that a thread of its own costs: it is woken for a frame, prepares it, runs the network and wakes the camera.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_device_cpu::{Evaluator, StartError};
use punctual_kernels::Isa;
use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_model::Network;
use punctual_platform::Doorbell;
use punctual_platform::thread::{RealtimeThread, ThreadError, ThreadSpec, spawn_realtime};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    #[error("the network cannot be started: {0}")]
    Start(#[from] StartError),
    #[error("the frames cannot be prepared: {0}")]
    Prepare(#[from] PreprocessError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

/// What the camera and the thread share.
struct Shared {
    /// Never contended: the bells say whose it is.
    frame: Mutex<Box<[u8]>>,
    came: Doorbell,
    answered: Doorbell,
    ended: AtomicBool,
}

pub struct Looped {
    shared: Arc<Shared>,
    thread: RealtimeThread<()>,
}

impl Looped {
    /// Starts the thread, which has as much as a worker of the daemon: a core and a priority.
    pub fn start(network: &Network, core: usize) -> Result<Self, LoopError> {
        /// Above ordinary threads; nothing else that is urgent runs on its core.
        const PRIORITY: u8 = 50;
        let input = network.input;
        let side = Size {
            width: input.width,
            height: input.height,
        };
        let layout = FrameLayout::packed(PixelFormat::Rgb8, side.width, side.height);
        let (mean, std) = input.form.normalisation();
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame: layout,
            crop: side,
            output: side,
            channels: input.channels,
            fit: Fit::Stretch,
            mean,
            std,
        })?;
        let shared = Arc::new(Shared {
            frame: Mutex::new(vec![0; layout.len()].into()),
            came: Doorbell::new(),
            answered: Doorbell::new(),
            ended: AtomicBool::new(false),
        });
        let worker = Worker {
            shared: Arc::clone(&shared),
            copy: vec![0; preprocessor.copy_len_max()].into(),
            image: vec![0.0; (input.channels * side.width * side.height) as usize].into(),
            side,
            layout,
            preprocessor,
            engine: Evaluator::new(Isa::detect(), network, 1)?,
        };
        let spec = ThreadSpec::new("loop", Some(core), Some(PRIORITY));
        let thread = spawn_realtime(spec, move || worker.serve())?;
        Ok(Self { shared, thread })
    }

    pub fn tid(&self) -> i32 {
        self.thread.tid()
    }

    /// Hands a frame over and waits for its answer.
    pub fn answer(&self, pixel: u8) {
        let seen = self.shared.answered.count();
        self.shared.frame.lock().expect("no panic").fill(pixel);
        self.shared.came.ring();
        self.shared.answered.wait(seen, None);
    }

    pub fn stop(self) {
        // Release: partner of the load in `serve`, behind the bell.
        self.shared.ended.store(true, Ordering::Release);
        self.shared.came.ring();
        let _ = self.thread.join();
    }
}

struct Worker {
    shared: Arc<Shared>,
    copy: Box<[u8]>,
    image: Box<[f32]>,
    side: Size,
    layout: FrameLayout,
    preprocessor: Preprocessor,
    engine: Evaluator,
}

impl Worker {
    fn serve(mut self) {
        let mut seen = 0;
        loop {
            seen = self.shared.came.wait(seen, None);
            if self.shared.ended.load(Ordering::Acquire) {
                return;
            }
            self.run();
            self.shared.answered.ring();
        }
    }

    /// Copies, converts and computes, as the daemon's threads do.
    fn run(&mut self) {
        let crop = self.preprocessor.crop_rows_in(&self.layout, 0, 0);
        let crop = crop.expect("the crop is the frame");
        let frame = self.shared.frame.lock().expect("no panic");
        for plane in crop.planes() {
            let rows = &frame[plane.offset..][..plane.len * plane.count];
            self.copy[plane.copy_offset..][..rows.len()].copy_from_slice(rows);
        }
        drop(frame);
        let (width, height) = (self.side.width as usize, self.side.height as usize);
        let output = PlanarOutput::packed(&mut self.image, width, height);
        let prepared = self.preprocessor.run(&crop, &self.copy, output);
        prepared.expect("bytes are finite");
        self.engine.load(&[&self.image]);
        self.engine.run_for_time(1);
    }
}
