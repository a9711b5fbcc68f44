//! Whether our kernels give, byte for byte, what their PTX says.

use std::fmt::Write as _;

use punctual_cuda_kernels::images::ImageError;
use punctual_cuda_measuring::launcher::{LaunchError, Launcher};
use punctual_cuda_measuring::recipe::known;
use punctual_device_cuda::KernelError;
use punctual_device_cuda::driver::Context;

use super::super::result::{Claim, Sheet, StepResult};
use super::super::step::{Session, Step, StepError};

pub struct KnownAnswers;

impl Step for KnownAnswers {
    fn name(&self) -> &'static str {
        "known-answers"
    }

    fn about(&self) -> &'static str {
        "our kernels ran here: their outputs have the hashes that the interpreter of their PTX gives"
    }

    fn of_time(&self) -> bool {
        false
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let context = Context::retain(session.gpu()?)?;
        let launcher = Launcher::new(&context)?;
        let mut outputs = Vec::new();
        for recipe in known::all() {
            let output = match launcher.prepare(&recipe) {
                Ok(prepared) => Ok(launcher.output(&prepared)?),
                Err(LaunchError::Kernel(KernelError::Image(
                    error @ ImageError::Unsupported { .. },
                ))) => Err(error),
                Err(error) => return Err(error.into()),
            };
            outputs.push((recipe.name(), output));
        }
        Ok(compare(&outputs))
    }
}

/// What a kernel wrote, or why there is no code of it for this GPU.
type Written = (&'static str, Result<Vec<u8>, ImageError>);

fn compare(outputs: &[Written]) -> StepResult {
    let headings = ["kernel", "outcome", "hash of its output"];
    let mut sheet = Sheet::new("Known answers", &headings, 3);
    let mut result = StepResult::default();
    let (mut right, mut wrong, mut lacking) = (0, Vec::new(), 0);
    for (name, output) in outputs {
        let (outcome, hash) = match output {
            Err(error) => {
                lacking += 1;
                (error.to_string(), "-".to_owned())
            }
            Ok(bytes) => {
                let hash = known::hash(bytes);
                let equal = known::expected(name) == Some(&hash);
                if equal {
                    right += 1;
                } else {
                    wrong.push(*name);
                    result.note(format!("{name} wrote {}", hexadecimal(bytes)));
                }
                let outcome = if equal { "equal" } else { "DIFFERS" };
                (outcome.to_owned(), hash)
            }
        };
        sheet.row([(*name).to_owned(), outcome, hash]);
    }
    result.tables.push(sheet);
    result.note(reasons());
    let all = right + wrong.len();
    let without = match lacking {
        0 => String::new(),
        lacking => format!("; {lacking} more have no code for this GPU"),
    };
    (result.claim, result.found) = match (right, wrong.as_slice()) {
        (0, []) => (Claim::Open, format!("no kernel ran{without}")),
        (_, []) => (
            Claim::Proven,
            format!("{right} of {all} kernels wrote the interpreter's bytes{without}"),
        ),
        (_, wrong) => (
            Claim::Refuted,
            format!(
                "{right} of {all} kernels wrote the interpreter's bytes; not so {}{without}",
                wrong.join(", ")
            ),
        ),
    };
    result
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn reasons() -> String {
    let reason = |(kernel, why): &(&str, &str)| format!("{kernel} ({why})");
    let reasons: Vec<String> = known::LEFT_OUT.iter().map(reason).collect();
    format!("Kernels without a known answer: {}.", reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use punctual_cuda_kernels::Module;

    use super::*;

    const LACKING: ImageError = ImageError::Unsupported {
        major: 7,
        minor: 2,
        module: Module::Gemm64x64,
    };

    #[test]
    fn a_kernel_that_wrote_other_bytes_refutes_and_is_named_with_its_bytes() {
        let result = compare(&[("pool", Ok(vec![0xA5, 0x01]))]);
        assert_eq!(result.claim, Claim::Refuted);
        assert!(result.found.contains("pool"), "{}", result.found);
        assert!(result.notes.contains(&"pool wrote a501".to_owned()));
    }

    #[test]
    fn kernels_without_code_for_the_gpu_prove_nothing_and_refute_nothing() {
        let result = compare(&[("conv_gemm_64x64", Err(LACKING))]);
        assert_eq!(result.claim, Claim::Open);
        assert!(result.tables[0].rows[0][1].contains("7.2"));
    }
}
