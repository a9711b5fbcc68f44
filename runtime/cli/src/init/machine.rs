//! What a first manifest needs to know of the machine.

use std::path::Path;

use punctual_daemon::host;
use punctual_plan::{Board, HostCores};
use punctual_platform::OsError;

use crate::commands::board::found::{Found, Look};

pub struct Machine {
    /// The board's name in manifests.
    pub board: String,
    /// The mode that it is in, if the board has that mode.
    pub power_mode: Option<String>,
    pub cores: HostCores,
    pub gpu: Option<Gpu>,
}

pub struct Gpu {
    pub name: String,
    pub tpcs: u16,
    /// Whether the board's file says that there is one: without that, manifests cannot have a part of it.
    pub is_of_board: bool,
}

impl Machine {
    /// Looks at this one, its driver of the GPU included.
    pub fn here() -> Result<Self, OsError> {
        let found = Found::now(&Look {
            device: 0,
            records: None,
            again: false,
            search: false,
        });
        Ok(Self::of(found, host::cores()?))
    }

    fn of(found: Found, cores: HostCores) -> Self {
        let board = Board::of_machine(&found.compatible, found.memory_bytes);
        let is_of_board = board.as_ref().is_some_and(|board| board.gpu.is_some());
        let mode = found.power_mode.filter(|mode| {
            let board = board.as_ref();
            board.is_some_and(|board| board.power_mode(mode).is_some())
        });
        Self {
            board: board.map_or_else(|| "host".to_owned(), |board| board.name),
            power_mode: mode,
            cores,
            gpu: found.gpu.map(|gpu| Gpu {
                name: gpu.name,
                tpcs: gpu.partitions.tpcs,
                is_of_board,
            }),
        }
    }

    /// The GPU, if a manifest can have it.
    pub fn usable_gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref().filter(|gpu| gpu.is_of_board)
    }

    /// Cores for a partition: the isolated ones, or else all but one, which the daemon's own threads have.
    pub fn partition_cores(&self) -> usize {
        let HostCores {
            available,
            isolated,
        } = &self.cores;
        let others = available.len().saturating_sub(1).clamp(1, 64);
        match isolated.len() {
            0 => others,
            isolated => isolated.min(others),
        }
    }
}

/// Where a path from here is, as a manifest in `folder` says it.
pub fn from_folder(path: &Path, folder: &Path) -> String {
    let is_here = folder.as_os_str().is_empty() || folder == Path::new(".");
    let absolute = std::path::absolute(path);
    match absolute {
        Ok(absolute) if !is_here => absolute.display().to_string(),
        _ => path.display().to_string(),
    }
}
