//! A stage on the GPU at its batch sizes: what is brought, bound, carried and read.

use std::ops::Range;
use std::sync::Arc;

use ort::session::RunOptions;
use punctual_compile::{batch_to_onnx, tensor_name};
use punctual_device::regions::BufferGuard;
use punctual_device_cuda::driver::{DeviceMemory, MappedMemory, Stream};
use punctual_model::{Network, OutputLayout, TensorId};

use super::brought::BroughtEngines;
use super::execution::{BoundSession, Execution, Placed, QueueError};
use super::options::SessionSetup;
use crate::error::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::results::{Results, is_made_behind};

/// What tensors in device and in page-locked memory begin at a multiple of, in bytes.
const ALIGNMENT: usize = 256;

/// The byte of a partition's page-locked memory with the word that is written when a stage is over.
pub(super) const DONE: usize = 0;

/// What page-locked memory begins with: that word.
const HEAD_BYTES: usize = ALIGNMENT;

const FLOAT: usize = size_of::<f32>();

/// What requests carry over on the device: a slot a request buffer, laid out as the buffer.
pub(super) struct Slots {
    pub(super) memory: DeviceMemory,
    pub(super) bytes: usize,
}

/// What the stages of a partition use, one at a time.
pub(super) struct Room {
    pub(super) workspace: Arc<DeviceMemory>,
    pub(super) staging: MappedMemory,
    pub(super) slots: Arc<Slots>,
    pub(super) stream: Arc<Stream>,
}

/// How much of a partition's memory a stage takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) workspace: usize,
    pub(super) staging: usize,
}

impl Taken {
    #[must_use]
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            workspace: self.workspace.max(other.workspace),
            staging: self.staging.max(other.staging),
        }
    }
}

/// A tensor that the session takes or leaves, its members side by side.
struct Tensor {
    placed: Placed,
    /// Of a member, in bytes.
    bytes: usize,
}

struct Input {
    tensor: Tensor,
    from: Source,
}

/// Where a member's part of an input comes from.
enum Source {
    /// The request buffer, by way of page-locked memory.
    Host { place: Range<usize>, staging: usize },
    /// The request's slot on the device, at this byte.
    Slot(usize),
}

struct Output {
    tensor: Tensor,
    /// The byte of the request's slot where it is carried over.
    slot: Option<usize>,
}

/// What the exit or the tail reads.
struct Read {
    id: TensorId,
    /// In the workspace and in page-locked memory, in bytes.
    offset: usize,
    staging: usize,
    bytes: usize,
}

/// A stage at a batch size, before anything of the device is taken.
pub(super) struct Layout {
    batch: u8,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    read: Vec<Read>,
    pub(super) taken: Taken,
}

/// Which tensors of a network lie in request buffers when a stage begins: inputs, and what reductions on cores left.
pub(super) fn on_host(network: &Network) -> Result<Vec<TensorId>, StartError> {
    let mut there: Vec<TensorId> = network.input_tensors().collect();
    for (stage, parts) in network.stages.iter().enumerate() {
        let file = batch_to_onnx(network, stage, 1)?;
        let reduced = parts.outputs.iter();
        there.extend(reduced.filter(|id| is_made_behind(&file, **id)));
    }
    Ok(there)
}

