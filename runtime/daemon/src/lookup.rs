//! Devices other than the processor's own, for manifests that ask for them: looked at before the plan is
//! made, never otherwise. What is wrong with a manifest is for the plan to say.

use punctual_device::Provider;
use punctual_device_ort::{Library, OrtProvider, StartError};
use punctual_model::Footprint;
use punctual_plan::{DeviceKind, ModelNeeds, Needs, OrtHost, PackageInput, PlanInputs};

use crate::StartupError;
use crate::gpu::{Gpu, GpuError};

#[derive(Default)]
pub struct Found {
    /// None if the plan does not need it.
    pub gpu: Option<Gpu>,
    /// None if the plan does not need it, or cannot have it.
    pub ort: Option<Library>,
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
    let needs = needs.map(|needs| needs.models).unwrap_or_default();
    let on = |device| -> Vec<&ModelNeeds> {
        let needs = needs.iter().filter(|needs| needs.device == device);
        needs.collect()
    };
    let mut looked = Found::default();
    let on_gpu = on(DeviceKind::Cuda);
    if !on_gpu.is_empty() && inputs.board.gpu.is_some() {
        let gpu = Gpu::look()?;
        inputs.host.gpu = Some(gpu.host());
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
    let file = punctual_device_ort::named().and_then(|path| path.metadata().ok());
    inputs.host.program_bytes += file.map_or(0, |file| file.len());
    library.ok()
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
