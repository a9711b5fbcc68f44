//! One thread a client: the only one that touches the client's payload. Resizes and normalises the crop from where it lies
//! into the request's buffer; or from a copy, where the memory is not to be read so or the pictures are recorded. Where the plan
//! says so, it has the GPU do this, and waits.

use std::sync::Arc;

use punctual_core::{Failure, Instant, ModelId, Nanos, RequestId, TaskId, Ticket};
use punctual_device::frames::{FramePreparer, NotPrepared, SharedPreparer};
use punctual_device::{ClaimError, InputBuffers, InputWriter};
use punctual_events::RtEvent;
use punctual_ipc::{PayloadReader, Rows};
use punctual_kernels::preprocess::{CropRows, NotFinite, PlanarOutput, Preprocessor};
use punctual_plan::VectorPlan;
use punctual_platform::clock;
use punctual_platform::doorbell::LOOK_NS;
use punctual_platform::heartbeat::Heartbeat;
use punctual_platform::poll::Waker;
use punctual_platform::thread::{self, Policy};
use punctual_types::FrameLayout;

use crate::channels::IntakeEnds;
use crate::drain::Flag;
use crate::messages::{IntakeOrder, Payload, Prepared};
use crate::metrics::Metrics;
use crate::recorder::{PictureSink, Subject};
use crate::rt_events::emit;

/// What the intake thread of one client slot works with.
pub struct Intake {
    pub ends: IntakeEnds,
    pub stop: Arc<Flag>,
    pub heart: Arc<Heartbeat>,
    pub housekeeping: Waker,
    /// The client's tasks, and those that take on what these would refuse; rising.
    pub targets: Box<[Target]>,
    /// One for each different input of their networks.
    pub preprocessors: Box<[Preprocessor]>,
    /// What prepares frames on the GPU, of those of the targets that have a work there.
    pub frames: Option<SharedPreparer>,
    /// The crop's rows, as the client had them when they were copied, where that is done.
    pub copy: Box<[u8]>,
    /// The vectors, likewise.
    pub numbers: Box<[f32]>,
    /// Whether it attends the scheduler's bell when it has prepared a frame.
    pub attends: bool,
    /// Of the client that holds the slot now.
    pub reader: Option<PayloadReader>,
    /// Pictures are recorded there; none: nowhere.
    pub pictures: Option<PictureSink>,
    pub metrics: Arc<Metrics>,
}

/// A task whose network reads what is prepared here.
pub struct Target {
    pub task: TaskId,
    pub model: ModelId,
    pub buffers: InputBuffers,
    /// Which of the preprocessors prepares for it.
    pub preprocessor: usize,
    /// Which work of the GPU's prepares for it instead.
    pub work: Option<usize>,
    /// The vectors that come with each frame.
    pub vectors: Box<[VectorPlan]>,
}

impl Intake {
    /// Works until the stop flag is set. Returns itself, so that nothing is freed on this thread.
    pub fn serve(mut self) -> Self {
        // One that did not get its priority may have to wait for its core.
        self.attends &= matches!(thread::policy_of(0), Some(Policy::Fifo(_)));
        loop {
            // Both before the ring of orders. So a bell in between ends the wait below, and what was ordered before
            // the flag was raised is still carried out.
            let seen = self.ends.bell.count();
            let stopping = self.stop.is_raised();
            let mut prepared = false;
            while let Ok(order) = self.ends.orders.pop() {
                self.heart.working();
                match order {
                    IntakeOrder::Prepare {
                        request,
                        task,
                        payload,
                    } => {
                        self.prepare(request, task, payload);
                        prepared = true;
                    }
                    IntakeOrder::Retire => self.retire(),
                }
            }
            if stopping {
                return self;
            }
            self.heart.waiting();
            if prepared && self.attends {
                self.attend_the_scheduler();
            }
            self.ends.bell.wait(seen, None);
        }
    }

    /// The stage ends soon: until then this core does not fall asleep, and its worker need not wake it.
    fn attend_the_scheduler(&self) {
        let limit_ns = clock::now_ns() + LOOK_NS;
        self.ends.scheduler_bell.attend(|| {
            std::hint::spin_loop();
            clock::now_ns() >= limit_ns
        });
    }

