//! A block of device memory, mapped in this process: its own, or another process's.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::api::{self, AccessOf, BlockHandle, BlockProperties, May};
use crate::gpu::{Current, Gpu};
use crate::{DevicePointer, GpuError, under_way};

/// A block's addresses. They are unmapped when their last user is gone; the memory is free when
/// that is so in all processes.
pub(crate) struct Mapping {
    address: DevicePointer,
    len: u64,
    /// Until it is dropped.
    mapped: Option<Mapped>,
}

/// What only the driver can undo.
struct Mapped {
    gpu: Gpu,
    address: DevicePointer,
    len: usize,
    is_mapped: bool,
}

/// The driver's handle for a block. Neither a mapping nor an exported file needs it any more once
/// it is made.
struct Handle<'g> {
    gpu: &'g Gpu,
    handle: BlockHandle,
}

impl Mapping {
    /// Makes a new block of this process's, of so many bytes, and the file as which it is exported.
    pub(crate) fn create(gpu: &Gpu, len: u64) -> Result<(Mapping, OwnedFd), GpuError> {
        let current = gpu.enter()?;
        let properties = BlockProperties::on(gpu.device());
        let mut handle = 0;
        // SAFETY: `handle` is a place for a handle, and the properties describe memory on this
        // device.
        let created =
            unsafe { (gpu.api().create_block)(&mut handle, len as usize, &properties, 0) };
        gpu.checked("cuMemCreate", created)?;
        let handle = Handle { gpu, handle };
        let mut file: c_int = -1;
        let place = (&raw mut file).cast::<c_void>();
        // SAFETY: `place` is a place for a descriptor, and the handle was made to be exported as
        // one.
        let exported = unsafe { (gpu.api().export_block)(place, handle.handle, api::AS_FILE, 0) };
        gpu.checked("cuMemExportToShareableHandle", exported)?;
        // SAFETY: the driver has just returned this descriptor, which no other object owns.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // A program that inherited it would keep the memory. Errors: it is open, so there are none.
        let _ = rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC);
        Ok((Mapping::of(&current, &handle, len, &[May::ReadWrite])?, file))
    }

    /// Maps another process's block, of so many bytes, by the file as which it was exported; for
    /// reading.
    pub(crate) fn import(gpu: &Gpu, file: BorrowedFd<'_>, len: u64) -> Result<Mapping, GpuError> {
        let current = gpu.enter()?;
        let mut handle = 0;
        // The descriptor's number, where other kinds of handles have a pointer.
        let file = std::ptr::without_provenance_mut(file.as_raw_fd() as usize);
        // SAFETY: a place for a handle, and an open descriptor. The driver refuses one that is no
        // block's.
        let imported = unsafe { (gpu.api().import_block)(&mut handle, file, api::AS_FILE) };
        gpu.checked("cuMemImportFromShareableHandle", imported)?;
        // Some drivers have no memory that may only be read.
        Mapping::of(&current, &Handle { gpu, handle }, len, &[May::Read, May::ReadWrite])
    }

    /// Maps the block with the first of these rights that the driver knows.
    fn of(
        _current: &Current<'_>,
        block: &Handle<'_>,
        len: u64,
        rights: &[May],
    ) -> Result<Mapping, GpuError> {
        let gpu = block.gpu;
        let mut mapped =
            Mapped { gpu: gpu.clone(), address: 0, len: len as usize, is_mapped: false };
        // SAFETY: `mapped.address` is a place for an address.
        let reserved =
            unsafe { (gpu.api().reserve_addresses)(&mut mapped.address, mapped.len, 0, 0, 0) };
        gpu.checked("cuMemAddressReserve", reserved)?;
        // SAFETY: addresses that were just reserved, and a live handle. The driver refuses a block
        // that is shorter.
        let code = unsafe { (gpu.api().map_block)(mapped.address, mapped.len, 0, block.handle, 0) };
        gpu.checked("cuMemMap", code)?;
        mapped.is_mapped = true;
        let mut code = api::SUCCESS;
        for &may in rights {
            let access = AccessOf::new(gpu.device(), may);
            // SAFETY: the whole of what was just mapped, and one right.
            code = unsafe { (gpu.api().set_access)(mapped.address, mapped.len, &access, 1) };
            if !matches!(code, api::INVALID_VALUE | api::NOT_SUPPORTED) {
                break;
            }
        }
        gpu.checked("cuMemSetAccess", code)?;
        Ok(Mapping { address: mapped.address, len, mapped: Some(mapped) })
    }

    pub(crate) fn address(&self) -> DevicePointer {
        self.address
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Returns the unit of blocks' lengths.
pub(crate) fn granularity(gpu: &Gpu) -> Result<u64, GpuError> {
    let _current = gpu.enter()?;
    let mut granularity = 0;
    let properties = BlockProperties::on(gpu.device());
    // SAFETY: a place for a number, and properties of memory on this device.
    let asked = unsafe { (gpu.api().granularity)(&mut granularity, &properties, api::MINIMUM) };
    gpu.checked("cuMemGetAllocationGranularity", asked)?;
    Ok(granularity.max(1) as u64)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The last sample in it may go in a host function.
        under_way::undo(self.mapped.take());
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if !self.gpu.is_ours() {
            return;
        }
        let Ok(_current) = self.gpu.enter() else { return };
        let api = self.gpu.api();
        // SAFETY: `Mapping::of` reserved and mapped it, once; no device uses it any more, since
        // loans and samples have been released. Errors: the context is gone, and all of it.
        unsafe {
            if self.is_mapped {
                (api.unmap_block)(self.address, self.len);
            }
            if self.address != 0 {
                (api.free_addresses)(self.address, self.len);
            }
        }
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        let Ok(_current) = self.gpu.enter() else { return };
        // SAFETY: `create` or `import` made it, and this releases it once.
        unsafe { (self.gpu.api().release_block)(self.handle) };
    }
}
