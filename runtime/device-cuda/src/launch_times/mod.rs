//! How long each launch of a list takes alone: what kernel padding goes by.

mod direct;

use std::ops::Range;
use std::sync::Arc;

use punctual_core::Nanos;
use punctual_cuda_kernels::params::{Guard, Hold};
use punctual_cuda_kernels::{Arguments, Kernel, kernel};
use punctual_device::ModelSpec;

use crate::StartError;
use crate::driver::{CallError, Context, Event};
use crate::kernel_padding::{LaunchTime, LaunchTimes};
use crate::lower::{LaunchList, Program, Target};
use crate::partition::Partitioner;

pub use direct::Direct;

/// A model whose launches are measured.
#[derive(Clone, Debug)]
pub struct Subject<'m> {
    pub model: usize,
    /// As the device is started with it.
    pub spec: ModelSpec<'m>,
    /// The TPCs of the partition that will run it: its lists depend on how many they are.
    pub tpcs: Range<u16>,
}

/// The host has so long, in nanoseconds, to hand one launch and one event over, before the first launch begins.
const HAND_OVER_NS: u32 = 20_000;

/// Launches are measured on this number of parts of the device: all of it, then an eighth less each time.
const WIDTHS: u16 = 8;
/// A launch that takes at most this number of thousandths of its time on all TPCs counts as equally fast.
const AS_FAST_PERMILLE: u64 = 1_010;

