//! `punctual-v4l2` as a program.
#![forbid(unsafe_code)]

use clap::Parser as _;
use punctual_platform::output;

fn main() -> std::process::ExitCode {
    match punctual_camera::Options::try_parse() {
        Ok(options) => punctual_camera::run(&options),
        Err(usage) => {
            output::usage_code(usage.print(), usage.exit_code(), "punctual-v4l2", 4).into()
        }
    }
}
