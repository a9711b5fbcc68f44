//! Which piece of the pool is whose.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::ModelId;

use super::{NONE, Shared};

/// Gives pieces to models and takes them back. Pages with the same content are one piece, whoever has
/// them. Kept by the thread that submits.
pub(super) struct Ledger {
    shared: Arc<Shared>,
    contents: Box<[Content]>,
    /// Pieces that nobody has, the next one to give away last.
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Content {
    /// The piece that was given for it, while somebody has it.
    piece: u32,
    /// How many pages of models it is.
    holders: u32,
}

impl Ledger {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let nobodys = Content {
            piece: NONE,
            holders: 0,
        };
        Self {
            contents: vec![nobodys; shared.contents.len()].into(),
            free: (0..shared.pieces as u32).rev().collect(),
            shared,
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Gives `model` pieces for all of its pages.
    ///
    /// # Panics
    /// If there are too few, or the model has them already.
    pub(super) fn give(&mut self, model: ModelId) {
        let model = &self.shared.models[model.index()];
        for (place, &content) in model.pieces.iter().zip(&model.contents) {
            let taken = place.load(Ordering::Relaxed);
            assert_eq!(taken, NONE, "a model is loaded once");
            let content = &mut self.contents[content as usize];
            if content.holders == 0 {
                content.piece = self.free.pop().expect("enough free pieces");
            }
            content.holders += 1;
            // Relaxed: the ring of orders publishes it.
            place.store(content.piece, Ordering::Relaxed);
        }
    }

    /// Takes a model's pieces back. Nobody launches with them any more.
    pub(super) fn take_back(&mut self, model: ModelId) {
        self.shared.table.hide(model.index());
        let model = &self.shared.models[model.index()];
        // Relaxed, both: the keeper may see a model as there that has just gone, and fill its pieces
        // once more; if they are another's by then, the loader fills them for that one afterwards,
        // as it waits for the keeper.
        model.there.store(false, Ordering::Relaxed);
        for (place, &content) in model.pieces.iter().zip(&model.contents) {
            place.store(NONE, Ordering::Relaxed);
            let content = &mut self.contents[content as usize];
            content.holders -= 1;
            if content.holders == 0 {
                // Room for all pieces was made at the start.
                self.free.push(content.piece);
                content.piece = NONE;
            }
        }
    }
}
