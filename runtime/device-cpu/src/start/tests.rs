use punctual_conformance::networks;
use punctual_core::StageId;
use punctual_device::pool::{CancelFlag, Outcome};
use punctual_device::{InputBuffers, ModelSpec};
use punctual_kernels::Isa;
use punctual_model::{Calibration, Network, PAGE_FLOATS, Package, SolutionChoice, WeightImage};

use super::*;
use crate::lower::lower;
use crate::shared::team::{self, Leader};
use crate::store::{self, Memory};
use crate::{Evaluator, images};

const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);

/// For requests.
const BUFFERS: usize = 3;

fn step(model: ModelId, stages: u8) -> StartStep {
    StartStep { model, stages }
}

/// Tiles of 4x4 wherever there can be any.
fn tiles(network: &Network) -> Vec<SolutionChoice> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let choice = |operator| SolutionChoice {
        operator,
        batch: 1,
        units: 1,
        solution: "winograd-4x4".to_owned(),
    };
    (0..operators.count() as u32).map(choice).collect()
}

/// A start that goes on only when a test says so.
struct ByHand {
    memory: Memory,
    starter: Starter,
    models: Arc<[LoadedModel]>,
}

impl ByHand {
    /// Of these networks by tiles, some with images of their own.
    fn new(models: &[(&Network, Option<&WeightImage>)], start: Start<'_>) -> Self {
        let isa = Isa::detect();
        let lowered = models.iter().map(|(network, image)| {
            let mut model = lower(isa, network, None).expect("lowers");
            model.choose(&tiles(network));
            let spec = ModelSpec {
                image: *image,
                ..ModelSpec::resident(network, &[1])
            };
            let source = store::source(isa, &model, &spec).expect("packs");
            (model, source)
        });
        let (models, sources): (Vec<_>, Vec<_>) = lowered.unzip();
        let models: Arc<[LoadedModel]> = models.into();
        let buffers = Arc::new(ClaimedRegions::awaited(BUFFERS, 16));
        let reserved = Memory::reserve(&models, sources, 0, &buffers, start);
        let (memory, starter) = reserved.expect("there is memory");
        Self {
            memory,
            starter,
            models,
        }
    }

    fn said(&mut self) -> Vec<Readiness> {
        use punctual_device::weights::WeightStore;
        std::iter::from_fn(|| self.memory.poll_readiness()).collect()
    }

    /// Carries on until something is said, or nothing is left.
    fn next_said(&mut self) -> Vec<Readiness> {
        loop {
            let over = self.starter.piece().expect("sound weights").is_none();
            let said = self.said();
            if over || !said.is_empty() {
                return said;
            }
        }
    }
}

fn at(model: ModelId, stages: u8, as_measured: bool) -> Readiness {
    Readiness {
        model,
        stages,
        as_measured,
        stays_general: false,
    }
}

#[test]
fn stages_that_are_named_first_are_prepared_before_the_rest_is_loaded() {
    use Does::{Load, Prepare};
    let (a, b) = (networks::residual(3), networks::residual(4));
    let steps = [step(A, 1), step(B, 1), step(A, 2)];
    let by_hand = ByHand::new(&[(&a, None), (&b, None)], Start::in_turn(&steps));
    let part = |does, model, stage| Part { does, model, stage };
    let expected = [
        part(Load, A, 0),
        part(Load, B, 0),
        part(Prepare, A, 0),
        part(Prepare, B, 0),
        part(Load, A, 1),
        part(Load, B, 1),
        part(Prepare, A, 1),
        part(Prepare, B, 1),
    ];
    assert_eq!(Vec::from(by_hand.starter.parts), expected);
}

#[test]
fn nothing_is_ready_before_there_is_room_for_requests() {
    let network = networks::residual(3);
    let mut by_hand = ByHand::new(&[(&network, None)], Start::in_turn(&[step(A, 1)]));
    assert_eq!(by_hand.said(), [at(A, 0, false)]);
    for buffer in 0..BUFFERS {
        assert_eq!(by_hand.starter.brought, buffer);
        assert!(by_hand.starter.piece().expect("memory").is_some());
        assert_eq!(by_hand.said(), []);
    }
    assert_eq!(by_hand.next_said(), [at(A, 1, false)]);
}

#[test]
fn a_whole_start_does_everything_and_says_nothing() {
    let network = networks::residual(3);
    let mut by_hand = ByHand::new(&[(&network, None)], Start::Whole);
    by_hand.starter.finish().expect("sound weights");
    assert_eq!(by_hand.said(), []);
    let stages = &by_hand.models[0].stages;
    assert!(stages.iter().all(|stage| stage.prepared.is_set()));
}

