//! The HIP runtime of the process: found, asked and called at run time, so that nothing links to it.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use crate::HipError;
use crate::abi::Arguments;
use crate::error::{Error, Result};
use crate::kernels::{architectures, code_object};

/// What the runtime is called.
const STEM: &str = "libamdhip64";
/// Tried when none is mapped.
const NAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// A stream of the HIP runtime, as the address that torch gives; 0 is the default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stream(pub usize);

/// Workgroups of a launch, and work-items of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Workgroups along x, y and z.
    pub grid: [u32; 3],
    /// Work-items along x.
    pub block: u32,
    /// LDS beside that of the kernel, in bytes.
    pub dynamic_lds: u32,
}

type Handle = *mut c_void;
/// hipModuleLaunchKernel.
type Launch = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// The functions that the launcher needs.
struct Runtime {
    path: String,
    init: unsafe extern "C" fn(c_uint) -> c_int,
    device_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_int,
    properties: Properties,
    load: unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int,
    function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int,
    launch: Launch,
    // The functions above are its.
    _library: Library,
}

/// hipGetDeviceProperties, by the version of its struct.
struct Properties {
    call: unsafe extern "C" fn(*mut u8, c_int) -> c_int,
    /// Offset of gcnArchName.
    arch: usize,
}

/// Where gcnArchName stands in hipDeviceProp_tR0600 (ROCm 6 and later), and in the struct before it. Larger than either struct.
const PROPERTIES_BYTES: usize = 4096;
const ARCH_R0600: usize = 1160;
const ARCH_R0000: usize = 396;
const ARCH_BYTES: usize = 256;

impl Runtime {
    /// The one runtime of the process. Only a runtime that was found is kept: torch may load one after the first question.
    fn get() -> Result<&'static Self> {
        static FOUND: Mutex<Option<&'static Runtime>> = Mutex::new(None);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        match *found {
            Some(runtime) => Ok(runtime),
            None => Ok(found.insert(Box::leak(Box::new(Self::find()?)))),
        }
    }

    fn find() -> Result<Self> {
        // Two runtimes in one process break: the one that torch has mapped comes first.
        if let Some((library, path)) = mapped() {
            return Self::bind(library, path);
        }
        for name in NAMES {
            // SAFETY: loading runs the library's initialisers, which is what its users, torch among them, do too.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Self::bind(library, name.to_owned());
            }
        }
        Err(Error::NoRuntime { tried: NAMES.join(", ") })
    }

    fn bind(library: Library, path: String) -> Result<Self> {
        fn symbol<T: Copy>(library: &Library, path: &str, name: &'static str) -> Result<T> {
            // SAFETY: `T` is the function's type in HIP's public headers, unchanged since ROCm 4.
            let found = unsafe { library.get::<T>(name.as_bytes()) };
            found.map(|symbol| *symbol).map_err(|_| Error::MissingSymbol { library: path.to_owned(), symbol: name })
        }
        let properties = match symbol(&library, &path, "hipGetDevicePropertiesR0600") {
            Ok(call) => Properties { call, arch: ARCH_R0600 },
            Err(_) => Properties { call: symbol(&library, &path, "hipGetDeviceProperties")?, arch: ARCH_R0000 },
        };
        Ok(Self {
            init: symbol(&library, &path, "hipInit")?,
            device_count: symbol(&library, &path, "hipGetDeviceCount")?,
            get_device: symbol(&library, &path, "hipGetDevice")?,
            properties,
            load: symbol(&library, &path, "hipModuleLoadData")?,
            function: symbol(&library, &path, "hipModuleGetFunction")?,
            launch: symbol(&library, &path, "hipModuleLaunchKernel")?,
            path,
            _library: library,
        })
    }

    /// The architecture of the current device, without features such as `:sramecc+`.
    fn architecture(&self) -> Result<String> {
        let (mut count, mut device) = (0, 0);
        let mut properties = [0_u8; PROPERTIES_BYTES];
        // SAFETY: the pointers are to live variables; the properties have room for the struct of every version.
        unsafe {
            let asked = check("hipInit", (self.init)(0))
                .and_then(|()| check("hipGetDeviceCount", (self.device_count)(&mut count)));
            // Without a GPU ROCm answers one or the other, by its version; or that there are none.
            match asked {
                Err(Error::Hip { error: HipError::NoDevice | HipError::InvalidDevice, .. }) => count = 0,
                asked => asked?,
            }
            if count == 0 {
                return Err(Error::NoGpu { library: self.path.clone() });
            }
            check("hipGetDevice", (self.get_device)(&mut device))?;
            check("hipGetDeviceProperties", (self.properties.call)(properties.as_mut_ptr(), device))?;
        }
        let name = &properties[self.properties.arch..self.properties.arch + ARCH_BYTES];
        let name = String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
        Ok(name.split(':').next().unwrap_or_default().to_owned())
    }
}

