//! What the driver tells a test of itself.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in its stream's queue.
    Waiting,
    /// Its blocks run, or it hangs.
    Running,
    Done,
    /// It went wrong and broke its context.
    Failed,
    /// Its context was broken or reset before it ended.
    Dropped,
}

/// A launch, as the driver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Launches before it, over all streams.
    pub number: u64,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: usize,
    pub stream: u64,
    /// The priority of its stream; smaller is more urgent.
    pub priority: i32,
    pub sms: Vec<u32>,
    /// Blocks that have run to their end.
    pub blocks_run: u64,
    /// How many launches, of all streams, began before it did; none: it has not begun.
    pub began: Option<u64>,
    pub outcome: Outcome,
}

/// A stream, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub stream: u64,
    pub priority: i32,
    /// It stands still until it is let go.
    pub held: bool,
    /// Everything that was asked of it is done.
    pub idle: bool,
    /// Instructions of warps that it executed.
    pub instructions: u64,
}

/// Allocations that were not given back yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    pub allocations: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInUse {
    /// `cuMemAlloc`.
    pub device: InUse,
    /// `cuMemHostAlloc`.
    pub host: InUse,
    /// `cuMemHostRegister`.
    pub registered: InUse,
}

/// Reads the lines that `control` writes.
pub(crate) fn launch_record(line: &str) -> Option<LaunchRecord> {
    let words: Vec<&str> = line.split(' ').collect();
    let [
        number,
        kernel,
        gx,
        gy,
        gz,
        bx,
        by,
        bz,
        shared,
        stream,
        priority,
        blocks,
        began,
        outcome,
        sms,
    ] = words.as_slice()
    else {
        return None;
    };
    let sms = match *sms {
        "-" => Vec::new(),
        list => list
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?,
    };
    Some(LaunchRecord {
        number: number.parse().ok()?,
        kernel: (*kernel).to_owned(),
        grid: [gx.parse().ok()?, gy.parse().ok()?, gz.parse().ok()?],
        block: [bx.parse().ok()?, by.parse().ok()?, bz.parse().ok()?],
        shared_bytes: shared.parse().ok()?,
        stream: stream.parse().ok()?,
        priority: priority.parse().ok()?,
        sms,
        blocks_run: blocks.parse().ok()?,
        began: began.parse().ok(),
        outcome: match *outcome {
            "waiting" => Outcome::Waiting,
            "running" => Outcome::Running,
            "done" => Outcome::Done,
            "failed" => Outcome::Failed,
            "dropped" => Outcome::Dropped,
            _ => return None,
        },
    })
}

pub(crate) fn stream_state(line: &str) -> Option<StreamState> {
    let mut words = line.split(' ');
    Some(StreamState {
        stream: words.next()?.parse().ok()?,
        priority: words.next()?.parse().ok()?,
        held: words.next()? == "1",
        idle: words.next()? == "1",
        instructions: words.next()?.parse().ok()?,
    })
}

pub(crate) fn memory_in_use(line: &str) -> MemoryInUse {
    let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
    let mut next = || InUse {
        allocations: numbers.next().unwrap_or(0),
        bytes: numbers.next().unwrap_or(0),
    };
    MemoryInUse {
        device: next(),
        host: next(),
        registered: next(),
    }
}
