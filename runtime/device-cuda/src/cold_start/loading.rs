//! The loading thread: weights and code.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::Instant;
use punctual_cuda_kernels::{Kernel, Module};
use punctual_model::Package;

use super::solutions::{Plan, Solutions};
use super::{
    ColdStartError, FirstAnswer, FirstAnswers, Lowered, ModuleLoad, Order, Progress, Replaced,
    Replacement, now,
};
use crate::driver::{Context, DeviceMemory, Event, MappedMemory, Stream};
use crate::kernels::Kernels;
use crate::lower::{LaunchList, Packer, Pages, Step};

/// A launch whose code is there, and whose weights are on their way.
pub(super) struct Ready {
    pub(super) stage: usize,
    pub(super) classes: Option<u32>,
    pub(super) list: Arc<LaunchList>,
    pub(super) step: usize,
    pub(super) kernel: &'static Kernel,
    /// After which its weights are there.
    pub(super) after: Option<Event>,
}

pub(super) struct Loading {
    context: Arc<Context>,
    package: Arc<Package>,
    pages: Pages,
    on_device: Arc<DeviceMemory>,
    stream: Stream,
    staging: [(MappedMemory, Event); 2],
    next: usize,
    /// By page: whether it is there or on its way.
    there: Vec<bool>,
    bytes: Vec<u8>,
    replacement: Replacement,
    kernels: Arc<Kernels>,
    solutions: Solutions,
    progress: Arc<Progress>,
    launches: Arc<Stream>,
    handed_on: u32,
    milestone: Option<Instant>,
    replaced: Vec<Replaced>,
    absent: Vec<Module>,
    loads: Vec<ModuleLoad>,
}

impl Loading {
    pub(super) fn new(
        context: &Arc<Context>,
        (package, pages): (Arc<Package>, &Pages),
        (order, kernels): (Order, Arc<Kernels>),
        (progress, launches): (Arc<Progress>, Arc<Stream>),
    ) -> Result<Self, ColdStartError> {
        let page_bytes = pages.page_bytes() as usize;
        let (_, highest) = context.stream_priorities()?;
        let staging = || -> Result<_, ColdStartError> {
            let memory = MappedMemory::take(context, page_bytes)?;
            Ok((memory, Event::new(context, false)?))
        };
        Ok(Self {
            on_device: Arc::new(DeviceMemory::take(context, pages.count() * page_bytes)?),
            stream: Stream::new(context, highest)?,
            staging: [staging()?, staging()?],
            next: 0,
            there: vec![false; pages.count()],
            bytes: vec![0; page_bytes],
            pages: pages.clone(),
            package,
            replacement: match order {
                Order::Interleaved(replacement) => replacement,
                Order::OneAfterTheOther | Order::Reactive => Replacement::Never,
            },
            context: context.clone(),
            kernels,
            solutions: Solutions::default(),
            progress,
            launches,
            handed_on: 0,
            milestone: None,
            replaced: Vec::new(),
            absent: Vec::new(),
            loads: Vec::new(),
        })
    }

    /// Where pages lie, one behind the other, and how long each is.
    pub(super) fn pages(&self) -> (Arc<DeviceMemory>, u32) {
        (self.on_device.clone(), self.pages.page_bytes())
    }

