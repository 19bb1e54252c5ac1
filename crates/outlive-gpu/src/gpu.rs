//! A GPU as one context of the driver's has it.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::api::{self, Api, Device, Handle};
use crate::driver::Driver;
use crate::host_function;
use crate::{DevicePointer, GpuError};

/// A GPU, by one context. Clones share it.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
}

struct Inner {
    driver: Driver,
    context: Handle,
    device: Device,
    /// Whether the primary context was retained here, and has to be released.
    is_primary: bool,
    name: String,
    identity: Identity,
    /// Whether it has blocks of memory that can be exported; else what is missing.
    can_share: Result<(), &'static str>,
    can_register: bool,
    /// How memory is registered that this process may only read; `None`: not at all.
    read_only: Option<u32>,
    /// A stream without work: its state is the context's.
    probe: Handle,
    /// The process's number.
    process: u32,
}

// SAFETY: all threads may call the driver's functions; a context is current where it is pushed.
unsafe impl Send for Inner {}
// SAFETY: all threads may call the driver's functions; a context is current where it is pushed.
unsafe impl Sync for Inner {}

/// Identifies the GPU on the whole machine: its UUID, which is the same in all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity([u64; 2]);

impl Identity {
    fn of_uuid(uuid: [u8; 16]) -> Identity {
        let whole = u128::from_le_bytes(uuid);
        Identity([(whole >> 64) as u64, whole as u64])
    }

    pub(crate) fn words(self) -> [u64; 2] {
        self.0
    }

    pub(crate) fn of_words(words: [u64; 2]) -> Identity {
        Identity(words)
    }
}

/// Keeps the context the calling thread's current one until it is dropped.
pub(crate) struct Current<'g> {
    gpu: &'g Gpu,
    /// Bound to one thread.
    _here: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: `Gpu::enter` pushed it, and no code in between leaves another one there.
        unsafe { (self.gpu.api().pop_context)(&mut popped) };
    }
}

impl Gpu {
    pub(crate) fn primary(driver: &Driver, number: u32) -> Result<Gpu, GpuError> {
        if number >= driver.count()? {
            return Err(GpuError::NoGpu { why: format!("there is none of number {number}") });
        }
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: `device` is a place for a device.
        let got = unsafe { (driver.api.device)(&mut device, number as c_int) };
        driver.check("cuDeviceGet", got)?;
        // SAFETY: `context` is a place for a context, and the driver returned the device.
        let retained = unsafe { (driver.api.retain_primary_context)(&mut context, device) };
        driver.check("cuDevicePrimaryCtxRetain", retained)?;
        Gpu::finish(driver, context, device, true)
    }

    /// # Safety
    /// The caller guarantees what [`Driver::gpu_of_context`] asks for.
    pub(crate) unsafe fn of_context(driver: &Driver, context: Handle) -> Result<Gpu, GpuError> {
        let mut device = 0;
        // SAFETY: the caller guarantees the context; `device` is a place for a device.
        unsafe {
            driver.check("cuCtxPushCurrent", (driver.api.push_context)(context))?;
            let asked = (driver.api.context_device)(&mut device);
            let mut popped = ptr::null_mut();
            (driver.api.pop_context)(&mut popped);
            driver.check("cuCtxGetDevice", asked)?;
        }
        Gpu::finish(driver, context, device, false)
    }

