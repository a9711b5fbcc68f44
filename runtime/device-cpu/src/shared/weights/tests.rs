use punctual_core::ActionId;

use punctual_core::ModelId;
use punctual_model::WeightImage;

use super::*;

/// An image of `pages` pages, the last one a little shorter; page `p` is filled with `values[p]`.
fn image(values: &[f32]) -> WeightImage {
    let floats = values.iter().flat_map(|&value| [value; PAGE]);
    let floats: Vec<f32> = floats.take(values.len() * PAGE - 32).collect();
    WeightImage::new(16, floats.into())
}

const PAGE: usize = punctual_model::PAGE_FLOATS;
const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);

struct Ends {
    weights: Arc<Weights>,
    ledger: Ledger,
    loader: Loader,
}

fn ends(images: &[&[f32]], pages: usize) -> Ends {
    let source = |values: &&[f32]| Source {
        image: image(values),
        paged: true,
    };
    let sources = images.iter().map(source).collect();
    let (weights, ledger, loader) = super::weights(sources, pages).expect("memory");
    Ends {
        weights,
        ledger,
        loader,
    }
}

impl Ends {
    fn load(&mut self, model: ModelId) {
        self.ledger.load(ActionId(7), model);
        while let Some(done) = self.loader.carry_out() {
            done.expect("loads");
        }
        let loaded = self.ledger.poll().expect("one load");
        assert_eq!(loaded.model, model);
        assert!(loaded.took.is_some());
    }

    /// The first float of each page, and the last of all.
    fn values(&self, model: ModelId) -> Vec<f32> {
        let _claim = self.weights.claim(model).expect("it is there");
        let floats = self.weights.models[model.index()].floats;
        // SAFETY: the claim lives as long as the slice.
        let floats = unsafe { self.weights.read(model, 0..floats) };
        let firsts = floats.chunks(PAGE).map(|page| page[0]);
        firsts.chain(floats.last().copied()).collect()
    }
}

#[test]
fn what_was_loaded_is_seen_in_one_piece_wherever_its_pages_lie() {
    let mut ends = ends(&[&[1.0, 2.0], &[3.0], &[4.0, 5.0]], 4);
    ends.load(A);
    ends.load(B);
    assert!(ends.ledger.unload(A));
    // Its pages are the two that A had and one that was never used, in whatever order.
    ends.load(ModelId(2));
    assert_eq!(ends.values(ModelId(2)), [4.0, 5.0, 5.0]);
    assert_eq!(ends.values(B), [3.0, 3.0]);
    assert!(ends.ledger.unload(B));
    ends.load(A);
    assert_eq!(ends.values(A), [1.0, 2.0, 2.0]);
}

#[test]
fn equal_pages_are_held_once_until_the_last_holder_leaves() {
    let mut ends = ends(&[&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0]], 4);
    ends.load(A);
    ends.load(B);
    assert_eq!(ends.ledger.free(), 0);
    assert_eq!(ends.values(B), [1.0, 2.0, 4.0, 4.0]);
    assert!(ends.ledger.unload(A));
    assert_eq!(ends.ledger.free(), 1);
    assert_eq!(ends.values(B), [1.0, 2.0, 4.0, 4.0]);
    ends.load(A);
    assert_eq!(ends.values(A), [1.0, 2.0, 3.0, 3.0]);
    assert!(ends.ledger.unload(B) && ends.ledger.unload(A));
    assert_eq!(ends.ledger.free(), 4);
}

#[test]
fn pages_are_not_taken_from_who_reads_them() {
    let mut ends = ends(&[&[1.0]], 1);
    assert!(ends.weights.claim(A).is_none());
    ends.load(A);
    let first = ends.weights.claim(A).expect("there");
    let second = ends.weights.claim(A).expect("any number may read");
    assert!(!ends.ledger.unload(A));
    drop(first);
    assert!(!ends.ledger.unload(A));
    drop(second);
    assert!(ends.ledger.unload(A));
    assert!(ends.weights.claim(A).is_none());
    assert!(!ends.ledger.unload(A), "once");
}

#[test]
#[should_panic(expected = "are not ready")]
fn weights_that_have_not_come_are_not_given_out() {
    let ends = ends(&[&[1.0]], 1);
    // SAFETY: panics before there is a slice.
    let _ = unsafe { ends.weights.read(A, 0..1) };
}