    /// Loads for each launch of a stage what it needs and hands it on, as long as it is taken; whether all were.
    pub(super) fn load_stage(
        &mut self,
        stage: Lowered,
        mut hand_on: impl FnMut(Ready) -> bool,
    ) -> Result<bool, ColdStartError> {
        for ready in self.on_demand(stage) {
            if !hand_on(ready?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The launches of a stage, each loaded when it is asked for.
    pub(super) fn on_demand(
        &mut self,
        stage: Lowered,
    ) -> impl Iterator<Item = Result<Ready, ColdStartError>> {
        let classes = stage.program.classes;
        let lists = stage.program.lists.into_iter();
        // There is one, for one image.
        let steps = lists.take(1).map(Arc::new).flat_map(|list| {
            let steps = 0..list.steps.len();
            steps.map(move |step| (list.clone(), step))
        });
        steps.map(move |(list, step)| {
            let (kernel, after) = self.ready(&list.steps[step])?;
            Ok(Ready {
                stage: stage.number,
                classes,
                list,
                step,
                kernel,
                after,
            })
        })
    }

    fn ready(&mut self, step: &Step) -> Result<(&'static Kernel, Option<Event>), ColdStartError> {
        self.context.bind()?;
        let mut after = None;
        for page in step.pages() {
            after = self.load_page(page as usize)?.or(after);
        }
        let kernel = self.kernel(step)?;
        self.handed_on += 1;
        Ok((kernel, after))
    }

    /// The kernel that a launch is to use, loaded.
    fn kernel(&mut self, step: &Step) -> Result<&'static Kernel, ColdStartError> {
        let wanted = step.kernel;
        let past = self.milestone.is_some() || self.reaches_milestone()?;
        match self.solutions.plan(wanted, self.replacement, || past) {
            Plan::Use => Ok(wanted),
            Plan::Load => {
                self.load_module(wanted.module)?;
                Ok(wanted)
            }
            Plan::Replace(used) => {
                self.replaced.push(Replaced {
                    name: step.name.clone(),
                    wanted: wanted.name,
                    used: used.name,
                });
                if !self.absent.contains(&wanted.module) {
                    self.absent.push(wanted.module);
                }
                Ok(used)
            }
        }
    }

    /// Whether everything is lowered and the device has done all that was handed on.
    fn reaches_milestone(&mut self) -> Result<bool, ColdStartError> {
        // Relaxed, both: what is seen late makes the milestone late by a launch.
        let reached = self.progress.all_lowered.load(Ordering::Relaxed)
            && self.progress.issued.load(Ordering::Relaxed) == self.handed_on
            && self.launches.is_idle()?;
        if reached {
            self.milestone = Some(now());
        }
        Ok(reached)
    }

    fn load_module(&mut self, module: Module) -> Result<(), ColdStartError> {
        let from = now();
        self.kernels.load(&self.context, module)?;
        self.solutions.loaded(module);
        let to = now();
        self.loads.push(ModuleLoad { module, from, to });
        Ok(())
    }

    /// Sends a page on its way, unless it is there; the event after which it is.
    fn load_page(&mut self, page: usize) -> Result<Option<Event>, ColdStartError> {
        if self.there[page] {
            return Ok(None);
        }
        let packer = Packer::new(self.package.network(), &self.pages);
        packer.pack(page, &mut self.bytes)?;
        let used = self.pages.used_of(page).unwrap_or(0) as usize;
        let (staging, over) = &mut self.staging[self.next];
        self.next = 1 - self.next;
        // The last copy out of this staging memory may still read it.
        over.synchronize()?;
        staging.write(0, &self.bytes[..used]);
        let to = (&*self.on_device, page * self.bytes.len());
        self.stream.copy_in((staging, 0), to, used)?;
        over.record(&self.stream)?;
        let there = Event::new(&self.context, false)?;
        there.record(&self.stream)?;
        self.there[page] = true;
        Ok(Some(there))
    }

    pub(super) fn load_all_pages(&mut self) -> Result<(), ColdStartError> {
        for page in 0..self.pages.count() {
            self.load_page(page)?;
        }
        Ok(())
    }

    /// Waits until all weights are there.
    pub(super) fn synchronize(&self) -> Result<(), ColdStartError> {
        Ok(self.stream.synchronize()?)
    }

    /// Loads the modules that others stood in for.
    pub(super) fn load_what_was_replaced(&mut self) -> Result<(), ColdStartError> {
        self.context.bind()?;
        for module in std::mem::take(&mut self.absent) {
            if !self.solutions.is_loaded(module) {
                self.load_module(module)?;
            }
        }
        Ok(())
    }

    pub(super) fn answers(
        self,
        lowered: Instant,
        loaded: Instant,
        exits: Vec<FirstAnswer>,
    ) -> FirstAnswers {
        FirstAnswers {
            opened: Instant::ZERO,
            context_ns: 0,
            lowered,
            loaded,
            milestone: self.milestone,
            exits,
            replaced: self.replaced,
            loads: self.loads,
        }
    }
}