    fn finish(
        driver: &Driver,
        context: Handle,
        device: Device,
        is_primary: bool,
    ) -> Result<Gpu, GpuError> {
        let api = &driver.api;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: `value` is a place for a number. An attribute that an older driver does not
            // know is an error: not there.
            (unsafe { (api.device_attribute)(&mut value, which, device) } == api::SUCCESS)
                .then_some(value != 0)
        };
        // Older drivers do not know the attribute, and can register.
        let can_register = attribute(api::HOST_REGISTER_SUPPORTED).unwrap_or(true);
        let read_only = match attribute(api::READ_ONLY_HOST_REGISTER_SUPPORTED) {
            _ if !can_register => None,
            Some(true) => Some(api::REGISTER_READ_ONLY),
            _ => attribute(api::USES_HOST_PAGE_TABLES).unwrap_or(false).then_some(0),
        };
        let mut name = [0 as c_char; 128];
        // SAFETY: `name` has so many bytes.
        let named = unsafe { (api.device_name)(name.as_mut_ptr(), name.len() as c_int, device) }
            == api::SUCCESS;
        let name: Vec<u8> =
            name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0 && named).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let mut uuid = [0; 16];
        // SAFETY: `uuid` is a place for a UUID.
        driver.check("cuDeviceGetUuid", unsafe { (api.device_uuid)(&mut uuid, device) })?;
        let identity = Identity::of_uuid(uuid);
        let can_share = match (attribute(api::BLOCKS_SUPPORTED), attribute(api::AS_FILE_SUPPORTED))
        {
            (Some(true), Some(true)) => Ok(()),
            (Some(true), _) => Err("the driver exports no file descriptors"),
            _ => Err("the device has no virtual memory management"),
        };
        let process = std::process::id();
        let driver = driver.clone();
        let probe = ptr::null_mut();
        let inner = Inner {
            driver,
            context,
            device,
            is_primary,
            name,
            identity,
            can_share,
            can_register,
            read_only,
            probe,
            process,
        };
        let mut gpu = Gpu { inner: Arc::new(inner) };
        let probe = gpu.new_stream()?;
        // Not shared yet.
        if let Some(inner) = Arc::get_mut(&mut gpu.inner) {
            inner.probe = probe;
        }
        Ok(gpu)
    }

    pub(crate) fn api(&self) -> &Api {
        &self.inner.driver.api
    }

    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn device(&self) -> Device {
        self.inner.device
    }

    /// Returns which GPU of this machine it is.
    pub(crate) fn identity(&self) -> Identity {
        self.inner.identity
    }

    pub(crate) fn can_share(&self) -> Result<(), GpuError> {
        self.inner.can_share.map_err(|why| GpuError::CannotShare { why })
    }

    /// Returns whether this GPU's memory can be shared with other processes: for
    /// [`DeviceTopic`](crate::DeviceTopic)s.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.inner.can_share.is_ok()
    }

    /// Returns the context, a `CUcontext`, for other libraries.
    #[must_use]
    pub fn context(&self) -> *mut c_void {
        self.inner.context
    }

    /// Checks that the context has no error: after one, no work that was enqueued in it is done any
    /// more.
    ///
    /// # Errors
    /// [`GpuError::Driver`], with that error.
    pub fn check(&self) -> Result<(), GpuError> {
        let _current = self.enter()?;
        // SAFETY: `probe` is a stream of this context.
        match unsafe { (self.api().query_stream)(self.inner.probe) } {
            api::NOT_READY => Ok(()),
            code => self.checked("cuStreamQuery", code),
        }
    }

    /// Returns whether this process's copies from a topic's memory are direct: the device can have
    /// memory registered that may only be read.
    #[must_use]
    pub fn reads_pinned(&self) -> bool {
        self.inner.read_only.is_some()
    }

    /// Returns whether this process's copies to a topic's memory are direct.
    #[must_use]
    pub fn writes_pinned(&self) -> bool {
        self.inner.can_register
    }

    /// Returns the flags by which memory is registered; `None`: it cannot be.
    pub(crate) fn flags(&self, is_writable: bool) -> Option<u32> {
        let flags =
            if is_writable { self.inner.can_register.then_some(0) } else { self.inner.read_only };
        flags.map(|flags| flags | api::REGISTER_PORTABLE)
    }

    pub(crate) fn enter(&self) -> Result<Current<'_>, GpuError> {
        // SAFETY: the context stays: retained here, or kept by the caller of `gpu_of_context`.
        self.checked("cuCtxPushCurrent", unsafe { (self.api().push_context)(self.inner.context) })?;
        Ok(Current { gpu: self, _here: PhantomData })
    }

    #[inline]
    pub(crate) fn checked(&self, function: &'static str, code: api::Code) -> Result<(), GpuError> {
        self.inner.driver.check(function, code)
    }

    /// Returns whether this is the process that opened it: a forked child must not touch anything
    /// of the driver's.
    pub(crate) fn is_ours(&self) -> bool {
        std::process::id() == self.inner.process
    }

    pub(crate) fn new_stream(&self) -> Result<Handle, GpuError> {
        let _current = self.enter()?;
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` is a place for a stream.
        self.checked("cuStreamCreate", unsafe {
            (self.api().create_stream)(&mut stream, api::STREAM_NON_BLOCKING)
        })?;
        Ok(stream)
    }

    /// Copies to the device, after the work on the stream.
    ///
    /// # Safety
    /// The caller guarantees that both places exist, and that `from` does not change, until the
    /// copy has completed.
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: DevicePointer,
        from: *const u8,
        len: usize,
        stream: Handle,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller guarantees both places until the copy has completed.
        let code = unsafe { (self.api().copy_to_device)(to, from.cast(), len, stream) };
        self.checked("cuMemcpyHtoDAsync", code)
    }

    /// Copies from the device, after the work on the stream.
    ///
    /// # Safety
    /// The caller guarantees that both places exist, and that no other thread touches `to`, until
    /// the copy has completed.
    pub(crate) unsafe fn copy_from_device(
        &self,
        to: *mut u8,
        from: DevicePointer,
        len: usize,
        stream: Handle,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller guarantees both places until the copy has completed.
        let code = unsafe { (self.api().copy_from_device)(to.cast(), from, len, stream) };
        self.checked("cuMemcpyDtoHAsync", code)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let api = &self.driver.api;
        if std::process::id() != self.process || host_function::is_inside() {
            // A forked child's copy. Or a host function, whose users leave the last drop to others.
            return;
        }
        // SAFETY: made here, and no other value has the context. Errors: it is gone already.
        unsafe {
            if !self.probe.is_null() && (api.push_context)(self.context) == api::SUCCESS {
                (api.destroy_stream)(self.probe);
                (api.pop_context)(&mut ptr::null_mut());
            }
            if self.is_primary {
                (api.release_primary_context)(self.device);
            }
        }
    }
}