#[test]
fn each_stage_is_said_when_it_is_there_and_again_when_it_is_as_measured() {
    let (a, b) = (networks::residual(3), networks::residual(4));
    let pages = |by_hand: &ByHand| {
        let stages = &by_hand.models[0].stages;
        stages
            .iter()
            .map(|stage| stage.weights_end.div_ceil(PAGE_FLOATS))
            .collect::<Vec<_>>()
    };
    let steps = [step(B, 1), step(A, 1)];
    let mut by_hand = ByHand::new(&[(&a, None), (&b, None)], Start::in_turn(&steps));
    assert_eq!(pages(&by_hand), [1, 2], "the test wants a page a stage");
    assert_eq!(by_hand.said(), [at(A, 0, false), at(B, 0, false)]);
    let mut said = Vec::new();
    loop {
        let next = by_hand.next_said();
        if next.is_empty() {
            break;
        }
        said.extend(next);
    }
    let expected = [
        at(B, 1, false),
        at(A, 1, false),
        at(B, 1, true),
        at(A, 1, true),
        at(A, 2, false),
        at(B, 2, false),
        at(A, 2, true),
        at(B, 2, true),
    ];
    assert_eq!(said, expected);
}

/// A team of one on the calling thread, with an image to run on.
struct Alone {
    leader: Leader,
    inputs: InputBuffers,
}

impl Alone {
    fn new(by_hand: &ByHand, image: &[f32]) -> Self {
        let model = &by_hand.models[0];
        let inputs = InputBuffers::new(1, model.request_floats, Box::new([model.input]));
        let mut writer = inputs.claim(0, A).expect("free");
        writer.write_planar(image);
        drop(writer);
        let weights = by_hand.memory.weights();
        let (leader, _) = team::team(1, &by_hand.models, weights, inputs.regions(), 1);
        Self { leader, inputs }
    }

    fn scores(&mut self, by_hand: &ByHand, stage: u8) -> Vec<f32> {
        let claim = by_hand.memory.weights().claim(A).expect("it stays");
        let guard = self.inputs.regions().claim(0).expect("free");
        let (stage, mut members) = (StageId(stage), [guard]);
        let ran = (self.leader).run(A, stage, &claim, &mut members, &CancelFlag::new());
        assert_eq!(ran, Outcome::Done);
        let [member] = &mut members;
        self.leader.scores(A, stage, 0, member).to_vec()
    }
}

#[test]
fn a_stage_answers_by_general_solutions_first_and_then_by_the_chosen_ones() {
    let network = networks::residual(3);
    let image = networks::image(&network, 5);
    let scores_of = |solutions: &[SolutionChoice]| {
        let evaluator = Evaluator::with_mates(Isa::detect(), &network, 1, &[], solutions);
        let mut scores = evaluator.expect("starts").scores(&[&image]);
        scores.remove(0).remove(0)
    };
    let (general, chosen) = (scores_of(&[]), scores_of(&tiles(&network)));
    assert_ne!(general, chosen, "they round differently");

    let mut by_hand = ByHand::new(&[(&network, None)], Start::in_turn(&[step(A, 1)]));
    let mut alone = Alone::new(&by_hand, &image);
    by_hand.said();
    assert_eq!(by_hand.next_said(), [at(A, 1, false)]);
    loop {
        assert_eq!(alone.scores(&by_hand, 0), general, "until all are there");
        by_hand.starter.piece().expect("sound weights");
        if by_hand.said() == [at(A, 1, true)] {
            break;
        }
    }
    assert_eq!(alone.scores(&by_hand, 0), chosen);
}

#[test]
#[should_panic(expected = "weights are missing")]
fn a_stage_whose_weights_are_missing_does_not_run() {
    let network = networks::residual(3);
    let by_hand = ByHand::new(&[(&network, None)], Start::in_turn(&[]));
    let mut alone = Alone::new(&by_hand, &networks::image(&network, 5));
    alone.scores(&by_hand, 0);
}

/// A network's packed weights, of which one bit of the second page was changed in the file.
pub(crate) fn damaged(network: &Network) -> WeightImage {
    let lanes = Isa::detect().lanes() as u8;
    let package = Package::new(network.clone(), Calibration::default()).expect("valid");
    let package = images::add(package, &[lanes]).expect("packs");
    let page = package.images()[0].page(1).expect("sound");
    let start: Vec<u8> = page[..64].iter().flat_map(|f| f.to_le_bytes()).collect();
    let mut bytes = package.encode();
    let mut places = bytes.windows(start.len());
    let place = places.position(|window| *window == start);
    bytes[place.expect("an image lies in the file as it is")] ^= 1;
    let package = Package::decode_unverified(&bytes).expect("its description is sound");
    package.image(lanes).expect("as packed").clone()
}

#[test]
fn a_model_with_a_damaged_page_stays_at_the_stages_before_it_and_others_go_on() {
    let (a, b) = (networks::residual(3), networks::residual(4));
    let image = damaged(&a);
    let mut by_hand = ByHand::new(&[(&a, Some(&image)), (&b, None)], Start::in_turn(&[]));
    let mut failures = Vec::new();
    loop {
        match by_hand.starter.piece() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err((model, error)) => failures.push((model, error.to_string())),
        }
    }
    let [(A, why)] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert!(why.contains("page 1"), "{why}");
    let said = by_hand.said();
    let last = |model| said.iter().rev().find(|said| said.model == model).copied();
    assert_eq!(last(A), Some(at(A, 1, true)));
    assert_eq!(last(B), Some(at(B, 2, true)));

    let mut whole = ByHand::new(&[(&a, Some(&image))], Start::Whole);
    let refused = whole.starter.finish();
    assert!(
        matches!(refused, Err(StartError::Weights { model: A, .. })),
        "{refused:?}"
    );
}
