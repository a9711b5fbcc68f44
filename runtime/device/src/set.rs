//! Several devices as one: each model and each partition is on one of them, and only there.
//!
//! Ids are the caller's; each device is started with its own models and partitions only, in the same
//! order, and knows them by its own ids. Request buffers have the same numbers on all. All ring the
//! same doorbell.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId, Readiness};
use punctual_platform::Missing;
use punctual_platform::heartbeat::Pulse;

use crate::device::{Device, SubmitError};
use crate::frames::{FrameWork, FramesRefused, SharedPreparer};
use crate::pool::Leader;
use crate::request_buffers::InputBuffers;
use crate::shell::HostedDevice;
use crate::weights::LoadFailure;

/// The devices that serve one plan.
pub struct DeviceSet<D: ?Sized = dyn HostedDevice + Send> {
    devices: Vec<Box<D>>,
    models: Box<[Route]>,
    /// What the caller calls each device's models.
    names: Box<[Box<[ModelId]>]>,
    /// None: on a device that no model is on, and that is not there.
    partitions: Box<[Option<Route>]>,
    /// Whose event was polled last: the next one's turn comes first, so that none waits behind a busy one.
    polled: usize,
}

/// Where a model or a partition is, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    device: usize,
    local: u16,
}

/// The routes of the caller's ids, in order: those of each device are numbered from 0.
fn routes(devices: usize, homes: impl IntoIterator<Item = Option<usize>>) -> Vec<Option<Route>> {
    let mut next = vec![0; devices];
    let mut route = |device: usize| {
        assert!(
            device < devices,
            "something is on a device that is not there"
        );
        let local = next[device];
        next[device] += 1;
        Route { device, local }
    };
    homes.into_iter().map(|home| home.map(&mut route)).collect()
}

impl<D: Device + ?Sized> DeviceSet<D> {
    /// Devices, and for each model and partition the position of the one that it is on. A partition
    /// may be on none: nothing runs there.
    ///
    /// # Panics
    /// If a position is that of no device.
    #[must_use]
    pub fn new(devices: Vec<Box<D>>, models: &[usize], partitions: &[Option<usize>]) -> Self {
        let names = (0..devices.len()).map(|device| {
            let ids = (0..).map(ModelId).zip(models);
            let there = ids.filter(|&(_, home)| *home == device);
            there.map(|(id, _)| id).collect()
        });
        let names = names.collect();
        let models = routes(devices.len(), models.iter().copied().map(Some));
        Self {
            names,
            models: models.into_iter().flatten().collect(),
            partitions: routes(devices.len(), partitions.iter().copied()).into(),
            polled: devices.len().saturating_sub(1),
            devices,
        }
    }

    fn model(&mut self, model: ModelId) -> Result<(&mut D, ModelId), SubmitError> {
        let route = self.models.get(model.index());
        let &Route { device, local } = route.ok_or(SubmitError::UnknownModel(model))?;
        Ok((&mut *self.devices[device], ModelId(local)))
    }
}

