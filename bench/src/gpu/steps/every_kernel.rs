//! Networks that together use every kernel, verified on this GPU as `punctual profile` verifies those of a manifest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use punctual_compile::{CompileError, Overrides, compile_with};
use punctual_conformance::networks;
use punctual_core::Nanos;
use punctual_cuda_kernels::KERNELS;
use punctual_device::profile::Subject;
use punctual_device::verify::{Request, verify};
use punctual_device_cuda::CudaProvider;
use punctual_device_cuda::driver::Attribute;
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::lower::{Program, Target};
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::partition::offer::{How, OfferError};
use punctual_model::{AnswerKind, Calibration, Network, OutputLayout, Package};

use super::super::division;
use super::super::result::{Sheet, StepResult};
use super::super::rig;
use super::super::step::{Session, Step, StepError};

pub struct EveryKernel;

/// Small networks as exporters write them: detectors, segmenters, transformers, texts, bytes. In the source tree only.
const RECORDED: &str = "models/zoo/recorded";

/// A network, and what people call it.
struct Case {
    name: String,
    package: Package,
}

impl Step for EveryKernel {
    fn name(&self) -> &'static str {
        "networks"
    }

    fn about(&self) -> &'static str {
        "networks that use every kernel, verified against the interpreter as `punctual profile` does"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let provider = provider(session)?;
        let target = target(session)?;
        let request = Request {
            batches: session.size(&[1, 3][..], &[1]).to_vec(),
            units: vec![provider.offer.tpcs().try_into().unwrap_or(u8::MAX)],
            budget: Nanos::ZERO,
            seed: 1,
        };
        let headings = [
            "network",
            "outcome",
            "values",
            "permille of the tolerance",
            "ms",
        ];
        let mut sheet = Sheet::new("Verified networks", &headings, 2);
        let (mut wrong, mut used) = (0, BTreeSet::new());
        let mut result = StepResult::default();
        for Case { name, package } in cases(session, &mut result)? {
            used.extend(kernels(package.network(), &target));
            let subject = Subject {
                package: &package,
                solutions: &[],
            };
            let [outcome, values, worst, took] =
                match verify(&provider, subject, &request, &mut |_| ()) {
                    Ok(verified) => [
                        verified
                            .failure
                            .map_or("agrees".to_owned(), |failure| format!("WRONG: {failure:?}")),
                        verified.values.to_string(),
                        verified.worst_permille.to_string(),
                        verified.took_ms.to_string(),
                    ],
                    Err(error) => [
                        format!("DOES NOT RUN: {error}"),
                        "".into(),
                        "".into(),
                        "".into(),
                    ],
                };
            wrong += usize::from(outcome != "agrees");
            sheet.row([name, outcome, values, worst, took]);
        }
        result.figure("networks", "", wrong as f64);
        result.tables.push(sheet);
        result.note(format!(
            "These networks launch {} of {} kernels. First light has known answers of the others (tiles for large images, sums in \
             parts), but for those that prepare frames, probe and evict.",
            KERNELS.len() - unused(&used).len(),
            KERNELS.len(),
        ));
        Ok(result)
    }
}

/// Kernels that none of the networks used.
fn unused(used: &BTreeSet<&str>) -> Vec<&'static str> {
    let names = KERNELS.iter().map(|kernel| kernel.name);
    names.filter(|name| !used.contains(name)).collect()
}

/// The whole GPU: no mechanism is tried.
fn provider(session: &Session<'_>) -> Result<CudaProvider, StepError> {
    let gpu = session.gpu()?;
    let how = How {
        order: vec![Mechanism::Priority],
        ..How::usual(None, None).map_err(OfferError::from)?
    };
    let spec = rig::cuda_spec(session);
    Ok(CudaProvider {
        driver: gpu.driver(),
        ordinal: session.device,
        offer: division::look(session, gpu, &how)?,
        leaders: vec![0, 1],
        watchdog: spec.watchdog,
        kernel_padding: KernelPaddingSpec::default(),
        wait: spec.wait,
        look_stride: None,
        shares_context: false,
    })
}

