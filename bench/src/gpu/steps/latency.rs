//! What a look at the epoch costs, by where the epoch lies, and what the smallest copy takes.

use punctual_cuda_measuring::launcher::{Launcher, Looks};
use punctual_cuda_measuring::recipe::rates::{self, Size};
use punctual_device_cuda::driver::{Context, DeviceMemory, MappedMemory};
use punctual_device_cuda::queue::FlagPlace;
use punctual_platform::clock;

use super::super::result::{self, StepResult};
use super::super::step::{Session, Step, StepError};

pub struct Latency;

/// No looks, and looks at either place, in turn.
const WAYS: [(&str, Looks); 3] = [
    ("no looks", Looks::Never),
    (
        "a look each tile, epoch in host memory",
        Looks::EachTile(FlagPlace::Host),
    ),
    (
        "a look each tile, epoch in device memory",
        Looks::EachTile(FlagPlace::Device),
    ),
];

impl Step for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "what a look at the epoch adds to a tile of a main loop, and how long a copy of 4 bytes takes"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let context = Context::retain(gpu)?;
        let launcher = Launcher::new(&context)?;
        let (major, _) = gpu.compute_capability()?;
        let loops = rates::looks(session.size(Size::Full, Size::Tiny), major >= 8);
        let prepared = launcher.prepare(&loops.recipe)?;
        let mut durations = WAYS.map(|_| Vec::new());
        // The first round finds cold caches.
        launcher.nanoseconds(&prepared, Looks::Never, 1)?;
        for () in session.rounds(200, 2, 600) {
            for ((_, looks), durations) in WAYS.iter().zip(&mut durations) {
                durations.push(launcher.nanoseconds(&prepared, *looks, 1)?);
            }
        }
        let copies = copies(session, &context, &launcher)?;
        let mut result = StepResult::default();
        let tile_us = durations
            .each_ref()
            .map(|durations| result::Latency::of(durations.clone()).p50_us / loops.amount as f64);
        let copy_us = result::Latency::of(copies.clone()).p50_us;
        result.found = format!(
            "a look adds {:.2} us to a tile of {:.2} us with the epoch in host memory, {:.2} us in device memory; a \
             copy of 4 bytes takes {copy_us:.1} us",
            tile_us[1] - tile_us[0],
            tile_us[0],
            tile_us[2] - tile_us[0],
        );
        for ((name, _), durations) in WAYS.iter().zip(durations) {
            let of = format!("{} tiles of {}, {name}", loops.amount, loops.recipe.name());
            result.nanoseconds(of, durations);
        }
        result.nanoseconds(
            "4 bytes from page-locked memory to the device, as the host sees it",
            copies,
        );
        result.note(
            "A look is begun one tile ahead of its use, so that a tile hides as much of it as it lasts itself: where a look \
             takes longer than a tile, a tile with a look lasts as long as a look takes.",
        );
        Ok(result)
    }
}

fn copies(
    session: &Session<'_>,
    context: &std::sync::Arc<Context>,
    launcher: &Launcher,
) -> Result<Vec<u64>, StepError> {
    let (from, to) = (
        MappedMemory::take(context, 4)?,
        DeviceMemory::take(context, 4)?,
    );
    let stream = launcher.stream();
    let mut durations = Vec::new();
    for () in session.rounds(1000, 3, 900) {
        let start = clock::now_ns();
        stream.copy_in(&from, 0, &to, 0, 4)?;
        stream.synchronize()?;
        durations.push(clock::now_ns() - start);
    }
    Ok(durations)
}
