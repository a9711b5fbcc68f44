//! The start of a device: the weights of its pinned models are loaded, and the solutions that were chosen for them are
//! prepared, piece by piece. Either all of it before the device is there, or in turn, on the loader's thread, while
//! stages run that have what they need.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;

use punctual_core::{ModelId, Readiness};
use punctual_device::regions::ClaimedRegions;
use punctual_device::weights::{self, Progress};
use punctual_device::{Start, StartStep};
use punctual_kernels::AlignedBuffer;
use punctual_model::PAGE_BYTES;
use punctual_platform::{Doorbell, allocator};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::StartError;
use crate::model::LoadedModel;
use crate::pace::{Activity, BESIDE_STAGES, Pace};
use crate::shared::weights::{Load, LoadError, Loader, Weights};

/// Carries out a start; and, in between and afterwards, the orders to load paged models.
pub(crate) struct Starter {
    loader: Loader,
    weights: Arc<Weights>,
    models: Arc<[LoadedModel]>,
    /// Of the models that stay.
    loads: Box<[Option<Load>]>,
    /// For requests; those from `brought` on have no memory yet.
    buffers: Arc<ClaimedRegions>,
    brought: usize,
    parts: VecDeque<Part>,
    deriving: Option<Deriving>,
    /// Whether the memory that paged models will need is still to be taken.
    takes: bool,
    told: Option<Told>,
    pace: Pace,
    activity: Arc<Activity>,
}

/// What a start in turn reports.
struct Told {
    ring: Producer<Readiness>,
    /// What was said last of each model.
    last: Box<[Readiness]>,
    /// Whether something was reported without a wake-up.
    news: bool,
}

/// A step of the start, for one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    does: Does,
    model: ModelId,
    stage: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Load the weights that it reads.
    Load,
    /// Derive the weights of the solutions that were chosen for it.
    Prepare,
}

/// Weights that are being derived.
struct Deriving {
    floats: AlignedBuffer,
    /// The next piece.
    piece: usize,
}

impl Starter {
    /// The start of a device with these models, of which those that stay have loads. Nothing is done yet. What a start in
    /// turn says comes out of the ring, once the `buffers` are there.
    pub(crate) fn new(
        loader: Loader,
        weights: &Arc<Weights>,
        models: &Arc<[LoadedModel]>,
        loads: Box<[Option<Load>]>,
        buffers: &Arc<ClaimedRegions>,
        start: Start<'_>,
    ) -> (Self, Option<Consumer<Readiness>>) {
        let (told, heard) = match start {
            Start::Whole => (None, None),
            Start::InTurn { .. } => {
                let (told, heard) = Told::new(models, &loads);
                (Some(told), Some(heard))
            }
        };
        let mut starter = Self {
            loader,
            weights: weights.clone(),
            models: models.clone(),
            parts: parts(start, models, &loads),
            loads,
            buffers: Arc::clone(buffers),
            brought: 0,
            deriving: None,
            takes: true,
            told,
            pace: Pace::new(start.rate().unwrap_or(BESIDE_STAGES)),
            activity: Arc::default(),
        };
        // Requests for paged models wait for nothing that is said here.
        if starter.loads.iter().any(Option::is_none) {
            while starter.bring_buffer().is_some() {}
        }
        starter.pass_what_is_done();
        (starter, heard)
    }

