//! `punctual compile`: an ONNX file with early exits into a model package.

use std::path::{Path, PathBuf};

use punctual_compile::CompileError;

use crate::termination::{Terminates, Termination};

/// What to compile, and where to put it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual compile models/signs/signs.toml
  punctual compile signs.toml --output /etc/punctual/signs.punctual

The options file names the ONNX file and says what the input is:

  name = \"signs\"
  onnx = \"signs.onnx\"                # relative to this file
  calibration = \"calibration.json\"   # optional: confidence and correctness of held-out samples
  [input]
  height = 64
  width = 64
  mean = [0.45, 0.45, 0.45]          # each value becomes (pixel / 255 - mean) / std
  std = [0.25, 0.25, 0.25]
  [output]
  exits = [\"exit_0\", \"exit_1\"]       # optional: else all outputs named exit_0, exit_1, ...
  classes = [\"stop\", \"give way\"]     # optional

TERMINATION CODES: 0 done; 3 the network or its options cannot be compiled (the node, its operator
and the reason are named); 4 a file is missing or cannot be written.")]
pub struct Options {
    /// The options file (TOML) of the network.
    options: PathBuf,
    /// Where to write the package; by default beside the options file, ending in `.punctual`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Why nothing was compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The compiler's word.
    #[error("{path}: {source}", path = path.display())]
    Compile {
        /// The options file.
        path: PathBuf,
        /// What is wrong.
        source: Box<CompileError>,
    },
    /// The package could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Write { .. } => Termination::File,
            Self::Compile { source, .. } if matches!(**source, CompileError::Read { .. }) => {
                Termination::File
            }
            Self::Compile { .. } => Termination::BadInput,
        }
    }
}

/// Compiles, prints the report, writes the package.
pub fn run(options: &Options) -> Result<(), Error> {
    let compiled =
        punctual_compile::compile_file(&options.options).map_err(|source| Error::Compile {
            path: options.options.clone(),
            source: Box::new(source),
        })?;
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| beside(&options.options));
    punctual_platform::files::write_whole(&output, &compiled.package.encode()).map_err(
        |source| Error::Write {
            path: output.clone(),
            source,
        },
    )?;
    print!("{}", compiled.report);
    println!("wrote {}", output.display());
    Ok(())
}

fn beside(options: &Path) -> PathBuf {
    options.with_extension("punctual")
}
