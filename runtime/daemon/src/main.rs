//! `punctuald`: the daemon as a program of its own.
#![forbid(unsafe_code)]

use clap::Parser;
use punctual_daemon::{AFTER_HELP, Options, Termination};
use punctual_platform::SealedAllocator;

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

/// Serves camera frames with deadlines, as a manifest says.
#[derive(Debug, Parser)]
#[command(name = "punctuald", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> Termination {
    punctual_daemon::run(&Arguments::parse().options)
}