    /// What leaders tell when stages run.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Does everything now.
    pub(crate) fn finish(&mut self) -> Result<(), StartError> {
        self.loader.take_all()?;
        loop {
            match self.piece() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err((model, source)) => return Err(StartError::Weights { model, source }),
            }
        }
    }

    /// Does the next piece: it returns about how many bytes were written. None if nothing is left.
    fn piece(&mut self) -> Result<Option<usize>, (ModelId, LoadError)> {
        if let Some(bytes) = self.bring_buffer() {
            self.pass_what_is_done();
            return Ok(Some(bytes));
        }
        let Some(&part) = self.parts.front() else {
            return self.take_memory();
        };
        let done = match part.does {
            Does::Load => self.load(part.model),
            Does::Prepare => Ok(self.prepare(part)),
        };
        if done.is_err() {
            self.give_up(part.model);
        }
        self.pass_what_is_done();
        done.map(Some).map_err(|error| (part.model, error))
    }

    /// Takes the memory of the next buffer for requests. None if all are there.
    fn bring_buffer(&mut self) -> Option<usize> {
        let next = self.brought;
        (next < self.buffers.count()).then(|| {
            self.buffers.bring(next);
            self.brought += 1;
            self.buffers.region(next).floats() * size_of::<f32>()
        })
    }

    fn load(&mut self, model: ModelId) -> Result<usize, LoadError> {
        let load = self.loads[model.index()].as_ref();
        self.loader
            .load_page(load.expect("models that stay have loads"))?;
        Ok(PAGE_BYTES)
    }

    fn prepare(&mut self, part: Part) -> usize {
        let model = &self.models[part.model.index()];
        let stage = usize::from(part.stage);
        let Some((step, further)) = model.unprepared(stage) else {
            model.stages[stage].prepared.set();
            return 0;
        };
        let derived = &model.derived[further.derived];
        let deriving = self.deriving.get_or_insert_with(|| Deriving {
            floats: allocator::permit(|| AlignedBuffer::zeroed(derived.len())),
            piece: 0,
        });
        let claim = self.weights.claim(part.model);
        let claim = claim.expect("the weights of a model that stays are admitted from the start");
        let packed = &claim.floats()[step.weights.clone()];
        let pieces = further.kernel.pieces();
        (further.kernel).prepare_piece(packed, &mut deriving.floats, deriving.piece);
        deriving.piece += 1;
        if deriving.piece == pieces
            && let Some(Deriving { floats, .. }) = self.deriving.take()
        {
            derived.publish(floats);
            if model.unprepared(stage).is_none() {
                model.stages[stage].prepared.set();
            }
        }
        derived.len() * size_of::<f32>() / pieces
    }

    /// Takes a page's memory for paged models.
    fn take_memory(&mut self) -> Result<Option<usize>, (ModelId, LoadError)> {
        if !self.takes {
            return Ok(None);
        }
        let taken = self.loader.take_one();
        // Also after a failure: loads will fail one by one.
        self.takes = matches!(taken, Ok(true));
        let paged = self.loads.iter().position(Option::is_none);
        let model = ModelId(paged.unwrap_or(0) as u16);
        let taken = taken.map_err(|error| (model, error.into()))?;
        Ok(taken.then_some(PAGE_BYTES))
    }

    /// Goes on to what is not done yet, and says what that comes to: nothing, before there is room for requests.
    fn pass_what_is_done(&mut self) {
        if self.brought < self.buffers.count() {
            return;
        }
        while let Some(&part) = self.parts.front()
            && self.is_done(part)
        {
            self.parts.pop_front();
            let model = &self.models[part.model.index()];
            if part.does == Does::Load && usize::from(part.stage) + 1 == model.stages.len() {
                allocator::permit(|| self.loader.end(part.model));
            }
            self.tell(part.model);
        }
    }

    fn is_done(&self, part: Part) -> bool {
        let stage = &self.models[part.model.index()].stages[usize::from(part.stage)];
        match part.does {
            Does::Load => self.weights.ready(part.model) >= stage.weights_end,
            Does::Prepare => stage.prepared.is_set(),
        }
    }

    /// Nothing more is loaded of a model. What is there stays, and its solutions are still prepared.
    fn give_up(&mut self, model: ModelId) {
        let ready = self.ready_stages(model);
        let stays = |part: &Part| part.does == Does::Prepare && part.stage < ready;
        self.parts.retain(|part| part.model != model || stays(part));
        allocator::permit(|| self.loader.end(model));
    }

    fn ready_stages(&self, model: ModelId) -> u8 {
        let floats = self.weights.ready(model);
        let stages = self.models[model.index()].stages.iter();
        let ready = stages.take_while(|stage| floats >= stage.weights_end);
        ready.count() as u8
    }

    fn tell(&mut self, model: ModelId) {
        let stages = self.ready_stages(model);
        let ready = &self.models[model.index()].stages[..usize::from(stages)];
        let readiness = Readiness {
            model,
            stages,
            as_measured: ready.iter().all(|stage| stage.prepared.is_set()),
            stays_general: false,
        };
        if let Some(told) = &mut self.told {
            told.tell(readiness);
        }
    }
}