    fn prepare(&mut self, request: RequestId, task: TaskId, payload: Payload) {
        let started = clock::now_ns();
        let ready = self.convert(request.buffer, task, payload);
        if ready == Err(Failure::Payload) {
            emit(RtEvent::PayloadFault {
                client: self.ends.client,
                slot: payload.slot,
            });
        }
        self.answer(Prepared {
            request,
            measured: Nanos::new(clock::now_ns() - started),
            ready: ready.map(|_| ()),
        });
        // Behind the answer: no frame waits for its own picture.
        if let Ok(crop) = ready {
            self.record(payload, crop);
        }
    }

    /// Records the crop, which was copied, or the frame that it is of.
    fn record(&mut self, payload: Payload, crop: CropRows) {
        let (Some(pictures), Some(reader)) = (&mut self.pictures, &self.reader) else {
            return;
        };
        // Its crops are parts of a frame that is recorded.
        if payload.size.is_some() {
            return;
        }
        let whole = || CropRows::whole(&FrameLayout::from(*reader.frame()));
        let rows = pictures.of_frames.then(whole).transpose();
        let Ok(of_frame) = rows else {
            return;
        };
        let subject = Subject {
            task: payload.task,
            ticket: Ticket {
                client: self.ends.client,
                slot: payload.slot,
                part: 0,
                sequence: payload.sequence,
            },
            captured: Instant::from_nanos(payload.captured_ns),
            rows: of_frame.unwrap_or(crop),
        };
        pictures.write(subject, clock::now_ns(), |copy| match of_frame {
            Some(rows) => read_rows(reader, payload, &rows, copy).is_ok(),
            None => {
                copy.copy_from_slice(&self.copy[..copy.len()]);
                true
            }
        });
    }

    /// [`Failure::Payload`] when the payload cannot be read (a fault of the client) or the buffer is unavailable (a
    /// fault of the daemon), [`Failure::Device`] when the GPU does not prepare it or may still write to the buffer, [`Failure::Vector`] for a number out of range, [`Failure::NotFinite`] for a tensor with
    /// such a value: the request fails in any case. Otherwise what was prepared.
    fn convert(
        &mut self,
        buffer: u16,
        task: TaskId,
        payload: Payload,
    ) -> Result<CropRows, Failure> {
        self.welcome();
        let reader = self.reader.as_ref().ok_or(Failure::Payload)?;
        let found = self.targets.binary_search_by_key(&task, |it| it.task);
        let target = &self.targets[found.map_err(|_| Failure::Payload)?];
        let preprocessor = &mut self.preprocessors[target.preprocessor];
        let crop = payload.size.unwrap_or(preprocessor.crop_max());
        preprocessor.cut(crop).map_err(|_| Failure::Payload)?;
        // Where the client has its rows; the copy is packed, and the same wherever they lay.
        let layout = FrameLayout::from(*reader.frame());
        let crop = preprocessor
            .crop_rows_in(&layout, payload.crop_x, payload.crop_y)
            .map_err(|_| Failure::Payload)?;
        reader
            .read_vectors(payload.slot, payload.sequence, &mut self.numbers)
            .map_err(|_| Failure::Payload)?;
        if !are_in_range(&self.numbers, &target.vectors) {
            return Err(Failure::Vector);
        }
        let claimed = target.buffers.claim(buffer, target.model);
        let mut writer = claimed.map_err(|refused| match refused {
            ClaimError::Withheld(_) => Failure::Device,
            _ => Failure::Payload,
        })?;
        let mut numbers = &*self.numbers;
        for at in 0..target.vectors.len() {
            let vector = writer.vector(at);
            let (own, rest) = numbers.split_at(vector.len());
            vector.copy_from_slice(own);
            numbers = rest;
        }
        let source = Source {
            reader,
            payload,
            rows: crop,
            // What is recorded is what the network saw, which the client may have changed by then.
            in_place: self.pictures.is_none() && reader.lies_in_memory(payload.slot),
            copy: &mut self.copy,
            metrics: &self.metrics,
        };
        match target.work.zip(self.frames.as_deref()) {
            Some((work, frames)) => source.by_gpu(frames, work, &mut writer)?,
            None => source.by_core(preprocessor, &mut writer)?,
        }
        Ok(crop)
    }

    /// Takes over the reader of a client that came since.
    fn welcome(&mut self) {
        if self.reader.is_none() {
            self.reader = self.ends.newcomers.pop().ok();
        }
    }

    fn retire(&mut self) {
        // A client that is gone before its first order has its reader still in the ring.
        self.welcome();
        if let Some(reader) = self.reader.take() {
            self.ends
                .returned
                .push(reader)
                .expect("housekeeping takes a reader back before it gives the next");
            self.housekeeping.wake();
        }
    }

