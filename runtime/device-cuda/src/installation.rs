//! What all partitions of a device share on the GPU. Made at start, and again after a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_device::InputBuffers;
use punctual_device::regions::BufferGuard;

use crate::driver::{Attribute, CallError, Context, DeviceMemory, HostRegistration, Stream};
use crate::kernels::Kernels;

/// Kernels, request slots and inputs.
pub(crate) struct Installation {
    pub(crate) kernels: Kernels,
    pub(crate) slots: RequestSlots,
    pub(crate) inputs: Inputs,
}

/// Device memory for what requests carry from stage to stage: one slot a request buffer.
pub(crate) struct RequestSlots {
    memory: DeviceMemory,
    slot_bytes: u64,
    /// Whether a stage has written to the slot since the device was started or restarted: after a
    /// restart, what requests carried is gone.
    written: Box<[AtomicBool]>,
}

impl RequestSlots {
    pub(crate) fn take(
        context: &Arc<Context>,
        stream: &Stream,
        count: usize,
        slot_bytes: u64,
    ) -> Result<Self, CallError> {
        let slot_bytes = slot_bytes.next_multiple_of(256).max(256);
        let bytes = slot_bytes as usize * count;
        let memory = DeviceMemory::take(context, bytes)?;
        stream.fill_words(&memory, bytes / 4, 0)?;
        Ok(Self {
            memory,
            slot_bytes,
            written: (0..count).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Where the slot of a request buffer lies.
    pub(crate) fn address(&self, buffer: usize) -> u64 {
        self.memory.address() + buffer as u64 * self.slot_bytes
    }

    // Relaxed below: the holder of the buffer's claim alone uses its entry (label CLAIM).

    pub(crate) fn is_written(&self, buffer: usize) -> bool {
        self.written[buffer].load(Ordering::Relaxed)
    }

    pub(crate) fn set_written(&self, buffer: usize) {
        self.written[buffer].store(true, Ordering::Relaxed);
    }
}

/// Prepared inputs as kernels read them.
pub(crate) enum Inputs {
    InPlace(HostRegistration),
    /// In copies on the device, one a request buffer of `floats`: for devices that cannot read memory
    /// which was not taken through CUDA.
    Copied {
        memory: DeviceMemory,
        floats: usize,
    },
}

impl Inputs {
    /// In place if the device's attributes say that it can.
    pub(crate) fn prepare(
        context: &Arc<Context>,
        buffers: &InputBuffers,
    ) -> Result<Self, CallError> {
        let gpu = context.gpu();
        if gpu.can(Attribute::MapsHostMemory)? && gpu.can(Attribute::RegistersHostMemory)? {
            return Ok(Self::InPlace(HostRegistration::new(context, buffers)?));
        }
        let floats = buffers.places().map(|place| place.len()).max().unwrap_or(0);
        let bytes = buffers.places().count() * floats * size_of::<f32>();
        Ok(Self::Copied {
            memory: DeviceMemory::take(context, bytes)?,
            floats,
        })
    }

    /// Where a kernel finds the first float of a request buffer.
    pub(crate) fn address(&self, buffer: usize) -> u64 {
        match self {
            Self::InPlace(registration) => registration.address(buffer),
            Self::Copied { memory, floats } => {
                memory.address() + (buffer * floats * size_of::<f32>()) as u64
            }
        }
    }

    /// Queues copies of the members' inputs, where they are not read in place.
    pub(crate) fn bring(
        &self,
        stream: &Stream,
        members: &mut [BufferGuard<'_>],
    ) -> Result<(), CallError> {
        if let Self::Copied { memory, floats } = self {
            for member in members {
                let to = member.index() * floats * size_of::<f32>();
                stream.copy_floats_in(member.floats(), memory, to)?;
            }
        }
        Ok(())
    }
}