fn target(session: &Session<'_>) -> Result<Target, StepError> {
    let gpu = session.gpu()?;
    Ok(Target {
        multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
        compute_capability: gpu.compute_capability()?,
        page_bytes: rig::cuda_spec(session).page_bytes,
    })
}

/// The kernels that a network is lowered to.
fn kernels(network: &Network, target: &Target) -> BTreeSet<&'static str> {
    let layout = OutputLayout::of(network, |_| true);
    let program = Program::with_outputs(network, Some(&layout), &[1, 3], target, &[]);
    let stages = program.iter().flat_map(|program| program.stages.iter());
    let lists = stages.flat_map(|stage| stage.lists.iter());
    let steps = lists.flat_map(|list| list.steps.iter());
    steps.map(|step| step.kernel.name).collect()
}

/// Those of the suite that every device passes.
fn suite() -> Vec<Network> {
    vec![
        networks::every_operator(11),
        networks::wide_heads(11),
        networks::segments(11),
        networks::heads(11),
        networks::gathers(11),
        networks::copies(11),
        networks::recurrent(11, 19),
        networks::arithmetic(11),
        networks::computed(11),
        networks::detectors(11),
        networks::quantised(11),
        networks::tangle(12),
        networks::residual(1),
    ]
}

fn cases(session: &Session<'_>, result: &mut StepResult) -> Result<Vec<Case>, StepError> {
    let suite = if session.quick {
        vec![networks::pair(1), networks::recurrent(11, 3)]
    } else {
        suite()
    };
    let mut cases = Vec::new();
    for network in suite {
        cases.push(Case {
            name: format!("suite: {}", network.name),
            package: Package::new(network, Calibration::default())?,
        });
    }
    if session.quick {
        return Ok(cases);
    }
    let files = recorded(Path::new(RECORDED));
    if files.is_empty() {
        result.note(format!(
            "No {RECORDED} here: run it in the source tree to verify those, too."
        ));
    }
    for file in files {
        let name = file.display().to_string();
        match compiled(&file) {
            Ok(package) => cases.push(Case { name, package }),
            Err(error) => result.note(format!("{name} is not compiled: {error}")),
        }
    }
    Ok(cases)
}

fn recorded(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    files.sort();
    files
}

/// Without a meaning of the answers; inputs that were recorded next to the file are prepared ones.
fn compiled(file: &Path) -> Result<Package, CompileError> {
    let recorded = file.with_extension("inputs.f32").is_file();
    let overrides = if recorded {
        Overrides::of_tensors()
    } else {
        Overrides {
            answer: Some(AnswerKind::None),
            ..Overrides::imagenet()
        }
    };
    Ok(compile_with(file, &overrides)?.package)
}

#[cfg(test)]
mod tests {
    use punctual_cuda_measuring::recipe::known;

    use super::*;

    #[test]
    fn every_kernel_of_networks_is_launched_by_these_or_has_a_known_answer() {
        let target = Target {
            multiprocessors: 132,
            compute_capability: (9, 0),
            page_bytes: 4 << 20,
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(RECORDED);
        let files = recorded(&folder);
        assert!(files.len() >= 40, "{}", files.len());
        let mut used = BTreeSet::new();
        for network in suite() {
            used.extend(kernels(&network, &target));
        }
        for package in files.iter().filter_map(|file| compiled(file).ok()) {
            used.extend(kernels(package.network(), &target));
        }
        let without = unused(&used)
            .into_iter()
            .filter(|name| known::expected(name).is_none());
        let without: Vec<&str> = without.collect();
        // What no network launches: frames are prepared on cores; the rest probes and evicts.
        let others = [
            "report_evicted",
            "where_am_i",
            "hold",
            "preprocess_rgb8",
            "preprocess_nv12",
            "preprocess_yuyv",
        ];
        assert_eq!(without, others);
    }
}
