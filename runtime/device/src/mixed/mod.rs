//! Two devices as one: each model and each partition is on one of them, and only there.
//!
//! Ids are the caller's; each device is started with its own models and partitions only, in the same
//! order, and knows them by its own ids. Request buffers have the same numbers on both. Both ring the
//! same doorbell. Either device may be absent: then this is the other one.

use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId};

use crate::device::{Device, Refusal};

/// One of the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    First,
    /// The second.
    Second,
}

/// Two devices that serve one plan.
pub struct MixedDevice<A, B> {
    first: Option<A>,
    second: Option<B>,
    models: Box<[Home]>,
    partitions: Box<[Home]>,
    /// Whose event was polled last: the other's turn is next, so that none waits behind a busy one.
    polled: Side,
}

/// Where a model or a partition is, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    side: Side,
    local: u16,
}

/// The device of each of the caller's ids, in order: those of one side are numbered from 0.
fn homes(sides: &[Side]) -> Box<[Home]> {
    let (mut first, mut second) = (0, 0);
    let home = |&side: &Side| {
        let next = match side {
            Side::First => &mut first,
            Side::Second => &mut second,
        };
        let local = *next;
        *next += 1;
        Home { side, local }
    };
    sides.iter().map(home).collect()
}

impl<A: Device, B: Device> MixedDevice<A, B> {
    /// Devices that were started with those of `models` and of `partitions` that are theirs. A device
    /// without models may be absent; nothing runs on its partitions then.
    ///
    /// # Panics
    /// If a model is on a device that is not there.
    #[must_use]
    pub fn new(first: Option<A>, second: Option<B>, models: &[Side], partitions: &[Side]) -> Self {
        let there = |side: &Side| match side {
            Side::First => first.is_some(),
            Side::Second => second.is_some(),
        };
        assert!(
            models.iter().all(there),
            "models of a device that is not there"
        );
        Self {
            first,
            second,
            models: homes(models),
            partitions: homes(partitions),
            polled: Side::Second,
        }
    }

    /// The first device.
    pub fn first(&self) -> Option<&A> {
        self.first.as_ref()
    }

    /// The first device, to be asked what changes it.
    pub fn first_mut(&mut self) -> Option<&mut A> {
        self.first.as_mut()
    }

    /// The second device.
    pub fn second(&self) -> Option<&B> {
        self.second.as_ref()
    }

    /// The second device, to be asked what changes it.
    pub fn second_mut(&mut self) -> Option<&mut B> {
        self.second.as_mut()
    }

    /// Where a model is, and its id there; none if there is no such model.
    #[must_use]
    pub fn model(&self, model: ModelId) -> Option<(Side, ModelId)> {
        let home = self.models.get(model.index())?;
        Some((home.side, ModelId(home.local)))
    }

    /// Where a partition is, and its id there; none if there is no such partition.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> Option<(Side, PartitionId)> {
        let home = self.partitions.get(partition.index())?;
        Some((home.side, PartitionId(home.local)))
    }

    /// None if it is absent.
    fn side(&mut self, side: Side) -> Option<&mut dyn Device> {
        match side {
            Side::First => self.first.as_mut().map(|device| device as &mut dyn Device),
            Side::Second => self.second.as_mut().map(|device| device as &mut dyn Device),
        }
    }

    /// The device that a model is on.
    fn of_model(&mut self, side: Side) -> &mut dyn Device {
        self.side(side)
            .expect("`new` checked that each model's device is there")
    }

    fn poll_side(&mut self, side: Side) -> Option<Event> {
        self.side(side)?.poll()
    }
}

impl<A: Device, B: Device> Device for MixedDevice<A, B> {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        let (id, model) = (infer.partition, infer.model);
        let (side, partition) = self.partition(id).ok_or(Refusal::UnknownPartition(id))?;
        let (home, local) = self.model(model).ok_or(Refusal::UnknownModel(model))?;
        if side != home {
            return Err(Refusal::OtherDevice {
                model,
                partition: id,
            });
        }
        let infer = Infer {
            partition,
            model: local,
            ..infer.clone()
        };
        let submitted = self.of_model(side).submit(&infer);
        submitted.map_err(|refusal| refusal.renamed(model, id))
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        let (side, local) = self.model(model).ok_or(Refusal::UnknownModel(model))?;
        let loaded = self.of_model(side).load(action, local);
        loaded.map_err(|refusal| refusal.of_model(model))
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        let (side, local) = self.model(model).ok_or(Refusal::UnknownModel(model))?;
        let unloaded = self.of_model(side).unload(local);
        unloaded.map_err(|refusal| refusal.of_model(model))
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        if let Some((side, local)) = self.partition(partition)
            && let Some(device) = self.side(side)
        {
            device.preempt(local, action);
        }
    }

    /// Actions have the caller's names on both devices, and events name nothing else.
    fn poll(&mut self) -> Option<Event> {
        let turns = match self.polled {
            Side::First => [Side::Second, Side::First],
            Side::Second => [Side::First, Side::Second],
        };
        for side in turns {
            if let Some(event) = self.poll_side(side) {
                self.polled = side;
                return Some(event);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
