//! Kernel padding (REEF): best-effort launches on the TPCs that real-time launches leave, by masks.
//!
//! Some partitions *fill*: they have no TPCs of their own, and before each of their launches their leader asks which
//! TPCs it may have, masks its stream to them and launches; if it may have none, it waits and asks again. While
//! real-time launches run, it has one launch at a time, so that what it holds is what it uses; without any it has the whole
//! device, like every other filler. The leaders of all other partitions post each launch before they make it, and confine it
//! to as many TPCs as it needs to be as fast.
//!
//! A mask counts for the launches that follow it; those that are in the driver keep theirs. So a
//! real-time partition's notice covers everything of its that may still run, and only masks of streams will do: a
//! stream of a green context cannot change its TPCs between two launches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libsmctrl_sys::TpcMask;
use punctual_core::{Instant, Nanos};
use punctual_device::PartitionSpec;
use punctual_model::LaunchProfile;
use punctual_platform::Doorbell;
use thiserror::Error;

use crate::counters::Counters;
use crate::driver::{CallError, MaskError};
use crate::occupancy::Occupancy;
use crate::padding::{Demand, InDriver, LaunchBoard, TpcSet};
use crate::partition::{Choice, Division, Partitioner, StreamError};
use crate::queue::{StopFlag, VirtualQueue};

/// Which partitions fill, and what is known of launches.
#[derive(Clone, Debug, Default)]
pub struct KernelPaddingSpec {
    /// Partitions that fill, by their place in `DeviceSpec::partitions`. Their ranges of TPCs say what they
    /// are lowered for; all of the device is usual.
    pub fillers: Vec<usize>,
    pub times: LaunchTimes,
}

/// How long launches take alone on a part of the device. What is not there was not measured: such a launch is not
/// confined, and nothing fills TPCs while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTimes {
    tpcs: u32,
    /// By model, stage and batch size: what each launch of the list takes.
    times: BTreeMap<(usize, usize, u8), Vec<LaunchTime>>,
}

/// What a launch takes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchTime {
    pub time: Nanos,
    /// On how many TPCs it is as fast.
    pub enough: u32,
}

impl LaunchTimes {
    /// For times that are measured on `tpcs` TPCs.
    #[must_use]
    pub fn on(tpcs: u32) -> Self {
        Self {
            tpcs,
            times: BTreeMap::new(),
        }
    }

    /// The times of a list's launches, in its order.
    pub fn set(&mut self, model: usize, stage: usize, batch: u8, times: Vec<LaunchTime>) {
        self.times.insert((model, stage, batch), times);
    }

    /// The times of a list's launches, if they were measured.
    #[must_use]
    pub fn times(&self, model: usize, stage: usize, batch: u8) -> Option<&[LaunchTime]> {
        self.times.get(&(model, stage, batch)).map(Vec::as_slice)
    }

    /// Adds a profile of a model's launches.
    pub fn add(&mut self, model: usize, profile: &LaunchProfile) {
        self.tpcs = profile.on.into();
        let times = profile.ns.iter().zip(&profile.enough);
        let times = times.map(|(&ns, &enough)| LaunchTime {
            time: Nanos::new(ns),
            enough: enough.into(),
        });
        self.set(model, profile.stage.into(), profile.batch, times.collect());
    }

    /// The times of one model, for a profile of a partition of `units` TPCs.
    pub(crate) fn profiles(&self, units: u8) -> impl Iterator<Item = LaunchProfile> {
        let on = u8::try_from(self.tpcs).unwrap_or(u8::MAX);
        self.times
            .iter()
            .map(move |((_, stage, batch), times)| LaunchProfile {
                stage: *stage as u8,
                batch: *batch,
                units,
                on,
                ns: times.iter().map(|launch| launch.time.as_nanos()).collect(),
                enough: times.iter().map(|launch| launch.enough as u8).collect(),
            })
    }

    fn of(&self, model: usize, stage: usize, batch: u8, launch: u32) -> Option<LaunchTime> {
        let times = self.times(model, stage, batch)?;
        times.get(launch as usize).copied()
    }
}

/// Why partitions cannot fill.
#[derive(Debug, Error)]
pub enum KernelPaddingError {
    /// Only masks of streams can be changed from launch to launch.
    #[error(
        "kernel padding on partition {partition} needs a device divided by masks; leave `fillers` \
         empty on this one"
    )]
    NoMasks {
        /// The first that is to fill.
        partition: usize,
    },
    /// A filler runs at the same time as real-time stages: its leader has no time for theirs.
    #[error(
        "partition `{filler}` fills and shares the leader on core {core} with `{other}`: name another leader core for one \
         of them"
    )]
    SharedLeader {
        /// The partition that fills.
        filler: String,
        other: String,
        core: usize,
    },
    #[error("`fillers` names partition {partition}; there are {partitions}")]
    NoSuchPartition { partition: usize, partitions: usize },
    /// The device cannot grant what the real-time partitions ask for.
    #[error(transparent)]
    Division(#[from] StreamError),
}

