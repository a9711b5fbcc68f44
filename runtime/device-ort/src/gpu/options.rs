//! What the library is told about an engine, as values.

use std::path::Path;

use ort::ep::{CUDA, ExecutionProvider, TensorRT};

/// An execution provider of ONNX Runtime for NVIDIA's GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuEngine {
    Cuda,
    /// What it does not take is run by the CUDA provider.
    Tensorrt,
}

/// One execution provider, and its options by the library's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    pub provider: &'static str,
    pub options: Vec<(&'static str, String)>,
}

/// How a session is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSetup {
    /// The most wanted first.
    pub providers: Vec<ProviderOptions>,
    /// Entries of the session's configuration.
    pub entries: Vec<(&'static str, &'static str)>,
    /// The handle of the stream that all providers launch into (`user_compute_stream`).
    pub stream: u64,
}

impl GpuEngine {
    pub const ALL: [Self; 2] = [Self::Cuda, Self::Tensorrt];

    /// Its name in the library.
    #[must_use]
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Cuda => CUDA::NAME,
            Self::Tensorrt => TensorRT::NAME,
        }
    }

    /// Whether the library that was loaded was built with it.
    #[must_use]
    pub fn is_available(self) -> bool {
        let found = match self {
            Self::Cuda => CUDA::is_available(),
            Self::Tensorrt => TensorRT::is_available(),
        };
        found.unwrap_or(false)
    }

    /// How its sessions are set up on GPU `ordinal`, on this stream. TensorRT keeps what it has built in `cache`.
    #[must_use]
    pub fn setup(self, ordinal: u32, stream: u64, cache: &Path) -> SessionSetup {
        let cuda = ProviderOptions {
            provider: CUDA::NAME,
            options: vec![
                ("device_id", ordinal.to_string()),
                // Chosen by trying, at the first run, which is before the device is ready.
                ("cudnn_conv_algo_search", "EXHAUSTIVE".to_owned()),
                // By default memory is taken in powers of two.
                ("arena_extend_strategy", "kSameAsRequested".to_owned()),
            ],
        };
        let tensorrt = ProviderOptions {
            provider: TensorRT::NAME,
            options: vec![
                ("device_id", ordinal.to_string()),
                // What ran in other streams would run on TPCs of others.
                ("trt_auxiliary_streams", "0".to_owned()),
                // As our own kernels on a GPU.
                ("trt_fp16_enable", "1".to_owned()),
                ("trt_engine_cache_enable", "1".to_owned()),
                ("trt_engine_cache_path", cache.display().to_string()),
                ("trt_timing_cache_enable", "1".to_owned()),
                ("trt_timing_cache_path", cache.display().to_string()),
            ],
        };
        SessionSetup {
            providers: match self {
                Self::Cuda => vec![cuda],
                Self::Tensorrt => vec![tensorrt, cuda],
            },
            entries: vec![
                // What ran on cores would be copied there and back, and waited for.
                ("session.disable_cpu_ep_fallback", "1"),
                ("session.intra_op.allow_spinning", "0"),
            ],
            stream,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'s>(setup: &'s SessionSetup, provider: &str, key: &str) -> Option<&'s str> {
        let provider = setup.providers.iter().find(|p| p.provider == provider)?;
        let option = provider.options.iter().find(|(name, _)| *name == key)?;
        Some(&option.1)
    }

    #[test]
    fn tensorrt_has_no_streams_of_its_own_and_hands_on_to_cuda_on_the_same_stream() {
        let setup = GpuEngine::Tensorrt.setup(1, 0xabc, Path::new("/cache"));
        let names: Vec<&str> = setup.providers.iter().map(|p| p.provider).collect();
        assert_eq!(
            names,
            ["TensorrtExecutionProvider", "CUDAExecutionProvider"]
        );
        let of_tensorrt = |key| value(&setup, names[0], key);
        assert_eq!(of_tensorrt("trt_auxiliary_streams"), Some("0"));
        assert_eq!(of_tensorrt("trt_engine_cache_enable"), Some("1"));
        assert_eq!(of_tensorrt("trt_engine_cache_path"), Some("/cache"));
        for name in &names {
            assert_eq!(value(&setup, name, "device_id"), Some("1"));
        }
        assert_eq!(setup.stream, 0xabc);
    }

    #[test]
    fn nothing_of_a_session_falls_back_to_cores() {
        for engine in GpuEngine::ALL {
            let setup = engine.setup(0, 1, Path::new(""));
            let entry = ("session.disable_cpu_ep_fallback", "1");
            assert!(setup.entries.contains(&entry));
            assert_eq!(setup.providers[0].provider, engine.provider());
        }
    }
}
