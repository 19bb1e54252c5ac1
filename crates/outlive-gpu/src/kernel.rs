//! Kernels, for those who have no other library to start them.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use crate::api::Handle;
use crate::gpu::Gpu;
use crate::stream::Stream;
use crate::{DevicePointer, Error};

/// Kernels that are loaded together. Unloaded when it and all kernels of it are dropped.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    gpu: Gpu,
    module: Handle,
}

// SAFETY: the driver's functions may be called by all threads.
unsafe impl Send for Inner {}
// SAFETY: the same.
unsafe impl Sync for Inner {}

/// A kernel of a module. Clones are the same.
#[derive(Clone)]
pub struct Kernel {
    module: Module,
    function: Handle,
}

// SAFETY: as above.
unsafe impl Send for Kernel {}
// SAFETY: the same.
unsafe impl Sync for Kernel {}

/// What a kernel is given, as it declares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// A pointer.
    Address(DevicePointer),
    /// An `unsigned int`, or an `int` of the same bits.
    U32(u32),
    /// An `unsigned long long`, or a `long long` of the same bits.
    U64(u64),
    /// A `float`.
    F32(f32),
}

impl Module {
    /// Loads kernels: PTX as text, which the driver translates for its GPU. A cubin or fatbin has NULs, so it cannot come here.
    ///
    /// # Errors
    /// [`Error::Driver`]: `CUDA_ERROR_INVALID_PTX` or `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`, as a rule.
    pub fn load(gpu: &Gpu, ptx: &CStr) -> Result<Module, Error> {
        let _current = gpu.enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: a place for it, a text that ends with NUL.
        gpu.checked("cuModuleLoadData", unsafe { (gpu.api().load_module)(&mut module, ptx.as_ptr().cast()) })?;
        Ok(Module { inner: Arc::new(Inner { gpu: gpu.clone(), module }) })
    }

    /// The kernel of that name: what is `extern "C"` in CUDA C++.
    ///
    /// # Errors
    /// [`Error::Driver`]: `CUDA_ERROR_NOT_FOUND`.
    pub fn kernel(&self, name: &CStr) -> Result<Kernel, Error> {
        let Inner { gpu, module } = &*self.inner;
        let _current = gpu.enter()?;
        let mut function = ptr::null_mut();
        // SAFETY: a place for it, a module that stays, a C string.
        let code = unsafe { (gpu.api().function_of_module)(&mut function, *module, name.as_ptr()) };
        gpu.checked("cuModuleGetFunction", code)?;
        Ok(Kernel { module: self.clone(), function })
    }
}

impl Kernel {
    /// Runs it behind what is on the stream: so many blocks of so many threads, each by x, y, z. Does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`]. What goes wrong in the kernel is found later: [`Gpu::check`].
    ///
    /// # Safety
    /// The arguments are those that the kernel declares, in number and kind, and it does no more than it may to the memory they name, which
    /// stays, as does the kernel, until it is over.
    pub unsafe fn launch(
        &self,
        blocks: [u32; 3],
        threads: [u32; 3],
        arguments: &[Argument],
        stream: &Stream,
    ) -> Result<(), Error> {
        let gpu = &self.module.inner.gpu;
        let place = |argument: &Argument| match argument {
            Argument::Address(value) | Argument::U64(value) => ptr::from_ref(value).cast_mut().cast::<c_void>(),
            Argument::U32(value) => ptr::from_ref(value).cast_mut().cast(),
            Argument::F32(value) => ptr::from_ref(value).cast_mut().cast(),
        };
        let mut places: Vec<*mut c_void> = arguments.iter().map(place).collect();
        let ([bx, by, bz], [tx, ty, tz]) = (blocks, threads);
        let _current = gpu.enter()?;
        // SAFETY: the caller's promise; the driver copies the arguments before it returns, and writes none.
        let code = unsafe {
            let launch = gpu.api().launch_kernel;
            launch(self.function, bx, by, bz, tx, ty, tz, 0, stream.raw(), places.as_mut_ptr(), ptr::null_mut())
        };
        gpu.checked("cuLaunchKernel", code)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: of `load`, once; no kernel of it is on its way, as `launch` demands. Errors: the context is gone, and it with it.
        unsafe { (self.gpu.api().unload_module)(self.module) };
    }
}