impl Layout {
    /// Of stage `stage`; `host` as [`on_host`] says. What `results` stages is read.
    pub(super) fn new(
        network: &Network,
        stage: usize,
        batch: u8,
        places: &Places,
        host: &[TensorId],
        results: &mut Results,
    ) -> Result<Self, StartError> {
        let file = batch_to_onnx(network, stage, batch)?;
        let parts = &network.stages[stage];
        let mut taken = Taken {
            workspace: 0,
            staging: HEAD_BYTES,
        };
        let tensor = |id: TensorId, taken: &mut Taken| {
            let shape = network.tensors[id.index()].sides().map(i64::from);
            let [channels, rows, columns] = shape;
            let bytes = shape.iter().product::<i64>() as usize * FLOAT;
            let offset = taken.workspace;
            taken.workspace += (bytes * usize::from(batch)).next_multiple_of(ALIGNMENT);
            let placed = Placed {
                name: tensor_name(id),
                shape: [i64::from(batch), channels, rows, columns],
                offset,
            };
            Tensor { placed, bytes }
        };
        let stage_bytes = |bytes: usize, taken: &mut Taken| {
            let staging = taken.staging;
            taken.staging += (bytes * usize::from(batch)).next_multiple_of(ALIGNMENT);
            staging
        };
        let mut known: Vec<(TensorId, usize, usize)> = Vec::new();
        let mut inputs = Vec::new();
        for &id in &parts.inputs {
            let tensor = tensor(id, &mut taken);
            known.push((id, tensor.placed.offset, tensor.bytes));
            let from = if host.contains(&id) {
                let (place, staging) = (places.of(id), stage_bytes(tensor.bytes, &mut taken));
                Source::Host { place, staging }
            } else {
                Source::Slot(places.of(id).start * FLOAT)
            };
            inputs.push(Input { tensor, from });
        }
        let staged: Vec<TensorId> = results.staged().map(|(id, _)| id).collect();
        let carried = parts.outputs.iter().copied();
        let carried = carried.filter(|id| !is_made_behind(&file, *id));
        let mut outputs: Vec<Output> = Vec::new();
        for id in carried.chain(staged.iter().copied()) {
            if known.iter().any(|(other, ..)| *other == id) {
                continue;
            }
            let tensor = tensor(id, &mut taken);
            known.push((id, tensor.placed.offset, tensor.bytes));
            let is_carried = parts.outputs.contains(&id);
            let slot = is_carried.then(|| places.of(id).start * FLOAT);
            outputs.push(Output { tensor, slot });
        }
        let read = staged.into_iter().map(|id| {
            let known = known.iter().find(|(other, ..)| *other == id);
            let &(_, offset, bytes) = known.expect("an input or an output");
            let staging = stage_bytes(bytes, &mut taken);
            Read {
                id,
                offset,
                staging,
                bytes,
            }
        });
        Ok(Self {
            batch,
            inputs,
            outputs,
            read: read.collect(),
            taken,
        })
    }
}

/// A stage at a batch size, ready to run.
struct Batch {
    session: BoundSession,
    layout: Layout,
}

/// A stage, ready to run.
pub(super) struct BoundStage {
    /// By rising size.
    batches: Vec<Batch>,
    results: Results,
}

/// What sessions of a partition are made with.
pub(super) struct Making<'m> {
    pub(super) library: Library,
    pub(super) execution: &'m dyn Execution,
    pub(super) setup: &'m SessionSetup,
    pub(super) room: &'m Room,
    pub(super) options: &'m RunOptions,
    /// None: the provider makes what it runs of the stages themselves.
    pub(super) brought: Option<&'m BroughtEngines>,
}

/// The results of a stage, all of which come through page-locked memory.
pub(super) fn results(
    network: &Network,
    stage: usize,
    places: &Places,
    batch_max: u8,
    outputs: Option<&OutputLayout>,
) -> Result<Results, StartError> {
    let file = batch_to_onnx(network, stage, batch_max)?;
    let members = usize::from(batch_max);
    Results::new(network, stage, &file, places, members, outputs, |_| false)
}

