//! Memory on a GPU, for programs without another library to allocate it.

use crate::gpu::Gpu;
use crate::stream::Stream;
use crate::{DevicePointer, GpuError, api};

/// Memory on a GPU. Dropped, it is freed once the device has finished with it.
pub struct DeviceMemory {
    gpu: Gpu,
    address: DevicePointer,
    len: usize,
}

impl DeviceMemory {
    /// Allocates so many bytes.
    ///
    /// # Errors
    /// [`GpuError::Driver`]: usually `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn new(gpu: &Gpu, len: usize) -> Result<DeviceMemory, GpuError> {
        let mut address = 0;
        let _current = gpu.enter()?;
        // SAFETY: `address` is a place for an address. The driver has no memory of 0 bytes.
        gpu.checked("cuMemAlloc", unsafe { (gpu.api().allocate)(&mut address, len.max(1)) })?;
        Ok(DeviceMemory { gpu: gpu.clone(), address, len })
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.address
    }

    /// Returns how many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes bytes from ordinary memory to its beginning, after the work on the stream, and waits
    /// for that.
    ///
    /// # Errors
    /// [`GpuError::OutOfBounds`], [`GpuError::Driver`].
    pub fn write(&mut self, bytes: &[u8], stream: &Stream) -> Result<(), GpuError> {
        self.expect(bytes.len())?;
        stream.write(self.address, bytes)
    }

    /// Reads bytes from its beginning into ordinary memory, after the work on the stream, and waits
    /// for that.
    ///
    /// # Errors
    /// [`GpuError::OutOfBounds`], [`GpuError::Driver`].
    pub fn read(&self, bytes: &mut [u8], stream: &Stream) -> Result<(), GpuError> {
        self.expect(bytes.len())?;
        stream.read(self.address, bytes)
    }

    /// Fills it, after the work on the stream; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<(), GpuError> {
        stream.fill(self.address, byte, self.len)
    }

    fn expect(&self, len: usize) -> Result<(), GpuError> {
        if len <= self.len { Ok(()) } else { Err(GpuError::OutOfBounds { len: self.len }) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: `new` allocated it, and this frees it once. The driver waits for work that uses
        // it. Errors: the context is gone, and it with it.
        unsafe { (self.gpu.api().free)(self.address) };
    }
}

/// Ordinary memory that the driver has registered from the beginning, for copies without a topic.
pub struct HostMemory {
    gpu: Gpu,
    address: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Allocates so many bytes, usually all 0.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn new(gpu: &Gpu, len: usize) -> Result<HostMemory, GpuError> {
        let mut address = std::ptr::null_mut();
        let _current = gpu.enter()?;
        // SAFETY: `address` is a place for an address.
        gpu.checked("cuMemHostAlloc", unsafe {
            (gpu.api().allocate_host)(&mut address, len.max(1), api::REGISTER_PORTABLE)
        })?;
        Ok(HostMemory { gpu: gpu.clone(), address: address.cast(), len })
    }

    /// Copies all of it to the device, after the work on the stream, and waits for that.
    ///
    /// # Errors
    /// [`GpuError::OutOfBounds`], [`GpuError::Driver`].
    pub fn copy_to(&self, memory: &mut DeviceMemory, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: `new` allocated `len` bytes, which this value has.
        memory.write(unsafe { std::slice::from_raw_parts(self.address, self.len) }, stream)
    }

    /// Copies as many bytes from the device, after the work on the stream, and waits for that.
    ///
    /// # Errors
    /// [`GpuError::OutOfBounds`], [`GpuError::Driver`].
    pub fn copy_from(&mut self, memory: &DeviceMemory, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: `new` allocated `len` bytes, which this value alone has.
        memory.read(unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }, stream)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: `new` allocated it, and this frees it once; copies from and to it have been
        // waited for.
        unsafe { (self.gpu.api().free_host)(self.address.cast()) };
    }
}
