//! `punctual compile`: an ONNX file with early exits into a model package.

use std::path::{Path, PathBuf};

use punctual_compile::CompileError;
use punctual_model::PackageError;

use crate::images::{self, ImageError};
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
    /// Pack the weights for vectors of this many floats (4, 8, 16), so that they are loaded as
    /// they lie; by default this processor's, and 4 for AArch64 boards. Others are packed at start.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "no_images"
    )]
    lanes: Option<Vec<u8>>,
    /// Pack nothing: a smaller file, the same on every processor.
    #[arg(long)]
    no_images: bool,
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
    /// The weights could not be packed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The package could not be written.
    #[error(transparent)]
    Write(#[from] PackageError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Write(_) => Termination::File,
            Self::Compile { source, .. } if matches!(**source, CompileError::Read { .. }) => {
                Termination::File
            }
            Self::Compile { .. } | Self::Image(_) => Termination::BadInput,
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
    let lanes = match (&options.lanes, options.no_images) {
        (_, true) => Vec::new(),
        (Some(lanes), false) => lanes.clone(),
        (None, false) => images::usual_lanes(),
    };
    let package = images::add(compiled.package, &lanes)?;
    package.write(&output)?;
    print!("{}", compiled.report);
    println!(
        "package {}, weights packed for {lanes:?} lanes",
        package.hash()
    );
    println!("wrote {}", output.display());
    Ok(())
}

fn beside(options: &Path) -> PathBuf {
    options.with_extension("punctual")
}
