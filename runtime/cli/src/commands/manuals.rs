//! `punctual manuals`: those of `punctual`, `punctuald` and `punctual-v4l2`.

use clap::{Args as _, Command, CommandFactory as _};
use punctual_manuals::{ManualError, Options, write};

/// Writes them; `punctual` is how that program is defined.
pub fn run(options: &Options, punctual: Command) -> Result<(), ManualError> {
    write(&options.into, punctual, "1")?;
    write(&options.into, punctual_camera::Options::command(), "1")?;
    write(&options.into, punctuald(), "8")
}

/// `punctuald` as its own program defines it.
fn punctuald() -> Command {
    let command = Command::new("punctuald")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves camera frames with deadlines, as a manifest says");
    punctual_daemon::Options::augment_args(command).after_help(punctual_daemon::AFTER_HELP)
}