impl weights::Loader for Starter {
    type Error = LoadError;

    fn bell(&self) -> &Arc<Doorbell> {
        self.loader.bell()
    }

    fn carry_out_next(&mut self) -> Option<Result<(), (ModelId, LoadError)>> {
        self.loader.carry_out()
    }

    fn carry_on_start(&mut self, now_ns: u64) -> Result<Progress, (ModelId, LoadError)> {
        let has_buffers = self.brought == self.buffers.count();
        if has_buffers && self.parts.is_empty() && !self.takes {
            return Ok(Progress::Over);
        }
        if let Some(until_ns) = self.pace.waits(now_ns, &self.activity) {
            return Ok(Progress::Waits(until_ns));
        }
        let Some(bytes) = self.piece()? else {
            return Ok(Progress::Over);
        };
        self.pace.wrote(now_ns, bytes);
        let news = self.told.as_mut().map(|told| mem::take(&mut told.news));
        Ok(match news {
            Some(true) => Progress::Told,
            _ => Progress::Quiet,
        })
    }
}

impl Told {
    /// That of each model that stays none of it runs has been said.
    fn new(models: &[LoadedModel], loads: &[Option<Load>]) -> (Self, Consumer<Readiness>) {
        // That none runs, that each stage is there, and that it is as measured.
        let most = models.iter().map(|model| 1 + 2 * model.stages.len());
        let (mut ring, heard) = RingBuffer::new(most.sum());
        let last = (0..).map(ModelId).take(models.len());
        let last: Box<[Readiness]> = last
            .map(|model| Readiness {
                model,
                stages: 0,
                as_measured: false,
                stays_general: false,
            })
            .collect();
        for (none, _) in last.iter().zip(loads).filter(|(_, load)| load.is_some()) {
            push(&mut ring, *none);
        }
        let news = false;
        (Self { ring, last, news }, heard)
    }

    fn tell(&mut self, readiness: Readiness) {
        let last = &mut self.last[readiness.model.index()];
        if *last != readiness {
            *last = readiness;
            push(&mut self.ring, readiness);
            self.news = true;
        }
    }
}

fn push(ring: &mut Producer<Readiness>, readiness: Readiness) {
    let pushed = ring.push(readiness);
    assert!(pushed.is_ok(), "the ring holds all that is said of a start");
}

/// What a start does, in order: loads the stages of step after step, and then of all models that stay. Before a step that
/// names a model for the second time since, and at the end, it prepares what it has loaded: so mandatory stages that
/// are named first run as they were measured before the rest is loaded.
fn parts(start: Start<'_>, models: &[LoadedModel], loads: &[Option<Load>]) -> VecDeque<Part> {
    let steps = match start {
        Start::Whole => &[],
        Start::InTurn { steps, .. } => steps,
    };
    let all = (0..models.len() as u16).map(|model| StartStep {
        model: ModelId(model),
        stages: u8::MAX,
    });
    let mut ends = vec![0; models.len()];
    let mut named = BTreeSet::new();
    let (mut parts, mut unprepared) = (VecDeque::new(), VecDeque::new());
    for StartStep { model, stages } in steps.iter().copied().chain(all) {
        let end = &mut ends[model.index()];
        let until = stages.min(models[model.index()].stages.len() as u8);
        if loads[model.index()].is_none() || until <= *end {
            continue;
        }
        if !named.insert(model) {
            parts.append(&mut unprepared);
            named = BTreeSet::from([model]);
        }
        for stage in mem::replace(end, until)..until {
            let part = |does| Part { does, model, stage };
            parts.push_back(part(Does::Load));
            unprepared.push_back(part(Does::Prepare));
        }
    }
    parts.append(&mut unprepared);
    parts
}

#[cfg(test)]
pub(crate) mod tests;
