//! Takes what others need, until SIGTERM.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::sys::signalfd::SignalFd;

use super::{AgentError, signals, told_to_end};

const MIB: usize = 1 << 20;

/// A page, which is what memory is taken by.
const PAGE: usize = 4096;

/// What to take.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The resource.
    #[arg(long, value_enum)]
    take: Take,
    /// How much memory or disk, in MiB.
    #[arg(long, default_value_t = 64)]
    mib: usize,
    /// The file to write, for the disk; removed at the end.
    #[arg(long, default_value = "hog")]
    file: PathBuf,
}

/// What can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Take {
    /// One core's time.
    Processor,
    /// Memory, and the bandwidth to it: written over again and again.
    Memory,
    /// The disk's time: a file, written and synchronised over and over.
    Disk,
}

/// Takes it until SIGTERM.
pub fn run(options: &Options) -> Result<(), AgentError> {
    let signals = signals(&[])?;
    match options.take {
        Take::Processor => processor(&signals),
        Take::Memory => memory(options.mib, &signals),
        Take::Disk => return disk(options, &signals),
    }
    Ok(())
}

fn processor(signals: &SignalFd) {
    let mut value = 1_u64;
    while !told_to_end(signals) {
        for _ in 0..1_000_000 {
            value = black_box(
                value
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .rotate_left(17),
            );
        }
    }
}

fn memory(mib: usize, signals: &SignalFd) {
    let mut taken = vec![0_u8; mib * MIB];
    let mut round = 0_u8;
    loop {
        round = round.wrapping_add(1);
        for chunk in taken.chunks_mut(MIB) {
            chunk
                .iter_mut()
                .step_by(PAGE)
                .for_each(|byte| *byte = round);
            chunk[..PAGE].fill(round);
            black_box(&chunk);
            if told_to_end(signals) {
                return;
            }
        }
    }
}

fn disk(options: &Options, signals: &SignalFd) -> Result<(), AgentError> {
    let failed = AgentError::io("the hog's file");
    let file = File::create(&options.file).map_err(&failed)?;
    let block = vec![0x5a; MIB];
    let mut place = 0;
    while !told_to_end(signals) {
        file.write_all_at(&block, (place * MIB) as u64)
            .map_err(&failed)?;
        file.sync_data().map_err(&failed)?;
        place = (place + 1) % options.mib.max(1);
    }
    std::fs::remove_file(&options.file).map_err(&failed)
}
