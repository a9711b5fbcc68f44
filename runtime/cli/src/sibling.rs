//! Commands of our other programs: `punctual compare` is `punctual-lab compare`. This process becomes that one, so arguments,
//! standard streams, signals and the code at its end are its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use punctual_platform::output;
use punctual_platform::termination::Termination;

/// Programs, and their commands; of one that has its name as a command here, all that follows is its own.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("punctual-lab", &["compare", "plan", "simulate"]),
    ("punctual-bench", &["bench"]),
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
    let command = text(usize::from(asks_for_help))?;
    let (program, _) = PROGRAMS
        .iter()
        .find(|(_, commands)| commands.contains(&command))?;
    let own_word = *program == "punctual-bench";
    let mut passed: Vec<OsString> = arguments[usize::from(asks_for_help)..].to_vec();
    if asks_for_help {
        passed.push("--help".into());
    }
    let name = match own_word {
        true => "punctual bench",
        false => "punctual",
    };
    let error = Command::new(beside(program))
        .arg0(name)
        .args(&passed[usize::from(own_word)..])
        .exec();
    output::note(format_args!(
        "punctual {command}: cannot start {program}: {error}; `cargo build --release --workspace --bins` builds it, the \
         Debian package `punctual-lab` has it"
    ));
    Some(Termination::Resources)
}

/// The program beside this one, otherwise one in PATH.
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
