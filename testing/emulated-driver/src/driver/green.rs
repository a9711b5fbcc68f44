//! Green contexts: streams on a part of the multiprocessors.
use super::context;
use super::objects::Green;
use super::state::{DRIVER, Device};
use crate::code::{Code, Outcome};
use crate::config::Config;

/// `CU_DEV_RESOURCE_TYPE_SM`
pub(crate) const SM: u32 = 1;
/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING`
const IGNORE_COSCHEDULING: u32 = 1;
/// `CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE`
const MAX_CLUSTER: u32 = 2;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, without which none can be made.
const DEFAULT_STREAM: u32 = 1;

/// Bytes of a resource in which the driver keeps what it likes: here a bit for each multiprocessor.
const PRIVATE_BYTES: usize = 92;

/// A `CUdevResource`, in CUDA 12.4 to 13.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: u32,
    private: [u8; PRIVATE_BYTES],
    sm_count: u32,
    rest: [u8; 44],
}

impl Resource {
    fn of(sms: &[u32]) -> Self {
        let mut private = [0; PRIVATE_BYTES];
        for &sm in sms {
            private[sm as usize / 8] |= 1 << (sm % 8);
        }
        Self {
            kind: SM,
            private,
            sm_count: sms.len() as u32,
            rest: [0; 44],
        }
    }

    fn sms(&self) -> Outcome<Vec<u32>> {
        if self.kind != SM {
            return Err(Code::INVALID_VALUE);
        }
        let bit = |sm: &u32| self.private[*sm as usize / 8] >> (sm % 8) & 1 == 1;
        Ok((0..8 * PRIVATE_BYTES as u32).filter(bit).collect())
    }
}

/// The least size of a group, and what sizes are multiples of, as documented for each architecture.
fn granularity(config: &Config, flags: u32) -> (u32, u32) {
    if flags & IGNORE_COSCHEDULING != 0 {
        return (2, 2);
    }
    match config.compute.0 {
        0..=6 => (1, 1),
        7 => (2, 2),
        8 => (4, 2),
        _ => (8, 8),
    }
}

fn since_12_4(device: &mut Device, name: &str) -> Outcome {
    if device.config.lacks(name) {
        Err(Code::NOT_SUPPORTED)
    } else {
        Ok(())
    }
}

pub(crate) fn of_device(device: i32, kind: u32) -> Outcome<Resource> {
    let mut state = DRIVER.lock();
    let device = super::device::known(&mut state, device)?;
    since_12_4(device, "cuDeviceGetDevResource")?;
    if kind != SM {
        return Err(Code::INVALID_VALUE);
    }
    let sms: Vec<u32> = (0..device.config.sms()).collect();
    Ok(Resource::of(&sms))
}

/// Groups of equal size, as many as there is room and need for, and what is left.
pub(crate) struct Split {
    pub(crate) groups: Vec<Resource>,
    pub(crate) rest: Resource,
}

/// At most `groups` groups (none: all that can be made) of at least `least` multiprocessors.
pub(crate) fn split(
    input: &Resource,
    groups: Option<u32>,
    flags: u32,
    least: u32,
) -> Outcome<Split> {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    since_12_4(device, "cuDevSmResourceSplitByCount")?;
    if flags & !(IGNORE_COSCHEDULING | MAX_CLUSTER) != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if flags & IGNORE_COSCHEDULING != 0 && !device.config.green_fine {
        return Err(Code::INVALID_VALUE);
    }
    let (smallest, step) = granularity(&device.config, flags);
    let size = least.max(smallest).next_multiple_of(step) as usize;
    let sms = input.sms()?;
    let possible = sms.len() / size;
    let made = groups.map_or(possible, |groups| possible.min(groups as usize));
    let (used, rest) = sms.split_at(made * size);
    if made == 0 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Split {
        groups: used.chunks(size).map(Resource::of).collect(),
        rest: Resource::of(rest),
    })
}

pub(crate) fn describe(resources: &[Resource]) -> Outcome<usize> {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    since_12_4(device, "cuDevResourceGenerateDesc")?;
    let mut all = Vec::new();
    for resource in resources {
        for sm in resource.sms()? {
            // Groups that overlap are not of one split.
            if all.contains(&sm) {
                return Err(Code::INVALID_VALUE);
            }
            all.push(sm);
        }
    }
    if all.is_empty() {
        return Err(Code::INVALID_VALUE);
    }
    all.sort_unstable();
    let handle = device.handle();
    device.descriptions.insert(handle, all);
    Ok(handle)
}

pub(crate) fn create(description: usize, device: i32, flags: u32) -> Outcome<usize> {
    let mut state = DRIVER.lock();
    let device = super::device::known(&mut state, device)?;
    since_12_4(device, "cuGreenCtxCreate")?;
    if flags != DEFAULT_STREAM {
        return Err(Code::INVALID_VALUE);
    }
    let sms = device
        .descriptions
        .get(&description)
        .cloned()
        .ok_or(Code::INVALID_VALUE)?;
    let (handle, context) = (device.handle(), device.handle());
    device.green.insert(handle, Green { sms, context });
    Ok(handle)
}

/// Its streams keep what they have.
pub(crate) fn destroy(green: usize) -> Outcome {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    device
        .green
        .remove(&green)
        .map(drop)
        .ok_or(Code::INVALID_HANDLE)
}

pub(crate) fn as_context(green: usize) -> Outcome<usize> {
    let mut state = DRIVER.lock();
    let device = state.device()?;
    since_12_4(device, "cuCtxFromGreenCtx")?;
    let green = device.green.get(&green).ok_or(Code::INVALID_HANDLE)?;
    Ok(green.context)
}

pub(crate) fn create_stream(green: usize, flags: u32, priority: i32) -> Outcome<usize> {
    context::with(|device| {
        since_12_4(device, "cuGreenCtxStreamCreate")?;
        let green = device.green.get(&green).ok_or(Code::INVALID_HANDLE)?;
        let sms = green.sms.clone();
        // Documented: such streams keep no order with the default stream.
        if flags != super::stream::NON_BLOCKING {
            return Err(Code::INVALID_VALUE);
        }
        device.new_stream(flags, priority, Some(sms))
    })
}
