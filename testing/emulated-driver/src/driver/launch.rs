//! Launches.
use std::ffi::c_void;
use std::sync::Arc;

use super::context;
use super::descriptor;
use super::fault::Fate;
use super::fragile::{self, Harm};
use super::mask;
use super::objects::{Command, Function, Parameters, Progress, QueuedLaunch, Record};
use super::state::{DRIVER, Device};
use crate::code::{Code, Outcome};
use crate::index::Index;
use punctual_ptx::Kernel;

/// Records that are kept; older ones go.
const RECORDS_MAX: usize = 1 << 16;
/// Blocks in x, and in y and z.
const GRID_MAX: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
/// Threads of a block in x, y and z.
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];

impl Parameters {
    /// # Safety
    /// `from` points to a pointer for each of the kernel's parameters, each to that parameter.
    unsafe fn copy(kernel: &Kernel, from: *const *const c_void) -> Outcome<Self> {
        let mut bytes = vec![0; kernel.parameter_bytes()];
        if !kernel.parameters().is_empty() && from.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for (at, place) in kernel.parameters().iter().enumerate() {
            // SAFETY: the caller's promise: a pointer for each parameter.
            let parameter = unsafe { *from.add(at) };
            if parameter.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the caller's promise: it points to a parameter of this size.
            let parameter = unsafe { std::slice::from_raw_parts(parameter.cast(), place.bytes) };
            bytes[place.offset..place.offset + place.bytes].copy_from_slice(parameter);
        }
        Ok(Self(bytes.into()))
    }
}

impl Device {
    pub(super) fn note(&mut self, launch: u64, progress: Progress) {
        if let Some(record) = self.records.iter_mut().rev().find(|r| r.number == launch) {
            record.progress = progress;
            if progress == Progress::Running {
                record.began = Some(self.begun);
                self.begun += 1;
            }
        }
    }

    fn remember(&mut self, launch: &QueuedLaunch, stream: u64) {
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
        }
        let stream = &self.streams[&stream];
        self.records.push_back(Record {
            number: launch.number,
            kernel: launch.kernel.name().to_owned(),
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            stream: stream.handle(),
            priority: stream.priority,
            sms: launch.sms.clone(),
            blocks: Arc::clone(&launch.blocks),
            began: None,
            progress: Progress::Waiting,
        });
    }
}

fn within(given: Index, limit: [u32; 3]) -> bool {
    let pairs = [given.x, given.y, given.z].into_iter().zip(limit);
    pairs.into_iter().all(|(n, limit)| (1..=limit).contains(&n))
}

fn check(function: &Function, grid: Index, block: Index, shared_bytes: usize) -> Outcome {
    if !within(grid, GRID_MAX) || !within(block, BLOCK_MAX) {
        return Err(Code::INVALID_VALUE);
    }
    let threads = block.volume().unwrap_or(u64::MAX);
    if threads > u64::from(function.kernel.threads_max()) {
        return Err(Code::INVALID_VALUE);
    }
    if shared_bytes > function.dynamic_shared_max {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}

/// Puts a launch into a stream, once there is room for it.
///
/// # Safety
/// `parameters` is as `cuLaunchKernel` wants it.
pub(crate) unsafe fn launch(
    function: usize,
    grid: Index,
    block: Index,
    shared_bytes: usize,
    stream: usize,
    parameters: *const *const c_void,
) -> Outcome {
    let (kernel, number, blocks_per_sm) = context::with(|device| {
        let found = device
            .functions
            .get(&function)
            .ok_or(Code::INVALID_HANDLE)?;
        check(found, grid, block, shared_bytes)?;
        let kernel = Arc::clone(&found.kernel);
        let threads = block.volume().unwrap_or(u64::MAX) as u32;
        let blocks_per_sm = match device.timed {
            Some(_) => found.blocks_per_sm(&device.config, threads, shared_bytes as u32),
            None => 0,
        };
        Ok((kernel, device.stream_number(stream)?, blocks_per_sm))
    })?;
    // SAFETY: the caller's promise.
    let parameters = unsafe { Parameters::copy(&kernel, parameters) }?;
    let described = descriptor::called_back(|| context::with(|device| Ok(device.described())))?;
    let mut launch = Some(Box::new(QueuedLaunch {
        number: 0,
        kernel,
        parameters,
        grid,
        block,
        shared_bytes,
        sms: Vec::new(),
        fate: Fate::Runs,
        log: None,
        arrives_ns: 0,
        blocks_per_sm,
        blocks: Arc::default(),
    }));
    DRIVER.wait_in_context(|device| {
        let Some(stream) = device.streams.get(&number) else {
            return Some(Err(Code::INVALID_HANDLE));
        };
        if stream.launches_waiting >= device.config.queue {
            return None;
        }
        let mut launch = launch.take()?;
        launch.sms = mask::allowed(&device.config, stream, described);
        launch.log.clone_from(&device.config.launch_log);
        launch.number = device.launches;
        let harm = match device.config.fragile {
            Some(seed) => fragile::met(seed, stream.object(), mask::words(&device.config)),
            None => Harm::None,
        };
        launch.fate = match harm {
            Harm::None => device.fates.of(device.launches),
            Harm::Fails => Fate::Fails(Code::ILLEGAL_ADDRESS),
            Harm::Hangs => Fate::Hangs,
            Harm::Dies => std::process::abort(),
        };
        device.launches += 1;
        match &mut device.timed {
            Some(timed) => launch.arrives_ns = timed.arrival(number),
            None => device.remember(&launch, number),
        }
        Some(device.submit(number, Command::Launch(launch)).map(drop))
    })
}
