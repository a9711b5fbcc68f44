//! A list that is allocated once, at its full size.

use serde::{Deserialize, Serialize};

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};

/// A vector that never grows beyond its first capacity, so that it never allocates later. Each capacity is a sum
/// that the plan fixes. To exceed it is a programmer's error, so it panics.
#[derive(Debug, Serialize, Deserialize)]
pub struct List<T> {
    items: Vec<T>,
    capacity: usize,
}

impl<T> List<T> {
    /// Whether it has the room of another.
    pub const fn fits(&self, other: &Self) -> bool {
        self.capacity == other.capacity && self.items.len() <= self.capacity
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            items: Vec::with_capacity(capacity),
            capacity,
        }
    }

    pub fn push(&mut self, item: T) {
        assert!(
            self.items.len() < self.capacity,
            "a list of {} is full",
            self.capacity
        );
        self.items.push(item);
    }

    pub fn insert(&mut self, at: usize, item: T) {
        assert!(
            self.items.len() < self.capacity,
            "a list of {} is full",
            self.capacity
        );
        self.items.insert(at, item);
    }

    pub fn pop(&mut self) -> Option<T> {
        self.items.pop()
    }

    pub fn remove(&mut self, at: usize) -> T {
        self.items.remove(at)
    }

    /// Removes a range and returns it, in order.
    pub fn drain(&mut self, range: Range<usize>) -> alloc::vec::Drain<'_, T> {
        self.items.drain(range)
    }

    pub fn clear(&mut self) {
        self.items.clear();
    }
}

/// Keeps the capacity, which a vector's own clone would not.
impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> Self {
        let mut items = Vec::with_capacity(self.capacity);
        items.extend_from_slice(&self.items);
        Self {
            items,
            capacity: self.capacity,
        }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}
