//! The life of weights on the emulated driver, whose device memory the test can look into.

use std::collections::BTreeMap;
use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_core::{ActionId, ModelId};
use punctual_device::CacheSpec;
use punctual_device::weights::{Loaded, LoaderThread, WeightStore};
use punctual_device_cuda::driver::{Context, Driver};
use punctual_device_cuda::weights::{
    self, Content, LoadError, PageTable, Residents, Source, Weights,
};
use punctual_platform::Doorbell;

const PAGE: u32 = 4096;
const COPY: &str = "cuMemcpyHtoDAsync_v2";

const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);
const PINNED: ModelId = ModelId(2);

/// Pages of a model, by what fills them.
type Fills = &'static [u8];

struct Bench {
    weights: Arc<Weights>,
    residents: Residents,
    loader: LoaderThread,
    table: Arc<PageTable>,
    context: Option<Arc<Context>>,
    bell: Arc<Doorbell>,
    /// Last: everything else is ended before it.
    emulator: Emulator,
}

fn page(fill: u8) -> Box<[u8]> {
    // The last page of a model is shorter than others may be.
    let bytes = (1..PAGE / 4).map(|at| fill ^ at as u8);
    bytes.collect()
}

/// Models of these pages, whose equal ones are one content.
fn sources(models: &[(Fills, bool)]) -> Vec<Source> {
    let mut known: BTreeMap<u8, Arc<Content>> = BTreeMap::new();
    let mut content = |fill: u8| {
        let content = || Arc::new(Content::from(page(fill)));
        known.entry(fill).or_insert_with(content).clone()
    };
    let source = |&(fills, paged): &(Fills, bool)| Source {
        pages: fills.iter().map(|&fill| content(fill)).collect(),
        paged,
    };
    models.iter().map(source).collect()
}

impl Bench {
    /// Two paged models and a pinned one.
    fn new(a: Fills, b: Fills, pinned: Fills, cache_pages: u32) -> Self {
        let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
        let sources = sources(&[(a, true), (b, true), (pinned, false)]);
        let made = weights::make(sources, PAGE, cache_pages);
        let (weights, residents, loader) = made.expect("each fits alone");
        let context = context();
        weights
            .bring_up(&context, |_| true)
            .expect("there is memory");
        let bell = Arc::new(Doorbell::new());
        let cache = CacheSpec {
            pages: cache_pages,
            core: None,
            priority: None,
        };
        let loader = LoaderThread::start(loader, &cache, None, &bell).expect("a thread");
        Self {
            table: weights.table(),
            weights,
            residents,
            loader,
            context: Some(context),
            bell,
            emulator,
        }
    }

    fn ended(&mut self) -> Loaded {
        loop {
            let seen = self.bell.count();
            if let Some(loaded) = self.residents.poll() {
                return loaded;
            }
            self.bell.wait(seen, None);
        }
    }

    /// Loads a model; whether that went well.
    fn load(&mut self, model: ModelId) -> bool {
        let action = ActionId(9);
        self.residents.load(action, model);
        let ended = self.ended();
        assert_eq!((ended.action, ended.model), (action, model));
        ended.took.is_some()
    }

    /// What a model's pages hold on the device; none if one of them is not there.
    fn pages(&self, model: ModelId, count: usize) -> Option<Vec<Vec<u8>>> {
        let read = |number: usize| {
            let address = self.table.address(model.index(), number as u32);
            let len = page(0).len();
            // SAFETY: the emulated device's memory is this process's, and nothing is copied now.
            let bytes = || unsafe { std::slice::from_raw_parts(address as *const u8, len) };
            (address != 0).then(|| bytes().to_vec())
        };
        (0..count).map(read).collect()
    }

    fn assert_there(&self, model: ModelId, fills: Fills) {
        let found = self.pages(model, fills.len()).expect("all pages are there");
        for (found, &fill) in found.iter().zip(fills) {
            assert_eq!(found[..], page(fill)[..], "{model:?}");
        }
    }

    /// As the recovery thread does after a fault.
    fn lose_device(&mut self) {
        self.weights.let_go();
        self.context = None;
    }

    fn restart(&mut self) {
        let context = context();
        self.weights
            .bring_up(&context, |_| true)
            .expect("there is memory");
        self.context = Some(context);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.lose_device();
    }
}

