//! How fast a page of weights reaches the device: what `LOAD` cannot be faster than.

use punctual_device_cuda::driver::{Context, DeviceMemory, MappedMemory, Stream};
use punctual_platform::clock;

use super::super::result::{Latency, Sheet, StepResult};
use super::super::step::{Session, Step, StepError};
use super::locking;

pub struct Memory;

const MIB: usize = 1 << 20;

impl Step for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "how long a page of weights takes to the device, by its size; what locked memory costs beside the driver"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let context = Context::retain(session.gpu()?)?;
        let stream = Stream::new(&context, 0)?;
        let title = "Copies of a page from page-locked memory, start to end as the host sees it";
        let mut sheet = Sheet::of_latencies(title, &["page"], &["GB/s at p50"]);
        let sizes: &[usize] = session.size(&[MIB / 4, 2 * MIB, 16 * MIB], &[MIB / 4]);
        for (index, &bytes) in sizes.iter().enumerate() {
            let permille = 1000 / (sizes.len() - index) as u64;
            let latency = copies(session, &context, &stream, bytes, permille)?;
            let rate = bytes as f64 / latency.p50_us / 1e3;
            let page = format!("{} KiB", bytes / 1024);
            sheet.latency([page], &latency, [format!("{rate:.2}")]);
        }
        let mut result = StepResult::default();
        result.tables.push(sheet);
        result.tables.push(locking::sheet(session)?);
        result.note(
            "A driver reserves far more address space than it uses; locking counts all of it and keeps none of it resident that is \
             not there.",
        );
        Ok(result)
    }
}

fn copies(
    session: &Session<'_>,
    context: &std::sync::Arc<Context>,
    stream: &Stream,
    bytes: usize,
    permille: u64,
) -> Result<Latency, StepError> {
    let from = MappedMemory::take(context, bytes)?;
    let to = DeviceMemory::take(context, bytes)?;
    let mut durations = Vec::new();
    for () in session.rounds(1000, 5, permille) {
        let start = clock::now_ns();
        stream.copy_in(&from, 0, &to, 0, bytes)?;
        stream.synchronize()?;
        durations.push(clock::now_ns() - start);
    }
    Ok(Latency::of(durations))
}
