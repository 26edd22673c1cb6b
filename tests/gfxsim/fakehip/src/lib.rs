#![doc = include_str!("../README.md")]
#![allow(non_snake_case, reason = "the names of HIP's functions")]
#![allow(missing_docs, reason = "HIP's manual documents them")]
#![allow(clippy::missing_safety_doc, reason = "as HIP's manual says: live pointers to what the names say")]

mod device;
mod settings;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use device::Device;
use settings::Settings;

/// The errors that the fake gives of its own accord.
#[derive(Clone, Copy)]
enum Code {
    InvalidValue = 1,
    InvalidConfiguration = 9,
    InvalidMemcpyDirection = 21,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    NoBinaryForGpu = 209,
    InvalidHandle = 400,
    NotFound = 500,
    IllegalAddress = 700,
    LaunchFailure = 719,
}

/// Notes a call and gives its answer: the one that the environment prescribes, or what the work comes to.
fn answer(call: &str, work: impl FnOnce(&Settings, &mut Device) -> Result<(), Code>) -> c_int {
    static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
    let settings = Settings::get();
    settings.log(call);
    if let Some(code) = settings.failure(call) {
        return code;
    }
    let mut device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    work(settings, device.get_or_insert_default()).map_or_else(|code| code as c_int, |()| 0)
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::InvalidValue);
    }
    // SAFETY: it is not null, and else the caller answers for it.
    unsafe { to.write(value) };
    Ok(())
}

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

fn arch(settings: &Settings, device: c_int) -> Result<&str, Code> {
    let found = usize::try_from(device).ok().and_then(|index| settings.archs.get(index));
    found.map(String::as_str).ok_or(Code::InvalidDevice)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipInit(flags: c_uint) -> c_int {
    answer("hipInit", |settings, _| match (flags, settings.archs.is_empty()) {
        (0, false) => Ok(()),
        (0, true) => Err(Code::NoDevice),
        _ => Err(Code::InvalidValue),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    answer("hipGetDeviceCount", |settings, _| {
        // SAFETY: the caller's pointer.
        unsafe { give(count, settings.archs.len() as c_int) }?;
        if settings.archs.is_empty() { Err(Code::NoDevice) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer.
    answer("hipGetDevice", |_, _| unsafe { give(device, CURRENT.get()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> c_int {
    answer("hipSetDevice", |settings, _| {
        arch(settings, device)?;
        CURRENT.set(device);
        Ok(())
    })
}

/// hipDeviceProp_t of `SIZE` bytes with gcnArchName at `ARCH`, and zeros elsewhere.
///
/// # Safety
/// The pointer is null or valid for a write of that many bytes.
unsafe fn properties<const SIZE: usize, const ARCH: usize>(call: &str, to: *mut c_void, device: c_int) -> c_int {
    answer(call, |settings, _| {
        let name = arch(settings, device)?;
        let mut bytes = [0_u8; SIZE];
        bytes[ARCH..ARCH + name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: as above.
        unsafe { give(to.cast(), bytes) }
    })
}

/// Sizes and offsets of the structs: hip_runtime_api.h of ROCm 5.2 and of ROCm 6.0 to 7.2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceProperties(to: *mut c_void, device: c_int) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { properties::<792, 396>("hipGetDeviceProperties", to, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(to: *mut c_void, device: c_int) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { properties::<1472, 1160>("hipGetDevicePropertiesR0600", to, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    answer("hipModuleLoadData", |settings, device| {
        // SAFETY: the caller's image is a whole ELF file.
        let handle = device.load(settings, arch(settings, CURRENT.get())?, unsafe { elf(image.cast()) }?)?;
        // SAFETY: the caller's pointer.
        unsafe { give(module, std::ptr::without_provenance_mut(handle)) }
    })
}

/// The bytes of an ELF file, which ends with its section headers.
///
/// # Safety
/// Null, or the address of a whole ELF file or of at least four other bytes, which live for `'a`.
unsafe fn elf<'a>(image: *const u8) -> Result<&'a [u8], Code> {
    // SAFETY: as above; the first four bytes show an ELF file, whose header has 64.
    unsafe {
        if image.is_null() || std::slice::from_raw_parts(image, 4) != b"\x7fELF" {
            return Err(Code::InvalidImage);
        }
        let header = std::slice::from_raw_parts(image, 64);
        let number = |at: usize, bytes: usize| {
            header[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
        };
        let (headers, size, count) = (number(40, 8), number(58, 2), number(60, 2));
        Ok(std::slice::from_raw_parts(image, headers + size * count))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    answer("hipModuleGetFunction", |_, device| {
        if name.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: the caller's string, which is not null.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Code::NotFound)?;
        let handle = device.function(module.addr(), name)?;
        // SAFETY: the caller's pointer.
        unsafe { give(function, std::ptr::without_provenance_mut(handle)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    if Settings::get().idle {
        return 0;
    }
    answer("hipModuleLaunchKernel", |settings, device| {
        if !parameters.is_null() {
            eprintln!("fakehip: kernelParams is given; only a packed buffer is understood");
            return Err(Code::InvalidValue);
        }
        // SAFETY: the caller's list.
        let kernarg = unsafe { packed(extra) }?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        settings.log(&format!(
            "launch {} grid {grid:?} block {block:?} lds {dynamic_lds} stream {:#x} kernarg {}",
            device.name(function.addr())?,
            stream.addr(),
            kernarg.len()
        ));
        device.launch(settings, function.addr(), [grid, block], dynamic_lds, kernarg)
    })
}

/// The packed arguments out of HIP_LAUNCH_PARAM_BUFFER_POINTER (1), _SIZE (2) and _END (3).
///
/// # Safety
/// Null, or a list of keys and values that ends with `_END`, the values live for `'a`.
unsafe fn packed<'a>(extra: *mut *mut c_void) -> Result<&'a [u8], Code> {
    let (mut buffer, mut size, mut at) = (std::ptr::null::<u8>(), None, extra);
    if extra.is_null() {
        return Err(Code::InvalidValue);
    }
    // SAFETY: the list goes on until its end is met, and what it points to is live.
    unsafe {
        while (*at).addr() != 3 {
            match (*at).addr() {
                1 => buffer = (*at.add(1)).cast(),
                2 => size = Some(*(*at.add(1)).cast::<usize>()),
                _ => return Err(Code::InvalidValue),
            }
            at = at.add(2);
        }
        match size {
            Some(size) if !buffer.is_null() => Ok(std::slice::from_raw_parts(buffer, size)),
            _ => Err(Code::InvalidValue),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(address: *mut u64, bytes: usize) -> c_int {
    // SAFETY: the caller's pointer.
    answer("hipMalloc", |_, device| unsafe { give(address, device.allocate(bytes)) })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipFree(address: u64) -> c_int {
    answer("hipFree", |_, device| if address == 0 { Ok(()) } else { device.free(address) })
}

/// From the host (kind 1) or to it (kind 2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpy(to: u64, from: u64, bytes: usize, kind: c_int) -> c_int {
    let host = |address: u64| std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    answer("hipMemcpy", |_, device| match kind {
        // SAFETY: the caller's memory, readable.
        1 => device.write(to, unsafe { std::slice::from_raw_parts(host(from), bytes) }),
        // SAFETY: the caller's memory, writable.
        2 => device.read(from, unsafe { std::slice::from_raw_parts_mut(host(to), bytes) }),
        _ => Err(Code::InvalidMemcpyDirection),
    })
}