fn context() -> Arc<Context> {
    let driver = Driver::open().expect("the emulated driver");
    let gpu = driver.device(0).expect("a device");
    Context::retain(gpu).expect("a context")
}

#[test]
fn models_take_turns_in_a_cache_and_each_time_hold_what_was_packed() {
    let (a, b, pinned): (Fills, Fills, Fills) = (&[1, 2, 3], &[4, 5], &[6]);
    let mut bench = Bench::new(a, b, pinned, 3);
    bench.assert_there(PINNED, pinned);
    let taken = bench.emulator.calls("cuMemAlloc_v2");
    for _ in 0..3 {
        assert!(bench.load(A));
        bench.assert_there(A, a);
        bench.residents.unload(A);
        assert_eq!(bench.pages(A, 3), None);
        assert!(bench.load(B));
        bench.assert_there(B, b);
        bench.assert_there(PINNED, pinned);
        bench.residents.unload(B);
    }
    assert_eq!(bench.residents.free_pages(), 3);
    assert_eq!(bench.emulator.calls("cuMemAlloc_v2"), taken);
}

#[test]
fn equal_pages_are_held_once_and_stay_as_long_as_somebody_has_them() {
    let mut bench = Bench::new(&[1, 2, 3], &[1, 2, 4], &[1], 6);
    let copies = |bench: &Bench| bench.emulator.calls(COPY);
    assert_eq!(copies(&bench), 1);
    assert!(bench.load(A));
    assert_eq!((copies(&bench), bench.residents.free_pages()), (3, 4));
    assert!(bench.load(B));
    assert_eq!((copies(&bench), bench.residents.free_pages()), (4, 3));
    bench.residents.unload(A);
    assert_eq!(bench.residents.free_pages(), 4);
    bench.assert_there(B, &[1, 2, 4]);
    bench.assert_there(PINNED, &[1]);
}

#[test]
fn a_load_that_fails_gives_its_pages_back_and_says_why() {
    let mut bench = Bench::new(&[1, 2, 3], &[4, 5], &[6], 3);
    let failures = bench.loader.failures().expect("they are not taken yet");
    bench.emulator.fail_call(COPY, 1, 1);
    assert!(!bench.load(A));
    let failure = failures.recv().expect("the loader complains");
    assert_eq!(failure.model, A);
    let reason = failure.reason.downcast_ref();
    assert!(matches!(reason, Some(LoadError::Driver(_))), "{failure:?}");
    assert_eq!(bench.pages(A, 3), None);
    assert_eq!(bench.residents.free_pages(), 3);
    assert!(bench.load(A));
    bench.assert_there(A, &[1, 2, 3]);
}

#[test]
fn after_a_restart_is_there_what_was_there_and_loads_meanwhile_fail() {
    let (a, b, pinned): (Fills, Fills, Fills) = (&[1, 2], &[3], &[4, 5]);
    let mut bench = Bench::new(a, b, pinned, 3);
    assert!(bench.load(A));
    bench.lose_device();
    assert_eq!((bench.pages(A, 2), bench.pages(PINNED, 2)), (None, None));
    let failures = bench.loader.failures().expect("they are not taken yet");
    assert!(!bench.load(B));
    let failure = failures.recv().expect("the loader complains");
    assert_eq!(failure.model, B);
    assert_eq!(failure.reason.downcast_ref(), Some(&LoadError::Down));
    bench.restart();
    bench.assert_there(A, a);
    bench.assert_there(PINNED, pinned);
    assert_eq!(bench.pages(B, 1), None);
    assert!(bench.load(B));
    bench.assert_there(B, b);
    // What is unloaded while the device is away does not come back.
    bench.lose_device();
    bench.residents.unload(A);
    bench.restart();
    assert_eq!(bench.pages(A, 2), None);
    bench.assert_there(B, b);
}

#[test]
fn a_model_that_does_not_fit_the_cache_alone_is_refused_at_the_start() {
    let made = weights::make(sources(&[(&[1, 2, 3], true)]), PAGE, 2);
    let error = made.err().expect("too large");
    assert_eq!((error.needs, error.pages), (3, 2));
}
