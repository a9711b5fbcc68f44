//! Commands of our other programs: `punctual compare` is `punctual-lab compare`. This process becomes that one, so arguments,
//! standard streams, signals and the code at its end are its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use punctual_platform::output;
use punctual_platform::termination::Termination;

/// A command, the program that has it, and what that program calls itself then. A command that is
/// part of the name is not passed on.
const SIBLINGS: &[(&str, &str, &str)] = &[
    ("bench", "punctual-bench", "punctual bench"),
    ("compare", "punctual-lab", "punctual"),
    ("plan", "punctual-lab", "punctual"),
    ("replay", "punctual-lab", "punctual"),
    ("simulate", "punctual-lab", "punctual"),
];

/// What the other program takes.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Passed {
    /// See the other program's help.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the other program if `arguments`, which begin behind the program's name, begin with one of its commands, or
/// with `help` and such a command. Comes back if they do not, or with the code for a program that is not there.
pub fn start(arguments: &[OsString]) -> Option<Termination> {
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str());
    let asks_for_help = text(0) == Some("help");
    let given = text(usize::from(asks_for_help))?;
    let mut siblings = SIBLINGS.iter();
    let (command, program, name) = siblings.find(|(command, ..)| *command == given)?;
    let own = usize::from(asks_for_help) + usize::from(name.ends_with(command));
    let error = Command::new(beside(program))
        .arg0(name)
        .args(&arguments[own..])
        .args(asks_for_help.then_some("--help"))
        .exec();
    output::note(format_args!(
        "punctual {command}: cannot start {program}: {error}; `cargo build --release --workspace --bins` builds it, the \
         Debian package `punctual-lab` has it"
    ));
    Some(Termination::Resources)
}

/// The program in the same folder as this one, otherwise one in PATH.
fn beside(program: &str) -> OsString {
    let own = std::env::current_exe().ok();
    let sibling = own
        .as_deref()
        .and_then(Path::parent)
        .map(|folder| folder.join(program));
    sibling
        .filter(|path| path.exists())
        .map_or_else(|| program.into(), Into::into)
}
