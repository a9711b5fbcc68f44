//! Sessions on a stream and in memory that are ours. All `unsafe` of the crate is here.
#![allow(
    unsafe_code,
    reason = "the library is given the address of a stream and of memory, which it takes on trust"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use ort::AsPointer;
use ort::ep::{ArbitrarilyConfigurableExecutionProvider, CUDA, ExecutionProvider, TensorRT};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{IoBinding, RunOptions, Session};
use ort::value::{DynValue, TensorElementType};
use punctual_device_cuda::driver::{CallError, DeviceMemory, Stream};
use thiserror::Error;

use super::options::{ProviderOptions, SessionSetup};
use crate::library::Library;

/// Why a session did not queue its work.
#[derive(Debug, Error)]
pub enum QueueError {
    #[error(transparent)]
    Library(#[from] ort::Error),
    #[error(transparent)]
    Driver(#[from] CallError),
}

/// Where sessions run: on the GPU ([`OnGpu`]), or, in tests with an emulated driver, on cores.
///
/// # Safety
/// - Tensors of [`memory`](Self::memory) may lie at addresses of [`DeviceMemory`].
/// - A session that was [`prepare`](Self::prepare)d reads and writes bound tensors behind what was queued in the stream before
///   [`queue`](Self::queue), and before what is queued afterwards.
pub unsafe trait Execution: Send + Sync {
    /// Tells a session's builder how it is to run.
    fn prepare(&self, builder: SessionBuilder, setup: &SessionSetup)
    -> ort::Result<SessionBuilder>;

    /// What tensors lie in.
    fn memory(&self) -> ort::Result<MemoryInfo<'static>>;

    /// Has a session's work queued in the stream.
    fn queue(
        &self,
        session: &mut Session,
        binding: &IoBinding,
        options: &RunOptions,
        stream: &Stream,
    ) -> Result<(), QueueError> {
        let _ = stream;
        session.run_binding_with_options(binding, options)?;
        Ok(())
    }
}

/// By the execution providers of a setup, on a GPU.
pub struct OnGpu {
    pub ordinal: u32,
}

// SAFETY: tensors are said to lie on the GPU, as device memory does; providers are told the stream, and run options that
// nothing is synchronised (`leader`), so that their kernels are queued in it like all else.
unsafe impl Execution for OnGpu {
    fn prepare(
        &self,
        mut builder: SessionBuilder,
        setup: &SessionSetup,
    ) -> ort::Result<SessionBuilder> {
        for (key, value) in &setup.entries {
            builder = builder.with_config_entry(key, value)?;
        }
        let stream = setup.stream as usize as *mut ();
        for provider in &setup.providers {
            // SAFETY: `BoundSession` holds the stream, and drops it after the session.
            let dispatch = unsafe {
                if provider.provider == TensorRT::NAME {
                    configured(TensorRT::default(), provider)
                        .with_compute_stream(stream)
                        .build()
                } else {
                    configured(CUDA::default(), provider)
                        .with_compute_stream(stream)
                        .build()
                }
            };
            builder = builder.with_execution_providers([dispatch.error_on_failure()])?;
        }
        Ok(builder)
    }

    fn memory(&self) -> ort::Result<MemoryInfo<'static>> {
        let device = AllocationDevice::CUDA;
        let ordinal = i32::try_from(self.ordinal).unwrap_or(0);
        MemoryInfo::new(device, ordinal, AllocatorType::Device, MemoryType::Default)
    }
}

fn configured<P: ArbitrarilyConfigurableExecutionProvider>(mut of: P, with: &ProviderOptions) -> P {
    for (key, value) in &with.options {
        of = of.with_arbitrary_config(key, value);
    }
    of
}

/// Where a tensor of a session lies.
pub(super) struct Placed {
    pub(super) name: String,
    /// Members, channels, rows, columns.
    pub(super) shape: [i64; 4],
    /// In the memory that it is bound in, in bytes.
    pub(super) offset: usize,
}

/// A session whose inputs and outputs lie in device memory of ours, and which runs on a stream of ours.
pub(super) struct BoundSession {
    // In this order: what is used goes last.
    binding: IoBinding,
    session: Session,
    _memory: Arc<DeviceMemory>,
    stream: Arc<Stream>,
}

impl BoundSession {
    /// A session of the graph of an ONNX file.
    ///
    /// # Panics
    /// If a tensor is not inside `memory`, or `setup` is of another stream.
    pub(super) fn new(
        library: Library,
        onnx: &[u8],
        execution: &dyn Execution,
        setup: &SessionSetup,
        stream: &Arc<Stream>,
        memory: &Arc<DeviceMemory>,
        [inputs, outputs]: [&[Placed]; 2],
    ) -> ort::Result<Self> {
        assert_eq!(setup.stream, stream.as_raw() as u64, "the setup's stream");
        let builder = Session::builder(library.environment)?
            .with_intra_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::All)?;
        let session = execution
            .prepare(builder, setup)?
            .commit_from_memory(onnx)?;
        let info = execution.memory()?;
        let mut binding = session.create_binding()?;
        for input in inputs {
            let value = tensor(&session, &info, memory, input)?;
            binding.bind_input(&input.name, &value)?;
        }
        for output in outputs {
            let value = tensor(&session, &info, memory, output)?;
            binding.bind_output(&output.name, value)?;
        }
        Ok(Self {
            binding,
            session,
            _memory: memory.clone(),
            stream: stream.clone(),
        })
    }

    /// Has its work queued in the stream. The context is current on the calling thread.
    pub(super) fn queue(
        &mut self,
        execution: &dyn Execution,
        options: &RunOptions,
    ) -> Result<(), QueueError> {
        execution.queue(&mut self.session, &self.binding, options, &self.stream)
    }
}

/// A tensor of floats in `memory`, which outlives all that holds the tensor.
fn tensor(
    session: &Session,
    info: &MemoryInfo<'_>,
    memory: &DeviceMemory,
    placed: &Placed,
) -> ort::Result<DynValue> {
    let floats: i64 = placed.shape.iter().product();
    let bytes = floats as usize * size_of::<f32>();
    let end = placed.offset.checked_add(bytes);
    assert!(
        end.is_some_and(|end| end <= memory.bytes()),
        "tensor {} is outside {} bytes of device memory",
        placed.name,
        memory.bytes()
    );
    let address = memory.address() + placed.offset as u64;
    let mut value = std::ptr::null_mut();
    // SAFETY: the shape is read before the call returns; the tensor is inside memory of that kind (the promise of
    // `Execution`), which `BoundSession` holds for longer than the binding that gets the tensor.
    let status = unsafe {
        (ort::api().CreateTensorWithDataAsOrtValue)(
            info.ptr(),
            address as usize as *mut _,
            bytes,
            placed.shape.as_ptr(),
            placed.shape.len(),
            TensorElementType::Float32.into(),
            &raw mut value,
        )
    };
    // SAFETY: the status of a call of the library.
    unsafe { ort::Error::result_from_status(status) }?;
    let value =
        NonNull::new(value).ok_or_else(|| ort::Error::new("a tensor without an address"))?;
    // SAFETY: a tensor without another owner. The library gives its memory to no allocator, as it is ours.
    Ok(unsafe { DynValue::from_ptr(value, Some(session.allocator())) })
}