/// What a partition is in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Posts(usize),
    Fills(usize),
}

/// A filler as others see it.
struct FillerHandle {
    stop: StopFlag,
    bell: Arc<Doorbell>,
    /// Its next launch was not let go at once. Relaxed: its leader's alone.
    waits: AtomicBool,
}

/// Whether the next launch may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// On these TPCs.
    Granted(TpcSet),
    /// The launch before it is not over.
    NotYet,
    /// Others have the TPCs, or REEF's rule is against it.
    Refused,
}

/// Of a device some of whose partitions fill. Shared by all leaders.
pub(crate) struct KernelPadding {
    occupancy: Occupancy,
    /// By partition.
    roles: Box<[Role]>,
    /// By hold.
    fillers: Box<[FillerHandle]>,
    times: LaunchTimes,
    partitioner: Arc<Partitioner>,
    /// The mask that enables each TPC, by its number in plans.
    masks: Box<[TpcMask]>,
}

/// A launch of a list, as its leader is about to make it.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) model: usize,
    pub(crate) stage: usize,
    /// Of the list.
    pub(crate) batch: u8,
    pub(crate) index: u32,
}

/// The mask that enables each TPC.
fn masks(choice: &Choice, tpcs: u16) -> Result<Box<[TpcMask]>, StreamError> {
    let mask = |tpc| Ok(choice.mask(choice.units_of_tpcs(tpc..tpc + 1)?)?);
    (0..tpcs).map(mask).collect()
}

/// That each filler has a leader of its own.
fn check_leaders(fillers: &[usize], specs: &[PartitionSpec]) -> Result<(), KernelPaddingError> {
    for &at in fillers {
        let filler = &specs[at];
        let mut others = specs.iter().enumerate();
        let shared = others.find(|&(i, other)| i != at && filler.shares_leader_with(other));
        if let Some((_, other)) = shared {
            return Err(KernelPaddingError::SharedLeader {
                filler: filler.name.clone(),
                other: other.name.clone(),
                core: filler.cores[0],
            });
        }
    }
    Ok(())
}

