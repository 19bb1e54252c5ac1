//! Kernels, for programs without another library to start them.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use crate::api::Handle;
use crate::gpu::Gpu;
use crate::stream::Stream;
use crate::{DevicePointer, GpuError};

/// Kernels that are loaded together. They are unloaded when this and all its kernels are dropped.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    gpu: Gpu,
    module: Handle,
}

// SAFETY: all threads may call the driver's functions.
unsafe impl Send for Inner {}
// SAFETY: all threads may call the driver's functions.
unsafe impl Sync for Inner {}

/// A kernel of a module. Clones share it.
#[derive(Clone)]
pub struct Kernel {
    module: Module,
    function: Handle,
}

// SAFETY: all threads may call the driver's functions; the handle stays as long as the module.
unsafe impl Send for Kernel {}
// SAFETY: all threads may call the driver's functions; the handle stays as long as the module.
unsafe impl Sync for Kernel {}

/// An argument of a kernel, as the kernel declares it.
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
    /// Loads kernels: PTX as text, which the driver translates for its GPU. A cubin or fatbin has
    /// NULs, so this cannot load it.
    ///
    /// # Errors
    /// [`GpuError::Driver`]: usually `CUDA_ERROR_INVALID_PTX` or `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
    pub fn load(gpu: &Gpu, ptx: &CStr) -> Result<Module, GpuError> {
        let _current = gpu.enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: `module` is a place for a module, and the text is NUL-terminated.
        gpu.checked("cuModuleLoadData", unsafe {
            (gpu.api().load_module)(&mut module, ptx.as_ptr().cast())
        })?;
        Ok(Module { inner: Arc::new(Inner { gpu: gpu.clone(), module }) })
    }

    /// Returns the kernel of that name: a function that is `extern "C"` in CUDA C++.
    ///
    /// # Errors
    /// [`GpuError::Driver`]: `CUDA_ERROR_NOT_FOUND`.
    pub fn kernel(&self, name: &CStr) -> Result<Kernel, GpuError> {
        let Inner { gpu, module } = &*self.inner;
        let _current = gpu.enter()?;
        let mut function = ptr::null_mut();
        // SAFETY: `function` is a place for a function, the module stays, and the name is
        // NUL-terminated.
        let code = unsafe { (gpu.api().function_of_module)(&mut function, *module, name.as_ptr()) };
        gpu.checked("cuModuleGetFunction", code)?;
        Ok(Kernel { module: self.clone(), function })
    }
}

impl Kernel {
    /// Runs the kernel after the work on the stream: so many blocks of so many threads, each by x,
    /// y, z. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::Driver`]. A failure in the kernel itself is found later: [`Gpu::check`].
    ///
    /// # Safety
    /// The caller guarantees that the arguments are those that the kernel declares, in number and
    /// kind, that it does no more than it may to the memory which they name, and that this memory
    /// and the kernel stay until it has completed.
    pub unsafe fn launch(
        &self,
        blocks: [u32; 3],
        threads: [u32; 3],
        arguments: &[Argument],
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let gpu = &self.module.inner.gpu;
        let place = |argument: &Argument| match argument {
            Argument::Address(value) | Argument::U64(value) => {
                ptr::from_ref(value).cast_mut().cast::<c_void>()
            }
            Argument::U32(value) => ptr::from_ref(value).cast_mut().cast(),
            Argument::F32(value) => ptr::from_ref(value).cast_mut().cast(),
        };
        let mut places: Vec<*mut c_void> = arguments.iter().map(place).collect();
        let ([bx, by, bz], [tx, ty, tz]) = (blocks, threads);
        let _current = gpu.enter()?;
        // SAFETY: the caller guarantees arguments and memory; the driver copies the arguments
        // before it returns, and writes none.
        let code = unsafe {
            let launch = gpu.api().launch_kernel;
            launch(
                self.function,
                bx,
                by,
                bz,
                tx,
                ty,
                tz,
                0,
                stream.raw(),
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
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
        // SAFETY: `load` made it, and this unloads it once; the caller of `launch` keeps the kernel
        // until it has completed. Errors: the context is gone, and it with it.
        unsafe { (self.gpu.api().unload_module)(self.module) };
    }
}
