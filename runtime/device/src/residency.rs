//! Whose weights are on a device: the rules on loads and unloads, the same for every device.
//!
//! Pages are counted here, not assigned: the core counts in the same way, so a device that obeys
//! these rules never runs out where the core thinks that there is room.

use punctual_core::ModelId;

use crate::device::SubmitError;

/// Where a model's weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the device from start to end.
    Pinned,
    /// On the device until they are unloaded.
    Resident,
    /// On their way.
    Loading,
    /// Not on the device.
    Absent,
}

#[derive(Clone, Debug)]
struct Model {
    place: Place,
    /// Pages that its weights fill when it is not pinned.
    pages: u32,
    /// Actions that were taken and whose event has not been polled.
    users: u32,
}

/// Which models of a device are resident, loading or in use. The thread that submits owns it.
#[derive(Clone, Debug)]
pub struct Residency {
    models: Box<[Model]>,
    free: u32,
}

impl Residency {
    /// Models with the pages that each fills, none for pinned ones, in
    /// a cache of `pages`. All of the others are absent.
    #[must_use]
    pub fn new(models: impl Iterator<Item = Option<u32>>, pages: u32) -> Self {
        let model = |paged: Option<u32>| Model {
            place: paged.map_or(Place::Pinned, |_| Place::Absent),
            pages: paged.unwrap_or(0),
            users: 0,
        };
        Self {
            models: models.map(model).collect(),
            free: pages,
        }
    }

    /// Pages of the cache that no model has.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether an action may be submitted that reads `model`'s weights.
    ///
    /// # Errors
    /// [`SubmitError::NotResident`], [`SubmitError::UnknownModel`].
    pub fn check_use(&self, model: ModelId) -> Result<(), SubmitError> {
        match self.of(model)?.place {
            Place::Pinned | Place::Resident => Ok(()),
            Place::Loading | Place::Absent => Err(SubmitError::NotResident(model)),
        }
    }

    /// An action that reads `model`'s weights was taken.
    ///
    /// # Panics
    /// If there is no such model.
    pub fn taken(&mut self, model: ModelId) {
        self.models[model.index()].users += 1;
    }

    /// Such an action is over and its event polled.
    ///
    /// # Panics
    /// If there was none.
    pub fn released(&mut self, model: ModelId) {
        let users = &mut self.models[model.index()].users;
        *users = users.checked_sub(1).expect("an action that was taken");
    }

    /// Begins a load: the pages are the model's from now on.
    ///
    /// # Errors
    /// Those of [`Device::load`](crate::Device::load).
    pub fn load(&mut self, model: ModelId) -> Result<(), SubmitError> {
        let &Model { place, pages, .. } = self.of(model)?;
        match place {
            Place::Pinned => Err(SubmitError::Pinned(model)),
            Place::Resident | Place::Loading => Err(SubmitError::AlreadyLoaded(model)),
            Place::Absent if pages > self.free => Err(SubmitError::NoFreePages {
                model,
                needs: pages,
                free: self.free,
            }),
            Place::Absent => {
                self.free -= pages;
                self.models[model.index()].place = Place::Loading;
                Ok(())
            }
        }
    }

    /// A load is over. One that failed gives its pages back.
    ///
    /// # Panics
    /// If none was under way.
    pub fn loaded(&mut self, model: ModelId, well: bool) {
        let entry = &mut self.models[model.index()];
        assert_eq!(entry.place, Place::Loading, "the end of a load");
        entry.place = if well { Place::Resident } else { Place::Absent };
        if !well {
            self.free += entry.pages;
        }
    }

    /// Gives a model's pages back.
    ///
    /// # Errors
    /// Those of [`Device::unload`](crate::Device::unload).
    pub fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        let entry = self.of(model)?;
        match entry.place {
            Place::Pinned => Err(SubmitError::Pinned(model)),
            Place::Loading | Place::Absent => Err(SubmitError::NotResident(model)),
            Place::Resident if entry.users > 0 => Err(SubmitError::WeightsInUse(model)),
            Place::Resident => {
                self.free += entry.pages;
                self.models[model.index()].place = Place::Absent;
                Ok(())
            }
        }
    }

    fn of(&self, model: ModelId) -> Result<&Model, SubmitError> {
        self.models
            .get(model.index())
            .ok_or(SubmitError::UnknownModel(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ModelId = ModelId(0);
    const B: ModelId = ModelId(1);
    const PINNED: ModelId = ModelId(2);

    fn residency() -> Residency {
        Residency::new([Some(2), Some(3), None].into_iter(), 4)
    }

    #[test]
    fn pages_are_taken_by_a_load_and_come_back_by_an_unload_or_a_failure() {
        let mut ledger = residency();
        ledger.load(A).expect("fits");
        let full = SubmitError::NoFreePages {
            model: B,
            needs: 3,
            free: 2,
        };
        assert_eq!(ledger.load(B), Err(full));
        ledger.loaded(A, true);
        ledger.unload(A).expect("it is not in use");
        ledger.load(B).expect("fits now");
        assert_eq!(ledger.free(), 1);
        ledger.loaded(B, false);
        assert_eq!(ledger.free(), 4);
        assert_eq!(ledger.check_use(B), Err(SubmitError::NotResident(B)));
    }

    #[test]
    fn weights_are_used_between_their_arrival_and_their_end_only() {
        let mut ledger = residency();
        assert_eq!(ledger.check_use(A), Err(SubmitError::NotResident(A)));
        ledger.load(A).expect("fits");
        assert_eq!(ledger.load(A), Err(SubmitError::AlreadyLoaded(A)));
        assert_eq!(ledger.check_use(A), Err(SubmitError::NotResident(A)));
        assert_eq!(ledger.unload(A), Err(SubmitError::NotResident(A)));
        ledger.loaded(A, true);
        assert_eq!(ledger.check_use(A), Ok(()));
        ledger.taken(A);
        assert_eq!(ledger.unload(A), Err(SubmitError::WeightsInUse(A)));
        ledger.released(A);
        assert_eq!(ledger.unload(A), Ok(()));
        assert_eq!(ledger.check_use(A), Err(SubmitError::NotResident(A)));
    }

    #[test]
    fn what_is_there_for_good_is_neither_loaded_nor_unloaded() {
        let mut ledger = residency();
        assert_eq!(ledger.check_use(PINNED), Ok(()));
        assert_eq!(ledger.load(PINNED), Err(SubmitError::Pinned(PINNED)));
        assert_eq!(ledger.unload(PINNED), Err(SubmitError::Pinned(PINNED)));
        let unknown = ModelId(3);
        assert_eq!(
            ledger.load(unknown),
            Err(SubmitError::UnknownModel(unknown))
        );
    }
}