impl KernelPadding {
    /// None if no partition fills. `partners` are each partition's flag and bell.
    pub(crate) fn prepare(
        spec: &KernelPaddingSpec,
        division: &Division,
        specs: &[PartitionSpec],
        partners: &[(StopFlag, Arc<Doorbell>)],
    ) -> Result<Option<Arc<Self>>, KernelPaddingError> {
        let (partitions, fillers) = (partners.len(), &spec.fillers);
        let Some(&partition) = fillers.first() else {
            return Ok(None);
        };
        if let Some(&partition) = fillers.iter().find(|&&filler| filler >= partitions) {
            return Err(KernelPaddingError::NoSuchPartition {
                partition,
                partitions,
            });
        }
        check_leaders(fillers, specs)?;
        let Division::Tpcs {
            partitioner,
            ranges,
        } = division
        else {
            return Err(KernelPaddingError::NoMasks { partition });
        };
        if partitioner.masking().is_none() {
            return Err(KernelPaddingError::NoMasks { partition });
        }
        let choice = partitioner.choice();
        let tpcs = choice.tpcs().min(128);
        let masks = masks(choice, tpcs)?;
        let (mut roles, mut posts, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for (partition, (stop, bell)) in partners.iter().enumerate() {
            if fillers.contains(&partition) {
                roles.push(Role::Fills(handles.len()));
                let (stop, bell) = (stop.clone(), bell.clone());
                handles.push(FillerHandle {
                    stop,
                    bell,
                    waits: AtomicBool::new(false),
                });
            } else {
                roles.push(Role::Posts(posts.len()));
                let set = ranges[partition].clone().filter(|&tpc| tpc < tpcs);
                posts.push(set.fold(0, |set, tpc| set | 1 << tpc));
            }
        }
        let all = (0..tpcs).fold(0, |set, tpc| set | 1 << tpc);
        Ok(Some(Arc::new(Self {
            occupancy: Occupancy::new(LaunchBoard::new(all, &posts), handles.len()),
            roles: roles.into(),
            fillers: handles.into(),
            times: spec.times.clone(),
            partitioner: partitioner.clone(),
            masks,
        })))
    }

    /// What a launch takes, if it was measured: for a full batch, which is a bound for one with fewer images.
    fn demand(&self, planned: &Planned) -> Option<Demand> {
        let (model, stage) = (planned.model, planned.stage);
        let launch = self.times.of(model, stage, planned.batch, planned.index)?;
        Some(Demand {
            time: launch.time,
            enough: launch.enough.max(1),
        })
    }

    /// Keeps the launches that follow to some TPCs.
    fn confine(&self, queue: &mut VirtualQueue, tpcs: TpcSet) -> Result<(), MaskError> {
        let enabled = self.masks.iter().enumerate();
        let enabled = enabled.filter(|(tpc, _)| tpcs >> tpc & 1 == 1);
        let bits = enabled.fold(0, |bits, (_, mask)| bits | mask.enabled_bits());
        match self.partitioner.masking() {
            Some(masking) => masking.mask(queue.stream_mut(), TpcMask::from_enabled_bits(bits)),
            None => Ok(()),
        }
    }

    /// Before a partition's leader hands a launch over: whether it may, now. Then its stream is masked.
    pub(crate) fn leave_to_launch(
        &self,
        partition: usize,
        queue: &mut VirtualQueue,
        in_driver: &mut InDriver,
        planned: &Planned,
        now: Instant,
        counters: &Counters,
    ) -> Result<Leave, CallError> {
        let demand = self.demand(planned);
        let leave = match self.roles[partition] {
            Role::Posts(notice) => {
                in_driver.note_begun(queue.begun());
                let (demand, at) = (demand.as_ref(), planned.index);
                let call_off = |filler| self.call_off(filler, counters);
                let occupancy = &self.occupancy;
                Leave::Granted(occupancy.post(notice, demand, at, in_driver, now, call_off))
            }
            Role::Fills(filler) => self.take(filler, queue, demand.as_ref(), now, counters)?,
        };
        if let Leave::Granted(tpcs) = leave {
            // Every such mask could be written when the device was started.
            let masked = self.confine(queue, tpcs);
            masked.map_err(|_| CallError::not_masked())?;
        }
        Ok(leave)
    }

    /// While a real-time partition has nothing to hand over: calls off the fillers that stay longer than they should.
    pub(crate) fn look_again(
        &self,
        partition: usize,
        queue: &VirtualQueue,
        in_driver: &mut InDriver,
        now: Instant,
        counters: &Counters,
    ) {
        if matches!(self.roles[partition], Role::Posts(_)) {
            in_driver.note_begun(queue.begun());
            let call_off = |filler| self.call_off(filler, counters);
            self.occupancy.call_off(in_driver, now, call_off);
        }
    }

    /// TPCs for a filler's launch. Without real-time work they are all, and launches queue up as everywhere else. While
    /// such work runs it is one launch at a time: what the one before it held is free again.
    fn take(
        &self,
        filler: usize,
        queue: &VirtualQueue,
        demand: Option<&Demand>,
        now: Instant,
        counters: &Counters,
    ) -> Result<Leave, CallError> {
        let waits = &self.fillers[filler].waits;
        let tpcs = match self.occupancy.take_all(filler) {
            Some(all) => Some(all),
            None if !queue.is_idle()? => return Ok(Leave::NotYet),
            None => {
                self.occupancy.give_back(filler);
                self.occupancy.take(filler, demand, now)
            }
        };
        let Some(tpcs) = tpcs else {
            // Once for each wait, however often the leader asks.
            if !waits.swap(true, Ordering::Relaxed) {
                counters.fillers_waited.add(1);
            }
            return Ok(Leave::Refused);
        };
        waits.store(false, Ordering::Relaxed);
        counters.filled.add(1);
        Ok(Leave::Granted(tpcs))
    }

    /// Has a filler make room.
    fn call_off(&self, filler: usize, counters: &Counters) {
        counters.fillers_called_off.add(1);
        self.fillers[filler].stop.stop();
        self.fillers[filler].bell.ring();
    }

    /// Whether a filler's launch is to make room for a real-time one.
    pub(crate) fn is_unwelcome(&self, partition: usize) -> bool {
        match self.roles[partition] {
            Role::Posts(_) => false,
            Role::Fills(filler) => self.occupancy.is_unwelcome(filler),
        }
    }

    /// Nothing of the partition is in the driver.
    pub(crate) fn leave(&self, partition: usize) {
        match self.roles[partition] {
            Role::Posts(notice) => self.occupancy.take_down(notice),
            Role::Fills(filler) => self.occupancy.give_back(filler),
        }
    }
}
