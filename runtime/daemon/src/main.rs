//! `punctuald`: the daemon as a program of its own.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use punctual_daemon::{AFTER_HELP, Options, Termination};
use punctual_plan::Policies;
use punctual_platform::{SealedAllocator, output};

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

/// Serves camera frames with deadlines, as a manifest says.
#[derive(Debug, Parser)]
#[command(name = "punctuald", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Serve nothing: if the present manifest and all that it names can be served, have the daemon of this process id end in
    /// order, so that the service manager starts it again; else leave it alone and say why. For the service manager's
    /// `ExecReload=`.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    reload: Option<u32>,

    /// Serve nothing: copy the manifest and all files that it names to this folder, for `--last-good`, if they can be served.
    /// For the service manager's `ExecStartPost=`.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["reload", "last_good"])]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    // Before any thread exists, and before the driver is opened.
    punctual_device_cuda::driver::environment::prepare();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            let unwritten = Termination::MissingFile.code();
            return output::usage_code(usage.print(), usage.exit_code(), "punctuald", unwritten)
                .into();
        }
    };
    let policies = Policies::shipped();
    let options = &arguments.options;
    let termination = match (arguments.keep, arguments.reload) {
        (Some(folder), _) => punctual_daemon::keep(options, &policies, &folder),
        (None, Some(daemon)) => punctual_daemon::reload(options, &policies, daemon),
        (None, None) => punctual_daemon::run(options, &policies),
    };
    termination.into()
}
