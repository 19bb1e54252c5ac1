//! Memory on a GPU, for those who have no other library to take it from.

use crate::gpu::Gpu;
use crate::stream::Stream;
use crate::{DevicePointer, Error, api};

/// Memory on a GPU. Dropped, it is free once the device has done with it.
pub struct DeviceMemory {
    gpu: Gpu,
    address: DevicePointer,
    len: usize,
}

impl DeviceMemory {
    /// As many bytes.
    ///
    /// # Errors
    /// [`Error::Driver`]: `CUDA_ERROR_OUT_OF_MEMORY`, as a rule.
    pub fn new(gpu: &Gpu, len: usize) -> Result<DeviceMemory, Error> {
        let mut address = 0;
        let _current = gpu.enter()?;
        // SAFETY: a place for it. Of 0 bytes there is no memory.
        gpu.checked("cuMemAlloc", unsafe { (gpu.api().allocate)(&mut address, len.max(1)) })?;
        Ok(DeviceMemory { gpu: gpu.clone(), address, len })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.address
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes bytes from ordinary memory to its beginning, behind what is on the stream, and waits for that.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Driver`].
    pub fn write(&mut self, bytes: &[u8], stream: &Stream) -> Result<(), Error> {
        self.expect(bytes.len())?;
        stream.write(self.address, bytes)
    }

    /// Reads bytes from its beginning into ordinary memory, behind what is on the stream, and waits for that.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Driver`].
    pub fn read(&self, bytes: &mut [u8], stream: &Stream) -> Result<(), Error> {
        self.expect(bytes.len())?;
        stream.read(self.address, bytes)
    }

    /// Fills it, behind what is on the stream; does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<(), Error> {
        stream.fill(self.address, byte, self.len)
    }

    fn expect(&self, len: usize) -> Result<(), Error> {
        if len <= self.len { Ok(()) } else { Err(Error::OutOfBounds { len: self.len }) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: of `new`, once. The driver waits for work that uses it. Errors: the context is gone, and it with it.
        unsafe { (self.gpu.api().free)(self.address) };
    }
}

/// Ordinary memory that the driver has registered from the beginning: what other roads copy from and to.
pub struct HostMemory {
    gpu: Gpu,
    address: *mut u8,
    len: usize,
}

// SAFETY: memory of this value's alone.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// As many bytes, all 0 as a rule.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(gpu: &Gpu, len: usize) -> Result<HostMemory, Error> {
        let mut address = std::ptr::null_mut();
        let _current = gpu.enter()?;
        // SAFETY: a place for it.
        gpu.checked("cuMemHostAlloc", unsafe {
            (gpu.api().allocate_host)(&mut address, len.max(1), api::REGISTER_PORTABLE)
        })?;
        Ok(HostMemory { gpu: gpu.clone(), address: address.cast(), len })
    }

    /// Copies all of it to the device, behind what is on the stream, and waits for that.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Driver`].
    pub fn copy_to(&self, memory: &mut DeviceMemory, stream: &Stream) -> Result<(), Error> {
        // SAFETY: so many bytes, this value's.
        memory.write(unsafe { std::slice::from_raw_parts(self.address, self.len) }, stream)
    }

    /// Copies as many bytes from the device, behind what is on the stream, and waits for that.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Driver`].
    pub fn copy_from(&mut self, memory: &DeviceMemory, stream: &Stream) -> Result<(), Error> {
        // SAFETY: so many bytes, this value's alone.
        memory.read(unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }, stream)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: of `new`, once; copies from and to it have been waited for.
        unsafe { (self.gpu.api().free_host)(self.address.cast()) };
    }
}
