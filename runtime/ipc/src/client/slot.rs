//! A slot in the client's hands.

use std::sync::Arc;

use punctual_platform::atomics::Ordering;

use super::error::SubmitError;
use crate::description::Description;
use crate::region::Region;

/// A slot out of the channel's hands: its owner may write the frame while the channel is used for
/// something else, by another thread if need be. Forgotten, it is lost until the channel ends.
#[derive(Debug)]
#[must_use = "submit it or give it back: the channel cannot use it meanwhile"]
pub struct Claim {
    /// The number of the channel that it is of.
    pub(super) channel: u64,
    pub(super) index: u16,
    /// Kept mapped even when the channel is gone.
    pub(super) memory: Region,
    pub(super) start: usize,
    pub(super) bytes: usize,
    /// Where its vectors begin.
    pub(super) vectors: usize,
    /// One bit a vector: whether it was set.
    pub(super) written: u8,
    /// The number of the task that the frame is for; 0: the one that the client asked for.
    pub(super) task: u16,
    pub(super) description: Arc<Description>,
}

/// The stream takes no frames for a task of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream takes no frames for task {name:?}: it is of {count} tasks")]
pub struct NoSuchTask {
    pub name: String,
    /// How many tasks the stream has.
    pub count: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The task has no such vector.
    #[error("there is no vector {name:?}, the task has {known:?}")]
    Unknown { name: String, known: Vec<String> },
    /// Too many numbers, or too few.
    #[error("{found} numbers for vector {name:?}, it has {length}")]
    Length {
        name: String,
        found: usize,
        length: u32,
    },
    /// Infinite, or not a number.
    #[error("number {position} of vector {name:?} is not finite")]
    NotFinite {
        name: String,
        /// Which of its numbers, from 0.
        position: usize,
    },
}

impl Claim {
    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Keeps the slot's memory mapped.
    #[must_use]
    pub fn memory(&self) -> SlotMemory {
        SlotMemory {
            _memory: self.memory.clone(),
        }
    }

    /// Says which task of the stream's the frame is for, where a `[[task]]` of the manifest is for many packages. Otherwise it is
    /// for the one that the client asked for.
    ///
    /// # Errors
    /// If the stream has no such task.
    pub fn set_task(&mut self, name: &str) -> Result<(), NoSuchTask> {
        let tasks = self.description.tasks.as_ref();
        let number = tasks.and_then(|tasks| tasks.number(name));
        let count = self.description.task_count();
        let number = number.filter(|number| *number <= count);
        self.task = number.ok_or_else(|| NoSuchTask {
            name: name.to_owned(),
            count,
        })?;
        Ok(())
    }

    /// As [`set_task`](Self::set_task), by its [number](crate::StreamTasks::number), which spares looking for the name.
    ///
    /// # Errors
    /// As there.
    pub fn set_task_number(&mut self, number: u16) -> Result<(), NoSuchTask> {
        let count = self.description.task_count();
        if number > count {
            let name = number.to_string();
            return Err(NoSuchTask { name, count });
        }
        self.task = number;
        Ok(())
    }

    /// The number of the task that the frame is for; 0: the one that the client asked for.
    #[must_use]
    pub fn task(&self) -> u16 {
        self.task
    }

    /// Writes a vector that goes with the frame, by its name in the manifest. All of the task's must be set before each
    /// submission.
    ///
    /// # Errors
    /// If there is none of this name or length, or a number is not finite. Whether the numbers are within the manifest's
    /// range is the daemon's to check: [`Failure::Vector`](crate::Failure::Vector).
    pub fn set_vector(&mut self, name: &str, values: &[f32]) -> Result<(), VectorError> {
        let vectors = &self.description.vectors;
        let Some(at) = vectors.iter().position(|vector| vector.name == name) else {
            return Err(VectorError::Unknown {
                name: name.to_owned(),
                known: vectors.iter().map(|vector| vector.name.clone()).collect(),
            });
        };
        self.set_vector_at(at, values)
    }

    /// As [`set_vector`](Self::set_vector), by its position in the description.
    ///
    /// # Errors
    /// As there.
    pub fn set_vector_at(&mut self, at: usize, values: &[f32]) -> Result<(), VectorError> {
        let (vectors, place) = (&self.description.vectors, self.description.vector_place(at));
        let (Some(vector), Some(place)) = (vectors.get(at), place) else {
            return Err(VectorError::Unknown {
                name: at.to_string(),
                known: vectors.iter().map(|vector| vector.name.clone()).collect(),
            });
        };
        let name = || vector.name.clone();
        if values.len() != place.len() {
            return Err(VectorError::Length {
                name: name(),
                found: values.len(),
                length: vector.length,
            });
        }
        if let Some(position) = values.iter().position(|value| !value.is_finite()) {
            let name = name();
            return Err(VectorError::NotFinite { name, position });
        }
        for (place, value) in place.zip(values) {
            // Relaxed: published by the submission ring.
            let word = self.memory.word32(self.vectors + 4 * place);
            word.store(value.to_bits(), Ordering::Relaxed);
        }
        self.written |= 1 << at;
        Ok(())
    }

    pub(super) fn check_vectors(&self) -> Result<(), SubmitError> {
        let missing = (0..self.description.vectors.len()).find(|at| self.written & 1 << at == 0);
        match missing {
            Some(at) => Err(SubmitError::VectorNotSet(at as u8)),
            None => Ok(()),
        }
    }

    /// The frame's bytes, laid out as the terms' [`FrameSpec`](crate::FrameSpec) says. What was
    /// there before is an earlier frame.
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        let start = self.memory.span(self.start, self.bytes);
        // SAFETY: in bounds and mapped read-write as long as `memory` lives. The slot is free: the
        // daemon's mapping is read-only and its reading of the last use is over, and the channel
        // makes no second claim of it, so no other code accesses these bytes while self, the only
        // handle, is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes) }
    }

    /// Writes a tensor in the manifest's layout: `[channel][row][column]`.
    ///
    /// # Panics
    /// If the slot is not as long as these values.
    pub fn write_tensor(&mut self, values: &[f32]) {
        let (places, rest) = self.pixels().as_chunks_mut::<4>();
        assert_eq!(
            (places.len(), rest.len()),
            (values.len(), 0),
            "values of a tensor"
        );
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }
}

/// Keeps the memory of a slot mapped, whatever becomes of the slot and its channel: for languages in
/// which a reference to a submitted frame may remain.
#[derive(Clone, Debug)]
pub struct SlotMemory {
    _memory: Region,
}