/// Measures every launch of every list of some models on the TPCs `on`, which must be idle, and on fewer of them: each for a full
/// batch, between two driver events, the median of `rounds` runs (at least one). The launches of a list are queued behind
/// a kernel that only takes time, so that they follow each other without waiting for the host.
///
/// `page_bytes` is that of the device that the times are for.
///
/// # Panics
/// If the table of kernels has no `hold`.
pub fn launch_times(
    context: &Arc<Context>,
    partitioner: &Partitioner,
    on: Range<u16>,
    subjects: &[Subject<'_>],
    page_bytes: u32,
    rounds: usize,
) -> Result<LaunchTimes, StartError> {
    let compute_capability = context.gpu().compute_capability()?;
    let mut times = LaunchTimes::on(u32::from(on.end - on.start));
    for subject in subjects {
        let target = Target {
            multiprocessors: partitioner.grant(subject.tpcs.clone())?.sms.count(),
            compute_capability,
            page_bytes,
        };
        let spec = &subject.spec;
        let program = Program::lower(spec.network, spec.batches, &target, spec.solutions)?;
        let stream = partitioner.stream(context, on.clone(), 0)?;
        let direct = Direct::new(stream, spec.network, program)?;
        let mut timed = Timed::new(context, direct)?;
        let all = on.end - on.start;
        let mut found = timed.lists(u32::from(all), rounds)?;
        let mut wider = all;
        for width in widths(all) {
            timed.direct.stream = partitioner.stream(context, on.start..on.start + width, 0)?;
            let narrow = timed.lists(u32::from(width), rounds)?;
            for (list, narrow) in found.iter_mut().zip(narrow) {
                let both = list.launches.iter_mut().zip(narrow.launches);
                both.for_each(|(launch, narrow)| compare(launch, u32::from(wider), narrow));
            }
            wider = width;
        }
        for list in found {
            times.set(subject.model, list.stage, list.batch, list.launches);
        }
    }
    Ok(times)
}

/// Fewer TPCs than all, the most first.
fn widths(all: u16) -> impl Iterator<Item = u16> {
    let mut widths: Vec<u16> = (1..WIDTHS)
        .map(|part| (all * part).div_ceil(WIDTHS))
        .filter(|&width| width < all)
        .collect();
    widths.dedup();
    widths.into_iter().rev()
}

/// A launch takes `narrow` on the next fewer TPCs. Once that is longer, so it is on still fewer, whatever is measured.
fn compare(launch: &mut LaunchTime, wider: u32, narrow: LaunchTime) {
    let limit = launch.time.as_nanos() * AS_FAST_PERMILLE / 1_000;
    if launch.enough == wider && narrow.time.as_nanos() <= limit {
        launch.enough = narrow.enough;
    }
}

/// A stage's launches at one batch size.
struct List {
    stage: usize,
    batch: u8,
    launches: Vec<LaunchTime>,
}

/// A network that has run once, and marks between its launches.
struct Timed {
    direct: Direct,
    /// Takes time, and nothing else.
    hold: &'static Kernel,
    /// One more than the longest list has launches.
    marks: Vec<Event>,
}

impl Timed {
    fn new(context: &Arc<Context>, direct: Direct) -> Result<Self, StartError> {
        let hold = kernel("hold").expect("a kernel of the module `probe`");
        direct.kernels.load(context, hold.module)?;
        let lists = || {
            direct
                .program()
                .stages
                .iter()
                .flat_map(|stage| &stage.lists)
        };
        let longest = lists().map(|list| list.steps.len()).max().unwrap_or(0);
        let marks = (0..=longest).map(|_| Event::new(context, true));
        let marks = marks.collect::<Result<_, CallError>>()?;
        // Code is there from the first run on, and so is what later stages read.
        let members = lists().map(|list| usize::from(list.batch)).max();
        let image = image(direct.program().input_floats());
        direct.bring(&vec![image.as_slice(); members.unwrap_or(0)])?;
        for list in lists() {
            direct.run(&list.steps, usize::from(list.batch))?;
        }
        Ok(Self {
            direct,
            hold,
            marks,
        })
    }

    /// What the launches of all lists take on the stream's TPCs, of which there are `tpcs`.
    fn lists(&self, tpcs: u32, rounds: usize) -> Result<Vec<List>, CallError> {
        let stages = self.direct.program().stages.iter().enumerate();
        let lists = stages.flat_map(|(stage, of)| of.lists.iter().map(move |list| (stage, list)));
        let measured = lists.map(|(stage, list)| {
            let time = |time| LaunchTime { time, enough: tpcs };
            Ok(List {
                stage,
                batch: list.batch,
                launches: self.list(list, rounds)?.into_iter().map(time).collect(),
            })
        });
        measured.collect()
    }

    /// What each launch of a list takes: the median of `rounds`.
    fn list(&self, list: &LaunchList, rounds: usize) -> Result<Vec<Nanos>, CallError> {
        let mut found = vec![Vec::new(); list.steps.len()];
        for _ in 0..rounds.max(1) {
            self.round(list)?;
            for (marks, found) in self.marks.windows(2).zip(&mut found) {
                found.push(marks[1].nanoseconds_since(&marks[0])?);
            }
        }
        Ok(found.into_iter().map(median).collect())
    }

    fn round(&self, list: &LaunchList) -> Result<(), CallError> {
        let stream = &self.direct.stream;
        self.hold(list.steps.len() as u32)?;
        self.marks[0].record(stream)?;
        for (step, mark) in list.steps.iter().zip(&self.marks[1..]) {
            self.direct.launch(step, usize::from(list.batch))?;
            mark.record(stream)?;
        }
        stream.synchronize()
    }

    /// Keeps the stream busy while `launches` launches are queued.
    fn hold(&self, launches: u32) -> Result<(), CallError> {
        let arguments = Arguments::Hold(Hold {
            stay_ns: launches.saturating_mul(HAND_OVER_NS),
            check_ns: 0,
        });
        let Direct {
            kernels, stream, ..
        } = &self.direct;
        // SAFETY: `hold`'s own arguments, which have no addresses.
        unsafe { kernels.launch(stream, self.hold, [1; 3], &Guard::default(), &arguments) }
    }
}

/// An image that is not all alike.
fn image(floats: usize) -> Vec<f32> {
    let float = |at| (at % 255) as f32 / 127.0 - 1.0;
    (0..floats).map(float).collect()
}

fn median(mut durations_ns: Vec<u64>) -> Nanos {
    durations_ns.sort_unstable();
    Nanos::new(durations_ns[durations_ns.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrower_parts_of_the_device_are_an_eighth_less_each_time() {
        let of = |all| widths(all).collect::<Vec<_>>();
        assert_eq!(of(60), [53, 45, 38, 30, 23, 15, 8]);
        assert_eq!(of(8), [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(of(3), [2, 1]);
        assert!(of(1).is_empty());
    }

    #[test]
    fn enough_tpcs_are_the_fewest_before_a_launch_gets_slower() {
        let time = |us, enough| LaunchTime {
            time: Nanos::from_micros(us),
            enough,
        };
        let mut launch = time(100, 8);
        for (wider, us, width) in [(8, 101, 7), (7, 99, 6), (6, 104, 5), (5, 100, 4)] {
            compare(&mut launch, wider, time(us, width));
        }
        assert_eq!(
            launch,
            time(100, 6),
            "a lucky measurement on 4 counts for nothing"
        );
    }
}
