//! Settings that the CUDA driver takes from the environment, once, when it is initialised.

use std::fmt;
use std::fs;

/// An environment variable of the driver's, and what we need it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The driver's name of it.
    pub variable: &'static str,
    pub value: &'static str,
    /// What goes wrong with another value.
    why: &'static str,
}

/// "CUDA Programming Guide", appendix "CUDA Environment Variables".
pub const SETTINGS: [Setting; 2] = [
    // Streams beyond the number of queues share one and wait for each other. The default is 8, the most 32.
    Setting {
        variable: "CUDA_DEVICE_MAX_CONNECTIONS",
        value: "32",
        why: "streams that share a hardware queue wait for each other, also a real-time one for a best-effort one",
    },
    // Lazily, a kernel would be loaded at its first launch.
    Setting {
        variable: "CUDA_MODULE_LOADING",
        value: "EAGER",
        why: "the driver loads a kernel at its first launch, which then takes milliseconds",
    },
];

/// A setting that is not as we need it. What the user sets is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    pub setting: Setting,
    /// What the environment has; none: nothing.
    pub found: Option<String>,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting {
            variable,
            value,
            why,
        } = self.setting;
        match &self.found {
            Some(found) => write!(f, "{variable}={found} is kept as it is set")?,
            None => write!(f, "{variable} is not set")?,
        }
        write!(f, ": {why}; set {variable}={value}")
    }
}

/// Sets what the user has not set. For the first lines of `main`: the environment may be changed only while no other
/// thread can read it, so a process that has other threads already is left as it is ([`unmet`] tells).
pub fn prepare() {
    if !is_single_threaded() {
        return;
    }
    for Setting {
        variable, value, ..
    } in SETTINGS
    {
        if std::env::var_os(variable).is_none() {
            // SAFETY: this process has no thread but this one, which was just checked, so nothing reads the environment
            // meanwhile.
            unsafe { std::env::set_var(variable, value) };
        }
    }
}

/// What the driver is, or will be, initialised without.
#[must_use]
pub fn unmet() -> Vec<Unmet> {
    let found = SETTINGS.map(|setting| Unmet {
        setting,
        found: std::env::var_os(setting.variable).map(|value| value.to_string_lossy().into_owned()),
    });
    let is_unmet = |unmet: &Unmet| unmet.found.as_deref() != Some(unmet.setting.value);
    found.into_iter().filter(is_unmet).collect()
}

/// Whether the kernel knows no thread of this process but one. Where it does not tell, it may have others.
fn is_single_threaded() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(2).count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run on threads of their own, in addition to the main one.
    #[test]
    fn a_process_with_other_threads_is_left_as_it_is_and_says_what_it_lacks() {
        let before = SETTINGS.map(|setting| std::env::var_os(setting.variable));
        prepare();
        let after = SETTINGS.map(|setting| std::env::var_os(setting.variable));
        assert_eq!(before, after);
        let lacking = before.iter().filter(|found| found.is_none()).count();
        assert!(unmet().len() >= lacking);
    }

    #[test]
    fn a_setting_of_the_users_is_named_with_what_it_does() {
        let [connections, loading] = SETTINGS;
        let kept = Unmet {
            setting: connections,
            found: Some("8".to_owned()),
        };
        let said = kept.to_string();
        assert!(
            said.starts_with("CUDA_DEVICE_MAX_CONNECTIONS=8 is kept")
                && said.ends_with("set CUDA_DEVICE_MAX_CONNECTIONS=32"),
            "{said}"
        );
        let missing = Unmet {
            setting: loading,
            found: None,
        };
        let said = missing.to_string();
        assert!(said.starts_with("CUDA_MODULE_LOADING is not set"), "{said}");
    }
}
