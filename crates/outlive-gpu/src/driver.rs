//! The driver: a shared library, loaded on demand and never unloaded.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::api::{self, Api, Code};
use crate::gpu::Gpu;
use crate::{DevicePointer, GpuError};

/// The CUDA driver, loaded into this process.
///
/// ```
/// use outlive_gpu::{Driver, GpuError};
/// match Driver::open().and_then(|driver| driver.gpu(0)) {
///     Ok(gpu) => println!("{}", gpu.name()),
///     Err(GpuError::NoGpu { why }) => println!("none here: {why}"),
///     Err(other) => return Err(other),
/// }
/// # Ok::<(), GpuError>(())
/// ```
#[derive(Clone)]
pub struct Driver {
    pub(crate) api: Arc<Api>,
}

impl Driver {
    /// Loads the machine's own driver, libcuda.so.1.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`] where there is none, where it is older than CUDA 11.4 or newer than this
    /// machine's kernel module, and where it finds no GPU.
    pub fn open() -> Result<Driver, GpuError> {
        Driver::load(Path::new("libcuda.so.1"))
    }

    /// Loads a driver by the path of its shared library.
    ///
    /// # Errors
    /// The errors of [`Driver::open`].
    pub fn load(library: &Path) -> Result<Driver, GpuError> {
        let no_gpu = |why: String| GpuError::NoGpu { why };
        let name = CString::new(OsStr::as_bytes(library.as_os_str()))
            .map_err(|_| no_gpu("a path with NUL".to_owned()))?;
        // SAFETY: a NUL-terminated name. The library's constructors run as with any library that a
        // program links.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(no_gpu(last_dl_error()));
        }
        // SAFETY: a handle of a library that is never unloaded, and a NUL-terminated name.
        let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
        // SAFETY: a library that is called libcuda.so.1, or whose path the caller gives, has the
        // driver's functions.
        let api = unsafe { Api::find(find) };
        let api = api.map_err(|missing| {
            no_gpu(format!("the driver has no {}", missing.to_string_lossy()))
        })?;
        // SAFETY: the driver's first call, with the only valid flags.
        match unsafe { (api.init)(0) } {
            api::SUCCESS => Ok(Driver { api: Arc::new(api) }),
            api::NO_DEVICE => Err(no_gpu("the driver finds none".to_owned())),
            code => Err(no_gpu(describe(&api, "cuInit", code).to_string())),
        }
    }

    /// Returns how many GPUs there are.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn count(&self) -> Result<u32, GpuError> {
        let mut count = 0;
        // SAFETY: `count` is a place for a number.
        self.check("cuDeviceGetCount", unsafe { (self.api.device_count)(&mut count) })?;
        Ok(count.try_into().unwrap_or(0))
    }

    /// Returns the GPU of that number, by its primary context: the one that the CUDA runtime,
    /// PyTorch, CuPy and cudarc use.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`] if there are not so many, [`GpuError::Driver`].
    pub fn gpu(&self, number: u32) -> Result<Gpu, GpuError> {
        Gpu::primary(self, number)
    }

    /// Returns the GPU of a context of the caller's: a `CUcontext`.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Safety
    /// The caller guarantees that it is a context of this driver's, and keeps it as long as
    /// anything exists that was made with it.
    pub unsafe fn gpu_of_context(&self, context: *mut c_void) -> Result<Gpu, GpuError> {
        // SAFETY: the caller guarantees a context of this driver's, and keeps it.
        unsafe { Gpu::of_context(self, context) }
    }

    pub(crate) fn check(&self, function: &'static str, code: Code) -> Result<(), GpuError> {
        if code == api::SUCCESS { Ok(()) } else { Err(describe(&self.api, function, code)) }
    }
}

#[cold]
fn describe(api: &Api, function: &'static str, code: Code) -> GpuError {
    let of = |ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
        let mut text: *const c_char = ptr::null();
        // SAFETY: `text` is a place for a string of the driver's, which stays; NULL if it does not
        // know the number.
        let known = unsafe { ask(code, &mut text) } == api::SUCCESS && !text.is_null();
        if !known {
            return "an unknown error".to_owned();
        }
        // SAFETY: the driver returned a NUL-terminated string, which stays.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    GpuError::Driver { function, code, name: of(api.error_name), text: of(api.error_text) }
}

fn last_dl_error() -> String {
    // SAFETY: the string belongs to this thread, until its next call of that kind.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: `dlerror` returned a NUL-terminated string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

const _: () = assert!(size_of::<DevicePointer>() == size_of::<api::Address>());
