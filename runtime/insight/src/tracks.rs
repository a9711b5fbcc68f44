//! The tracks of a trace: which there are, in which order, and what they are called.

use std::collections::BTreeMap;
use std::io::{self, Write};

use punctual_core::{ClientId, Instant, PartitionId, TaskId};
use punctual_recording::Names;

use crate::lanes::Lanes;
use crate::perfetto::{Happening, ROOT, TrackId, Unit, Writer};

/// Something that happens along the time of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Track {
    Scheduler,
    /// A group of tracks.
    Group(Group),
    Partition(PartitionId),
    /// Transfers of models' weights.
    Weights,
    Task(TaskId),
    Client(ClientId),
    /// The thread that prepares the frames of a client.
    Intake(ClientId),
    /// The thread that takes a client's submissions and sends it records.
    Port(ClientId),
    OpenFrames,
    /// The part of the time in which a partition runs stages.
    Load(PartitionId),
    /// From the answers to a task's frames to their deadlines.
    Slack(TaskId),
}

/// Where a track stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: Option<Group>,
    rank: usize,
}

/// In the order in which they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Tasks,
    Partitions,
    Clients,
    Threads,
    Counters,
}

impl Group {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tasks => "Tasks",
            Self::Partitions => "Partitions",
            Self::Clients => "Clients",
            Self::Threads => "Threads",
            Self::Counters => "Counters",
        }
    }
}

impl Track {
    const fn group(self) -> Option<Group> {
        match self {
            Self::Scheduler | Self::Group(_) => None,
            Self::Task(_) => Some(Group::Tasks),
            Self::Partition(_) | Self::Weights => Some(Group::Partitions),
            Self::Client(_) => Some(Group::Clients),
            Self::Intake(_) | Self::Port(_) => Some(Group::Threads),
            Self::OpenFrames | Self::Load(_) | Self::Slack(_) => Some(Group::Counters),
        }
    }

    /// Tracks are drawn by it: groups stand together.
    pub(crate) fn place(self) -> Place {
        Place {
            group: self.group(),
            rank: self.rank(),
        }
    }

    /// Its place among those of its group.
    fn rank(self) -> usize {
        // Ids have 16 bits, so each kind has a range of its own.
        let kind = |kind: usize, index: usize| (kind << 16) + index;
        match self {
            Self::Scheduler | Self::OpenFrames => 0,
            Self::Group(group) => 1 + group as usize,
            Self::Task(task) => task.index(),
            Self::Partition(partition) => partition.index(),
            Self::Weights => kind(1, 0),
            Self::Client(client) => client.index(),
            Self::Intake(client) => 2 * client.index(),
            Self::Port(client) => 2 * client.index() + 1,
            Self::Load(partition) => kind(1, partition.index()),
            Self::Slack(task) => kind(2, task.index()),
        }
    }

    pub(crate) fn name(self, names: &Names) -> String {
        match self {
            Self::Scheduler => "Scheduler".to_owned(),
            Self::Group(group) => group.name().to_owned(),
            Self::Partition(partition) => names.partition(partition),
            Self::Weights => "weights".to_owned(),
            Self::Task(task) => names.task(task),
            Self::Client(client) => format!("client {}", client.0),
            Self::Intake(client) => format!("intake of client {}", client.0),
            Self::Port(client) => format!("port of client {}", client.0),
            Self::OpenFrames => "open frames".to_owned(),
            Self::Load(partition) => format!("load of {}", names.partition(partition)),
            Self::Slack(task) => format!("slack of {}", names.task(task)),
        }
    }

    const fn unit(self) -> Option<Unit> {
        match self {
            Self::OpenFrames => Some(Unit::Count),
            Self::Load(_) => Some(Unit::Percent),
            Self::Slack(_) => Some(Unit::Nanoseconds),
            _ => None,
        }
    }
}

/// A span of time with a name.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) what: Happening,
    /// What it consists of, in the order of time; what reaches beyond it or into the part before is cut.
    pub(crate) parts: Vec<Part>,
    /// What happens within it.
    pub(crate) marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) what: Happening,
}

#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: Instant,
    pub(crate) what: Happening,
}

/// The tracks of a trace that is being written. Each is declared before its first event.
pub(crate) struct Tracks<'n, W: Write> {
    out: Writer<W>,
    names: &'n Names,
    declared: BTreeMap<Track, Vec<TrackId>>,
    lanes: BTreeMap<Track, Lanes>,
    left_out: u64,
}

impl<'n, W: Write> Tracks<'n, W> {
    pub(crate) fn new(out: Writer<W>, names: &'n Names) -> Self {
        Self {
            out,
            names,
            declared: BTreeMap::new(),
            lanes: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Slices that found no room, as too many overlapped them.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Says which time of day an instant is.
    pub(crate) fn clock(&mut self, at: Instant, ahead_ns: i64) -> io::Result<()> {
        let at = at.as_nanos();
        self.out.clock(at, at.saturating_add_signed(ahead_ns))
    }

    pub(crate) fn slice(&mut self, track: Track, slice: Slice) -> io::Result<()> {
        let (from, to) = (slice.from, slice.to.max(slice.from));
        let lanes = self.lanes.entry(track).or_default();
        let Some(lane) = lanes.place(from.as_nanos(), to.as_nanos()) else {
            self.left_out += 1;
            return Ok(());
        };
        let id = self.lane(track, lane)?;
        self.out.begin(id, from.as_nanos(), slice.what)?;
        let mut free = from;
        for part in slice.parts {
            let from = part.from.clamp(free, to);
            free = part.to.clamp(from, to);
            self.out.begin(id, from.as_nanos(), part.what)?;
            self.out.end(id, free.as_nanos())?;
        }
        for mark in slice.marks {
            let at = mark.at.clamp(from, to);
            self.out.instant(id, at.as_nanos(), mark.what)?;
        }
        self.out.end(id, to.as_nanos())
    }

    pub(crate) fn instant(&mut self, track: Track, at: Instant, what: Happening) -> io::Result<()> {
        let id = self.lane(track, 0)?;
        self.out.instant(id, at.as_nanos(), what)
    }

    pub(crate) fn count(&mut self, track: Track, at: Instant, value: i64) -> io::Result<()> {
        let id = self.lane(track, 0)?;
        self.out.count(id, at.as_nanos(), value)
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.out.finish()
    }

    /// The track in the file of a lane. Lanes are declared in their order.
    fn lane(&mut self, track: Track, lane: usize) -> io::Result<TrackId> {
        let known = |this: &Self| this.declared.get(&track)?.get(lane).copied();
        loop {
            if let Some(id) = known(self) {
                return Ok(id);
            }
            let parent = match track.group() {
                Some(group) => self.lane(Track::Group(group), 0)?,
                None => ROOT,
            };
            let (rank, name) = (track.rank(), track.name(self.names));
            let id = match track.unit() {
                Some(unit) => self.out.counter(parent, rank, &name, unit)?,
                None => self.out.track(parent, rank, &name)?,
            };
            self.declared.entry(track).or_default().push(id);
        }
    }
}
