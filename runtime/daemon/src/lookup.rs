//! Devices other than the processor's own, for manifests that ask for them: looked at before the plan is
//! made, never otherwise. What is wrong with a manifest is for the plan to say.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_device::Provider;
use punctual_device_cuda::CudaProvider;
use punctual_device_ort::gpu::{
    BroughtEngines, BroughtError, EngineProvider, EngineRefusal, GpuEngine,
};
use punctual_device_ort::{Library, LibraryError, OrtProvider, StartError};
use punctual_model::Footprint;
use punctual_plan::{
    DeviceKind, EngineHost, LeaderWait, ModelNeeds, Needs, OrtHost, PackageInput, PlanInputs,
};

use crate::StartupError;
use crate::gpu::{Gpu, GpuError, wait};

#[derive(Default)]
pub struct Found {
    /// None if the plan does not need it.
    pub gpu: Option<Gpu>,
    /// None if the plan does not need it, or cannot have it.
    pub ort: Option<Library>,
    /// Those that the plan needs and can have.
    pub engines: BTreeMap<DeviceKind, EngineProvider>,
}

/// Why an engine on the GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Refusal(#[from] EngineRefusal),
    #[error(transparent)]
    Brought(#[from] BroughtError),
}

/// A network that ONNX Runtime cannot run.
#[derive(Debug, thiserror::Error)]
#[error("package {package:?} cannot be run by ONNX Runtime: {source}")]
pub struct OrtError {
    /// The package, as the manifest names it.
    pub package: String,
    pub source: StartError,
}

/// Looks at the devices that the manifest asks for, and notes what plans need to know of them.
pub fn look(inputs: &mut PlanInputs) -> Result<Found, StartupError> {
    let needs = Needs::of_inputs(inputs);
    let brought = needs.as_ref().ok().and_then(|needs| needs.engines.clone());
    let folder = inputs.manifest_path.parent().unwrap_or(Path::new(""));
    let brought = brought.map(|brought| folder.join(brought));
    let needs = needs.map(|needs| needs.models).unwrap_or_default();
    let on = |device| -> Vec<&ModelNeeds> {
        let needs = needs.iter().filter(|needs| needs.device == device);
        needs.collect()
    };
    let mut looked = Found::default();
    let on_gpu = on(DeviceKind::Cuda);
    let needs_gpu = needs.iter().any(|needs| !needs.device.runs_on_cores());
    if needs_gpu && inputs.board.gpu.is_some() {
        let gpu = Gpu::look()?;
        inputs.host.gpu = Some(gpu.host());
        for device in DeviceKind::ENGINES {
            let by_engine = on(device);
            if !by_engine.is_empty() {
                let wanted = Wanted {
                    device,
                    brought: brought.as_deref(),
                };
                look_at_engine(wanted, &by_engine, &gpu, inputs, &mut looked)?;
            }
        }
        let found = footprints(&gpu.provider(Vec::new()), &on_gpu, &mut inputs.packages);
        found.map_err(|(package, source)| GpuError::Lower { package, source })?;
        looked.gpu = Some(gpu);
    }
    let by_ort = on(DeviceKind::Ort);
    if !by_ort.is_empty() {
        looked.ort = load(inputs);
    }
    if let Some(library) = looked.ort {
        let provider = OrtProvider {
            library,
            cores: Vec::new(),
        };
        let found = footprints(&provider, &by_ort, &mut inputs.packages);
        found.map_err(|(package, source)| OrtError { package, source })?;
    }
    Ok(looked)
}

/// The library that the environment names; why there is none is noted.
fn load(inputs: &mut PlanInputs) -> Option<Library> {
    let library = Library::load(None).map_err(|error| error.to_string());
    inputs.host.ort = library.clone().map(|library| OrtHost {
        library: library.version(),
        machine: punctual_device_ort::machine(library),
        promises: OrtProvider::PROMISES,
    });
    // Locked memory is read in as a whole.
    inputs.host.program_bytes += punctual_device_ort::file_bytes(None);
    library.ok()
}

/// The engine of a kind of device.
#[must_use]
pub const fn engine_of(device: DeviceKind) -> Option<GpuEngine> {
    match device {
        DeviceKind::OrtCuda => Some(GpuEngine::Cuda),
        DeviceKind::OrtTensorrt => Some(GpuEngine::Tensorrt),
        DeviceKind::Cpu | DeviceKind::Cuda | DeviceKind::Ort => None,
    }
}

/// An engine as a manifest wants it.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    pub device: DeviceKind,
    /// The folder of engines that the user has built.
    pub brought: Option<&'w Path>,
}

/// An engine on the GPU that `cuda` describes, by the library that the environment names; none for a device that is no
/// engine.
pub fn engine(
    wanted: Wanted<'_>,
    cuda: CudaProvider,
) -> Option<Result<EngineProvider, EngineError>> {
    let engine = engine_of(wanted.device)?;
    let brought = wanted.brought.filter(|_| engine == GpuEngine::Tensorrt);
    let found = || {
        let library = Library::load(None)?;
        let provider = EngineProvider::new(library, engine, cuda)?;
        Ok(match brought {
            Some(folder) => provider.with_brought(BroughtEngines::read(folder)?),
            None => provider,
        })
    };
    Some(found())
}

/// Notes an engine of the GPU, or why there is none, and what networks take on it.
fn look_at_engine(
    wanted: Wanted<'_>,
    needs: &[&ModelNeeds],
    gpu: &Gpu,
    inputs: &mut PlanInputs,
    looked: &mut Found,
) -> Result<(), OrtError> {
    let waiting = |leaders: LeaderWait| {
        let cuda = CudaProvider {
            wait: wait(leaders),
            ..gpu.provider(Vec::new())
        };
        engine(wanted, cuda)
    };
    let device = wanted.device;
    let (Some(engine), Some(asleep)) = (waiting(LeaderWait::Spin), waiting(LeaderWait::Sleep))
    else {
        return Ok(());
    };
    let engine = engine.and_then(|engine| Ok((engine, asleep?)));
    let host = match &engine {
        Ok((engine, asleep)) => Ok(EngineHost {
            library: engine.library(),
            machine: engine.machine(),
            machine_asleep: asleep.machine(),
            promises: EngineProvider::PROMISES,
        }),
        Err(error) => Err(error.to_string()),
    };
    if let Some(gpu) = &mut inputs.host.gpu {
        gpu.engines.insert(device, host);
    }
    let Ok((engine, _)) = engine else {
        return Ok(());
    };
    inputs.host.program_bytes += punctual_device_ort::file_bytes(engine_of(device));
    let found = footprints(&engine, needs, &mut inputs.packages);
    found.map_err(|(package, source)| OrtError { package, source })?;
    looked.engines.insert(device, engine);
    Ok(())
}

/// Notes what networks take on a device, on the largest of the partitions that need them; an error
/// names the package that the device cannot run.
fn footprints<P: Provider>(
    provider: &P,
    needs: &[&ModelNeeds],
    packages: &mut [PackageInput],
) -> Result<(), (String, P::Error)> {
    for input in packages {
        let Ok(package) = &input.package else {
            continue;
        };
        for needs in needs.iter().filter(|needs| needs.package == input.path) {
            for units in &needs.units {
                let taken = provider.footprint(package.network(), &needs.batches, *units);
                let taken = taken.map_err(|error| (input.path.clone(), error))?;
                let known = input.footprints.entry(needs.device);
                let known = known.or_insert_with(Footprint::default);
                *known = known.max(taken);
            }
        }
    }
    Ok(())
}
