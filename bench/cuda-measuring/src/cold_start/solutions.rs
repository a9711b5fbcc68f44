//! Which kernels are loaded, by what they can replace: PASK's categorical cache.

use punctual_cuda_kernels::params::Pattern;
use punctual_cuda_kernels::{KERNELS, Kernel, Module};

/// The kernels of loaded modules, by pattern, the most recently used first.
#[derive(Debug, Default)]
pub(super) struct Solutions {
    modules: Vec<Module>,
    recent: Vec<&'static Kernel>,
}

/// What must be done for a launch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    Use,
    /// Its kernel must be loaded first.
    Load,
    /// This one is loaded, and computes the same.
    Replace(&'static Kernel),
}

impl Solutions {
    /// A module was loaded, for `wanted`.
    pub(super) fn loaded(&mut self, module: Module) {
        self.modules.push(module);
        let new = KERNELS.iter().filter(|kernel| kernel.module == module);
        for kernel in new.filter(|kernel| kernel.pattern.is_some()) {
            self.recent.insert(0, kernel);
        }
    }

    pub(super) fn is_loaded(&self, module: Module) -> bool {
        self.modules.contains(&module)
    }

    /// A kernel is used: it is the most recent one.
    fn used(&mut self, kernel: &'static Kernel) {
        let known = self.recent.iter().position(|each| each.name == kernel.name);
        if let Some(position) = known {
            self.recent[..=position].rotate_right(1);
        }
    }

    /// The most recently used kernel of a pattern. Any is applicable: kernels of a pattern compute
    /// the same from the same arguments.
    fn stand_in(&self, pattern: Option<Pattern>) -> Option<&'static Kernel> {
        let pattern = pattern?;
        let mut recent = self.recent.iter().copied();
        recent.find(|kernel| kernel.pattern == Some(pattern))
    }

    /// What to do for a launch of `wanted`.
    pub(super) fn plan(&mut self, wanted: &'static Kernel, may_replace: bool) -> Plan {
        if self.is_loaded(wanted.module) {
            self.used(wanted);
            return Plan::Use;
        }
        match self.stand_in(wanted.pattern).filter(|_| may_replace) {
            Some(kernel) => {
                self.used(kernel);
                Plan::Replace(kernel)
            }
            None => Plan::Load,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_cuda_kernels::kernel;

    fn known(name: &str) -> &'static Kernel {
        kernel(name).expect("in the table")
    }

    #[test]
    fn the_most_recently_used_kernel_of_the_pattern_stands_in() {
        let mut cache = Solutions::default();
        let wanted = known("conv_gemm_128x128");
        let plan = |cache: &mut Solutions, wanted, past| match cache.plan(wanted, past) {
            Plan::Use => "use",
            Plan::Load => "load",
            Plan::Replace(kernel) => kernel.name,
        };
        assert_eq!(plan(&mut cache, wanted, true), "load");
        cache.loaded(Module::General);
        assert_eq!(plan(&mut cache, wanted, false), "load");
        assert_eq!(plan(&mut cache, wanted, true), "conv_dense_general");
        cache.loaded(Module::Gemm64x64);
        cache.loaded(Module::Gemm64x32);
        assert_eq!(plan(&mut cache, wanted, true), "conv_gemm_64x32");
        assert_eq!(plan(&mut cache, known("conv_gemm_64x64"), true), "use");
        assert_eq!(plan(&mut cache, wanted, true), "conv_gemm_64x64");
        // Other patterns have their own.
        let depthwise = known("conv_depthwise_general");
        assert_eq!(plan(&mut cache, depthwise, true), "use");
        assert_eq!(plan(&mut cache, wanted, true), "conv_gemm_64x64");
    }

    #[test]
    fn what_has_no_pattern_is_never_replaced() {
        let mut cache = Solutions::default();
        cache.loaded(Module::Gemm64x64);
        let plan = cache.plan(known("pool"), true);
        assert!(matches!(plan, Plan::Load));
    }
}
