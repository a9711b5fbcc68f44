//! The last configuration that could be served, kept for a start whose own cannot: its manifest, and copies of all files
//! that it names.
//!
//! The originals are not linked, as `cp` and `scp` write into a file that exists. The sets are written by `keep` alone, so a
//! file that has not changed since the last set is linked from there and not copied again.
//!
//! The service manager has the copies made once the daemon serves ([`keep`]), by a process of its own: the daemon has no
//! memory for a second set of packages. That process waits until the daemon has loaded everything: a configuration of which
//! a network cannot be loaded is none to fall back to. There are two places for sets, and a link to the current one: a reader finds the
//! old set or the new one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use log::{error, info};
use punctual_events::message_ids;
use punctual_plan::{Files, Plan, PlanInputs, Policies};
use punctual_platform::{clock, files, logging, read};

use crate::options::ManifestSource;
use crate::report::Report;
use crate::startup::host_of_the_daemon;
use crate::validate::gather;
use crate::{Options, StartupError, Termination};

/// The places, the link to the current one, and the link that is being made.
const SETS: [&str; 2] = ["first", "second"];
const CURRENT: &str = "current";
const NEXT: &str = "next";
/// There, if a network of the present configuration could not be loaded.
const DOUBT: &str = "doubt";

/// How long a daemon may load, and how often it is looked at, in ns.
const LOADING_NS_MAX: u64 = 60_000_000_000;
const LOOK_NS: u64 = 50_000_000;

/// What is in a set.
const MANIFEST: &str = "manifest.toml";
const FILES: &str = "files";

/// The folder of the sets, of which there is one, or none.
pub struct LastGood<'a> {
    folder: &'a Path,
}

#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("the configuration cannot be served: {0}")]
    Unservable(#[from] StartupError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("the daemon cannot load model {model}: {reason}")]
    NotLoaded { model: String, reason: String },
    #[error("the daemon is still loading its networks after {} s", LOADING_NS_MAX / 1_000_000_000)]
    StillLoading,
    #[error("its files changed while they were copied, or {0} is damaged: try again")]
    Changed(PathBuf),
}

impl KeepError {
    fn termination(&self) -> Termination {
        match self {
            Self::Unservable(error) => error.termination(),
            Self::File { .. } | Self::NotLoaded { .. } | Self::StillLoading | Self::Changed(_) => {
                Termination::Resources
            }
        }
    }
}

/// Keeps the present configuration in `folder`, if it can be served, in place of the one before.
#[must_use]
pub fn keep(options: &Options, policies: &Policies, folder: &Path) -> Termination {
    let _last_words = logging::start("punctuald", message_ids(), &options.log);
    let path = folder.display();
    match LastGood::in_folder(folder).keep(options, policies) {
        Ok(()) => {
            info!("{path} has the present configuration");
            Termination::Clean
        }
        Err(error) => {
            error!("{path} was left as it was: {error}");
            error.termination()
        }
    }
}

impl<'a> LastGood<'a> {
    pub fn in_folder(folder: &'a Path) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder
    }

    /// The kept manifest; none if nothing was kept.
    pub fn manifest(&self, options: &Options) -> Option<ManifestSource> {
        let source = source(&self.folder.join(CURRENT), options);
        source.path.exists().then_some(source)
    }

    /// Whether the last start could not load a network of the present configuration: then every byte of it is checked first,
    /// so that this one is served in its place. It is not doubted any longer.
    pub fn take_doubt(&self) -> bool {
        fs::remove_file(self.folder.join(DOUBT)).is_ok()
    }

    /// Notes that for the next start. If it cannot be noted, that start fails as this one did.
    pub fn doubt(&self) {
        let _ = File::create(self.folder.join(DOUBT));
    }

    fn keep(&self, options: &Options, policies: &Policies) -> Result<(), KeepError> {
        let present = options.manifest();
        // Once: what a plan takes has the files in it that this process has mapped.
        let host = host_of_the_daemon()?;
        let read = |manifest: &ManifestSource| {
            let read = gather(manifest, options, policies, host.clone());
            read.map(|(inputs, _devices)| inputs)
        };
        let inputs = read(&present)?;
        let plan = planned(&inputs)?;
        let files = inputs.files(&present.files);
        let current = self.folder.join(CURRENT);
        let kept = source(&current, options);
        if has_all(&kept, &present, &files) {
            return Ok(());
        }
        let socket = options.socket.as_ref().unwrap_or(&plan.socket);
        all_loaded(socket)?;
        let set = self.free()?;
        let copies = source(&self.folder.join(set), options);
        let written = |kept: Option<&ManifestSource>| {
            write(&copies, &present, &files, kept)?;
            // As a start would read it.
            if planned(&read(&copies)?)?.hash == plan.hash {
                return Ok(());
            }
            Err(KeepError::Changed(copies.path.clone()))
        };
        if written(Some(&kept)).is_err() {
            // What was kept before may be damaged.
            self.free()?;
            written(None)?;
        }
        let next = self.folder.join(NEXT);
        done(&next, symlink(set, &next))?;
        done(&current, fs::rename(&next, &current))?;
        // The link, too, must be there after a loss of power.
        done(self.folder, files::sync_folder(self.folder))
    }

