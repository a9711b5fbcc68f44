//! The preparation of frames by a device, from a copy in memory of its own, while it runs stages on the same compute units: most
//! frames are read where they lie, which takes less, but budgets hold for those that cannot be, too.

use punctual_core::Nanos;
use punctual_model::{Network, PrepareOnDevice};
use punctual_platform::clock;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};

use super::prepare::Bench;
use super::stages::{self, MEASURED, SUBJECT};
use super::{Frame, MeasureError, PRIORITY, Request, Subject};
use crate::frames::{FrameWork, NotPrepared, SharedPreparer};
use crate::provider::Provider;
use crate::request_buffers::InputBuffers;
use crate::shell::HostedDevice as _;

/// Rounds before the first that counts.
const WARM_UP: usize = 5;

/// While it is measured a frame has no deadline.
const LIMIT_NS: u64 = 20_000_000_000;

/// Measures the frames of a request that the device may prepare, on a partition of `units` units; nothing if there are none.
pub(super) fn measure<P: Provider>(
    provider: &P,
    subject: Subject<'_>,
    request: &Request,
    units: u8,
) -> Result<Option<PrepareOnDevice>, MeasureError<P::Error>> {
    if request.frames_on_device.is_empty() {
        return Ok(None);
    }
    let network = subject.package.network();
    let mut busy = stages::Bench::start(provider, subject, None, request, &[units])?;
    let frames = request.frames_on_device.iter();
    let works: Vec<FrameWork> = frames.map(|frame| work(frame, network)).collect();
    let rounds = request.effort.rounds();
    let benches = request.frames_on_device.iter();
    let benches = benches.map(|frame| Bench::new(*frame, network, rounds));
    let measurement = Measurement {
        benches: benches.collect::<Result<_, _>>()?,
        preparer: busy.device.frame_preparer(&works)?,
        inputs: busy.device.shell().input_buffers(),
        buffer: busy.buffer_for_frames(),
        rounds,
        limit_ns: clock::now_ns() + request.effort.limit().as_nanos(),
    };
    let spec = ThreadSpec::new("prepare", request.core, Some(PRIORITY));
    let thread = spawn_realtime(spec, move || measurement.carried_out())?;
    let mut ran = Ok(());
    while !thread.is_finished() && ran.is_ok() {
        ran = busy.run_all();
    }
    let benches = thread.join().expect("preparation does not panic");
    ran?;
    let benches = benches.map_err(|NotPrepared| MeasureError::NotPrepared)?;
    Ok(Some(PrepareOnDevice {
        units,
        frames: super::prepare::entries(&benches),
    }))
}

fn work(frame: &Frame, network: &Network) -> FrameWork {
    let (mean, std) = network.input.form.normalisation();
    FrameWork {
        model: SUBJECT,
        partition: MEASURED,
        layout: frame.layout,
        crop: frame.crop,
        mean: [mean[0], mean[1], mean[2]],
        std: [std[0], std[1], std[2]],
        limit_ns: LIMIT_NS,
    }
}

struct Measurement {
    benches: Vec<Bench>,
    preparer: SharedPreparer,
    inputs: InputBuffers,
    buffer: u16,
    rounds: usize,
    limit_ns: u64,
}

impl Measurement {
    fn carried_out(mut self) -> Result<Vec<Bench>, NotPrepared> {
        for round in 0..WARM_UP + self.rounds {
            if round > WARM_UP && clock::now_ns() > self.limit_ns {
                break;
            }
            for work in 0..self.benches.len() {
                let took = self.prepare(work, round)?;
                if round >= WARM_UP {
                    self.benches[work].took.add(took);
                }
            }
        }
        Ok(self.benches)
    }

    fn prepare(&mut self, work: usize, round: usize) -> Result<Nanos, NotPrepared> {
        let bench = &mut self.benches[work];
        let rows = bench.rows(round);
        let begun = clock::now_ns();
        bench.copy_in(round, &rows);
        let input = self.inputs.claim(self.buffer, SUBJECT);
        let mut input = input.expect("a buffer that no stage has");
        let copy = bench.copy().into();
        self.preparer
            .prepare(work, &rows.in_copy(), copy, &mut input)?;
        Ok(Nanos::new(clock::now_ns() - begun))
    }
}