impl DeviceSet {
    /// What runs the stages, for people.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<String> = self.devices.iter().map(|device| device.name()).collect();
        names.join(" and ")
    }

    /// The input areas for a model's requests, and the model's id there; none if there is no such model.
    #[must_use]
    pub fn inputs(&self, model: ModelId) -> Option<(InputBuffers, ModelId)> {
        let route = self.models.get(model.index())?;
        let shell = self.devices[route.device].shell();
        Some((shell.input_buffers(), ModelId(route.local)))
    }

    /// What prepares these frames, which are for networks on one device.
    ///
    /// # Errors
    /// [`FramesRefused`], also when they are of several devices.
    pub fn frame_preparer(&self, works: &[FrameWork]) -> Result<SharedPreparer, FramesRefused> {
        let mut local = Vec::with_capacity(works.len());
        let mut on = None;
        for work in works {
            let (model, partition) = (work.model, work.partition);
            let unknown = FramesRefused::Unknown { model, partition };
            let home = self.models.get(model.index()).copied();
            let units = self.partitions.get(partition.index()).copied().flatten();
            let (Some(home), Some(units)) = (home, units) else {
                return Err(unknown);
            };
            if units.device != home.device || *on.get_or_insert(home.device) != home.device {
                return Err(unknown);
            }
            local.push(FrameWork {
                model: ModelId(home.local),
                partition: PartitionId(units.local),
                ..work.clone()
            });
        }
        let device = on.ok_or(FramesRefused::NoDevice)?;
        self.devices[device].frame_preparer(&local)
    }

    /// The kernel's ids of all threads that run stages.
    pub fn tids(&self) -> impl Iterator<Item = i32> {
        self.devices.iter().flat_map(|device| device.shell().tids())
    }

    /// The pulses of the leaders, by partition, without those that nothing runs on.
    #[must_use]
    pub fn pulses(&self) -> Vec<Arc<dyn Pulse>> {
        let partitions = (0..).map(PartitionId).take(self.partitions.len());
        partitions.filter_map(|id| self.pulse(id)).collect()
    }

    /// The pulse of a partition's leader; none if nothing runs there.
    #[must_use]
    pub fn pulse(&self, partition: PartitionId) -> Option<Arc<dyn Pulse>> {
        let route = (*self.partitions.get(partition.index())?)?;
        let mut pulses = self.devices[route.device].shell().pulses();
        pulses.nth(usize::from(route.local))
    }

    /// The leader of a partition; none if nothing runs there.
    #[must_use]
    pub fn leader(&self, partition: PartitionId) -> Option<Leader> {
        let route = (*self.partitions.get(partition.index())?)?;
        let shell = self.devices[route.device].shell();
        shell.leader(PartitionId(route.local))
    }

    /// What the machine did not grant the threads, with repetitions.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let missing = self
            .devices
            .iter()
            .flat_map(|device| device.shell().missing());
        missing.collect()
    }

    /// Why loads fail from now on, to be asked by an ordinary thread; those of devices without a listener so far.
    #[must_use]
    pub fn load_failures(&mut self) -> LoadFailures {
        let devices = self.devices.iter_mut().zip(&self.names);
        let failures = devices.filter_map(|(device, names)| {
            let failures = device.shell_mut().load_failures()?;
            Some((failures, names.clone()))
        });
        LoadFailures(failures.collect())
    }
}

/// Why weights could not be loaded, device by device, with the ids that the caller gave each one's models.
pub struct LoadFailures(Vec<(Receiver<LoadFailure>, Box<[ModelId]>)>);

impl LoadFailures {
    /// Those since the last time, by the caller's names.
    pub fn since_last(&self) -> impl Iterator<Item = LoadFailure> {
        self.0.iter().flat_map(|(failures, models)| {
            failures.try_iter().map(|failure| LoadFailure {
                model: models[failure.model.index()],
                ..failure
            })
        })
    }
}

impl<D: Device + ?Sized> Device for DeviceSet<D> {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        let (partition, model) = (infer.partition, infer.model);
        let to = self.partitions.get(partition.index());
        let to = *to.ok_or(SubmitError::UnknownPartition(partition))?;
        let home = self.models.get(model.index());
        let home = *home.ok_or(SubmitError::UnknownModel(model))?;
        let Some(to) = to.filter(|to| to.device == home.device) else {
            return Err(SubmitError::OtherDevice { model, partition });
        };
        let infer = Infer {
            partition: PartitionId(to.local),
            model: ModelId(home.local),
            ..infer.clone()
        };
        let submitted = self.devices[home.device].submit(&infer);
        submitted.map_err(|error| error.renamed(model, partition))
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError> {
        let (device, local) = self.model(model)?;
        let loaded = device.load(action, local);
        loaded.map_err(|error| error.of_model(model))
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        let (device, local) = self.model(model)?;
        let unloaded = device.unload(local);
        unloaded.map_err(|error| error.of_model(model))
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        if let Some(&Some(to)) = self.partitions.get(partition.index()) {
            self.devices[to.device].preempt(PartitionId(to.local), action);
        }
    }

    /// Actions have the caller's names on all devices; one event names a model.
    fn poll(&mut self) -> Option<Event> {
        let count = self.devices.len();
        for turn in 1..=count {
            let position = (self.polled + turn) % count;
            if let Some(event) = self.devices[position].poll() {
                self.polled = position;
                return Some(match event {
                    Event::Readiness(of) => Event::Readiness(Readiness {
                        model: self.names[position][of.model.index()],
                        ..of
                    }),
                    event => event,
                });
            }
        }
        None
    }
}
