//! Which piece of memory holds which page of weights.

use std::sync::atomic::{AtomicU32, Ordering};

/// No piece.
pub const NO_PIECE: u32 = u32::MAX;

/// Gives pieces of a store to models' pages and takes them back. Pages of equal content are one piece,
/// whichever models have them. Kept by the thread that submits; nothing is allocated after it was made.
///
/// What each page is, its *place*, is an atomic that other threads read: the loader, leaders. Stores are
/// relaxed, because the thread that orders a load publishes them with the order.
#[derive(Debug)]
pub struct PageLedger {
    contents: Box<[Content]>,
    /// Free pieces, the next one to give away last.
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Content {
    /// The piece that holds it, while it is in use.
    piece: u32,
    /// How many pages of models it is.
    holders: u32,
}

impl PageLedger {
    /// For `contents` different contents, in a store of `pieces`.
    #[must_use]
    pub fn new(contents: usize, pieces: u32) -> Self {
        let nobodys = Content {
            piece: NO_PIECE,
            holders: 0,
        };
        Self {
            contents: vec![nobodys; contents].into(),
            free: (0..pieces).rev().collect(),
        }
    }

    /// Free pieces.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Gives a model's pages, which contain `contents`, their places.
    ///
    /// # Panics
    /// If there are too few pieces, or the model has its places already.
    pub fn give(&mut self, places: &[AtomicU32], contents: &[u32]) {
        for (place, &content) in places.iter().zip(contents) {
            let taken = place.load(Ordering::Relaxed);
            assert_eq!(taken, NO_PIECE, "a model is loaded once");
            let content = &mut self.contents[content as usize];
            if content.holders == 0 {
                content.piece = self.free.pop().expect("enough free pieces");
            }
            content.holders += 1;
            place.store(content.piece, Ordering::Relaxed);
        }
    }

    /// Takes a model's places back.
    pub fn take_back(&mut self, places: &[AtomicU32], contents: &[u32]) {
        for (place, &content) in places.iter().zip(contents) {
            place.store(NO_PIECE, Ordering::Relaxed);
            let content = &mut self.contents[content as usize];
            content.holders -= 1;
            if content.holders == 0 {
                // Room for all pieces was made at the start.
                self.free.push(content.piece);
                content.piece = NO_PIECE;
            }
        }
    }
}
