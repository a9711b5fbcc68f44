//! Phase 1: everything that can be found out before anything is taken.

use std::path::Path;
use std::sync::Arc;

use punctual_core::ModelId;
use punctual_device_cpu::image_layout;
use punctual_kernels::Isa;
use punctual_model::Package;
use punctual_plan::{
    DeviceKind, Host, PackageCheck, PackageInput, Plan, PlanInputs, Policies, SocketRule,
};

use crate::error::StartupError;
use crate::lookup::{self, Found};
use crate::options::ManifestSource;
use crate::{Options, limits};

/// A plan and the networks that it is about.
pub struct Validated {
    pub plan: Plan,
    /// Whether it is of the last good configuration, as the present one is of no use.
    pub is_last_good: bool,
    pub devices: Found,
    /// What the plan was made from.
    pub inputs: PlanInputs,
}

impl Validated {
    /// The package of a model of the plan.
    pub fn package(&self, model: ModelId) -> &Package {
        let path = &self.plan.models[model.index()].package;
        let packages = &self.inputs.packages;
        let is_of_model = |input: &&PackageInput| Path::new(input.file()) == path;
        // Most often each model has a package of its own, in their order.
        let likely = packages.get(model.index()).filter(is_of_model);
        let package = likely
            .or_else(|| packages.iter().find(is_of_model))
            .and_then(|input| input.package.as_ref().ok());
        package.expect("a plan's packages were read")
    }
}

/// Finds out how the device will lay the network out, where the package does not say. A network that
/// the device refuses is refused when the device starts, with the operator's name.
fn lay_out(input: &mut PackageInput) {
    if let (None, Ok(package)) = (&input.layout, &input.package) {
        input.layout = image_layout(Isa::detect(), package.network()).ok();
    }
}

/// Reads manifest, packages and profiles, and looks at the devices that they need.
pub fn gather(
    manifest: &ManifestSource,
    options: &Options,
    policies: &Policies,
    host: Host,
) -> Result<(PlanInputs, Found), StartupError> {
    limits::check_any()?;
    manifest.check()?;
    let mut inputs = PlanInputs::read_from(
        &manifest.path,
        &manifest.files,
        &options.profiles,
        host,
        policies.clone(),
    )?;
    inputs.packages.iter_mut().for_each(lay_out);
    let devices = lookup::look(&mut inputs)?;
    Ok((inputs, devices))
}

/// Reads manifest, packages and profiles, makes the plan for this machine.
pub fn validate(
    manifest: &ManifestSource,
    options: &Options,
    policies: &Policies,
    host: Host,
) -> Result<Validated, StartupError> {
    let (mut inputs, devices) = gather(manifest, options, policies, host)?;
    let mut plan = Plan::build(&inputs)?;
    if manifest.files.check == PackageCheck::AsLoaded && !check_the_rest(&mut inputs, &plan) {
        plan = Plan::build(&inputs)?;
    }
    if let Some(socket) = &options.socket {
        check_socket(socket)?;
        plan.socket.clone_from(socket);
    }
    limits::check(&plan)?;
    Ok(Validated {
        plan,
        is_last_good: false,
        devices,
        inputs,
    })
}

/// Checks the packages of models on devices that do not check their weights as they load them. False if one is damaged.
fn check_the_rest(inputs: &mut PlanInputs, plan: &Plan) -> bool {
    let mut sound = true;
    for model in plan.models.iter().filter(|m| m.device != DeviceKind::Cpu) {
        let mut packages = inputs.packages.iter_mut();
        let input = packages.find(|input| Path::new(input.file()) == model.package);
        let Some(input) = input else {
            continue;
        };
        let Some(Err(error)) = input.package.as_ref().ok().map(Package::verify) else {
            continue;
        };
        input.package = Err(Arc::new(error));
        sound = false;
    }
    sound
}

/// As the manifest's `socket` is checked, one that was named otherwise.
pub fn check_socket(path: &Path) -> Result<(), StartupError> {
    SocketRule::of(path).map_or(Ok(()), |cause| {
        Err(StartupError::SocketPath {
            path: path.to_owned(),
            cause,
        })
    })
}
