use super::*;

/// A launch of a driver that calls back with these parameters.
fn called_back(masks: LaunchMasks, mask: TpcMask, parameters: &[usize]) -> Result<(), ApplyError> {
    let launch = || {
        // SAFETY: parameters that begin with their size, and a descriptor of the test's where there is one.
        unsafe {
            on_descriptor(
                std::ptr::null_mut(),
                DOMAIN,
                EVENT,
                parameters.as_ptr().cast(),
            );
        }
        0
    };
    masks.masked(mask, launch).1
}

const ORIN: LaunchMasks = LaunchMasks {
    layouts: Layouts::Published(Generation::UpToAda),
};

fn parameters(descriptor: &mut [u32; 96]) -> [usize; 5] {
    [40, 0, 0, 0, descriptor.as_mut_ptr() as usize]
}

/// One of version 2.4.
fn descriptor() -> [u32; 96] {
    let mut descriptor = [0; 96];
    descriptor[72 / 4] = 0x24;
    descriptor
}

#[test]
fn a_masked_launch_has_its_mask_in_its_descriptor() {
    let mut descriptor = descriptor();
    let parameters = parameters(&mut descriptor);
    let mask = TpcMask::enabling([0, 33]);
    assert_eq!(called_back(ORIN, mask, &parameters), Ok(()));
    assert_eq!((descriptor[21], descriptor[22]), (!1, !2));
}

#[test]
fn a_launch_that_is_not_masked_is_left_as_it_is() {
    let mut descriptor = descriptor();
    let parameters = parameters(&mut descriptor);
    // SAFETY: as in `called_back`.
    unsafe {
        on_descriptor(
            std::ptr::null_mut(),
            DOMAIN,
            EVENT,
            parameters.as_ptr().cast(),
        );
    }
    assert_eq!(descriptor, self::descriptor());
}

#[test]
fn a_launch_of_another_thread_is_left_as_it_is() {
    let mut descriptor = descriptor();
    let parameters = parameters(&mut descriptor);
    let launch = || {
        let other = std::thread::scope(|scope| {
            let of_another = scope.spawn(|| called_nothing(&parameters));
            of_another.join()
        });
        other.expect("it ends");
        0
    };
    let (_, outcome) = ORIN.masked(TpcMask::enabling([0]), launch);
    assert_eq!(outcome, Err(ApplyError::NotCalled));
    assert_eq!(descriptor, self::descriptor());
}

fn called_nothing(parameters: &[usize; 5]) {
    // SAFETY: as in `called_back`.
    unsafe {
        on_descriptor(
            std::ptr::null_mut(),
            DOMAIN,
            EVENT,
            parameters.as_ptr().cast(),
        );
    }
}

#[test]
fn what_is_not_a_known_descriptor_is_refused_and_not_written() {
    let mask = TpcMask::enabling([0]);
    let needed = 40;
    assert_eq!(
        called_back(ORIN, mask, &[32, 0, 0, 0]),
        Err(ApplyError::ShortParameters { bytes: 32, needed })
    );
    assert_eq!(
        called_back(ORIN, mask, &[40, 0, 0, 0, 0]),
        Err(ApplyError::NoDescriptor)
    );
    let mut of_hopper = [0; 96];
    of_hopper[72 / 4] = 0x40;
    let before = of_hopper;
    let parameters = parameters(&mut of_hopper);
    let version = VersionBytes {
        at_58: 0,
        at_72: 0x40,
    };
    let refused = called_back(ORIN, mask, &parameters);
    assert_eq!(refused, Err(ApplyError::UnknownVersion { version }));
    assert!(
        ApplyError::UnknownVersion { version }
            .to_string()
            .contains("byte 72: 0x40")
    );
    assert_eq!(of_hopper, before);
}

#[test]
fn what_the_last_launch_of_a_thread_lacked_is_kept_until_the_next() {
    let mask = TpcMask::enabling([0]);
    assert_eq!(ORIN.masked(mask, || 0), (0, Err(ApplyError::NotCalled)));
    assert_eq!(last_error(), Some(ApplyError::NotCalled));
    // A launch that failed has no descriptor to be called back for.
    assert_eq!(ORIN.masked(mask, || 719), (719, Ok(())));
    assert_eq!(last_error(), None);
}

#[test]
fn a_mask_is_for_one_launch() {
    let mut descriptor = descriptor();
    let parameters = parameters(&mut descriptor);
    assert_eq!(
        called_back(ORIN, TpcMask::enabling([0]), &parameters),
        Ok(())
    );
    descriptor = self::descriptor();
    called_nothing(&parameters);
    assert_eq!(descriptor, self::descriptor());
}

unsafe extern "C" fn no_table(_to: *mut *const c_void, _name: *const [u8; 16]) -> u32 {
    500
}

unsafe extern "C" fn short_table(to: *mut *const c_void, _name: *const [u8; 16]) -> u32 {
    static TABLE: [usize; 2] = [16, 0];
    // SAFETY: the caller's place for the result.
    unsafe { to.write((&raw const TABLE).cast()) };
    0
}

#[test]
fn a_driver_without_the_table_is_refused_by_name() {
    // SAFETY: functions that give no table, or one of which nothing but its size is read.
    let (none, short) = unsafe {
        (
            LaunchMasks::install(no_table, Generation::UpToAda, None),
            LaunchMasks::install(short_table, Generation::UpToAda, None),
        )
    };
    assert_eq!(none, Err(InstallError::NoTable { code: 500 }));
    let needed = 7 * size_of::<usize>();
    assert_eq!(short, Err(InstallError::ShortTable { bytes: 16, needed }));
}