    fn answer(&mut self, prepared: Prepared) {
        self.ends
            .prepared
            .push(prepared)
            .expect("the ring holds an answer to every order");
        self.ends.scheduler_bell.ring();
    }
}

/// The rows of a frame's crop, and how they are read.
struct Source<'i> {
    reader: &'i PayloadReader,
    payload: Payload,
    rows: CropRows,
    /// Where they lie, instead of from `copy`.
    in_place: bool,
    copy: &'i mut [u8],
    metrics: &'i Metrics,
}

impl Source<'_> {
    fn by_core(
        self,
        preprocessor: &mut Preprocessor,
        input: &mut InputWriter<'_>,
    ) -> Result<(), Failure> {
        let Payload { slot, sequence, .. } = self.payload;
        let layout = input.layout();
        let output = PlanarOutput {
            data: input.pixels(),
            offset: 0,
            row_stride: layout.row_stride,
            plane_stride: layout.plane_stride,
        };
        let (prepared, copied_bytes) = if self.in_place {
            let prepared = self.reader.in_place(slot, sequence, |frame| {
                preprocessor.run_in_place(&self.rows, frame, output)
            });
            (prepared.map_err(|_| Failure::Payload)?, 0)
        } else {
            read_rows(self.reader, self.payload, &self.rows, self.copy)?;
            let prepared = preprocessor.run(&self.rows, self.copy, output);
            (prepared, self.rows.copy_len())
        };
        self.metrics.prepared(self.payload.task, copied_bytes);
        prepared.map_err(|NotFinite| Failure::NotFinite)
    }

    fn by_gpu(
        self,
        frames: &dyn FramePreparer,
        work: usize,
        input: &mut InputWriter<'_>,
    ) -> Result<(), Failure> {
        let Payload { slot, sequence, .. } = self.payload;
        let (prepared, read_bytes) = if self.in_place {
            let prepared = self.reader.in_place(slot, sequence, |frame| {
                frames.prepare(work, &self.rows, frame, input)
            });
            (prepared.map_err(|_| Failure::Payload)?, 0)
        } else {
            read_rows(self.reader, self.payload, &self.rows, self.copy)?;
            let copy = (&*self.copy).into();
            let prepared = frames.prepare(work, &self.rows.in_copy(), copy, input);
            (prepared, self.rows.copy_len())
        };
        let copied_bytes = prepared.map_err(|NotPrepared| Failure::Device)?;
        let task = self.payload.task;
        self.metrics.prepared(task, read_bytes + copied_bytes);
        self.metrics.prepared_by_gpu(task);
        Ok(())
    }
}

/// Copies these rows out of the client's slot.
fn read_rows(
    reader: &PayloadReader,
    payload: Payload,
    rows: &CropRows,
    copy: &mut [u8],
) -> Result<(), Failure> {
    for plane in rows.planes() {
        let rows = Rows {
            offset: plane.offset,
            bytes: plane.len,
            stride: plane.stride,
            rows: plane.count,
        };
        let copy = &mut copy[plane.copy_offset..][..plane.len * plane.count];
        reader
            .read(payload.slot, payload.sequence, rows, copy)
            .map_err(|_| Failure::Payload)?;
    }
    Ok(())
}

/// Whether all numbers, of vector after vector, are what the manifest allows; what is no number is not.
fn are_in_range(numbers: &[f32], vectors: &[VectorPlan]) -> bool {
    let mut rest = numbers;
    vectors.iter().all(|vector| {
        let (own, others) = rest.split_at(vector.length as usize);
        rest = others;
        own.iter()
            .all(|number| (vector.low..=vector.high).contains(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_of_their_range_are_found() {
        let vector = |name: &str, length, low, high| VectorPlan {
            name: name.to_owned(),
            length,
            low,
            high,
        };
        let vectors = [vector("speed", 2, -1.0, 30.0), vector("angle", 1, 0.0, 0.5)];
        assert!(are_in_range(&[-1.0, 30.0, 0.5], &vectors));
        assert!(are_in_range(&[], &[]));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.1, 30.1] {
            assert!(!are_in_range(&[0.0, bad, 0.0], &vectors), "{bad}");
        }
        assert!(!are_in_range(&[0.0, 0.0, 0.6], &vectors));
    }
}
