//! `punctual-v4l2` as a program.
#![forbid(unsafe_code)]

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    punctual_camera::run(&punctual_camera::Options::parse())
}
