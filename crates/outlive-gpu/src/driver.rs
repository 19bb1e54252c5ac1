//! The driver: a shared library, loaded when it is asked for and never unloaded.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::api::{self, Api, Code};
use crate::gpu::Gpu;
use crate::{DevicePointer, Error};

/// The CUDA driver, loaded into this process.
///
/// ```
/// use outlive_gpu::{Driver, Error};
/// match Driver::open().and_then(|driver| driver.gpu(0)) {
///     Ok(gpu) => println!("{}", gpu.name()),
///     Err(Error::NoGpu { why }) => println!("none here: {why}"),
///     Err(other) => return Err(other),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Driver {
    pub(crate) api: Arc<Api>,
}

impl Driver {
    /// The machine's own driver, libcuda.so.1.
    ///
    /// # Errors
    /// [`Error::NoGpu`] where there is none, where it is older than CUDA 11.4 or newer than this machine's kernel module, and where it finds no GPU.
    pub fn open() -> Result<Driver, Error> {
        Driver::load(Path::new("libcuda.so.1"))
    }

    /// A driver of one's own choosing, by the path of its shared library.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn load(library: &Path) -> Result<Driver, Error> {
        let no_gpu = |why: String| Error::NoGpu { why };
        let name =
            CString::new(OsStr::as_bytes(library.as_os_str())).map_err(|_| no_gpu("a path with NUL".to_owned()))?;
        // SAFETY: a C string. What its constructors do is the library's business, as with each that is linked.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(no_gpu(last_dl_error()));
        }
        // SAFETY: a library that is never unloaded.
        let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
        // SAFETY: whoever calls his library libcuda.so.1, or hands us its path, says that it has the driver's functions.
        let api = unsafe { Api::find(find) };
        let api = api.map_err(|missing| no_gpu(format!("the driver has no {}", missing.to_string_lossy())))?;
        // SAFETY: the first call, with the only flags that there are.
        match unsafe { (api.init)(0) } {
            api::SUCCESS => Ok(Driver { api: Arc::new(api) }),
            api::NO_DEVICE => Err(no_gpu("the driver finds none".to_owned())),
            code => Err(no_gpu(describe(&api, "cuInit", code).to_string())),
        }
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn count(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: a place for it.
        self.check("cuDeviceGetCount", unsafe { (self.api.device_count)(&mut count) })?;
        Ok(count.try_into().unwrap_or(0))
    }

    /// The GPU of that number, by its primary context: the one that the CUDA runtime, PyTorch, CuPy and cudarc use.
    ///
    /// # Errors
    /// [`Error::NoGpu`] if there are not so many, [`Error::Driver`].
    pub fn gpu(&self, number: u32) -> Result<Gpu, Error> {
        Gpu::primary(self, number)
    }

    /// A context of the caller's: a `CUcontext`.
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// # Safety
    /// It is a context of this driver's, and stays as long as there is anything that was made with it.
    pub unsafe fn gpu_of_context(&self, context: *mut c_void) -> Result<Gpu, Error> {
        // SAFETY: the caller's promise.
        unsafe { Gpu::of_context(self, context) }
    }

    pub(crate) fn check(&self, function: &'static str, code: Code) -> Result<(), Error> {
        if code == api::SUCCESS { Ok(()) } else { Err(describe(&self.api, function, code)) }
    }
}

#[cold]
fn describe(api: &Api, function: &'static str, code: Code) -> Error {
    let of = |ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
        let mut text: *const c_char = ptr::null();
        // SAFETY: a place for a string of the driver's, which stays; null, if it does not know the number.
        let known = unsafe { ask(code, &mut text) } == api::SUCCESS && !text.is_null();
        if !known {
            return "an unknown error".to_owned();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Error::Driver { function, code, name: of(api.error_name), text: of(api.error_text) }
}

fn last_dl_error() -> String {
    // SAFETY: of this thread, until its next call of that kind.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

const _: () = assert!(size_of::<DevicePointer>() == size_of::<api::Address>());