    /// The place that is not current, empty.
    fn free(&self) -> Result<&'static str, KeepError> {
        let current = fs::read_link(self.folder.join(CURRENT)).unwrap_or_default();
        let [first, second] = SETS;
        let free = if current == Path::new(first) {
            second
        } else {
            first
        };
        let [set, next] = [free, NEXT].map(|name| self.folder.join(name));
        done(&set, there_or_not(fs::remove_dir_all(&set)))?;
        done(&next, there_or_not(fs::remove_file(&next)))?;
        Ok(free)
    }
}

/// Waits until the daemon at a socket, if one serves there, has loaded all of its networks.
fn all_loaded(socket: &Path) -> Result<(), KeepError> {
    let until_ns = clock::now_ns() + LOADING_NS_MAX;
    while let Ok(report) = Report::live(socket) {
        if let Some(failure) = report.start.failures.into_iter().next() {
            return Err(KeepError::NotLoaded {
                model: failure.model,
                reason: failure.reason,
            });
        }
        if !report.start.loading {
            break;
        }
        if clock::now_ns() >= until_ns {
            return Err(KeepError::StillLoading);
        }
        clock::sleep_until_ns(clock::now_ns() + LOOK_NS);
    }
    Ok(())
}

fn planned(inputs: &PlanInputs) -> Result<Plan, StartupError> {
    Ok(Plan::build(inputs)?)
}

/// What should be removed may already be missing.
fn there_or_not(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Whether copies have the size and the time of their files.
fn has_all(copies: &ManifestSource, present: &ManifestSource, files: &BTreeSet<PathBuf>) -> bool {
    let mut files = files.iter();
    is_same(&present.path, &copies.path)
        && files.all(|file| is_same(file, &copies.files.read_instead_of(file)))
}

fn is_same(file: &Path, copy: &Path) -> bool {
    let about = |path| {
        let about = fs::metadata(path).ok()?;
        Some((about.len(), about.modified().ok()?))
    };
    about(file).is_some_and(|file| about(copy) == Some(file))
}

/// The manifest of a set, whose paths mean what they mean to the present one.
fn source(set: &Path, options: &Options) -> ManifestSource {
    let present = options.manifest();
    ManifestSource {
        path: set.join(MANIFEST),
        files: Files {
            copies: Some(set.join(FILES)),
            ..present.files
        },
        is_credential: present.is_credential,
        is_named: true,
    }
}

/// Writes a set: links to what the `kept` one has of the same files, copies of the others. All of it is on the disk afterwards.
fn write(
    copies: &ManifestSource,
    present: &ManifestSource,
    named: &BTreeSet<PathBuf>,
    kept: Option<&ManifestSource>,
) -> Result<(), KeepError> {
    let mut folders = BTreeSet::new();
    let mut place = |to: &Path| -> Result<(), KeepError> {
        let folder = to.parent().expect("it lies in a set").to_owned();
        done(&folder, fs::create_dir_all(&folder))?;
        folders.insert(folder);
        Ok(())
    };
    place(&copies.path)?;
    copy(&present.path, &copies.path)?;
    for file in named {
        let to = copies.files.read_instead_of(file);
        place(&to)?;
        let before = kept.map(|kept| kept.files.read_instead_of(file));
        let same = before.filter(|before| is_same(file, before));
        // Not every filesystem has links.
        if same.is_none_or(|same| fs::hard_link(same, &to).is_err()) {
            copy(file, &to)?;
        }
    }
    let mut folders = folders.iter();
    folders.try_for_each(|folder| done(folder, files::sync_folder(folder)))
}

/// Copies a file with its time; all of it is on the disk afterwards.
fn copy(from: &Path, to: &Path) -> Result<(), KeepError> {
    let mut original = done(from, read::open(from))?;
    let modified = done(from, original.metadata().and_then(|about| about.modified()))?;
    // New: what is there may be a link to what is kept.
    let copied = File::create_new(to).and_then(|mut copy| {
        io::copy(&mut original, &mut copy)?;
        copy.set_modified(modified)?;
        copy.sync_all()
    });
    done(to, copied)
}

fn done<T>(path: &Path, result: io::Result<T>) -> Result<T, KeepError> {
    result.map_err(|source| KeepError::File {
        path: path.to_owned(),
        source,
    })
}
