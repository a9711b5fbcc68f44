//! The device: the contract of [`Device`] on ONNX Runtime's sessions.

use std::sync::Arc;

use ort::session::RunOptions;
use punctual_device::weights::Resident;
use punctual_device::{DeviceSpec, HostedDevice, InputBuffers, PartitionSpec, Shell};
use punctual_platform::Doorbell;

use crate::engine::Sessions;
use crate::error::StartError;
use crate::library::Library;
use crate::places::Places;
use crate::stage::StageSession;
use crate::threads::PinnedThreads;

/// Runs stages as sessions of ONNX Runtime on the machine's cores.
pub struct OrtDevice {
    shell: Shell,
    library: Library,
}

impl OrtDevice {
    /// Makes a session of each stage for each partition and starts the leaders. `report` is rung after each event.
    pub fn start(
        library: Library,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<Self, StartError> {
        spec.validate()?;
        if let Some(paged) = spec.models.iter().find(|model| model.paged) {
            return Err(StartError::Paged(paged.network.name.clone()));
        }
        let places: Vec<Places> = spec
            .models
            .iter()
            .map(|model| Places::new(model.network))
            .collect();
        let floats = places.iter().map(|places| places.floats).max().unwrap_or(0);
        let layouts = places.iter().map(|places| places.input).collect();
        let inputs = InputBuffers::new(spec.request_buffers, floats, layouts);
        let mut shell = Shell::new(spec, inputs, Box::new(Resident), None, report);
        for partition in spec.partitions {
            let sessions = sessions(library, spec, &places, partition)?;
            shell.add_partition(partition, sessions, Vec::new())?;
        }
        Ok(Self { shell, library })
    }
}

impl HostedDevice for OrtDevice {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn name(&self) -> String {
        format!("ort ({})", self.library.version())
    }
}

fn sessions(
    library: Library,
    spec: &DeviceSpec<'_>,
    places: &[Places],
    partition: &PartitionSpec,
) -> Result<Sessions, StartError> {
    let mates = PinnedThreads::new(&partition.name, &partition.cores, partition.priority);
    let models = spec.models.iter().zip(places).map(|(model, places)| {
        let batch_max = model.batches.iter().copied().max().unwrap_or(1);
        (0..model.network.stages.len())
            .map(|stage| {
                let batch_max = usize::from(batch_max);
                StageSession::new(
                    library,
                    model.network,
                    stage,
                    places,
                    batch_max,
                    &mates.again(),
                    model.outputs,
                )
            })
            .collect()
    });
    Ok(Sessions {
        stages: models.collect::<Result<_, StartError>>()?,
        options: Arc::new(RunOptions::new()?),
    })
}
