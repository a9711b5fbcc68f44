//! What sharing gives, as tables and as JSON.

use std::fmt;
use std::path::PathBuf;

use punctual_device_cpu::{LowerError, pack_image};
use punctual_kernels::Isa;
use punctual_model::{ContentHash, PAGE_BYTES, Package, WeightImage};
use punctual_report::{Table, WIDTH};
use serde::Serialize;

#[derive(Serialize)]
pub struct Report {
    stages: Vec<StageReport>,
    packages: Vec<PackageReport>,
    /// The stage that was cut in two, so that those from it on have other numbers.
    cut_at: Option<usize>,
    /// Whether requests of all of them can go in one batch.
    batches: bool,
    memory: Memory,
}

/// A stage, and the packages whose stage it is.
#[derive(Serialize)]
struct StageReport {
    stage: usize,
    packages: Vec<String>,
    operators: usize,
    multiplications: u64,
    weight_bytes: u64,
    exit: bool,
    hash: String,
}

/// A package that was cut, or needed no cut.
#[derive(Serialize)]
struct PackageReport {
    package: String,
    written: String,
    cut: bool,
    profiles_dropped: usize,
    hash: String,
}

/// What the weights take on this processor, in whole pages.
#[derive(Serialize)]
struct Memory {
    lanes: usize,
    separate_bytes: u64,
    shared_bytes: u64,
}

impl Report {
    /// Of the packages at `paths`, before and after the cut, and where they go.
    pub fn new(
        paths: &[PathBuf],
        outputs: &[PathBuf],
        before: &[Package],
        after: &[Package],
    ) -> Result<Self, LowerError> {
        let carried = after[0].network().carried();
        let packages = paths.iter().zip(outputs).zip(before.iter().zip(after));
        let packages = packages.map(|((path, output), (before, after))| PackageReport {
            package: path.display().to_string(),
            written: output.display().to_string(),
            cut: before.network() != after.network(),
            profiles_dropped: before.profiles().len() - after.profiles().len(),
            hash: after.hash().to_string(),
        });
        Ok(Self {
            stages: stages(paths, after),
            packages: packages.collect(),
            cut_at: before
                .iter()
                .zip(after)
                .find_map(|(before, after)| cut_at(before, after)),
            batches: after.iter().all(|p| p.network().carried() == carried),
            memory: Memory::of(after)?,
        })
    }
}

/// The first stage that has other operators than before.
fn cut_at(before: &Package, after: &Package) -> Option<usize> {
    let stages = before.network().stages.iter();
    let mut stages = stages.zip(&after.network().stages);
    stages.position(|(before, after)| before.operators != after.operators)
}

/// All stages in order, one that several packages have in common once.
fn stages(paths: &[PathBuf], packages: &[Package]) -> Vec<StageReport> {
    let mut reports: Vec<StageReport> = Vec::new();
    for (path, package) in paths.iter().zip(packages) {
        let network = package.network();
        let stages = network.stages.iter().zip(package.stage_prefixes());
        for (index, (stage, prefix)) in stages.enumerate() {
            let hash = prefix.hash.to_string();
            let mut known = reports.iter_mut();
            if let Some(known) = known.find(|r| r.stage == index && r.hash == hash) {
                known.packages.push(path.display().to_string());
                continue;
            }
            reports.push(StageReport {
                stage: index,
                packages: vec![path.display().to_string()],
                operators: stage.operators.len(),
                multiplications: network.multiplications(stage),
                weight_bytes: prefix.weight_bytes,
                exit: stage.exit.is_some(),
                hash,
            });
        }
    }
    reports.sort_by_key(|report| report.stage);
    reports
}

impl Memory {
    fn of(packages: &[Package]) -> Result<Self, LowerError> {
        let isa = Isa::detect();
        let mut pages: Vec<ContentHash> = Vec::new();
        for package in packages {
            let packed;
            let image = match package.image(isa.lanes() as u8) {
                Some(image) => image,
                None => {
                    let floats = pack_image(isa, package.network())?;
                    packed = WeightImage::new(isa.lanes() as u8, floats.into());
                    &packed
                }
            };
            pages.extend((0..image.pages()).filter_map(|page| image.page_hash(page)));
        }
        let bytes = |pages: usize| (pages * PAGE_BYTES) as u64;
        let separate_bytes = bytes(pages.len());
        pages.sort_unstable();
        pages.dedup();
        Ok(Self {
            lanes: isa.lanes(),
            separate_bytes,
            shared_bytes: bytes(pages.len()),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = [
            "packages",
            "stage",
            "operators",
            "MMACs",
            "weights KiB",
            "exit",
        ];
        let mut table = Table::new(&headings, 1);
        for stage in &self.stages {
            table.row([
                stage.packages.join(", "),
                stage.stage.to_string(),
                stage.operators.to_string(),
                format!("{:.2}", stage.multiplications as f64 / 1e6),
                format!("{:.1}", stage.weight_bytes as f64 / 1024.0),
                if stage.exit { "yes" } else { "no" }.to_owned(),
            ]);
        }
        let width = f.width().unwrap_or(WIDTH);
        writeln!(f, "{table:width$}")?;
        let mebibytes = |bytes: u64| format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20));
        let Memory {
            lanes,
            separate_bytes,
            shared_bytes,
        } = self.memory;
        writeln!(
            f,
            "weights in memory ({lanes} lanes, pages of {} KiB): {}; {} if nothing were shared",
            PAGE_BYTES / 1024,
            mebibytes(shared_bytes),
            mebibytes(separate_bytes),
        )?;
        for package in &self.packages {
            let cut = if package.cut { "cut" } else { "as it was" };
            writeln!(f, "wrote {}, {cut}", package.written)?;
        }
        if let Some(stage) = self.cut_at {
            writeln!(
                f,
                "note: stage {stage} is two now; in manifests, add 1 to each `mandatory_exit` of {stage} or \
                 more for the packages that were cut"
            )?;
        }
        if self.packages.iter().any(|p| p.profiles_dropped > 0) {
            writeln!(
                f,
                "note: profiles were dropped; measure again with `punctual profile`"
            )?;
        }
        if !self.batches {
            writeln!(
                f,
                "note: the networks' request buffers differ, so that requests of different ones go in \
                 batches of their own"
            )?;
        }
        Ok(())
    }
}