impl BoundStage {
    /// Makes its sessions and runs each once: what the library chooses by trying it chooses then, and takes its memory.
    pub(super) fn new(
        network: &Network,
        stage: usize,
        layouts: Vec<Layout>,
        results: Results,
        making: &Making<'_>,
    ) -> Result<Self, StartError> {
        let mut batches = Vec::new();
        for layout in layouts {
            let onnx = match making.brought {
                Some(brought) => brought.onnx(network, stage, layout.batch)?,
                None => batch_to_onnx(network, stage, layout.batch)?.onnx,
            };
            let placed = |tensor: &Tensor| Placed {
                name: tensor.placed.name.clone(),
                ..tensor.placed
            };
            let inputs: Vec<Placed> = layout.inputs.iter().map(|i| placed(&i.tensor)).collect();
            let outputs: Vec<Placed> = layout.outputs.iter().map(|o| placed(&o.tensor)).collect();
            let mut session = BoundSession::new(
                making.library,
                &onnx,
                making.execution,
                making.setup,
                &making.room.stream,
                &making.room.workspace,
                [&inputs, &outputs],
            )?;
            session.queue(making.execution, making.options)?;
            making.room.stream.synchronize()?;
            batches.push(Batch { session, layout });
        }
        Ok(Self { batches, results })
    }

    /// Queues all of the stage for these members; afterwards [`finish`](Self::finish) finds its results, once the stream
    /// has come so far.
    ///
    /// # Panics
    /// If there are more members than its largest batch has.
    pub(super) fn queue(
        &mut self,
        room: &mut Room,
        execution: &dyn Execution,
        options: &RunOptions,
        members: &mut [BufferGuard<'_>],
    ) -> Result<(), QueueError> {
        let Batch { session, layout } = batch(&mut self.batches, members.len());
        for input in &layout.inputs {
            bring(input, room, members)?;
        }
        session.queue(execution, options)?;
        for output in &layout.outputs {
            let Some(slot) = output.slot else { continue };
            for (at, member) in members.iter().enumerate() {
                let from = output.tensor.placed.offset + at * output.tensor.bytes;
                let to = member.index() * room.slots.bytes + slot;
                let bytes = output.tensor.bytes;
                room.stream
                    .copy_across(&room.workspace, from, &room.slots.memory, to, bytes)?;
            }
        }
        for read in &layout.read {
            let bytes = members.len() * read.bytes;
            let (from, to) = (&room.workspace, &room.staging);
            room.stream
                .copy_out(from, read.offset, to, read.staging, bytes)?;
        }
        Ok(())
    }

    /// Makes what is made of the results of the stage that was queued last, whose members these are.
    pub(super) fn finish(&mut self, room: &Room, members: &mut [&mut [f32]]) {
        let Batch { layout, .. } = batch(&mut self.batches, members.len());
        for (read, (id, values)) in layout.read.iter().zip(self.results.staged()) {
            debug_assert_eq!(read.id, id, "both by rising number");
            let floats = members.len() * read.bytes / FLOAT;
            room.staging
                .read_floats(read.staging, &mut values[..floats]);
        }
        self.results.reduce(members);
    }

    pub(super) fn results(&self) -> &Results {
        &self.results
    }
}

/// The smallest batch with room for all members.
fn batch(batches: &mut [Batch], members: usize) -> &mut Batch {
    let fits = |batch: &&mut Batch| usize::from(batch.layout.batch) >= members;
    let found = batches.iter_mut().find(fits);
    found.expect("a device is given no more members than it was started for")
}

/// Queues the copies of an input.
fn bring(
    input: &Input,
    room: &mut Room,
    members: &mut [BufferGuard<'_>],
) -> Result<(), QueueError> {
    let (offset, bytes) = (input.tensor.placed.offset, input.tensor.bytes);
    match &input.from {
        Source::Host { place, staging } => {
            for (at, member) in members.iter_mut().enumerate() {
                let values = &member.floats()[place.clone()];
                room.staging.write_floats(staging + at * bytes, values);
            }
            let all = members.len() * bytes;
            let (from, to) = (&room.staging, &room.workspace);
            room.stream.copy_in(from, *staging, to, offset, all)?;
        }
        Source::Slot(slot) => {
            for (at, member) in members.iter().enumerate() {
                let from = member.index() * room.slots.bytes + slot;
                let (slots, to) = (&room.slots.memory, &room.workspace);
                room.stream
                    .copy_across(slots, from, to, offset + at * bytes, bytes)?;
            }
        }
    }
    Ok(())
}