/// The runtime that the process has mapped already, and its path.
fn mapped() -> Option<(Library, String)> {
    // Absent where there is no ROCm either. Five fields come before the path, which may hold spaces.
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    // Wheels have names such as libamdhip64-0123abcd.so.6.
    let mut runtimes: Vec<_> = paths
        .filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with(STEM) && name.contains(".so")))
        .collect();
    runtimes.dedup();
    runtimes.into_iter().find_map(|path| Some((loaded(path)?, path.to_owned())))
}

/// A library that is loaded; not a file that somebody merely reads, and never a second copy.
#[cfg(unix)]
fn loaded(path: &str) -> Option<Library> {
    use libloading::os::unix;
    // SAFETY: the library has been loaded and initialised by others.
    unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | libc::RTLD_NOLOAD) }.ok().map(Library::from)
}

#[cfg(not(unix))]
fn loaded(_path: &str) -> Option<Library> {
    None
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Hip { call, error: HipError::from_code(code) }) }
}

/// A kernel that the runtime has loaded.
#[derive(Debug, Clone, Copy)]
pub struct Function(Handle);

// SAFETY: HIP's function handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The GPU that is current when it is opened, with the kernels loaded so far. Threads may share it; the same GPU must be current whenever
/// they use it.
pub struct Device {
    runtime: &'static Runtime,
    arch: &'static str,
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    modules: HashMap<&'static str, Module>,
    functions: HashMap<String, Function>,
}

struct Module(Handle);

// SAFETY: HIP's module handles may be used from any thread.
unsafe impl Send for Module {}

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Device").field("arch", &self.arch).field("runtime", &self.runtime.path).finish()
    }
}

impl Device {
    /// The current GPU of the process.
    ///
    /// # Errors
    /// [`Error::NoRuntime`], [`Error::NoGpu`] and [`Error::ArchitectureNotShipped`] are the answers of a machine that can't run the
    /// kernels; [`Error::MissingSymbol`] and [`Error::Hip`] those of a broken one.
    pub fn open() -> Result<Self> {
        let runtime = Runtime::get()?;
        let found = runtime.architecture()?;
        let shipped = architectures();
        match shipped.iter().find(|&&arch| arch == found) {
            Some(arch) => Ok(Self { runtime, arch, loaded: Mutex::default() }),
            None => Err(Error::ArchitectureNotShipped { found, shipped }),
        }
    }

    /// Its architecture.
    pub fn arch(&self) -> &'static str {
        self.arch
    }

    /// Path or name of the HIP runtime in use.
    pub fn runtime(&self) -> &'static str {
        &self.runtime.path
    }

    /// A kernel by the name of its source in `hip/` and its own; loaded once, to the GPU that is current then.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::Hip`].
    pub fn function(&self, source: &str, kernel: &str) -> Result<Function> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.functions.get(kernel) {
            return Ok(*function);
        }
        let unknown = || Error::UnknownKernel(format!("{source}/{kernel}"));
        let object = code_object(source, self.arch).ok_or_else(unknown)?;
        let name = CString::new(kernel).map_err(|_| unknown())?;
        let module = match loaded.modules.get(object.source) {
            Some(module) => module.0,
            None => {
                let mut module = std::ptr::null_mut();
                // SAFETY: the image is a whole code object that lives as long as the process.
                let code = unsafe { (self.runtime.load)(&mut module, object.bytes.as_ptr().cast()) };
                check("hipModuleLoadData", code)?;
                loaded.modules.insert(object.source, Module(module));
                module
            }
        };
        let mut function = std::ptr::null_mut();
        // SAFETY: the module was loaded above or before, the name ends in 0.
        let code = unsafe { (self.runtime.function)(&mut function, module, name.as_ptr()) };
        check("hipModuleGetFunction", code)?;
        loaded.functions.insert(kernel.to_owned(), Function(function));
        Ok(Function(function))
    }

    /// Puts a launch on a stream and returns at once.
    ///
    /// # Errors
    /// [`Error::Hip`].
    ///
    /// # Safety
    /// `arguments` must be those of the kernel, and every address in them valid on the device, for what the kernel does with it, until the
    /// stream has passed the launch.
    pub unsafe fn launch<A: Arguments>(
        &self,
        function: Function,
        geometry: Geometry,
        stream: Stream,
        arguments: &A,
    ) -> Result<()> {
        let bytes = arguments.bytes();
        let mut size = bytes.len();
        // HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END: one packed buffer, which the runtime copies.
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1),
            bytes.as_ptr().cast_mut().cast(),
            std::ptr::without_provenance_mut(2),
            std::ptr::from_mut(&mut size).cast(),
            std::ptr::without_provenance_mut(3),
        ];
        let [x, y, z] = geometry.grid;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        // SAFETY: the handles are live, the buffers outlive the call; the caller answers for the arguments.
        let code = unsafe {
            (self.runtime.launch)(
                function.0,
                x,
                y,
                z,
                geometry.block,
                1,
                1,
                geometry.dynamic_lds,
                std::ptr::with_exposed_provenance_mut(stream.0),
                std::ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        };
        check("hipModuleLaunchKernel", code)
    }
}
