//! What a device in virtual time is told: the [`Device`] trait.

use punctual_core::{ActionId, Criticality, Event, Infer, ModelId, Nanos, PartitionId};

use super::link::Order;
use super::{Next, Oracle, Timing, VirtualDevice};
use punctual_device::{Device, SubmitError};

impl<T: Timing, O: Oracle> Device for VirtualDevice<T, O> {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        self.check(infer)?;
        let partition = &mut self.partitions[infer.partition.index()];
        partition.held += 1;
        self.residency.taken(infer.model);
        if partition.running {
            partition.next = Some(Next {
                infer: infer.clone(),
                preempted: false,
            });
        } else {
            self.start(infer.clone());
        }
        Ok(())
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError> {
        self.residency.load(model)?;
        let weights = self.models[model.index()].weights;
        self.link.enqueue(Order {
            action,
            model,
            load: weights.map_or(Nanos::ZERO, |weights| weights.load),
        });
        self.start_transfer();
        Ok(())
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        self.residency.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        let Some(target) = self.partitions.get_mut(partition.index()) else {
            return;
        };
        let stops =
            |infer: &Infer| infer.id == action && infer.criticality == Criticality::BestEffort;
        if let Some(flight) = self.flights.iter_mut().find(|flight| stops(&flight.infer)) {
            // An action that waits for its window stops like one between operators.
            let at = self.now + self.timing.stopping(&target.plan);
            flight.stop(at);
        } else if let Some(next) = target.next.as_mut().filter(|next| stops(&next.infer)) {
            // Reported in its turn, when the one before it ends.
            next.preempted = true;
        }
    }

    fn poll(&mut self) -> Option<Event> {
        let (origin, event) = self.ready.pop_front()?;
        self.forget(origin);
        Some(event)
    }
}

impl<T: Timing, O: Oracle> VirtualDevice<T, O> {
    fn check(&self, infer: &Infer) -> Result<(), SubmitError> {
        let Some(partition) = self.partitions.get(infer.partition.index()) else {
            return Err(SubmitError::UnknownPartition(infer.partition));
        };
        self.catalogue.check(infer)?;
        self.residency.check_use(infer.model)?;
        match partition.held {
            2.. => Err(SubmitError::Busy(infer.partition)),
            _ => Ok(()),
        }
    }
}
