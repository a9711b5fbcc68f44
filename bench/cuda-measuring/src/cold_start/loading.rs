//! Weights and code.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cuda_kernels::{Kernel, Module};
use punctual_device_cuda::driver::{CallError, DeviceMemory, Event, MappedMemory, Stream};
use punctual_device_cuda::lower::{Packer, Step};

use super::solutions::{Plan, Solutions};
use super::{ColdStartError, ModuleLoad, Order, Replaced, Shared, now};

/// A launch whose code is there, and whose weights are on their way.
pub(super) struct Ready {
    pub(super) stage: usize,
    pub(super) step: usize,
    pub(super) kernel: &'static Kernel,
    /// After which its weights are there.
    pub(super) after: Option<Event>,
}

pub(super) struct Loading {
    shared: Arc<Shared>,
    order: Order,
    on_device: Arc<DeviceMemory>,
    stream: Stream,
    staging: [(MappedMemory, Event); 2],
    next: usize,
    /// By page: whether it is there or on its way.
    there: Vec<bool>,
    bytes: Vec<u8>,
    solutions: Solutions,
    handed_on: u32,
    is_past_milestone: bool,
    absent: Vec<Module>,
    pub(super) replaced: Vec<Replaced>,
    pub(super) loads: Vec<ModuleLoad>,
}

impl Loading {
    pub(super) fn new(shared: Arc<Shared>, order: Order) -> Result<Self, CallError> {
        let (context, pages) = (&shared.context, &shared.program.pages);
        let page_bytes = pages.page_bytes() as usize;
        let (_, highest) = context.stream_priorities()?;
        let staging = || -> Result<_, CallError> {
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
            order,
            shared,
            solutions: Solutions::default(),
            handed_on: 0,
            is_past_milestone: order == Order::NoMilestone,
            absent: Vec::new(),
            replaced: Vec::new(),
            loads: Vec::new(),
        })
    }

    /// Where pages lie, one behind the other.
    pub(super) fn pages(&self) -> Arc<DeviceMemory> {
        self.on_device.clone()
    }

    /// All launches, each loaded when it is asked for.
    pub(super) fn launches(&mut self) -> impl Iterator<Item = Result<Ready, ColdStartError>> {
        let shared = self.shared.clone();
        let mut next = (0, 0);
        std::iter::from_fn(move || {
            let (stage, step) = next;
            // There is one list, for one image.
            let list = shared.program.stages.get(stage)?.lists.first()?;
            next = if step + 1 < list.steps.len() {
                (stage, step + 1)
            } else {
                (stage + 1, 0)
            };
            let loaded = self.load(&list.steps[step]);
            Some(loaded.map(|(kernel, after)| Ready {
                stage,
                step,
                kernel,
                after,
            }))
        })
    }

    fn load(&mut self, step: &Step) -> Result<(&'static Kernel, Option<Event>), ColdStartError> {
        self.shared.context.bind()?;
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
        let may_replace = self.order != Order::Reactive && self.is_past_milestone()?;
        match self.solutions.plan(wanted, may_replace) {
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

    /// Whether the device has ever done all that was handed on.
    fn is_past_milestone(&mut self) -> Result<bool, CallError> {
        // Relaxed: what is seen late makes the milestone late by a launch.
        let issued = self.shared.issued.load(Ordering::Relaxed);
        if !self.is_past_milestone && issued > 0 && issued == self.handed_on {
            self.is_past_milestone = self.shared.stream.is_idle()?;
        }
        Ok(self.is_past_milestone)
    }

    fn load_module(&mut self, module: Module) -> Result<(), ColdStartError> {
        let from = now();
        self.shared.kernels.load(&self.shared.context, module)?;
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
        let pages = &self.shared.program.pages;
        let packer = Packer::new(self.shared.package.network(), pages);
        packer.pack(page, &mut self.bytes)?;
        let used = pages.used_of(page).unwrap_or(0) as usize;
        let (staging, over) = &mut self.staging[self.next];
        self.next = 1 - self.next;
        // The last copy out of this staging memory may still read it.
        over.synchronize()?;
        staging.write(0, &self.bytes[..used]);
        let to = (&*self.on_device, page * self.bytes.len());
        self.stream.copy_in((staging, 0), to, used)?;
        over.record(&self.stream)?;
        let there = Event::new(&self.shared.context, false)?;
        there.record(&self.stream)?;
        self.there[page] = true;
        Ok(Some(there))
    }

    pub(super) fn load_all_pages(&mut self) -> Result<(), ColdStartError> {
        for page in 0..self.there.len() {
            self.load_page(page)?;
        }
        Ok(())
    }

    /// Waits until all weights are there.
    pub(super) fn synchronize(&self) -> Result<(), CallError> {
        self.stream.synchronize()
    }

    /// Loads the modules that others stood in for.
    pub(super) fn load_what_was_replaced(&mut self) -> Result<(), ColdStartError> {
        self.shared.context.bind()?;
        for module in std::mem::take(&mut self.absent) {
            if !self.solutions.is_loaded(module) {
                self.load_module(module)?;
            }
        }
        Ok(())
    }
}
